"""The gate tells a failed check from a passed one."""

import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

from checks.__main__ import Outcome, report, run_check


def test_a_check_that_fails_keeps_what_it_printed() -> None:
    outcome = run_check("sample", (sys.executable, "-c", "print('seen'); raise SystemExit(3)"))
    assert (outcome.name, outcome.code, outcome.output) == ("sample", 3, "seen\n")


def test_a_failure_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(Outcome("sample", 1, 0.25, "what was wrong\n"))
    assert capsys.readouterr().out == "sample         FAILED    0.2 s\nwhat was wrong\n"


def test_a_pass_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert not report(Outcome("sample", 0, 1.5, "chatter\n"))
    assert capsys.readouterr().out == "sample         ok        1.5 s\n"


def test_the_command_line_is_explained() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "checks", "--help"], capture_output=True, text=True, check=True
    )
    assert all(flag in done.stdout for flag in ("--fast", "--fix", "--cov"))


def test_every_module_has_its_floor() -> None:
    """A module that the import contract does not name would be free to import anything."""
    root = Path(__file__).parents[1]
    config = ConfigParser()
    config.read(root / ".importlinter")
    floors = config["importlinter:contract:floors"]["layers"]
    named = set(floors.replace("|", " ").replace("(", " ").replace(")", " ").split())
    for file in (root / "src/procession").rglob("*.py"):
        parts = file.relative_to(root / "src").with_suffix("").parts
        if parts[-1] != "__init__":
            above = {".".join(parts[:count]) for count in range(2, len(parts) + 1)}
            assert above & named, f"{'.'.join(parts)} stands on no floor of .importlinter"
