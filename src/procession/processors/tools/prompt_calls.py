"""The tool calls of a prompt with their outcomes, and a prompt without some of them (G-E)."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

__all__ = ["PromptCall", "calls_in", "without"]

Entry = dict[str, Any]
Place = tuple[int, int]
"""Which entry of the prompt, and which part of the entry."""


class PromptCall(Struct):
    """A call and its outcome, by where they stand; one of the two is missing in a broken prompt."""

    id: str
    name: str
    call: Place | None = None
    outcome: Place | None = None

    def places(self) -> Iterator[Place]:
        """Where it stands: what is taken away together or not at all."""
        if self.call is not None:
            yield self.call
        if self.outcome is not None:
            yield self.outcome


def calls_in(prompt: Sequence[Entry]) -> list[PromptCall]:
    """All calls in order, each with its own outcome, also where ids come twice."""
    found: list[PromptCall] = []
    waiting: defaultdict[str, deque[PromptCall]] = defaultdict(deque)
    for place, part in _tool_parts(prompt):
        id, name = str(part.get("toolCallId")), str(part.get("toolName"))
        if part["type"] == "tool-call":
            made = PromptCall(id, name, call=place)
            waiting[id].append(made)
        elif waiting[id]:
            waiting[id].popleft().outcome = place
            continue
        else:
            made = PromptCall(id, name, outcome=place)
        found.append(made)
    return found


def _tool_parts(prompt: Sequence[Entry]) -> Iterator[tuple[Place, Mapping[str, Any]]]:
    for number, entry in enumerate(prompt):
        content = entry["content"]
        if entry["role"] not in ("assistant", "tool") or not isinstance(content, list):
            continue
        for position, part in enumerate(cast("list[Any]", content)):
            if _type(part) in ("tool-call", "tool-result"):
                yield (number, position), part


def without(
    prompt: Sequence[Entry], calls: Iterable[PromptCall], instead: Mapping[Place, Entry]
) -> list[Entry]:
    """The prompt without `calls`; where a place has a part in `instead`, this one stands there.

    Entries that are left with nothing go. So does the thought that led to a call which is gone:
    providers refuse one that nothing follows.
    """
    gone: defaultdict[int, set[int]] = defaultdict(set)
    for call in calls:
        for number, position in call.places():
            gone[number].add(position)
    made: list[Entry] = []
    for number, entry in enumerate(prompt):
        if number not in gone:
            made.append(entry)
            continue
        parts: list[Any] = []
        for position, part in enumerate(entry["content"]):
            if position not in gone[number]:
                parts.append(part)
            elif (number, position) in instead:
                parts.append(instead[number, position])
        while parts and _type(parts[-1]) == "reasoning":
            parts.pop()
        if parts:
            made.append({**entry, "content": parts})
    return made


def _type(part: Any) -> Any:
    """The type of a part; hooks may have put anything there."""
    return cast("Mapping[str, Any]", part).get("type") if isinstance(part, Mapping) else None
