"""Where recorded runs are: a folder with a file for each, or a store."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.parse import quote

import msgspec

from ..errors import InputError, OptionError
from ..store import Store
from .reading import run_of_lines
from .recorded_run import RecordedRun, read_lines

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from .recorded_run import RunSummary

__all__ = ["RecordedRuns"]

Make = Callable[[], "Sequence[bytes]"]
"""Gives lines to write."""

_SUFFIX = ".run.jsonl"
_KIND = "recorded-run"
_LONGEST = 150
_ENDS = (b'{"line":"begin"', b'{"line":"end"')
"""The lines that a list is made of."""


class RecordedRuns:
    """The runs that were recorded in a place: a folder, or a `Store`.

    Raises `OptionError` for what is neither.
    """

    def __init__(self, place: str | Path | Store) -> None:
        given: Any = place
        if isinstance(given, str | Path) and str(given):
            self._place: _Place = _Folder(Path(given))
        elif isinstance(given, Store):
            self._place = _InStore(given)
        else:
            raise OptionError(
                f"runs are recorded in a folder or a Store, not in {type(given).__name__}"
            )

    async def list(
        self,
        *,
        agent: str | None = None,
        status: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[RunSummary]:
        """The runs in short, the one that began last first.

        `agent` is an agent's id, `status` how the run ended; `since` and `until` bound, both
        inclusive, when it began. What is no recorded run, or one of a newer version, is left out.
        """
        found = [each for each in await self._place.summaries() if each is not None]
        kept = [
            each
            for each in found
            if agent in (None, each.agent_id)
            and status in (None, each.status)
            and (since is None or each.started_at >= since)
            and (until is None or each.started_at <= until)
        ]
        return sorted(kept, key=lambda each: each.started_at, reverse=True)

    async def load(self, run_id: str) -> RecordedRun:
        """The run; raises `InputError` if there is none of this id."""
        lines = await self._place.read(run_id)
        if lines is None:
            raise InputError(f"no recorded run {run_id!r} in {self._place.name}")
        return run_of_lines(lines, f"{self._place.name}, run {run_id!r}")

    async def delete(self, run_id: str) -> bool:
        """Forget a run; whether there was one."""
        return await self._place.delete(run_id)

    @property
    def takes_lines(self) -> bool:
        """Whether lines can be added to a run without writing it anew."""
        return isinstance(self._place, _Folder)

    async def append(self, run_id: str, make: Make) -> None:
        """Write lines behind those of this run: each is there whole, or not at all.

        `make` gives them; it is called in a thread.
        """
        await self._place.append(run_id, make)


class _Place(Protocol):
    name: str

    async def append(self, run_id: str, make: Make) -> None: ...
    async def read(self, run_id: str) -> list[dict[str, Any]] | None: ...
    async def summaries(self) -> list[RunSummary | None]: ...
    async def delete(self, run_id: str) -> bool: ...


def _summary(lines: list[dict[str, Any]], place: str) -> RunSummary | None:
    try:
        return run_of_lines(lines, place).summary
    except InputError:
        return None


class _Folder:
    """A file for each run, named for its id."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.name = str(folder)

    def _path(self, run_id: str) -> Path:
        """Any text may be an id: what a file cannot be called is written otherwise."""
        name = quote(run_id, safe="").replace(".", "%2E")
        if len(name) > _LONGEST:
            name = f"{name[:_LONGEST]}-{sha256(run_id.encode()).hexdigest()[:16]}"
        return self._folder / f"{name}{_SUFFIX}"

    async def append(self, run_id: str, make: Make) -> None:
        await asyncio.to_thread(self._append, self._path(run_id), make)

    def _append(self, path: Path, make: Make) -> None:
        written = b"\n".join((*make(), b""))
        self._folder.mkdir(parents=True, exist_ok=True)
        binary: int = getattr(os, "O_BINARY", 0)  # where texts would get other ends of lines
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | binary, 0o600)
        try:
            if os.lseek(file, 0, os.SEEK_END):
                os.lseek(file, -1, os.SEEK_END)
                if os.read(file, 1) != b"\n":
                    written = b"\n" + written  # somebody has died while he wrote
            while written:
                written = written[os.write(file, written) :]
        finally:
            os.close(file)

    async def read(self, run_id: str) -> list[dict[str, Any]] | None:
        return await asyncio.to_thread(self._read, self._path(run_id))

    def _read(self, path: Path) -> list[dict[str, Any]] | None:
        try:
            return read_lines(path.read_bytes())
        except FileNotFoundError:
            return None

    async def summaries(self) -> list[RunSummary | None]:
        return await asyncio.to_thread(self._summaries)

    def _summaries(self) -> list[RunSummary | None]:
        found: list[RunSummary | None] = []
        for path in self._folder.glob(f"*{_SUFFIX}"):
            try:
                lines = read_lines(path.read_bytes(), _ENDS)
            except OSError:
                continue
            found.append(_summary(lines, str(path)))
        return found

    async def delete(self, run_id: str) -> bool:
        try:
            await asyncio.to_thread(self._path(run_id).unlink)
        except FileNotFoundError:
            return False
        return True


class _InStore:
    """A value for each run, in the store's domain `workflows`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.name = type(store).__name__

    async def append(self, run_id: str, make: Make) -> None:
        lines = await asyncio.to_thread(make)
        known = await self.read(run_id) or []
        new = [cast("dict[str, Any]", msgspec.json.decode(line)) for line in lines]
        await self._store.get_store("workflows").put(_KIND, run_id, {"lines": [*known, *new]})

    async def read(self, run_id: str) -> list[dict[str, Any]] | None:
        value = await self._store.get_store("workflows").get(_KIND, run_id)
        return None if value is None else value.get("lines", [])

    async def summaries(self) -> list[RunSummary | None]:
        ids = await self._store.get_store("workflows").list_ids(_KIND)
        found = [(id, await self.read(id)) for id in ids]
        return [_summary(lines, id) for id, lines in found if lines is not None]

    async def delete(self, run_id: str) -> bool:
        known = await self.read(run_id) is not None
        await self._store.get_store("workflows").delete(_KIND, run_id)
        return known
