"""Tool calls that wait for somebody's word, and the agent's room for their runs.

A run that waits has ended for its reader: what it takes to go on stands here, for a time and in a
limited number, until each waiting call has met its fate.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from copy import copy
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Struct

from .chunks import Chunk
from .errors import ConfigurationError, InputError, ProcessionError, ToolError
from .ids import new_id
from .records import clean_json, clean_text, format_time, own, parse_time
from .request_context import MASTRA_RESOURCE_ID_KEY
from .schema import check_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from .store import Store, WorkflowStore

__all__ = [
    "APPROVAL_SCHEMA",
    "Decision",
    "Kept",
    "Waiting",
    "WaitingCalls",
    "allowed",
    "declined",
    "fingerprint",
    "frozen",
    "resumed",
]

APPROVAL_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["approved"],
}
"""What the answer to a `tool-call-approval` looks like."""
LIMIT = 1000
EXPIRES_AFTER = 3600.0
KIND = "waiting-run"
"""Under which name runs that wait stand in a store."""


def frozen(chunk: Chunk) -> Chunk:
    """A chunk that tells of a waiting call, for one holder alone: no other can change it."""
    chunk = copy(chunk)
    payload = chunk.payload = copy(chunk.payload)
    for name in ("args", "resume_schema", "suspend_payload"):
        if hasattr(payload, name):
            setattr(payload, name, own(getattr(payload, name)))
    return chunk


def fingerprint(args: Any) -> bytes:
    """What tells arguments from others; a value that JSON does not know is told by its `repr`."""
    return msgspec.json.encode(args, order="deterministic", enc_hook=repr)


class Decision(Struct, frozen=True, kw_only=True):
    """What somebody has said about a waiting call: it may run, it may not, or here are the data."""

    allowed: bool
    reason: str | None = None
    for_data: bool = False
    """Whether the tool goes on with `data` after it has suspended itself."""
    data: Any = None
    shown: bytes = b""
    """The arguments it was said about."""


class Waiting(Struct, kw_only=True):
    """A call that waits. `chunk` is what tells of it; `shown` stands for the arguments in it."""

    chunk: Chunk
    tool_name: str
    schema: dict[str, Any] | None
    """What the answer, or the data, must be like."""
    shown: bytes = b""

    @property
    def for_data(self) -> bool:
        """Whether the tool has suspended itself; otherwise it has not been run."""
        return self.chunk.type == "tool-call-suspended"


class Kept(Struct, kw_only=True):
    """What it takes to go on with a run that waits."""

    run_id: str
    owner: object
    """The agent whose run it is: what another one has for processors is not what guards it."""
    step: Any
    """The step that the calls belong to; a `Step`."""
    seen: list[Chunk]
    """What has passed the processors so far (R-121)."""
    carried: dict[str, Any]
    """What the run has in hand, by the names it has in a run's state."""
    until: float = 0.0
    form: dict[str, Any] | None = None
    """The same as JSON data, where it is kept in a store."""
    tool_names: frozenset[str] | None = None
    """For a run that was read from a store: the tools its step had."""


class WaitingCalls:
    """The calls of agents that wait, by run: `limit` runs at most, none of them for ever.

    Only the agent that ran a run can continue it. A run under the id of one that waits here cannot
    wait as well: it fails with an `InputError`.

    The run that has waited longest makes room for another one; after `expires_after` seconds a run
    can no longer be continued. With a `store` (see `procession.stores`) runs that wait are kept in
    it as well: a process that knows nothing of the run can continue it, through an agent of the
    same id, and of several that try one succeeds (G-F5). Without one, nothing outlives the process.

    Raises `ConfigurationError` for a limit or a time that is no positive number, and for what is no
    store.
    """

    def __init__(
        self,
        *,
        limit: int = LIMIT,
        expires_after: float = EXPIRES_AFTER,
        store: Store | None = None,
    ) -> None:
        for name, value in (("limit", limit), ("expires_after", expires_after)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigurationError(f"WaitingCalls: {name} must be a number above 0")
        _check_store(store)
        self._limit = limit
        self._expires_after = expires_after
        self._kept: dict[str, Kept] = {}
        self._shelf: WorkflowStore | None = None if store is None else store.get_store("workflows")

    def __len__(self) -> int:
        """How many runs wait in this process."""
        self._expire()
        return len(self._kept)

    async def of(self, run_id: str) -> list[Chunk]:
        """The chunks that tell of a run's waiting calls; empty when it does not wait."""
        if self._shelf is not None:
            form = await self._shelf.get(KIND, run_id)
            with _whole(run_id):
                return _told(form) if form is not None else []
        self._expire()
        kept = self._kept.get(run_id)
        return [frozen(waiting.chunk) for waiting in kept.step.waiting.values()] if kept else []

    async def forget(self, run_id: str) -> bool:
        """Let go of a run: its calls will never be run. Whether it waited."""
        here = self._kept.pop(run_id, None) is not None
        if self._shelf is None:
            return here
        return await self._shelf.take(KIND, run_id) is not None

    async def of_resource(self, resource_id: str) -> list[str]:
        """The ids of the runs that wait here and belong to a resource, with or without memory."""
        self._expire()
        found = [id for id, kept in self._kept.items() if _owner_here(kept) == resource_id]
        if self._shelf is None:
            return found
        for id in await self._shelf.list_ids(KIND):
            form = None if id in found else await self._shelf.get(KIND, id)
            if form is not None and _owner_there(form) == resource_id:
                found.append(id)
        return found

    async def forget_resource(self, resource_id: str) -> int:
        """Let go of all runs of a resource, with what is kept of them: how many there were."""
        forgotten = [await self.forget(run_id) for run_id in await self.of_resource(resource_id)]
        return sum(forgotten)

    # ── the library's own ──────────────────────────────────────────────────────────────────────

    @property
    def outlives_process(self) -> bool:
        """Whether runs are kept in a store, so that their JSON form is needed."""
        return self._shelf is not None

    async def check_free(self, run_id: str) -> None:
        """Raises `InputError` when a run of this id waits: what is said of it is not of another."""
        self._expire()
        if run_id in self._kept or (self._shelf and await self._shelf.get(KIND, run_id)):
            raise InputError(
                f"another run {run_id!r} waits here already, and what is decided about its calls "
                f"must not be taken for these: give each run a run_id of its own, or let go of "
                f"that one with waiting_calls.forget()"
            )

    async def keep(self, kept: Kept, *, until: float | None = None) -> None:
        """Take in a run that waits; raises as `check_free`."""
        await self.check_free(kept.run_id)
        now = time.monotonic()
        kept.until = until = now + self._expires_after if until is None else until
        if self._shelf is not None and kept.form is not None:
            end = datetime.now(UTC) + timedelta(seconds=max(until - now, 0))
            kept.form = {**kept.form, "token": new_id(), "until": format_time(end)}
            await self._shelf.put(KIND, kept.run_id, kept.form, expires_at=end)
        while len(self._kept) >= self._limit:
            del self._kept[next(iter(self._kept))]
        self._kept[kept.run_id] = kept

    async def find(
        self,
        owner: Any,
        run_id: str,
        tool_call_id: str | None,
        read: Callable[[dict[str, Any]], Kept],
    ) -> tuple[Kept, str]:
        """An agent's run and the id of its waiting call; without an id: of the only one.

        `read` makes a run of its JSON form. Raises `InputError` when there is none, or more than
        one.
        """
        self._expire()
        kept = self._kept.get(run_id)
        if kept is not None and kept.owner is not owner:
            kept = None
        if self._shelf is not None:
            kept = await self._from_shelf(self._shelf, owner, run_id, kept, read)
        waiting: dict[str, Waiting] = kept.step.waiting if kept else {}
        id = next(iter(waiting)) if tool_call_id is None and len(waiting) == 1 else tool_call_id
        if kept is not None and id is not None and id in waiting:
            return kept, id
        if waiting:
            ids = ", ".join(map(repr, waiting))
            raise InputError(f"run {run_id!r} waits for another tool call: give one of {ids}")
        raise _nothing_waits(run_id)

    async def _from_shelf(
        self,
        shelf: WorkflowStore,
        owner: Any,
        run_id: str,
        kept: Kept | None,
        read: Callable[[dict[str, Any]], Kept],
    ) -> Kept | None:
        """The run as the store has it; `kept` if this process has just that, which is more."""
        form = await shelf.get(KIND, run_id)
        if form is None or form.get("agentId") != owner.id:
            return None
        if kept is None or kept.form is None or kept.form["token"] != form.get("token"):
            with _whole(run_id):
                kept = read(form)
                kept.form = {**form, "token": str(form["token"])}
                left = (parse_time(form["until"]) - datetime.now(UTC)).total_seconds()
                kept.until = time.monotonic() + left
        return kept

    async def take(self, kept: Kept) -> None:
        """A run goes on: nobody else can continue it. Raises `InputError` if somebody does."""
        here = self._kept.pop(kept.run_id, None)
        if self._shelf is None or kept.form is None:
            if here is not kept:
                raise _nothing_waits(kept.run_id)
            return
        taken = await self._shelf.take(KIND, kept.run_id)
        if taken is not None and taken["token"] == kept.form["token"]:
            return
        if taken is not None:  # it has gone on and waits again since: that is not ours to take
            await self._shelf.put(KIND, kept.run_id, taken, expires_at=parse_time(taken["until"]))
        raise _nothing_waits(kept.run_id)

    def _expire(self) -> None:
        now = time.monotonic()
        for run_id in [id for id, kept in self._kept.items() if kept.until <= now]:
            del self._kept[run_id]


def _check_store(store: Any) -> None:
    if isinstance(store, type):
        raise ConfigurationError(
            f"WaitingCalls: store must be an object, not the class {store.__name__}: write "
            f"store={store.__name__}(…)"
        )
    if store is None or callable(getattr(store, "get_store", None)):
        return
    raise ConfigurationError(
        f"WaitingCalls: store must be a whole store, such as SQLiteStore('chats.db'), and not one "
        f"of its domains or anything else: {type(store).__name__} has no get_store()"
    )


def _owner_here(kept: Kept) -> Any:
    return kept.carried["request_context"].get(MASTRA_RESOURCE_ID_KEY)


def _owner_there(form: dict[str, Any]) -> Any:
    """Whose a stored run is; nobody's, if what is stored is damaged."""
    context = form.get("requestContext")
    if not isinstance(context, dict):
        return None
    return cast("dict[str, Any]", context).get(MASTRA_RESOURCE_ID_KEY)


@contextmanager
def _whole(run_id: str) -> Generator[None]:
    """Reading what a store has of a run; raises `InputError` where that is not all there."""
    try:
        yield
    except ProcessionError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError):
        raise InputError(
            f"what the store keeps of run {run_id!r} is damaged, so it cannot be continued: "
            f"forget it, and ask the agent again"
        ) from None


def _nothing_waits(run_id: str) -> InputError:
    return InputError(
        f"no tool call of run {run_id!r} waits here: it was decided already, its run is being "
        f"continued (read that to its end first), it waited too long, or another agent or "
        f"process ran it"
    )


def _told(form: dict[str, Any]) -> list[Chunk]:
    return [Chunk.from_json(held["chunk"]) for held in form["step"]["waiting"]]


def allowed(waiting: Waiting) -> Decision:
    """The call may run."""
    if waiting.for_data:
        name = waiting.tool_name
        raise InputError(f"tool {name!r} waits for data, not for approval: use resume_tool_call")
    return Decision(allowed=True, shown=waiting.shown)


def declined(waiting: Waiting, reason: Any) -> Decision:
    """The call may not run; the model is told the reason."""
    if reason is not None and not isinstance(reason, str):
        raise InputError(f"reason must be a text, not {type(reason).__name__}")
    return Decision(allowed=False, reason=clean_text(reason) if reason else None)


def resumed(waiting: Waiting, data: Any) -> Decision:
    """The call goes on with data; those for one that waits for approval say so or not."""
    data = own(clean_json(data))
    if waiting.schema is not None:
        try:
            check_arguments(waiting.tool_name, waiting.schema, data)
        except ToolError as error:
            raise InputError(f"the data do not fit resumeSchema. {error}") from None
    if waiting.for_data:
        return Decision(allowed=True, for_data=True, data=data, shown=waiting.shown)
    said = cast("Mapping[str, Any]", data)
    if said["approved"]:
        return allowed(waiting)
    return declined(waiting, said.get("reason"))
