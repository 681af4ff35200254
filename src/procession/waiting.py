"""Tool calls that wait for somebody's word, and the agent's room for their runs.

A run that waits has ended for its reader: what it takes to go on stands here, for a time and in a
limited number, until each waiting call has met its fate.
"""

from __future__ import annotations

import time
from copy import copy
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Struct

from .chunks import Chunk
from .errors import ConfigurationError, InputError, ToolError
from .records import clean_json, clean_text, own
from .schema import check_arguments

if TYPE_CHECKING:
    from collections.abc import Mapping

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


class WaitingCalls:
    """The calls of agents that wait, by run: `limit` runs at most, none of them for ever.

    Only the agent that ran a run can continue it. A run under the id of one that waits here cannot
    wait as well: it fails with an `InputError`.

    The run that has waited longest makes room for another one; after `expires_after` seconds a run
    can no longer be continued. Nothing of this outlives the process.

    Raises `ConfigurationError` for a limit or a time that is no positive number.
    """

    def __init__(self, *, limit: int = LIMIT, expires_after: float = EXPIRES_AFTER) -> None:
        for name, value in (("limit", limit), ("expires_after", expires_after)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigurationError(f"WaitingCalls: {name} must be a number above 0")
        self._limit = limit
        self._expires_after = expires_after
        self._kept: dict[str, Kept] = {}

    def __len__(self) -> int:
        """How many runs wait."""
        self._expire()
        return len(self._kept)

    def of(self, run_id: str) -> list[Chunk]:
        """The chunks that tell of a run's waiting calls; empty when it does not wait here."""
        self._expire()
        kept = self._kept.get(run_id)
        return [frozen(waiting.chunk) for waiting in kept.step.waiting.values()] if kept else []

    def forget(self, run_id: str) -> bool:
        """Let go of a run: its calls will never be run. Whether it waited here."""
        return self._kept.pop(run_id, None) is not None

    # ── the library's own ──────────────────────────────────────────────────────────────────────

    def check_free(self, run_id: str) -> None:
        """Raises `InputError` when a run of this id waits: what is said of it is not of another."""
        self._expire()
        if run_id in self._kept:
            raise InputError(
                f"another run {run_id!r} waits here already, and what is decided about its calls "
                f"must not be taken for these: give each run a run_id of its own, or let go of "
                f"that one with waiting_calls.forget()"
            )

    def keep(self, kept: Kept, *, until: float | None = None) -> None:
        """Take in a run that waits; raises as `check_free`."""
        self.check_free(kept.run_id)
        kept.until = time.monotonic() + self._expires_after if until is None else until
        while len(self._kept) >= self._limit:
            del self._kept[next(iter(self._kept))]
        self._kept[kept.run_id] = kept

    def find(self, owner: object, run_id: str, tool_call_id: str | None) -> tuple[Kept, str]:
        """An agent's run and the id of its waiting call; without an id: of the only one.

        Raises `InputError` when there is none, or more than one.
        """
        self._expire()
        kept = self._kept.get(run_id)
        if kept is not None and kept.owner is not owner:
            kept = None
        waiting: dict[str, Waiting] = kept.step.waiting if kept else {}
        id = next(iter(waiting)) if tool_call_id is None and len(waiting) == 1 else tool_call_id
        if kept is not None and id is not None and id in waiting:
            return kept, id
        if waiting:
            ids = ", ".join(map(repr, waiting))
            raise InputError(f"run {run_id!r} waits for another tool call: give one of {ids}")
        raise InputError(
            f"no tool call of run {run_id!r} waits here: it was decided already, its run is being "
            f"continued (read that to its end first), it waited too long, or another agent or "
            f"process ran it"
        )

    def take(self, kept: Kept) -> None:
        """A run goes on: nobody else can continue it."""
        del self._kept[kept.run_id]

    def _expire(self) -> None:
        now = time.monotonic()
        for run_id in [id for id, kept in self._kept.items() if kept.until <= now]:
            del self._kept[run_id]


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
