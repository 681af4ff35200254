"""What tools give, raise and write: a guard looks at it, and what it finds goes no further."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ...errors import InputError, ToolError
from ...records import clean_json, error_form
from ..in_turn import Work, done
from .message_leaves import changed_value
from .regions import Found, Region, replaced
from .sightings import Outcome, Place, Sighting

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from ...chunks import Chunk
    from ...errors import TripWire
    from ...hook_args import ProcessToolResultArgs

__all__ = ["TOOL_RESULT", "ToolOutcomes", "current_result", "replace_result"]

F = TypeVar("F", bound=Found)

TOOL_RESULT, STREAM = "process_tool_result", "process_output_stream"
ERROR, OUTPUT = "tool-error", "tool-output"


class Guard(Protocol[F]):
    """What is needed of a guard."""

    strategy: str
    tool_results: bool

    def regions(self, text: str) -> list[Region[F]]: ...
    def replacement(self, region: Region[F], text: str) -> str: ...
    def noticed(self, place: Place, seen: Sequence[Sighting[F]]) -> Awaitable[None] | None: ...
    def reported(self, place: Place, seen: Sequence[Sighting[F]]) -> Awaitable[None] | None: ...
    def verdict(self, place: Place, seen: Sequence[Sighting[F]]) -> TripWire: ...


class ToolOutcomes(Generic[F]):
    """Puts what comes of tools through a guard.

    Under `filter` a text of a result in which something is found is left out, its place stays; of
    an error only what was found goes; a chunk that a tool wrote goes as a whole.
    """

    def __init__(self, guard: Guard[F]) -> None:
        self._guard = guard

    # ── results ────────────────────────────────────────────────────────────────────────────────

    def process_tool_result(self, args: ProcessToolResultArgs[Any]) -> Any:
        """Look at what a tool gave before the model, the client and the store have it (R-142)."""
        return done(self._result(args))

    def _result(self, args: ProcessToolResultArgs[Any]) -> Work[None]:
        guard, value = self._guard, current_result(args)
        place = Place(TOOL_RESULT, tool_name=args.tool_name, tool_call_id=args.tool_call_id)
        seen = self._sightings(_texts_of(value))
        if not seen:
            return
        waiting = guard.noticed(place, seen)
        if waiting is not None:
            yield waiting
        found = [sighting for sighting in seen if sighting.regions]
        if not found:
            return
        if guard.strategy == "block":
            wire = guard.verdict(place, found)
            args.abort(wire.reason, metadata=wire.metadata)
        waiting = guard.reported(place, found)
        if waiting is not None:
            yield waiting
        if guard.strategy != "warn":
            replace_result(args, _with_texts(value, map(self._left, seen)))

    # ── chunks ─────────────────────────────────────────────────────────────────────────────────

    def looks_at(self, part: Chunk) -> bool:
        """Whether a chunk tells what a tool has raised or written, and may be changed for it.

        Without the option `tool_results`, an error is still no way out for an argument that the
        client was not shown (G-W2).
        """
        kind = part.type
        if self._guard.tool_results:
            return kind == ERROR or kind == OUTPUT or kind.startswith("data-")
        return kind == ERROR and self._guard.strategy in ("redact", "filter")

    def passed(self, part: Chunk, message_list: Any) -> tuple[Chunk | None, Outcome | None]:
        """The chunk as it goes on, and what is to be done about it, if anything.

        What goes from an error goes from the stored message as well, and so from what the model is
        told of it.
        """
        guard = self._guard
        payload: Any = part.payload
        place = Place(STREAM)
        if part.type in (ERROR, OUTPUT):
            name = payload.tool_name if isinstance(payload.tool_name, str) else None
            place = Place(STREAM, tool_name=name, tool_call_id=payload.tool_call_id)
        value = _told(part)
        seen = self._sightings(_texts_of(value))
        found = [sighting for sighting in seen if sighting.regions]
        if not found:
            return part, None
        waits = [guard.noticed(place, found)]
        wire: TripWire | None = None
        made: Chunk | None = part
        if guard.strategy == "block":
            wire, made = guard.verdict(place, found), None
        else:
            waits.append(guard.reported(place, found))
            if part.type == ERROR and guard.strategy != "warn":
                made = _with_told(part, _with_texts(value, map(self._redacted, seen)))
                self._redact_stored(message_list, payload.tool_call_id)
            elif guard.strategy == "filter":
                made = None
            elif guard.strategy == "redact":
                made = _with_told(part, _with_texts(value, map(self._redacted, seen)))
        kept = [waiting for waiting in waits if waiting is not None]
        return made, Outcome("", made is not None, kept, wire)

    def _redact_stored(self, message_list: Any, tool_call_id: str) -> None:
        call = _invocation(message_list.messages(), tool_call_id)
        if call is not None and call.state == "output-error" and call.error_text:
            [seen] = self._sightings([call.error_text])
            call.error_text = self._redacted(seen)

    # ── texts ──────────────────────────────────────────────────────────────────────────────────

    def _sightings(self, texts: Iterable[str]) -> list[Sighting[F]]:
        return [Sighting(text, self._guard.regions(text)) for text in texts]

    def _redacted(self, seen: Sighting[F]) -> str:
        return replaced(seen.text, seen.regions, self._guard.replacement)

    def _left(self, seen: Sighting[F]) -> str:
        if self._guard.strategy == "filter":
            return "" if seen.regions else seen.text
        return self._redacted(seen)


def current_result(args: ProcessToolResultArgs[Any]) -> Any:
    """The result as processors before this one have left it (R-146)."""
    call = _invocation(args.messages, args.tool_call_id)
    return args.result if call is None or call.state != "result" else call.result


def replace_result(args: ProcessToolResultArgs[Any], value: Any) -> None:
    """Put another result in its place, for all who come after (R-148)."""
    call = {"toolCallId": args.tool_call_id, "toolName": args.tool_name, "args": args.args}
    outcome = {**call, "state": "result", "result": value}
    args.message_list.update_tool_invocation({"type": "tool-invocation", "toolInvocation": outcome})


def _invocation(messages: Sequence[Any], tool_call_id: str) -> Any:
    for message in reversed(messages):
        for part in reversed(message.content.parts):
            if part.type == "tool-invocation":
                if part.tool_invocation.tool_call_id == tool_call_id:
                    return part.tool_invocation
    return None


def _texts_of(value: Any) -> list[str]:
    """The texts of a value, its keys and numbers too, in order."""
    texts: list[str] = []

    def note(text: str) -> str:
        texts.append(text)
        return text

    changed_value(value, note)
    return texts


def _with_texts(value: Any, texts: Iterable[str]) -> Any:
    left = iter(texts)
    change: Callable[[str], str] = lambda _text: next(left)  # noqa: E731
    return changed_value(value, change)


def _told(part: Chunk) -> Any:
    """What a chunk tells of a tool, as JSON data."""
    payload: Any = part.payload
    if part.type == ERROR:
        error = payload.error
        return error_form(error)["message"] if isinstance(error, BaseException) else _plain(error)
    return _plain(payload.output if part.type == OUTPUT else part.data)


def _plain(value: Any) -> Any:
    try:
        return clean_json(value)
    except InputError:
        return None  # it has no texts that anybody could be sent


def _with_told(part: Chunk, value: Any) -> Chunk:
    """A copy of the chunk that tells something else."""
    made = copy(part)
    if part.type not in (ERROR, OUTPUT):
        made.data = value
        return made
    made.payload = payload = copy(part.payload)
    if part.type == OUTPUT:
        payload.output = value
    else:
        payload.error = ToolError(value) if isinstance(payload.error, BaseException) else value
    return made
