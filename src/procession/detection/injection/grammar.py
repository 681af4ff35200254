"""Rules about words: a verb, what it is about, and what says more about that, close together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from .findings import Finding
from .lexicon import HAS_CJK, Event, lexicon

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ENOUGH", "read_words"]

REACH = 60
"""Characters between a verb and the words that make it an attack."""
REACH_CJK = 24
MOST = 24
"""Words looked at on each side of a verb, so that a text of nothing but verbs is no burden."""
TIGHT = 14
"""Characters between "everything" and "before"."""
CLOSE = 25
"""Characters between "previous" and "instructions"."""


class Rule(NamedTuple):
    """Words of the classes `needs` near one of `verb`; `a|b` stands for either."""

    type: str
    score: float
    verb: str
    needs: tuple[str, ...] = ()


def rule(type: str, score: float, verbs: str, *needs: str) -> list[Rule]:
    """One rule for each of the verbs."""
    return [Rule(type, score, verb, needs) for verb in verbs.split("|")]


OVERRIDE = "prior|all|your|sysword"

RULES = (
    *rule("injection", 0.9, "ign", OVERRIDE, "rules"),
    *rule("injection", 0.55, "ign", "rules"),
    *rule("injection", 0.75, "ign", "told"),
    *rule("injection", 0.8, "ign", "all", "told"),
    *rule("injection", 0.75, "ign", "upper"),
    *rule("injection", 0.75, "ign", "all", "prior"),
    *rule("injection", 0.9, "ign", "sysp"),
    *rule("injection", 0.75, "obey", "neg", OVERRIDE, "rules"),
    *rule("injection", 0.6, "new", "rules", "your"),
    *rule("injection", 0.75, "new", "rules", "fromnow"),
    *rule("injection", 0.75, "toai"),
    *rule("injection", 0.9, "toai", "ign|must|show|send|answer|hide|reveal|use|new"),
    *rule("injection", 0.55, "hide"),
    *rule("injection", 0.75, "hide", "send|reveal|use", "secret|conv|tool|sysp"),
    *rule("jailbreak", 0.85, "dan"),
    *rule("jailbreak", 0.9, "act", "free"),
    *rule("jailbreak", 0.85, "act", "without", "limit|safe"),
    *rule("jailbreak", 0.6, "youare", "free"),
    *rule("jailbreak", 0.85, "youare", "free", "ai|fromnow|now|act|answer|nolonger|persona"),
    *rule("jailbreak", 0.85, "youare", "without", "limit|safe", "ai|fromnow|act|answer"),
    *rule("jailbreak", 0.65, "free", "ai"),
    *rule("jailbreak", 0.85, "free", "answer", "ai|must|youare|fromnow|ign"),
    *rule("jailbreak", 0.75, "answer", "without", "limit|safe"),
    *rule("jailbreak", 0.75, "answer", "free"),
    *rule("role-manipulation", 0.6, "fromnow", "youare|act"),
    *rule("role-manipulation", 0.8, "fromnow", "youare|act|answer", "free|nolonger|persona|boss"),
    *rule("role-manipulation", 0.8, "youare", "nolonger", "ai|rules|limit|safe|free"),
    *rule("role-manipulation", 0.45, "act"),
    *rule("role-manipulation", 0.75, "act", "nolonger|persona"),
    *rule("role-manipulation", 0.8, "act", "neg", "ai", "rules|limit|safe"),
    *rule("system-override", 0.65, "off", "safe"),
    *rule("system-override", 0.85, "off", "your", "safe|limit"),
    *rule("system-override", 0.8, "off", "all", "safe"),
    *rule("system-override", 0.45, "mode"),
    *rule("system-override", 0.6, "mode", "on"),
    *rule("system-override", 0.85, "mode", "youare|ai|ign|safe|free|iam"),
    *rule("system-override", 0.75, "override"),
    *rule("system-override", 0.6, "iam", "boss"),
    *rule("system-override", 0.75, "iam", "your", "boss"),
    *rule("data-exfiltration", 0.65, "show", "sysp"),
    *rule("data-exfiltration", 0.85, "show", "sysp", "your|all|verbatim"),
    *rule("data-exfiltration", 0.85, "reveal|echo", "sysp"),
    *rule("data-exfiltration", 0.85, "send", "sysp"),
    *rule("data-exfiltration", 0.55, "show", "your", "rules"),
    *rule("data-exfiltration", 0.75, "show", "your", "prompt"),
    *rule("data-exfiltration", 0.8, "show", "your", "rules", "verbatim|prior"),
    *rule("data-exfiltration", 0.8, "reveal", "your", "rules"),
    *rule("data-exfiltration", 0.8, "echo", "upper"),
    *rule("data-exfiltration", 0.8, "show", "upper", "verbatim"),
    *rule("data-exfiltration", 0.75, "reveal", "secret", "your|all|sysp|conv"),
    *rule("data-exfiltration", 0.65, "show", "secret", "your"),
    *rule("data-exfiltration", 0.7, "send", "secret", "your|all"),
    *rule("data-exfiltration", 0.8, "send", "secret|conv|sysp", "url"),
    *rule("data-exfiltration", 0.75, "send", "secret|sysp", "mail"),
    *rule("data-exfiltration", 0.75, "send", "conv", "mail", "all|hide"),
    *rule("data-exfiltration", 0.6, "send", "conv", "mail"),
    *rule("tool-exfiltration", 0.6, "show", "your|you|all", "tool"),
    *rule("tool-exfiltration", 0.75, "show", "your|you", "tool", "schema|verbatim"),
    *rule("tool-exfiltration", 0.75, "reveal", "your|you", "tool"),
    *rule("tool-exfiltration", 0.8, "use", "tool", "send|show|reveal", "secret|conv|sysp"),
    *rule("tool-exfiltration", 0.75, "use", "tool", "secret|sysp"),
)
BY_VERB: dict[str, list[Rule]] = {}
for _rule in RULES:
    BY_VERB.setdefault(_rule.verb, []).append(_rule)
NEEDS = {r: [set(need.split("|")) for need in r.needs] for r in RULES}

BREAK = re.compile(r";|[.!?\u3002\uff01\uff1f](?=\s|$)|[\u3002\uff01\uff1f]|\n\s*\n")
COMMA = re.compile(r"[,;:\u3001\uff0c]")
ORDER = re.compile(
    r"(?:^|[.!?:;,\n\"'(\u3002\uff0c\u201c*>#-]"
    r"|\b(?:please|now|then|and|just|first|instead|bitte|und|por favor|y|e|et|per favore|prego|i|en"
    r"|puis|luego|poi|prosze|пожалуйста|и|lutfen|ve|من فضلك|و))\s*\Z"
)
"""What stands before a verb that orders something."""
VERBS_LAST = re.compile("[\u0900-\u097f\u3040-\u30ff\uac00-\ud7a3\u4e00-\u9fff\u0600-\u06ff]")
NOT_SO = re.compile(r"し(?:ない|ません|ては)|하지|되지|지 ?마|지 ?않|せす|しないて|न कर|मत")
URL = re.compile(r"https?://[^\s\"'<>)]*[^\s\"'<>).,;:!?]")
MAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}\.[\w.-]{2,63}")
QUOTES = "\"'`\u201c\u201d\u201e\u00ab\u00bb\u2018\u2019\u300c\u300d\u300e\u300f"
ENOUGH = 200
"""With so many findings a text is no longer looked at: it is what it is."""
SLACK = 60
"""Characters between a quoted form and its quotation marks."""
DENIED = ("ign", "off", "reveal", "show", "send", "act", "echo", "use", "answer")


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
    if "send" in verbs:
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
        chosen = _chosen(verb, near, wanted)
        if chosen is None:
            continue
        score = wanted.score * _doubt(text, verb, chosen, near, wanted)
        if score < 0.9 and verb.kind in ("show", "send") and _is_order(text, verb):
            score += 0.1
        start = min(verb.start, *(event.start for event in chosen), verb.start)
        end = max(verb.end, *(event.end for event in chosen), verb.end)
        known = best.get(wanted.type)
        if known is None or score > known.score:
            best[wanted.type] = Finding(wanted.type, min(score, 1.0), start, end)
    for found in best.values():
        doubt = _mention(text, found) if lenient else 1.0
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
        around.append((gap, events[at]))
    for at in range(index + 1, min(len(events), index + 1 + MOST)):
        gap = events[at].start - verb.end
        if gap > reach:
            break
        around.append((gap, events[at]))
    near: dict[str, list[Event]] = {}
    for _, event in sorted(around):
        near.setdefault(event.kind, []).append(event)
    return near


def _chosen(verb: Event, near: dict[str, list[Event]], wanted: Rule) -> list[Event] | None:
    """One word for each need, of the verb's language where there is one; else `None`."""
    chosen: list[Event] = []
    for need in NEEDS[wanted]:
        fitting = [event for kind in need for event in near.get(kind, ())]
        if not fitting:
            return None
        chosen.append(min(fitting, key=lambda event: _distance(verb, event)))
    return chosen


def _distance(verb: Event, event: Event) -> tuple[bool, int]:
    gap = max(event.start - verb.end, verb.start - event.end)
    return not event.languages & verb.languages, gap


def _doubt(
    text: str, verb: Event, chosen: list[Event], near: dict[str, list[Event]], wanted: Rule
) -> float:
    """By what a score is multiplied where the words are there, but may say something else."""
    doubt = 1.0
    languages = verb.languages
    for event in chosen:
        languages &= event.languages
    if not languages:
        doubt *= 0.8
    start = min([verb.start, *(event.start for event in chosen)])
    end = max([verb.end, *(event.end for event in chosen)])
    if BREAK.search(text, start, end):
        doubt *= 0.75
    if wanted.verb in DENIED and _is_denied(text, verb, near):
        doubt *= 0.3
    if wanted.needs and wanted.needs[-1] == "rules":
        doubt *= _loose(text, chosen, near)
    if wanted.needs == ("all", "prior"):
        doubt *= _apart(text, chosen, near)
    if wanted.verb == "iam" and not _is_said_of_oneself(text, verb, chosen[-1]):
        doubt *= 0.3
    return doubt


def _is_denied(text: str, verb: Event, near: dict[str, list[Event]]) -> bool:
    """Whether "not" stands right before the verb, or is part of its form."""
    for event in near.get("neg", ()):
        between = text[event.end : verb.start]
        if event.end <= verb.start <= event.end + 12 and not re.search(r"[^\w\s]", between):
            return bool(event.languages & verb.languages)
    return NOT_SO.match(text, verb.end) is not None


def _loose(text: str, chosen: list[Event], near: dict[str, list[Event]]) -> float:
    """Whether "previous" belongs to "instructions", and whose these are."""
    rules = chosen[-1]
    doubt = 1.0
    for event in chosen[:-1]:
        start, end = sorted((event, rules))[0].end, sorted((event, rules))[1].start
        between = text[start:end]
        if len(between) > CLOSE or COMMA.search(between):
            doubt = min(doubt, 0.7)
        if any(start <= thing.start < end for thing in near.get("thing", ())):
            doubt = min(doubt, 0.6)
    mine = [my for my in near.get("my", ()) if 0 <= rules.start - my.end <= CLOSE]
    return doubt * 0.6 if mine and not near.get("your") else doubt


def _apart(text: str, chosen: list[Event], near: dict[str, list[Event]]) -> float:
    """Whether "all" and "previous" belong to each other, and to nothing else."""
    first, last = sorted(chosen)
    if last.start - first.end > TIGHT or COMMA.search(text, first.end, last.start):
        return 0.6
    things = near.get("thing", ())
    return 0.6 if any(-TIGHT <= thing.start - last.end <= TIGHT for thing in things) else 1.0


def _is_said_of_oneself(text: str, verb: Event, boss: Event) -> bool:
    return verb.end <= boss.start <= verb.end + 14 and not COMMA.search(text, verb.end, boss.start)


def _is_order(text: str, verb: Event) -> bool:
    """Whether the verb begins a sentence, or stands at its end where verbs stand there."""
    if VERBS_LAST.match(text, verb.start):
        return True
    return ORDER.search(text[max(0, verb.start - 16) : verb.start]) is not None


def _mention(text: str, found: Finding) -> float:
    """By what the score of a form is multiplied that is spoken of rather than used."""
    start = max(text.rfind("\n", 0, found.start) + 1, found.start - 200)
    end = text.find("\n", found.end, found.end + 120)
    line = text[start : end if end >= 0 else found.end + 120]
    if not any(event.kind == "talk" for event in lexicon().events(line)):
        return 1.0
    before = text[max(start, found.start - SLACK) : found.start]
    after = text[found.end : found.end + SLACK]
    quoted = any(mark in before for mark in QUOTES) and any(mark in after for mark in QUOTES)
    return 0.6 if quoted else 0.85
