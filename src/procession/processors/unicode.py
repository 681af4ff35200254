"""`UnicodeNormalizer`: one spelling for one text, before anything looks at it (B-210 to B-215)."""

from __future__ import annotations

import logging
import re
from functools import cache
from typing import TYPE_CHECKING, Any
from unicodedata import combining, decomposition, normalize

from .builtin import BuiltIn
from .message_text import with_texts
from .option_checks import flag

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..messages import Message
    from ..policy import Policy
    from ..processor import ProcessInputArgs, ProcessorViolation

__all__ = ["UnicodeNormalizer"]

_log = logging.getLogger("procession.processors")

_CONTROLS = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
_JOINERS = "\u200d\ufe00-\ufe0f\U000e0020-\U000e007f\U000e0100-\U000e01ef"
"""What builds emojis of several characters: joiner, variation selectors, tags of flags.

Invisible, they can carry a text that only the model reads.
"""
_IGNORED = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
"""What Unicode says is to be ignored where it is displayed, and marks of annotations."""
_EMOJI = (
    "[\u00a9\u00ae\u2190-\u21ff\u231a\u231b\u2328\u23cf\u23e9-\u23fa\u25a0-\u27bf\u2900-\u297f"
    "\u2b00-\u2bff\u3030\u303d\U0001f000-\U0001f0ff\U0001f170-\U0001f18f\U0001f1e6-\U0001f1ff"
    "\U0001f300-\U0001faff][\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]?"
)
"""A picture that NFKC leaves as it is, with how it is drawn."""
_FLAGS = "|".join(
    "".join(chr(0xE0000 + ord(letter)) for letter in region)
    for region in ("gbeng", "gbsct", "gbwls")
)
_EMOJIS = f"(\U0001f3f4(?:{_FLAGS})\U000e007f|{_EMOJI}(?:\u200d{_EMOJI})*|[0-9#*]\ufe0f\u20e3|)"
"""What is made of several characters and shows as one; or nothing."""
_ignored = re.compile(f"[{_IGNORED}]+")
_ignored_but_in_emojis = re.compile(f"{_EMOJIS}[{_IGNORED}]*")
_control = re.compile(f"[{_CONTROLS}]")
_control_or_joiner = re.compile(f"[{_CONTROLS}{_JOINERS}]")
_line_break = re.compile("\r\n|[\r\v\f\x85\u2028\u2029]")
_spaces = re.compile("[ \t]+")
_line_breaks = re.compile("\n{2,}")

_SHORT = 1000
"""In so short a text (characters) marks in any order cost little: no need to look for them."""
_FIRST_MARK, _LAST_MARK = 0x300, 0x1E94A


class UnicodeNormalizer(BuiltIn):
    """Brings the texts of messages into one form: NFKC, and by choice without controls and gaps.

    `strip_control_chars` removes C0 and C1 controls but tab and line breaks; with
    `preserve_emojis=False` also what joins several characters to one emoji. `strip_format_chars`
    removes what shows nothing: zero-width and writing-direction marks, soft hyphens, fillers, tags,
    selectors; with `preserve_emojis` those stay that make an emoji. `collapse_whitespace`
    makes one space of spaces and tabs in a row, one line break of several of any kind. `trim`
    strips both ends. Files, tool calls and other parts stay as they are; nothing is ever blocked.

    The time it takes is in proportion to the text, whatever it is made of. Applied twice it gives
    what it gives once.
    """

    fixed_id = "unicode-normalizer"
    name = "Unicode Normalizer"

    def __init__(
        self,
        *,
        strip_control_chars: bool = False,
        strip_format_chars: bool = False,
        preserve_emojis: bool = True,
        collapse_whitespace: bool = True,
        trim: bool = True,
        on_violation: Callable[[ProcessorViolation], object] | None = None,
        policy: Policy | None = None,
    ) -> None:
        super().__init__(on_violation=on_violation, policy=policy)
        owner = type(self).__name__
        strip = flag(owner, "strip_control_chars", strip_control_chars)
        keep_emojis = flag(owner, "preserve_emojis", preserve_emojis)
        self._collapses = flag(owner, "collapse_whitespace", collapse_whitespace)
        self._trims = flag(owner, "trim", trim)
        unseen = _ignored_but_in_emojis if keep_emojis else _ignored
        self._unseen = unseen if flag(owner, "strip_format_chars", strip_format_chars) else None
        self._removed = (_control if keep_emojis else _control_or_joiner) if strip else None

    def process_input(self, args: ProcessInputArgs[Any]) -> list[Message] | None:
        """The messages with normalised texts; `None` when all were normal before."""
        messages = args.messages
        made = list(map(self._normalized, messages))
        same = all(new is old for new, old in zip(made, messages, strict=True))
        return None if same else made

    def _normalized(self, message: Message) -> Message:
        try:
            return with_texts(message, self._normal)
        except Exception as error:  # one odd message must not cost the others theirs (B-215)
            _log.warning(
                "processor %r: normalising message %r raised %s; it passes unchanged",
                *(self.id, message.id, type(error).__name__),
            )
            return message

    def _normal(self, text: str) -> str:
        # The order makes the result final: what is removed brings neighbours together that NFKC
        # may join, and only NFKC tells which characters are spaces.
        if self._collapses:
            text = _line_break.sub("\n", text)  # some are controls, too: they would be lost
        if self._removed is not None:
            text = self._removed.sub("", text)
        if self._unseen is not None and not text.isascii():
            text = self._unseen.sub(_emoji_of, text)
        text = nfkc(text)
        if self._collapses:
            text = _line_breaks.sub("\n", _spaces.sub(" ", text))
        return text.strip() if self._trims else text


def _emoji_of(run: re.Match[str]) -> str:
    return run[1] if run.re.groups else ""


def nfkc(text: str) -> str:
    """NFKC in linear time.

    `unicodedata` brings the marks upon one character into order by insertion, which takes minutes
    for a million of them. Those of long runs are sorted here before.
    """
    if len(text) > _SHORT and not text.isascii():
        text = _many_marks().sub(_in_order, text)
    return normalize("NFKC", text)


def _in_order(run: re.Match[str]) -> str:
    marks = "".join([normalize("NFKD", mark) for mark in run[0]])
    return "".join(sorted(marks, key=combining))


@cache
def _many_marks() -> re.Pattern[str]:
    """Runs of more than 30 marks, which is what Unicode calls safe for a stream."""
    marks = "".join(filter(_is_mark, map(chr, range(_FIRST_MARK, _LAST_MARK + 1))))
    return re.compile(f"[{marks}]{{31,}}")


def _is_mark(character: str) -> bool:
    """Whether it belongs to the character before it once it is decomposed.

    Some marks that are made of several have no combining class of their own.
    """
    if combining(character):
        return True
    return bool(decomposition(character)) and combining(normalize("NFKD", character)[0]) != 0
