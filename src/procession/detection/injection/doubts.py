"""Where the words of a rule are there, but may say something else, or the opposite."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .context import about_context
from .lexicon import LANGUAGES, Event, lexicon

if TYPE_CHECKING:
    from .findings import Finding
    from .rules import Rule

__all__ = ["doubt_about", "is_broken", "is_order", "mention"]

TIGHT = 14
"""Characters between "everything" and "before"."""
CLOSE = 25
"""Characters between "previous" and "instructions"."""
BREAK = re.compile(r";|[.!?\u3002\uff01\uff1f](?=\s|$)|[\u3002\uff01\uff1f]|\n\s*\n")
PATTERN = re.compile(r"\)\?|\|")
"""Signs of a regular expression that looks for the form itself."""
COMMA = re.compile(r"[,;:\u3001\uff0c]")
ORDER = re.compile(
    r"(?:^|[.!?:;,\n\"'(\u3002\uff0c\u201c*>#-]"
    r"|\b(?:please|now|then|and|just|first|instead|bitte|und|por favor|y|e|et|per favore|prego|en"
    r"|puis|luego|poi|prosze|пожалуйста|и|lutfen|ve|من فضلك|و))\s*\Z"
)
"""What stands before a verb that orders something."""
AS_PREPOSITION = re.compile(r"(?:above|before|until) (?:the|an?|each|every) ")
"""A place in a list, rather than what was said."""
VERBS_LAST = re.compile("[\u0900-\u097f\u3040-\u30ff\uac00-\ud7a3\u4e00-\u9fff\u0600-\u06ff]")


def bits(*languages: str) -> int:
    """A set of languages as events have it."""
    return sum(1 << LANGUAGES.index(language) for language in languages)


ARABIC = bits("ar")
VERB_FIRST = bits("en", "fr", "es", "it", "pt", "pl", "ru", "ar")
"""Languages in which what an order is about follows the verb."""
VERB_EITHER = bits("de", "nl")
VERB_LAST = bits("tr", "hi", "ja", "ko")
NOT_FIRST = VERB_FIRST | bits("zh")
"""Languages in which "not" stands right before the verb."""
NOT_SO = re.compile(r"し(?:ない|ません|ては)|하지|되지|지 ?마|지 ?않|せす|しないて|न कर|मत")
QUOTES = "\"'`\u201c\u201d\u201e\u00ab\u00bb\u2018\u2019\u300c\u300d\u300e\u300f"
SLACK = 60
"""Characters between a quoted form and its quotation marks."""
DENIED = ("ign", "off", "reveal", "show", "send", "act", "echo", "use", "answer")


def doubt_about(
    text: str, verb: Event, chosen: list[Event], near: dict[str, list[Event]], wanted: Rule
) -> float:
    """By what a score is multiplied where the words are there, but may say something else."""
    doubt = 1.0
    languages = verb.languages
    for event in chosen:
        languages &= event.languages
    if not languages:
        doubt *= 0.75
    start = min([verb.start, *(event.start for event in chosen)])
    end = max([verb.end, *(event.end for event in chosen)])
    if is_broken(text, start, end):
        doubt *= 0.75
    if PATTERN.search(text, start, end):
        doubt *= 0.6
    doubt *= about_context(text, verb, chosen, near)
    return doubt * _denial(text, verb, near) * _belonging(text, verb, chosen, near, wanted)


def is_broken(text: str, start: int, end: int) -> bool:
    """Whether a sentence ends between two places."""
    return BREAK.search(text, start, end) is not None


def _denial(text: str, verb: Event, near: dict[str, list[Event]]) -> float:
    """Whether the opposite is said."""
    if verb.kind in DENIED and _is_denied(text, verb, near):
        return 0.3
    if verb.kind != "obey":
        return 1.0
    if all(_is_far(text, verb, neg) for neg in near.get("neg", ())):
        return 0.3
    forgotten = (
        ign
        for ign in near.get("ign", ())
        if 0 <= verb.start - ign.end <= TIGHT and not is_broken(text, ign.end, verb.start)
    )
    return 0.3 if any(forgotten) else 1.0  # "do not forget to follow"


def _is_far(text: str, verb: Event, neg: Event) -> bool:
    """Whether a "not" belongs to another verb."""
    if is_broken(text, min(neg.end, verb.end), max(neg.start, verb.start)):
        return True
    common = verb.languages & neg.languages
    if common & NOT_FIRST:
        return not 0 <= verb.start - neg.end <= TIGHT
    return not common & VERB_EITHER and max(neg.start - verb.end, verb.start - neg.end) > 8


def _belonging(
    text: str, verb: Event, chosen: list[Event], near: dict[str, list[Event]], wanted: Rule
) -> float:
    """Whether the words belong to each other."""
    needs = wanted.needs
    doubt = 1.0
    if needs and needs[0] in ("your", "your|you"):
        doubt *= _owned(chosen)
    if needs and needs[-1] == "rules":
        doubt *= _loose(text, verb, chosen, near) * _misplaced(verb, chosen[-1])
    if needs in (("all", "prior"), ("aforesaid",), ("upper",)):
        doubt *= _apart(text, chosen, near)
    if wanted.verb == "iam" and not _is_said_of_oneself(text, verb, chosen):
        doubt *= 0.3
    return doubt


def _is_denied(text: str, verb: Event, near: dict[str, list[Event]]) -> bool:
    """Whether "not" stands right before the verb, or is part of its form."""
    for event in near.get("neg", ()):
        between = text[event.end : verb.start]
        before = event.end <= verb.start <= event.end + 12 and not re.search(
            r"[^\w\s'\u2019]", between
        )
        if (before or verb.end <= event.start <= verb.end + 2) and event.languages & verb.languages:
            return True
    return NOT_SO.match(text, verb.end) is not None


def _loose(text: str, verb: Event, chosen: list[Event], near: dict[str, list[Event]]) -> float:
    """Whether "previous" belongs to "instructions", and whose these are."""
    rules = chosen[-1]
    doubt = 0.75 if is_one_of_many(text, rules, near) else 1.0
    for event in chosen[:-1]:
        if event.kind == "prior" and AS_PREPOSITION.match(text, event.start):
            doubt = min(doubt, 0.7)
        start, end = sorted((event, rules))[0].end, sorted((event, rules))[1].start
        between = text[start:end]
        if len(between) > CLOSE or COMMA.search(between):
            doubt = min(doubt, 0.7)
        if any(start <= thing.start < end for thing in near.get("thing", ())):
            doubt = min(doubt, 0.6)
    mine = [
        my
        for my in near.get("my", ())
        if my.languages & rules.languages and 0 <= rules.start - my.end <= CLOSE
    ]
    things = near.get("thing", ())
    if any(verb.end <= thing.start < rules.start for thing in things):
        doubt = min(doubt, 0.6)
    return doubt * 0.6 if mine and not near.get("your") else doubt


def is_one_of_many(text: str, rules: Event, near: dict[str, list[Event]]) -> bool:
    """Whether it is a single rule, of which style sheets and games have many."""
    return text[rules.start : rules.end] == "rule" and not (near.get("your") or near.get("all"))


def _misplaced(verb: Event, rules: Event) -> float:
    """Whether an object stands before its verb in a language where it comes after."""
    if verb.kind not in ("ign", "obey") or rules.start > verb.start:
        return 1.0
    common = verb.languages & rules.languages
    if common & VERB_EITHER:
        return 0.75
    return 0.6 if common & VERB_FIRST and common > 0 else 1.0


def _owned(chosen: list[Event]) -> float:
    """Whether what is spoken of follows "your", or stands around it where that is written apart."""
    mine, thing = chosen[:2]
    if mine.kind == "your" and mine.start > thing.start:
        return 1.0 if mine.languages & ARABIC else 0.75
    return 1.0 if thing.start - mine.end <= CLOSE else 0.75


def _apart(text: str, chosen: list[Event], near: dict[str, list[Event]]) -> float:
    """Whether "all" and "previous" belong to each other, and to nothing else."""
    first, last = min(chosen), max(chosen)
    if last.start - first.end > TIGHT or COMMA.search(text, first.end, last.start):
        return 0.6
    things = near.get("thing", ())
    beside = (
        -TIGHT <= thing.start - last.end <= TIGHT
        and not is_broken(text, *sorted((last.end, thing.start)))
        for thing in things
        if not first.start <= thing.start < first.end
    )
    return 0.6 if any(beside) else 1.0


def _is_said_of_oneself(text: str, verb: Event, chosen: list[Event]) -> bool:
    boss = chosen[-1]
    if not verb.start <= chosen[0].start <= boss.start:
        return False
    return verb.end <= boss.start <= verb.end + 14 and not COMMA.search(text, verb.end, boss.start)


def is_order(text: str, verb: Event) -> bool:
    """Whether the verb begins a sentence, or stands at its end where verbs stand there."""
    if VERBS_LAST.match(text, verb.start) or (verb.languages > 0 and verb.languages & VERB_LAST):
        return True
    return ORDER.search(text[max(0, verb.start - 16) : verb.start]) is not None


def mention(text: str, found: Finding) -> float:
    """By what the score of a form is multiplied that is spoken of rather than used."""
    start = max(text.rfind("\n", 0, found.start) + 1, found.start - 200)
    end = text.find("\n", found.end, found.end + 120)
    end = end if end >= 0 else found.end + 120
    around = text[start : found.start], text[found.end : end]
    said = {event.kind for part in around for event in lexicon().events(part)}
    if said.isdisjoint(("talk", "quoting")):
        return 1.0
    before, after = around[0][-SLACK:], around[1][:SLACK]
    if any(mark in before for mark in QUOTES) and any(mark in after for mark in QUOTES):
        return 0.6
    return 0.85 if "talk" in said else 1.0
