"""The arguments of tool calls, held back leaf by leaf."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from ..chunks import Chunk, ToolInputDeltaPayload
from .leafwise import Leafwise, Root
from .written import ARGUMENTS, Written, collect

if TYPE_CHECKING:
    from collections.abc import Callable

    from .lane import Rules
    from .leafwise import Work

__all__ = ["WITHHELD", "Arguments"]

WITHHELD: Any = type("Withheld", (), {"__slots__": ()})()
"""What came of a chunk of which nothing may leave yet."""


class Arguments:
    """Holds back the leaves of tool arguments, and writes the JSON anew, always the same way."""

    __slots__ = ("_calls", "_disguised", "_known", "_leaves", "_written")

    def __init__(self, rules: Rules, disguised: Callable[[str, Any, Any], None] | None) -> None:
        self._leaves = Leafwise(rules, ARGUMENTS)
        self._disguised = disguised
        """Told of arguments that were changed: the call's id, what they were, what they are."""
        self._calls: dict[str, Root] = {}
        self._known: dict[str, int] = {}
        """Of calls whose arguments have ended: how many leaves there were."""
        self._written: Written | None = None
        """What is being written, while the hook is called with leaves."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is held back."""
        return all(call.is_empty for call in self._calls.values())

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
        if part.type == ARGUMENTS.chunk:
            if not part.payload.args_text_delta:
                return None
            call = self._calls.get(id)
            if call is None:
                call = self._calls[id] = Root(id, part)
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

    def _delta(self, call: Root, part: Chunk, results: list[Any]) -> Work:
        written = self._written = Written(ARGUMENTS, part, results)
        events = call.reader.feed(part.payload.args_text_delta)
        yield from self._leaves.events(call, events, written)
        self._written = None
        written.close()
        return results or [WITHHELD]

    def _end(self, part: Chunk, results: list[Any]) -> Work:
        call = self._calls.pop(part.payload.tool_call_id)
        yield from self._rest(call, results)
        self._known[part.payload.tool_call_id] = call.count
        collect(results, (yield part, None))
        return results

    def _rest(self, call: Root, results: list[Any]) -> Work:
        written = self._written = Written(ARGUMENTS, call.model, results)
        yield from self._leaves.rest(call, written)
        self._written = None
        written.close()
        return results

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
            chunk = Chunk(ARGUMENTS.chunk, model, run_id=part.run_id, from_=part.from_)
            call = Root(payload.tool_call_id, chunk, known=known)
            written = self._written = Written(ARGUMENTS, call.model, results)
            args = yield from self._leaves.rewritten(call, payload.args, written)
            self._written = None
            if args is not payload.args:
                if self._disguised is not None:
                    self._disguised(payload.tool_call_id, payload.args, args)
                part = copy(part)
                part.payload = copy(payload)
                part.payload.args = args
        collect(results, (yield part, None))
        return results
