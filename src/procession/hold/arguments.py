"""The arguments of tool calls, held back leaf by leaf."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, cast

from msgspec import UNSET

from ..chunks import Chunk, ToolInputDeltaPayload
from .lane import Lane, Rules
from .leaves import LeafReader, encoded, number_text
from .piece import Piece

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from .leaves import Event

    Work = Generator[tuple[Chunk, Piece | None], Any, list[Any]]
    Rewriting = Generator[tuple[Chunk, Piece | None], Any, Any]

__all__ = ["WITHHELD", "Arguments", "collect"]

WITHHELD: Any = type("Withheld", (), {"__slots__": ()})()
"""What came of a chunk of which nothing may leave yet."""
KIND = "tool-call-delta"


def collect(results: list[Any], returned: Any) -> None:
    """Note what a hook has returned for one of several pieces."""
    if returned and returned.__class__ in (list, tuple):
        results.extend(returned)
    elif returned is not None:
        results.append(returned)


class _Written:
    """What is written of a call's arguments: JSON, and other chunks where hooks make some.

    They become part of `results`.
    """

    __slots__ = ("_json", "_part", "as_json", "results")

    def __init__(self, part: Chunk, results: list[Any]) -> None:
        self._part = part
        self._json: list[str] = []
        self.results = results
        self.as_json: Callable[[str], str] | None = None
        """How the text is written that the hook is being called with; `None`: it is not."""

    def add(self, json: str) -> None:
        self._json.append(json)

    def taken(self, returned: Any) -> str:
        """The text that a hook returned; other chunks go before what follows."""
        found: list[Any] = []
        collect(found, returned)
        texts: list[str] = []
        for chunk in found:
            if isinstance(chunk, Chunk) and chunk.type == KIND:
                texts.append(chunk.payload.args_text_delta)
            else:
                self.close()
                self.results.append(chunk)
        return "".join(texts)

    def close(self) -> None:
        """What has been written becomes a chunk."""
        json = "".join(self._json)
        if json:
            chunk = copy(self._part)
            chunk.payload = copy(chunk.payload)
            chunk.payload.args_text_delta = json
            self.results.append(chunk)
        self._json.clear()

    def stop(self, passing: Chunk | None) -> None:
        """The hook lets no more pass than this of the text that it is being called with."""
        text = self.taken(passing)
        if self.as_json is not None:
            self.add(self.as_json(text))
        self.close()


class _Call:
    """The arguments of one call, as far as they have come."""

    __slots__ = ("count", "known", "leaf", "model", "reader", "rest")

    def __init__(self, model: Chunk, known: int = 0) -> None:
        self.reader = LeafReader()
        self.model = model
        self.leaf: Lane | None = None
        """The string that is open."""
        self.rest: Lane | None = None
        """What is no JSON."""
        self.count = 0
        """How many leaves have begun."""
        self.known = known
        """How many of them the hook was shown before."""


class Arguments:
    """Holds back the leaves of tool arguments, and writes the JSON anew, always the same way."""

    __slots__ = ("_calls", "_disguised", "_known", "_rules", "_written")

    def __init__(self, rules: Rules, disguised: Callable[[str, Any, Any], None] | None) -> None:
        self._rules = rules
        self._disguised = disguised
        """Told of arguments that were changed: the call's id, what they were, what they are."""
        self._calls: dict[str, _Call] = {}
        self._known: dict[str, int] = {}
        """Of calls whose arguments have ended: how many leaves there were."""
        self._written: _Written | None = None
        """What is being written, while the hook is called with leaves."""

    def clear(self) -> None:
        """Forget what is held back."""
        self._calls.clear()
        self._known.clear()
        self._written = None

    def stop(self, passing: Chunk | None) -> bool:
        """The hook has stopped at a leaf, of which it lets `passing` pass; `False`: it was not
        called with one.
        """
        written, self._written = self._written, None
        if written is not None:
            written.stop(passing)
        return written is not None

    def work(self, part: Chunk, results: list[Any]) -> Work | None:
        """What is to be done for a chunk of a call; `None`: nothing but pass it.

        What comes of it becomes part of `results`, as it comes.
        """
        id = part.payload.tool_call_id
        if part.type == KIND:
            if not part.payload.args_text_delta:
                return None
            call = self._calls.get(id)
            if call is None:
                call = self._calls[id] = _Call(part)
            return self._delta(call, part, results)
        if part.type == "tool-call":
            return self._whole(part, results)
        return self._end(part, results) if id in self._calls else None

    def last(self, results: list[Any]) -> Work:
        """The stream has ended: what is left of calls that have not."""
        for call in list(self._calls.values()):
            yield from self._rest(call, results)
        self._calls.clear()
        return results

    # ── deltas ─────────────────────────────────────────────────────────────────────────────────

    def _delta(self, call: _Call, part: Chunk, results: list[Any]) -> Work:
        written = self._written = _Written(part, results)
        yield from self._events(call, call.reader.feed(part.payload.args_text_delta), written)
        self._written = None
        written.close()
        return results or [WITHHELD]

    def _end(self, part: Chunk, results: list[Any]) -> Work:
        call = self._calls.pop(part.payload.tool_call_id)
        yield from self._rest(call, results)
        self._known[part.payload.tool_call_id] = call.count
        collect(results, (yield part, None))
        return results

    def _rest(self, call: _Call, results: list[Any]) -> Work:
        written = self._written = _Written(call.model, results)
        yield from self._events(call, call.reader.end(), written)
        for lane, raw in ((call.leaf, False), (call.rest, True)):
            if lane is not None and not lane.is_empty:
                yield from self._leave(lane, lane.rest(), written, raw=raw, is_last=True)
        call.leaf = call.rest = self._written = None
        written.close()
        return results

    def _events(self, call: _Call, events: Iterable[Event], written: _Written) -> Rewriting:
        for kind, text in events:
            if kind == "mark":
                written.add(text)
                if text == '"':
                    call.leaf = self._leaf(call)
            elif kind == "number":
                lane = self._leaf(call)
                yield from self._number(lane, text, written)
            elif kind == "rest":
                if call.rest is None:
                    call.rest = self._leaf(call)
                yield from self._text(call.rest, text, written, raw=True)
            elif kind == "text":
                assert call.leaf is not None
                yield from self._text(call.leaf, text, written, raw=False)
            else:
                leaf, call.leaf = call.leaf, None
                if leaf is not None and not leaf.is_empty:
                    yield from self._leave(leaf, leaf.rest(), written, raw=False, is_last=True)
                written.add(text)

    def _leaf(self, call: _Call) -> Lane:
        id = f"{call.model.payload.tool_call_id}/{call.count}"
        lane = Lane(self._rules, "tool-arguments", id, call.model)
        lane.is_repeated = call.count < call.known
        call.count += 1
        return lane

    def _text(self, lane: Lane, text: str, written: _Written, *, raw: bool) -> Rewriting:
        released = lane.take(text)
        if released:
            yield from self._leave(lane, released, written, raw=raw)

    def _leave(
        self, lane: Lane, text: str, written: _Written, *, raw: bool, is_last: bool = False
    ) -> Rewriting:
        portions = lane.portions(text)
        written.as_json = str if raw else encoded
        for number, portion in enumerate(portions, 1):
            last = is_last and number == len(portions)
            found = written.taken((yield self._shown(lane, portion, last)))
            written.add(written.as_json(found))

    def _number(self, lane: Lane, literal: str, written: _Written) -> Rewriting:
        plain = number_text(literal)
        written.as_json = _begun
        found = written.taken((yield self._shown(lane, plain, True)))
        written.add(literal if found == plain else f'"{encoded(found)}"')

    def _shown(self, lane: Lane, portion: str, is_last: bool) -> tuple[Chunk, Piece]:
        chunk = lane.fresh()
        chunk.payload.args_text_delta = portion
        before = lane.before
        lane.leave(portion)
        again = lane.is_repeated
        return chunk, Piece(portion, before, "tool-arguments", lane.id, is_last, again)

    # ── the whole call ─────────────────────────────────────────────────────────────────────────

    def _whole(self, part: Chunk, results: list[Any]) -> Work:
        payload = part.payload
        call = self._calls.pop(payload.tool_call_id, None)
        known = self._known.pop(payload.tool_call_id, 0)
        if call is not None:
            yield from self._rest(call, results)
            known = call.count
        if payload.args is not UNSET:
            model = ToolInputDeltaPayload(
                tool_call_id=payload.tool_call_id, args_text_delta="", tool_name=payload.tool_name
            )
            call = _Call(Chunk(KIND, model, run_id=part.run_id, from_=part.from_), known)
            written = self._written = _Written(call.model, results)
            args = yield from self._rewritten(call, payload.args, written)
            self._written = None
            if args is not payload.args:
                if self._disguised is not None:
                    self._disguised(payload.tool_call_id, payload.args, args)
                part = copy(part)
                part.payload = copy(payload)
                part.payload.args = args
        collect(results, (yield part, None))
        return results

    def _rewritten(self, call: _Call, value: Any, written: _Written) -> Rewriting:
        """The value as hooks leave it: itself, when they change nothing."""
        if isinstance(value, str):
            return (yield from self._rewritten_text(self._leaf(call), value, written))
        if isinstance(value, int | float) and not isinstance(value, bool):
            return (yield from self._rewritten_number(self._leaf(call), value, written))
        if isinstance(value, dict):
            return (yield from self._rewritten_object(call, value, written))  # pyright: ignore[reportUnknownArgumentType]
        if isinstance(value, list):
            entries, changed = cast("list[Any]", value), False
            made: list[Any] = []
            for entry in entries:
                made.append((yield from self._rewritten(call, entry, written)))
                changed = changed or made[-1] is not entry
            return made if changed else entries
        return value

    def _rewritten_object(self, call: _Call, value: dict[str, Any], written: _Written) -> Rewriting:
        made: dict[str, Any] = {}
        changed = False
        for key, entry in value.items():
            name = yield from self._rewritten_text(self._leaf(call), key, written)
            made[name] = yield from self._rewritten(call, entry, written)
            changed = changed or name is not key or made[name] is not entry
        return made if changed else value

    def _rewritten_text(self, lane: Lane, text: str, written: _Written) -> Rewriting:
        found: list[str] = []
        if text:
            portions = lane.portions(text)
            for number, portion in enumerate(portions, 1):
                shown = self._shown(lane, portion, number == len(portions))
                found.append(written.taken((yield shown)))
        made = "".join(found)
        return text if made == text else made

    def _rewritten_number(self, lane: Lane, value: float, written: _Written) -> Rewriting:
        plain = number_text(value)
        found = written.taken((yield self._shown(lane, plain, True)))
        return value if found == plain else found


def _begun(digits: str) -> str:
    """The beginning of a number of which the rest is not let pass: it is a text."""
    return f'"{encoded(digits)}' if digits else ""
