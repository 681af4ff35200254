"""Which parts of a conversation stay within a budget of tokens: units, kept or left out whole.

A unit is what a provider wants together: a tool call and its result, with all calls made beside it
(B-253, E6). The newest message of the user, which is being answered, is never left out; what this
turn has done since comes next, then the rest, newest first.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from ..tools.prompt_calls import calls_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

__all__ = ["LEAD", "Unit", "kept_prompt", "kept_units", "newest_question", "units_of"]

Entry = dict[str, Any]

LEAD: Entry = {"role": "user", "content": [{"type": "text", "text": "."}]}
"""What stands before an answer that would begin a conversation: some providers refuse that
(R-358)."""

_TAGGED = re.compile(r"<([\w-]+)(?:\s[^>]*)?>.*</\1>\s*", re.DOTALL)


class Unit(Struct):
    """What is kept or left out as a whole: `places` in the conversation, and what it costs."""

    places: list[int]
    tokens: int


def units_of(prompt: Sequence[Entry], count: Callable[[Entry], int]) -> list[Unit]:
    """The units of a prompt but for its system messages, in the order in which they end."""
    root = list(range(len(prompt)))

    def of(place: int) -> int:
        while root[place] != place:
            place = root[place]
        return place

    for call in calls_in(prompt):
        first, *others = {number for number, _ in call.places()}
        for other in others:
            low, high = sorted((of(first), of(other)))
            root[high] = low
    units: dict[int, Unit] = {}
    for place, entry in enumerate(prompt):
        if entry["role"] == "system":
            continue
        unit = units.setdefault(of(place), Unit([], 0))
        unit.places.append(place)
        unit.tokens += count(entry)
    return sorted(units.values(), key=lambda unit: unit.places[-1])


def newest_question(prompt: Sequence[Entry], said: Iterable[str]) -> int | None:
    """Where the newest message of the user stands, `None` when there is none.

    Reminders stand in a prompt as the user's as well. An entry that looks like one counts only if
    `said`, the texts of the user's messages, has its text, or if nothing else is there.
    """
    places = [place for place, entry in enumerate(prompt) if entry["role"] == "user"]
    texts: set[str] | None = None
    for place in reversed(places):
        text = _text(prompt[place])
        if not _TAGGED.fullmatch(text):
            return place
        if texts is None:
            texts = set(said)
        if text in texts:
            return place
    return places[-1] if places else None


def _text(entry: Mapping[str, Any]) -> str:
    content: Any = entry.get("content")
    if not isinstance(content, list):
        return str(content or "")
    parts = cast("list[Mapping[str, Any]]", content)
    return "".join(str(part.get("text") or "") for part in parts)


def kept_units(
    units: Sequence[Unit], required: Sequence[Unit], budget: int, *, gaps: bool
) -> list[Unit] | None:
    """The units that stay, in their order; `None` when what is required does not fit.

    Newest first, each that fits; without `gaps` the first that does not fit ends it (B-252).
    """
    left = budget - sum(unit.tokens for unit in required)
    if left < 0:
        return None
    kept = {id(unit) for unit in required}
    for unit in reversed(units):
        if id(unit) in kept:
            continue
        if unit.tokens <= left:
            kept.add(id(unit))
            left -= unit.tokens
        elif not gaps:
            break
    return [unit for unit in units if id(unit) in kept]


def kept_prompt(prompt: Sequence[Entry], kept: Sequence[Unit], left: int, lead: int) -> list[Entry]:
    """The prompt of the system messages and the units kept; it begins with a user's entry.

    `left` is what remains of the budget. Where `lead`, the cost of `LEAD`, is more, what stands at
    the beginning goes until there is room, or a question.
    """
    units = sorted(kept, key=lambda unit: unit.places[0])
    begun = False
    while not begun and prompt[units[0].places[0]]["role"] != "user" and lead > left:
        begun = len(units) == 1  # as it is, for want of anything else
        if not begun:
            left += units.pop(0).tokens
    chosen = {place for unit in units for place in unit.places}
    made: list[Entry] = []
    for place, entry in enumerate(prompt):
        if entry["role"] == "system":
            made.append(entry)
        elif place in chosen:
            if not begun and entry["role"] != "user":
                made.append(LEAD)
            begun = True
            made.append(entry)
    return made
