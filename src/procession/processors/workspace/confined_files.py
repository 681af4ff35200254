"""Texts in a directory, and nothing outside it, whatever a path says or links point to."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath, PureWindowsPath
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, cast

from ...errors import InputError, OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MOST_BYTES", "ConfinedFiles", "directory_of"]

MOST_BYTES = 131_072
"""A file that is larger is not read: it would fill the prompt."""
_MOST_ENTRIES = 10_000
"""So many entries of a directory are looked at."""
_LONGEST_PATH = 4_096

_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
# Without waiting: to open a named pipe takes as long as nobody writes to it.
_LAST = _FLAGS | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
_BETWEEN = _FLAGS | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_STEPWISE = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")

Stamp = tuple[int, int, int, int]
"""What differs when a file has been written anew: its time, size, number and device."""


def directory_of(owner: str, option: str, value: Any) -> Path:
    """The real path of a directory that an option names; raises `OptionError` for anything else."""
    if not isinstance(value, str | os.PathLike):
        kind = type(value).__name__
        raise OptionError(f"{owner}: {option} must be the path of a directory, not {kind}")
    path = os.fsdecode(cast("str | os.PathLike[str]", value))
    try:
        found = Path(path).resolve(strict=True)
        is_there = bool(path) and found.is_dir()
    except (OSError, ValueError):
        found, is_there = Path(), False
    if not is_there:
        raise OptionError(f"{owner}: {option} names no directory that exists: make it first")
    return found


class ConfinedFiles:
    """Reads UTF-8 texts within `base`, by paths relative to it. Blocking: for threads.

    Refused are absolute paths, `..`, and what leads outside through a link; a link that stays
    within is followed. `InputError` tells why something cannot be read, and nothing of what is in
    it.
    """

    def __init__(self, base: Path, inner: str = "") -> None:
        """`base` is a real path; `inner` narrows what may be read to a directory within it."""
        self.base = base
        self.root = base / inner if inner else base

    def below(self, folder: str) -> ConfinedFiles:
        """The files of a directory in this one."""
        real = self._real(folder)
        return ConfinedFiles(self.base, os.path.relpath(real, self.base))

    def read(self, path: str, most: int = MOST_BYTES) -> str:
        """The text of a file of at most `most` bytes; raises `InputError` for all else."""
        try:
            file = self._opened(self._real(path))
        except OSError:
            raise InputError("the file cannot be opened") from None
        try:
            facts = os.fstat(file)
            if not S_ISREG(facts.st_mode):
                raise InputError("that is no file")
            if facts.st_size > most:
                raise InputError(_too_large(most))
            with os.fdopen(file, "rb", closefd=False) as stream:
                data = stream.read(most + 1)
        except OSError:
            raise InputError("the file cannot be read") from None
        finally:
            os.close(file)
        return _text(data, most)

    def stamp(self, path: str) -> Stamp | None:
        """What tells one state of a file from another; `None` for what may not be read."""
        try:
            facts = os.stat(self._real(path), follow_symlinks=False)
        except (InputError, OSError):
            return None
        if not S_ISREG(facts.st_mode):
            return None
        return facts.st_mtime_ns, facts.st_size, facts.st_ino, facts.st_dev

    def is_directory(self, path: str) -> bool:
        """Whether there is a directory within."""
        try:
            return os.path.isdir(self._real(path))
        except (InputError, OSError):
            return False

    def folders(self) -> list[str]:
        """The names of the directories in this one, in order; hidden ones and links out excepted.

        Raises `InputError` when the directory cannot be listed.
        """
        try:
            with os.scandir(self.root) as entries:
                seen = [entry for entry, _ in zip(entries, range(_MOST_ENTRIES), strict=False)]
        except OSError:
            raise InputError("the directory cannot be listed") from None
        return sorted(e.name for e in seen if not e.name.startswith(".") and self._is_folder(e))

    def _is_folder(self, entry: os.DirEntry[str]) -> bool:
        if entry.is_symlink():
            return self.is_directory(entry.name)
        return entry.is_dir(follow_symlinks=False)

    def files(self, most: int) -> list[str]:
        """The first `most` files within, by their paths with `/`; no hidden ones, no links."""
        found: list[str] = []
        for path in self._walk():
            if len(found) == most:
                break
            found.append(path)
        return found

    def _walk(self) -> Iterator[str]:
        seen = 0
        for where, folders, names in os.walk(self.root):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            seen += len(folders) + len(names)
            if seen > _MOST_ENTRIES:
                return
            for name in sorted(names):
                path = os.path.join(where, name)
                if not name.startswith(".") and not os.path.islink(path):
                    yield os.path.relpath(path, self.root).replace(os.sep, "/")

    def _real(self, path: str) -> str:
        """Where a path leads; raises `InputError` when that is nowhere, or outside."""
        if len(path) > _LONGEST_PATH or _leads_out(path):
            raise InputError("the path must be relative, without '..'")
        try:
            real = os.path.realpath(self.root / path, strict=True)
        except (OSError, ValueError):
            raise InputError("there is no such file") from None
        if not Path(real).is_relative_to(self.root):
            raise InputError("the path leads outside through a link")
        return real

    def _opened(self, real: str) -> int:
        """Open a real path. Each part is opened in the one before, so that a directory which is
        made a link meanwhile leads nowhere."""
        if not _STEPWISE:
            return os.open(real, _LAST)
        parts = Path(real).relative_to(self.base).parts
        inside = os.open(self.base, _BETWEEN)
        try:
            for part in parts[:-1]:
                outer, inside = inside, os.open(part, _BETWEEN, dir_fd=inside)
                os.close(outer)
            return os.open(parts[-1] if parts else ".", _LAST, dir_fd=inside)
        finally:
            os.close(inside)


def _leads_out(path: str) -> bool:
    """Whether a path says so itself, as any system reads it."""
    windows = PureWindowsPath(path)
    if windows.drive or windows.root or "\0" in path:
        return True
    return ".." in windows.parts or ".." in PurePosixPath(path).parts


def _text(data: bytes, most: int) -> str:
    if len(data) > most:
        raise InputError(_too_large(most))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:  # which holds the data
        text = "\0"
    if "\0" in text:
        raise InputError("the file is no UTF-8 text")
    return text


def _too_large(most: int) -> str:
    return f"the file is larger than {most:,} bytes"
