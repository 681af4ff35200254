"""Where `AGENTS.md` and its like are found, and how they are read (B-343)."""

from __future__ import annotations

import inspect
import os
from asyncio import to_thread
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ...errors import InputError
from .confined_files import ConfinedFiles

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["NAMES", "InstructionFiles", "InstructionReader"]

NAMES = ("AGENTS.md", "CLAUDE.md", "CONTEXT.md")
"""Where a directory has several of them the first one counts."""


class InstructionReader(Protocol):
    """Reads files that are elsewhere: in a sandbox, in a store. Plain or async, each method.

    Paths are absolute. A method `get_path_identity(path)` may tell which paths are one file.
    """

    def path_exists(self, path: str, /) -> bool | Awaitable[bool]:
        """Whether there is a file or a directory."""
        ...

    def is_directory(self, path: str, /) -> bool | Awaitable[bool]:
        """Whether there is a directory."""
        ...

    def read_file(self, path: str, /) -> str | Awaitable[str]:
        """The text of a file."""
        ...


class LocalReader:
    """Reads within a directory, in threads."""

    def __init__(self, root: Path) -> None:
        self._files = ConfinedFiles(root)

    async def path_exists(self, path: str) -> bool:
        """Whether there is a file within."""
        return await to_thread(self._files.stamp, self._inner(path)) is not None

    async def is_directory(self, path: str) -> bool:
        """Whether there is a directory within."""
        return await to_thread(self._files.is_directory, self._inner(path))

    async def read_file(self, path: str) -> str:
        """The text of a file within."""
        return await to_thread(self._files.read, self._inner(path))

    async def get_path_identity(self, path: str) -> str:
        """The path with all links followed."""
        return await to_thread(os.path.realpath, path)

    def _inner(self, path: str) -> str:
        return os.path.relpath(path, self._files.root)


class InstructionFiles:
    """Finds the instructions for a path: those of its directory, then of the directories above it.

    `roots` are the real path that nothing is read outside of, and another way to write it.
    `methods` take the place of the methods of `reader`. For one step: what was looked through is
    not looked through again.
    """

    def __init__(
        self, roots: tuple[Path, Path], reader: Any, methods: dict[str, Callable[[str], Any]]
    ) -> None:
        self._root, self._alias = roots
        self._reader = reader
        self._methods = methods
        self._exhausted: set[Path] = set()

    def within(self, path: str) -> Path | None:
        """A path in full, without `..`; `None` for one that leads out of the root."""
        full = Path(os.path.normpath(self._root / path))
        if full.is_relative_to(self._root):
            return full
        if full.is_relative_to(self._alias):
            return self._root / full.relative_to(self._alias)
        return None

    async def uncovered(self, path: str, covered: Callable[[str], Awaitable[bool]]) -> str | None:
        """The nearest file for `path` that is not yet `covered`."""
        start = self.within(path)
        if start is None:
            return None
        if start not in self._exhausted and not await self._ask("is_directory", str(start)):
            start = start.parent
        for directory in (start, *start.parents):
            if directory in self._exhausted or not directory.is_relative_to(self._root):
                break
            found = await self._in(directory)
            if found is not None and not await covered(found):
                return found
            self._exhausted.add(directory)
        return None

    async def _in(self, directory: Path) -> str | None:
        for name in NAMES:
            path = str(directory / name)
            if await self._ask("path_exists", path) and not await self._ask("is_directory", path):
                return path
        return None

    async def read(self, path: str) -> str:
        """The text of a file; raises `InputError` when it cannot be read, whatever the reason."""
        try:
            text = await self._ask("read_file", path)
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"reading it raised {type(error).__name__}") from None
        if not isinstance(text, str):
            raise InputError(f"reading it gave no text, but {type(text).__name__}")
        return text

    async def identity(self, path: str) -> str:
        """What is the same for all paths of one file."""
        if getattr(self._reader, "get_path_identity", None) is None:
            return path
        return str(await self._ask("get_path_identity", path))

    async def _ask(self, method: str, path: str) -> Any:
        function = self._methods.get(method) or getattr(self._reader, method)
        answer = function(path)
        return await answer if inspect.isawaitable(answer) else answer
