"""Files of a workspace or a skill: what is outside its root is never read."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procession import InputError, OptionError
from procession.processors.workspace import confined_files
from procession.processors.workspace.confined_files import ConfinedFiles, directory_of

SECRET = "the secret outside"
OUT = "must be relative, without"
LINK = "leads outside through a link"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """`in/` is the root; beside it is a secret, and links lead to it."""
    made = tmp_path / "in"
    (made / "folder" / "deep").mkdir(parents=True)
    (made / "a.txt").write_text("inside", "utf-8")
    (made / "folder" / "b.txt").write_text("below", "utf-8")
    (tmp_path / "secret.txt").write_text(SECRET, "utf-8")
    (tmp_path / "outer").mkdir()
    (tmp_path / "outer" / "secret.txt").write_text(SECRET, "utf-8")
    (made / "link.txt").symlink_to(tmp_path / "secret.txt")
    (made / "folder" / "out").symlink_to(tmp_path / "outer")
    (made / "folder" / "up").symlink_to("..")
    (made / "good.txt").symlink_to("folder/b.txt")
    (made / "loop").symlink_to("loop")
    return made


@pytest.fixture(params=[True, False], ids=["part by part", "at once"])
def stepwise(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Systems without `openat` open a file at once."""
    monkeypatch.setattr(confined_files, "_STEPWISE", request.param)
    return request.param


def refusal(files: ConfinedFiles, path: str, most: int = 100) -> str:
    with pytest.raises(InputError) as raised:
        files.read(path, most)
    error = raised.value
    assert SECRET not in repr(error) and error.__cause__ is None
    assert error.__context__ is None or error.__suppress_context__
    return str(error)


@pytest.mark.usefixtures("stepwise")
def test_what_is_within_is_read(root: Path) -> None:
    files = ConfinedFiles(root)
    assert files.read("a.txt") == "inside"
    assert files.read("folder/b.txt") == "below"
    assert files.read("./folder//b.txt") == "below"
    assert files.read("good.txt") == "below", "a link that stays within"
    assert files.read("folder/up/a.txt") == "inside"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("../secret.txt", OUT),
        ("folder/../../secret.txt", OUT),
        ("folder/../a.txt", OUT),
        ("..\\secret.txt", OUT),
        ("C:\\secret.txt", OUT),
        ("\\\\host\\share\\secret.txt", OUT),
        ("/etc/passwd", OUT),
        ("a.txt\0", OUT),
        ("x" * 5_000, OUT),
        ("link.txt", LINK),
        ("folder/out/secret.txt", LINK),
        ("loop", "no such file"),
        ("missing.txt", "no such file"),
        ("y" * 300, "no such file"),
        ("\ud800", "no such file"),
        ("a.txt/b", "no such file"),
        ("folder", "no file"),
        ("", "no file"),
    ],
)
@pytest.mark.usefixtures("stepwise")
def test_what_is_outside_is_refused(root: Path, path: str, said: str) -> None:
    assert said in refusal(ConfinedFiles(root), path)


def test_a_directory_is_confined_in_turn(root: Path) -> None:
    """What is above a skill is not part of it, though it is in the same root."""
    inner = ConfinedFiles(root).below("folder")
    assert inner.read("b.txt") == "below"
    assert LINK in refusal(inner, "up/a.txt")
    assert OUT in refusal(inner, "../a.txt")
    with pytest.raises(InputError, match=LINK):
        ConfinedFiles(root).below("folder/out")


@pytest.mark.parametrize(
    ("what", "target"), [("folder", "outer"), ("folder/secret.txt", "secret.txt")]
)
def test_what_becomes_a_link_meanwhile(
    what: str, target: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check and the opening are two moments: what is between them does not matter."""
    files = ConfinedFiles(root)
    opened = files._opened

    def swap(real: str) -> int:
        (root / what).rename(root / "was")
        (root / what).symlink_to(root.parent / target)
        return opened(real)

    (root / "folder" / "secret.txt").write_text("harmless", "utf-8")
    monkeypatch.setattr(files, "_opened", swap)
    assert "cannot be opened" in refusal(files, "folder/secret.txt")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xff\xfe\x00" + SECRET.encode(), "no UTF-8 text"),
        (SECRET.encode() + b"\x00", "no UTF-8 text"),
        (SECRET.encode() * 10, "larger than 100 bytes"),
    ],
)
def test_what_is_no_text_or_too_large(root: Path, data: bytes, said: str) -> None:
    (root / "odd").write_bytes(data)
    assert said in refusal(ConfinedFiles(root), "odd")


def test_a_file_that_grows_while_it_is_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "odd").write_bytes(b"x" * 101)
    facts = os.stat(root / "a.txt")
    monkeypatch.setattr(confined_files.os, "fstat", lambda _file: facts)
    assert "larger than 100" in refusal(ConfinedFiles(root), "odd")


def test_what_no_text_comes_out_of(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe that nobody writes to would be waited for; no permission is no file."""
    os.mkfifo(root / "pipe")
    assert "no file" in refusal(ConfinedFiles(root), "pipe")
    assert ConfinedFiles(root).stamp("pipe") is None

    def refuse(*_args: Any, **_options: Any) -> int:
        raise PermissionError(13, SECRET)

    monkeypatch.setattr(confined_files.os, "open", refuse)
    assert "cannot be opened" in refusal(ConfinedFiles(root), "a.txt")


def test_a_disk_that_fails(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_given: Any, **_options: Any) -> Any:
        raise OSError(5, SECRET)

    monkeypatch.setattr(confined_files.os, "fdopen", fail)
    assert "cannot be read" in refusal(ConfinedFiles(root), "a.txt")


def test_a_mark_at_the_beginning_is_no_text(root: Path) -> None:
    (root / "bom.txt").write_bytes(b"\xef\xbb\xbfhello")
    assert ConfinedFiles(root).read("bom.txt") == "hello"


def test_stamps_tell_changes(root: Path) -> None:
    files = ConfinedFiles(root)
    first = files.stamp("a.txt")
    assert first is not None and files.stamp("a.txt") == first
    (root / "a.txt").write_text("inside out", "utf-8")
    assert files.stamp("a.txt") != first
    assert [files.stamp(path) for path in ("link.txt", "folder", "../secret.txt", "none")] == [
        None
    ] * 4


def test_lists(root: Path) -> None:
    files = ConfinedFiles(root)
    (root / ".hidden").mkdir()
    (root / "also").symlink_to("folder")
    (root / "away").symlink_to("../outer")
    assert files.folders() == ["also", "folder"], (
        "a link that stays within, and none that leads out"
    )
    assert files.below("folder").folders() == ["deep"], "no link that leads out of it"
    (root / "folder" / ".env").write_text(SECRET)
    assert files.files(10) == ["a.txt", "folder/b.txt"]
    assert files.files(1) == ["a.txt"]
    with pytest.raises(InputError, match="cannot be listed"):
        ConfinedFiles(root, "missing").folders()


def test_no_end_of_entries(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confined_files, "_MOST_ENTRIES", 1)
    assert len(ConfinedFiles(root).folders()) <= 1
    assert ConfinedFiles(root).files(10) == []


@pytest.mark.parametrize("value", [None, 3, "", "missing", b"x", "a\0b"])
def test_directories_of_options(value: Any, tmp_path: Path) -> None:
    """B-014: a directory that is not there is told when it is given."""
    with pytest.raises(OptionError, match=r"^P: root "):
        directory_of("P", "root", value)
    assert directory_of("P", "root", tmp_path) == tmp_path.resolve()


PIECES = st.sampled_from(
    [
        *("..", ".", "", "in", "folder", "deep", "out", "up", "a.txt", "link.txt", "secret.txt"),
        *("\\", "..\\..", "C:", "~", "%2e%2e", "…", "‥", "\0", "etc", "passwd", "loop", "outer"),
    ]
)
PATHS = st.one_of(
    st.text(max_size=40),
    st.builds(
        lambda begin, parts, join: begin + join.join(parts),
        st.sampled_from(["", "/", "//", "\\", "./", "../"]),
        st.lists(PIECES, max_size=8),
        st.sampled_from(["/", "//", "\\", "/./"]),
    ),
)


@given(PATHS)
def test_no_path_leads_out(path: str) -> None:
    """The law: whatever the path, what is read is what stands within the root."""
    with tempfile.TemporaryDirectory() as where:
        top = Path(where).resolve()
        inside = top / "in"
        (inside / "folder").mkdir(parents=True)
        (inside / "a.txt").write_text("inside")
        (inside / "folder" / "secret.txt").write_text("inside")
        (top / "secret.txt").write_text(SECRET)
        (top / "outer").mkdir()
        (top / "outer" / "secret.txt").write_text(SECRET)
        (inside / "link.txt").symlink_to(top / "secret.txt")
        (inside / "out").symlink_to("../outer")
        (inside / "folder" / "up").symlink_to("..")
        for files in (ConfinedFiles(inside), ConfinedFiles(inside).below("folder")):
            try:
                assert files.read(path) == "inside"
            except InputError as error:
                assert SECRET not in str(error)
            files.stamp(path)
            files.is_directory(path)
