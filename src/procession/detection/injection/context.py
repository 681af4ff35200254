"""What a form is about: prompts in general, the speaker's own words, or the rules of a document."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .lexicon import LANGUAGES

if TYPE_CHECKING:
    from .lexicon import Event

__all__ = ["about_context"]

ENGLISH = 1 << LANGUAGES.index("en")
SUBJECT_FIRST = ENGLISH
GENERAL = 0.6
"""By what a score is multiplied that is about system prompts as such."""
SPEAKER = 0.6
"""The same, where what is to be forgotten are the speaker's own words."""
DOCUMENT = 0.7
"""The same, where the instructions are those of a section, a contract or a label."""
BEFORE = 40
AFTER = 30

_YOUR = r"(?:your|dein\w*|ihre?\w*|votre|vos|ton|tes|tus?|sus?|tuoi?|tuo|seus?|suas?|je|jouw)"
INDEFINITE = re.compile(
    r"\b(?:an?|another|une?|uno|una|eine?[nmrs]?|uma?|een)"
    rf"(?: (?!(?:of|the|this|all|{_YOUR}) )[\w-]+){{0,2}} ?\Z"
)
"""A prompt, a good system prompt: none in particular."""
OWNED = re.compile(
    rf"\b(?P<owner>{_YOUR})(?: [\w-]+){{0,2}} ?\Z|\b(?:the|this|all)(?: [\w-]+)? ?\Z"
)
MANY = re.compile(r"prompts\Z")
CONCEPT = re.compile(
    r"\b(?:purpose|role|point|idea|concept|meaning|definition|differences?|advantages?|benefits?"
    r"|importance|best practices?|how to|why|zweck|rolle|unterschiede?|bedeutung|vorteile?|but"
    r"|utilite|proposito|diferencias?|papel|scopo|ruolo|differenz[ae]|finalidade|diferencas?|doel|verschil)\b"
)
MANNER = re.compile(r"\b(?:how|wie|comment|como|come|hoe)\b")
WORKS = re.compile(
    r" ?(?:works?|functions?|helps?|funktionier|fonctionn|funciona|werk|is used|are used)"
)
SAID_BY_SPEAKER = re.compile(
    r"\b(?:i|we)(?: ?['\u2019]?(?:have|had|ve|d|just|already|myself))* ?\Z"
)
OF_A_MATTER = re.compile(
    r" (?:on|for|to|of|in|at|about|regarding|fur|bei|pour|sur|para|en|per|su|voor|op)"
    r" (?!(?:this (?:chat|conversation|session)|you|me|us|dich|sie|toi|vous|ti|te|voce|jou|je"
    r"|what you|how you)\b)"
)
ABOUT_OWN = ("show", "reveal", "echo", "send", "textof", "void", "wipe", "off", "ign")
OWN = ("own", "brief", "safe", "limit", "sysp", "sysmsg", "origin")
ABOUT_SOMETHING = re.compile(
    r" (?:files?|folders?|videos?|booklets?|leaflets?|sheets?)\b"
    r"| (?:on|for|of|about|regarding|at|from) (?!(?:an? test|now|once|good|the (?:test|rest|moment)"
    r"|this|these|you|your|me|us|what|all|any|no)\b)"
)
"""What makes instructions or filters those of something else: "for returning a parcel"."""
NAMED_BY = re.compile(
    r"(?:^|[.!?,;:\n\"'(>]|\b(?:your|the|these|those|any|all|such|of|old|new|own|original|initial"
    r"|previous|prior|earlier|former|existing|current|system|safety|content|internal|ethical|moral"
    r"|ai|usual|normal|real|hidden|secret|built-in|default|core|openai|first)) ?\Z"
)
"""What may stand before rules that are the model's own: no word for a matter."""
_THIS = r"(?:this|these|your|diese\w*|cet|cette|ces|este|esta|questo|questa|dit|deze)"
WITHIN = re.compile(
    r"(?:[ \n][\w-]+)?[ \n](?:in|of|on|from|under|at|for|im|auf|von|vom|aus|des|der|dans|de|du|sur"
    r"|en|del|della|nel|nella|na|no|nas|nos|da|do|op|van|uit|w|z|ze|в|из|на)"
    rf"(?:[ \n'\u2019](?!{_THIS}\b)[\w\u00a7-]+){{0,3}}[ \n'\u2019]\Z"
)
"""What stands between instructions and the document that has them, unless that speaks of itself."""
SENTENCE = re.compile(r"[.!?\n]")
SAID_THERE = re.compile(r"(?:messages?|comments?|questions?|nachricht|mensa|messag|bericht|сообщ)")
"""What may be a part of the conversation itself is no document."""


def about_context(
    text: str, verb: Event, chosen: list[Event], near: dict[str, list[Event]]
) -> float:
    """By what a score is multiplied where the words are about something else than the model."""
    doubt = 1.0
    for event in chosen:
        if event.kind == "sysp" and _is_general(text, verb, event):
            doubt *= GENERAL
    if verb.kind == "ign" and any(
        _is_the_speakers(text, verb, told) for told in near.get("told", ())
    ):
        doubt *= SPEAKER
    if verb.kind in ("ign", "obey") and _is_of_a_document(text, verb, near):
        doubt *= DOCUMENT
    if verb.kind == "dan" and text.startswith(" that ", verb.end):
        doubt *= GENERAL
    if verb.kind in ("bound", "wipe") and any(
        OF_A_MATTER.match(text, event.end) for event in chosen
    ):
        doubt *= GENERAL
    if verb.kind in ABOUT_OWN and any(
        event.kind in OWN and ABOUT_SOMETHING.match(text, event.end) for event in chosen
    ):
        doubt *= GENERAL
    for event in (verb, *chosen):
        if event.kind == "void":
            doubt *= _validity(text, event, chosen, near)
    return doubt


def _validity(text: str, verb: Event, chosen: list[Event], near: dict[str, list[Event]]) -> float:
    """Whether it is said of the model's rules that they are void, and not of those for parking."""
    rules = next((event for event in chosen if event.kind in OWN), None)
    if rules is None:
        return 1.0
    if rules.start > verb.start and rules.languages & SUBJECT_FIRST:
        return GENERAL
    if rules.languages & ENGLISH:
        is_own = NAMED_BY.search(text[max(0, rules.start - BEFORE) : rules.start]) is not None
    else:
        is_own = any(your.languages & rules.languages for your in near.get("your", ()))
    return 1.0 if is_own else DOCUMENT


def _is_the_speakers(text: str, verb: Event, told: Event) -> bool:
    before = text[max(verb.end, told.start - BEFORE) : told.start] if verb.end <= told.start else ""
    return SAID_BY_SPEAKER.search(before) is not None


def _is_general(text: str, verb: Event, prompt: Event) -> bool:
    """Whether it is about system prompts, rather than about this one."""
    before = text[max(0, prompt.start - BEFORE) : prompt.start]
    if INDEFINITE.search(before):
        return True
    owned = OWNED.search(before)
    if MANY.search(text, prompt.start, prompt.end) and not owned:
        return True
    if verb.end > prompt.start or (owned and owned["owner"]):
        return False
    between = text[verb.start : prompt.start]
    return bool(
        CONCEPT.search(between) or (MANNER.search(between) and WORKS.match(text, prompt.end))
    )


def _is_of_a_document(text: str, verb: Event, near: dict[str, list[Event]]) -> bool:
    """Whether the instructions are in a part of a document that is named right behind them."""
    following = [rules for rules in near.get("rules", ()) if rules.start >= verb.end]
    if not following:
        return False
    rules = min(following)
    if SENTENCE.search(text, verb.end, rules.start):
        return False
    return any(
        rules.end < thing.start <= rules.end + AFTER
        and WITHIN.match(text, rules.end, thing.start)
        and not SAID_THERE.match(text, thing.start)
        for thing in near.get("thing", ())
    )
