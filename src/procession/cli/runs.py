"""Recorded runs in the terminal: list them, show one, delete one."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import msgspec
import typer
from rich.console import Console
from typer.core import TyperGroup

from ..errors import ConfigurationError, InputError, ProcessionError
from ..recording import RecordedRun, RecordedRuns
from ..stores import SQLiteStore
from .run_view import print_list, print_run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..recording import RunSummary
    from ..store import Store

__all__ = ["runs"]

T = TypeVar("T")

FOLDER = "runs"
_DATABASES = (".db", ".sqlite", ".sqlite3")


class _ListsByDefault(TyperGroup):
    """`procession runs PLACE` lists what is in that place."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """With `list` put in where no command is named."""
        asks_for_help = any(arg in ("--help", "-h") for arg in args)
        named = next((arg for arg in args if not arg.startswith("-")), None)
        if named not in self.commands and not (asks_for_help and named is None):
            args = ["list", *args]
        return super().parse_args(ctx, args)


runs = typer.Typer(
    cls=_ListsByDefault,
    add_completion=False,
    rich_markup_mode=None,
    help="Look at recorded runs: `procession runs [PLACE]` lists them.",
)

Place = Annotated[
    str,
    typer.Argument(
        metavar="[PLACE]", help="A folder, sqlite:FILE or postgresql://…", show_default=True
    ),
]
Id = Annotated[
    str, typer.Argument(metavar="RUN_ID", help="As listed, or how it begins; or a run's file.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@runs.command("list")
def list_runs(
    place: Place = FOLDER,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="ID", help="Only runs of this agent.")
    ] = None,
    status: Annotated[
        str | None,
        typer.Option("--status", metavar="NAME", help="success, tripwire, failed, …"),
    ] = None,
    since: Annotated[
        datetime | None, typer.Option("--since", help="Only runs that began then or later (UTC).")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="So many, the last first.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List recorded runs, the last first."""
    begun = None if since is None else since.replace(tzinfo=UTC)

    async def ask(recorded: RecordedRuns) -> list[RunSummary]:
        return await recorded.list(agent=agent, status=status, since=begun)

    found = _asked(place, ask)
    if as_json:
        _print_json([each.to_json() for each in found[:limit]])
    else:
        print_list(_console(), found, limit, place)


@runs.command()
def show(run_id: Id, place: Place = FOLDER, as_json: AsJson = False) -> None:
    """Show one run: each hook of each processor, what it changed, and what it blocked."""
    if Path(run_id).is_file():
        try:
            run = RecordedRun.load(run_id)
        except ProcessionError as error:
            _fail(error)
    else:

        async def ask(recorded: RecordedRuns) -> RecordedRun:
            return await recorded.load(await _whole_id(recorded, run_id))

        run = _asked(place, ask)
    if as_json:
        _print_json(run.to_json())
    else:
        print_run(_console(), run)


@runs.command()
def delete(run_id: Id, place: Place = FOLDER) -> None:
    """Delete one recorded run."""

    async def ask(recorded: RecordedRuns) -> str:
        found = await _whole_id(recorded, run_id)
        await recorded.delete(found)
        return found

    typer.echo(f"deleted {_asked(place, ask)}")


async def _whole_id(recorded: RecordedRuns, begun: str) -> str:
    """The id of the only run whose id begins so."""
    ids = [each.run_id for each in await recorded.list()]
    found = [begun] if begun in ids else [id for id in ids if id.startswith(begun)]
    if not found:
        raise InputError(
            f"no recorded run {begun!r}: `procession runs PLACE` lists those there are"
        )
    if len(found) > 1:
        raise InputError(f"{len(found)} recorded runs begin with {begun!r}: give more of the id")
    return found[0]


def _asked(place: str, ask: Callable[[RecordedRuns], Awaitable[T]]) -> T:
    """What is asked of the runs in a place; what cannot be opened is told in one line."""

    async def work() -> T:
        opened = _opened(place)
        if isinstance(opened, Path):
            return await ask(RecordedRuns(opened))
        async with opened:
            return await ask(RecordedRuns(opened))

    try:
        return asyncio.run(work())
    except ProcessionError as error:
        _fail(error)


def _opened(place: str) -> Path | Store:
    if place.startswith(("postgresql://", "postgres://")):
        from ..stores import PostgresStore

        return PostgresStore(place)
    path = Path(place.removeprefix("sqlite:"))
    is_database = place.startswith("sqlite:") or path.suffix in _DATABASES
    if is_database and path.is_file():
        return SQLiteStore(path)
    if is_database or not path.is_dir():
        raise ConfigurationError(
            f"there is no {'file' if is_database else 'folder'} {str(path)!r}. Runs are recorded "
            f"with Agent(…, record=Recorder(PLACE))"
        )
    return path


def _fail(error: ProcessionError) -> NoReturn:
    typer.echo(f"procession: {error}", err=True)
    raise typer.Exit(2 if isinstance(error, ConfigurationError) else 1)


def _console() -> Console:
    return Console(markup=False, highlight=False, emoji=False)


def _print_json(value: Any) -> None:
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")
