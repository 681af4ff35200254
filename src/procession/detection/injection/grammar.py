"""Finding what the rules about words describe: words of their classes, close together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .doubts import doubt_about, is_broken, is_order, mention
from .findings import Finding
from .lexicon import HAS_CJK, Event, lexicon
from .rules import BY_VERB, FOR_ORDERS, NEEDS, RULES, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ENOUGH", "read_words"]

REACH = 60
"""Characters between a verb and the words that make it an attack."""
REACH_CJK = 24
MOST = 24
"""Words looked at on each side of a verb, so that a text of nothing but verbs is no burden."""
ENOUGH = 200
"""With so many findings a text is no longer looked at: it is what it is."""
ORDERED = 0.1
"""What a form counts for more that gives an order."""
URL = re.compile(r"https?://[^\s\"'<>)]*[^\s\"'<>).,;:!?]")
MAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}\.[\w.-]{2,63}")


def read_words(text: str, *, lenient: bool = True) -> list[Finding]:
    """What stands in a plain text, in its coordinates.

    `lenient`: a form that is quoted where attacks are spoken of counts for less.
    """
    words = lexicon()
    kinds = words.kinds_in(text)
    verbs = {r.verb for r in RULES if r.verb in kinds and _possible(r, kinds)}
    if not verbs:
        return []
    events = words.events(text)
    if not kinds.isdisjoint(("send", "visit")):
        events = sorted([*events, *addresses(text)])
    found: list[Finding] = []
    for index, event in enumerate(events):
        if event.kind in verbs:
            found += _at(text, events, index, lenient)
            if len(found) > ENOUGH:
                break
    return found


def _possible(wanted: Rule, kinds: set[str]) -> bool:
    known = kinds | {"url", "mail"}
    return all(need & known for need in NEEDS[wanted])


def addresses(text: str) -> Iterator[Event]:
    """Where something can be sent to."""
    for match in URL.finditer(text):
        yield Event(match.start(), match.end(), "url", -1)
    for match in MAIL.finditer(text):
        yield Event(match.start(), match.end(), "mail", -1)


def _at(text: str, events: list[Event], index: int, lenient: bool) -> Iterator[Finding]:
    """What the rules of one verb find around it: the best of each type."""
    verb = events[index]
    near = _near(text, events, index)
    best: dict[str, Finding] = {}
    for wanted in BY_VERB[verb.kind]:
        chosen = _chosen(text, verb, near, wanted)
        if chosen is None:
            continue
        score = wanted.score * doubt_about(text, verb, chosen, near, wanted)
        if wanted in FOR_ORDERS and is_order(text, verb):
            score += ORDERED
        start = min(verb.start, *(event.start for event in chosen), verb.start)
        end = max(verb.end, *(event.end for event in chosen), verb.end)
        known = best.get(wanted.type)
        if known is None or score > known.score:
            best[wanted.type] = Finding(wanted.type, min(score, 1.0), start, end)
    for found in best.values():
        doubt = mention(text, found) if lenient else 1.0
        yield found._replace(score=round(found.score * doubt, 3))


def _near(text: str, events: list[Event], index: int) -> dict[str, list[Event]]:
    """The words around a verb by class, the nearest first."""
    verb = events[index]
    reach = REACH_CJK if HAS_CJK.match(text, verb.start) else REACH
    around: list[tuple[int, Event]] = []
    for at in range(index - 1, max(-1, index - 1 - MOST), -1):
        gap = verb.start - events[at].end
        if gap > reach:
            break
        if _is_within(events[at], verb):
            continue
        around.append((gap, events[at]))
    for at in range(index + 1, min(len(events), index + 1 + MOST)):
        gap = events[at].start - verb.end
        if gap > reach:
            break
        if _is_within(events[at], verb):
            continue
        around.append((gap, events[at]))
    near: dict[str, list[Event]] = {}
    for _, event in sorted(around):
        near.setdefault(event.kind, []).append(event)
    return near


def _is_within(event: Event, verb: Event) -> bool:
    """Whether it is a part of the verb, as "unrestricted" is of "unrestricted mode"."""
    return verb.start <= event.start and event.end <= verb.end and event[:2] != verb[:2]


def _chosen(
    text: str, verb: Event, near: dict[str, list[Event]], wanted: Rule
) -> list[Event] | None:
    """One word for each need, of the verb's language where there is one; else `None`."""
    chosen: list[Event] = []
    for need in NEEDS[wanted]:
        fitting = [event for kind in need for event in near.get(kind, ())]
        if not fitting:
            return None
        chosen.append(min(fitting, key=lambda event: _distance(text, verb, event)))
    return chosen


def _distance(text: str, verb: Event, event: Event) -> tuple[bool, bool, int]:
    """Words of another language are far away, and so are those of another sentence."""
    start, end = min(verb.end, event.end), max(verb.start, event.start)
    return not event.languages & verb.languages, is_broken(text, start, end), end - start
