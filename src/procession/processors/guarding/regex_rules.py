"""Rules of `RegexFilterProcessor`: patterns that run in linear time, and what replaces a match."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ...errors import ConfigurationError, InputError, OptionError
from ...hold import Pattern
from ...keywords import TakesOptions
from ...records import clean_text
from ..option_checks import one_of

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["REDACTED", "CompiledRule", "Hit", "RegexRule", "RuleSet", "compiled"]

REDACTED = "[REDACTED]"
"""What replaces a match of a rule without a replacement of its own (B-232)."""

_FLAGS = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s"}
_NO_EFFECT = re.ASCII | re.UNICODE
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(Z)|.)", re.DOTALL)
_REFERENCE = re.compile(
    r"\\(?P<back>[0-9]{1,2})|\\g<(?P<name>\w+)>|\$(?P<dollar>[0-9]{1,2})"
    r"|\$<(?P<dollar_name>\w+)>|(?P<whole>\$&)|(?P<literal>\$\$|\\\\)"
)
_HINTS = (
    (
        ("(?=", "(?!", "(?<"),
        "it looks around, which cannot be done in linear time. Match what stands around as well, "
        r"and keep it with a group: pattern r'(key=)\w+', replacement r'\1[REDACTED]'",
    ),
    (
        ("operator: (?P", r"sequence: \1", r"sequence: \2", r"sequence: \3", r"sequence: \4"),
        "it refers back to a group, which cannot be done in linear time. Write the alternatives "
        """out: r'"[^"]*"|\\'[^\\']*\\'' in place of r'(["\\']).*?\\1'""",
    ),
    (
        ("(?>", "*+", "++", "?+"),
        "it must not give back what it has matched, for which there is no need in linear time. "
        "Write an ordinary repetition",
    ),
    (("(?x", "(?#", "(?(", "(?a", "(?u", "(?L"), "linear-time patterns know no such group"),
)


@dataclass(frozen=True, slots=True)
class RegexRule(TakesOptions):
    """What to look for, and what to put in its place (B-230, B-232).

    `pattern` is a text in the syntax of RE2, or a compiled `re.Pattern`, of which text and flags
    are taken. `flags` are those of `re`: `IGNORECASE`, `MULTILINE`, `DOTALL`. Letters, digits and
    word borders (`\\w`, `\\d`, `\\b`) are those of ASCII; `\\p{L}` is any letter.

    `replacement` may refer to groups: `\\1`, `\\g<name>`, `$1`, `$<name>`, and `$&` for the whole
    match.
    """

    name: str
    pattern: str | re.Pattern[str]
    replacement: str | None = None
    flags: int = 0


class Hit(NamedTuple):
    """One match of a rule: where, and what would replace it if nothing else overlapped it."""

    start: int
    end: int
    rule: CompiledRule
    replacement: str


class CompiledRule:
    """A rule that is ready to be looked for."""

    def __init__(self, rule: RegexRule) -> None:
        self.name = rule.name
        self.source = _source(rule)
        self.regex: Any = _regex(rule.name, self.source)
        self.template = _template(rule, self.regex)

    @property
    def plain_replacement(self) -> str:
        """The replacement without what it takes from groups: those of a match that overlaps
        another one may hold what the other rule removes (B-232)."""
        if all(isinstance(piece, str) for piece in self.template):
            return "".join(cast("list[str]", self.template))
        return REDACTED

    def watch(self, carryover: int) -> Pattern:
        """What holds a stream back for this rule; see `Pattern` for `carryover`."""
        try:
            return Pattern(self.source, carryover=carryover)
        except InputError as error:
            raise OptionError(f"rule {self.name!r}: {error}") from None
        except RecursionError:
            raise OptionError(f"rule {self.name!r}: pattern nests groups too deeply") from None

    def hits(self, text: _Encoded, start: int) -> Iterator[Hit]:
        """All matches that begin at the character `start` or later, from left to right."""
        for match in self.regex.finditer(text.data, text.byte_at(start)):
            begin, end = match.span()
            yield Hit(text.char_at(begin), text.char_at(end), self, self._replacement(text, match))

    def _replacement(self, text: _Encoded, match: Any) -> str:
        pieces: list[str] = []
        for piece in self.template:
            if isinstance(piece, str):
                pieces.append(piece)
                continue
            begin, end = match.span(piece)
            if begin >= 0:
                pieces.append(text.data[begin:end].decode())
        return "".join(pieces)


class _Encoded:
    """A text as the bytes that patterns run on, and where its characters stand in them."""

    __slots__ = ("_at", "_chars", "_is_ascii", "data")

    def __init__(self, text: str) -> None:
        self._is_ascii = text.isascii()
        try:
            self.data = text.encode()
        except UnicodeEncodeError:  # half a character: no rule is about that
            self.data = text.encode("utf-8", "replace")
        self._at = self._chars = 0

    def byte_at(self, char: int) -> int:
        if self._is_ascii:
            return char
        return len(self.data.decode()[:char].encode())

    def char_at(self, byte: int) -> int:
        if self._is_ascii:
            return byte
        if byte < self._at:
            self._at = self._chars = 0
        self._chars += len(self.data[self._at : byte].decode())
        self._at = byte
        return self._chars


class RuleSet:
    """Rules that are looked for together."""

    def __init__(self, rules: Sequence[CompiledRule]) -> None:
        self.rules = rules
        self._any = _alternation([rule.source for rule in rules])

    def hits(self, text: str, start: int = 0) -> list[Hit]:
        """All matches of all rules that begin at `start` or later; rules match independently."""
        encoded = _Encoded(text)
        if self._any is not None and not self._any.search(encoded.data, encoded.byte_at(start)):
            return []
        return [hit for rule in self.rules for hit in rule.hits(encoded, start)]


def _alternation(sources: Sequence[str]) -> Any:
    """One expression that says in one go that there is nothing; `None`: it would be too large."""
    re2: Any = import_module("re2")
    options = re2.Options()
    options.log_errors, options.never_capture = False, True
    try:
        return re2.compile("|".join(f"(?:{source})" for source in sources), options)
    except re2.error:
        return None


def compiled(owner: str, rules: Any) -> list[CompiledRule]:
    """The rules, checked and ready; raises `OptionError`, a `ValueError`, for one that is none."""
    if isinstance(rules, str | Mapping) or not hasattr(rules, "__iter__"):
        raise OptionError(f"{owner}: rules must be a list of RegexRule")
    return [CompiledRule(_rule(owner, rule)) for rule in rules]


def _rule(owner: str, given: Any) -> RegexRule:
    if isinstance(given, Mapping):
        entries = cast("Mapping[str, Any]", given)
        names = [field.name for field in fields(RegexRule)]
        for key in entries:
            one_of(owner, "a key of a rule", key, names)
        missing = [key for key in ("name", "pattern") if key not in entries]
        if missing:
            raise OptionError(f"{owner}: each of rules needs a {missing[0]}")
        given = RegexRule(**entries)
    if not isinstance(given, RegexRule):
        raise OptionError(
            f"{owner}: each of rules must be a RegexRule, or a mapping with its fields, "
            f"not {type(given).__name__}"
        )
    return given


def _given(value: Any) -> Any:
    """A value of which its annotation is a promise only: not everyone checks types."""
    return value


def _source(rule: RegexRule) -> str:
    """The pattern as RE2 reads it, flags included."""
    name, pattern, flags = _given(rule.name), _given(rule.pattern), _given(rule.flags)
    if not isinstance(name, str) or not name:
        raise OptionError("RegexRule: name must be a text that is not empty")
    if not isinstance(flags, int) or isinstance(flags, bool):
        raise OptionError(
            f"rule {name!r}: flags must be those of re, such as re.IGNORECASE, "
            f"not {type(flags).__name__}"
        )
    if isinstance(pattern, re.Pattern):
        compiled = cast("re.Pattern[Any]", pattern)
        pattern, flags = compiled.pattern, flags | compiled.flags
    if not isinstance(pattern, str) or not pattern:
        raise OptionError(f"rule {name!r}: pattern must be a text that is not empty")
    if flags & re.VERBOSE:
        raise OptionError(f"rule {name!r}: write the pattern without re.VERBOSE, in one line")
    unknown = flags & ~(re.IGNORECASE | re.MULTILINE | re.DOTALL | _NO_EFFECT)
    if unknown:
        raise OptionError(
            f"rule {name!r}: flags may be re.IGNORECASE, re.MULTILINE and re.DOTALL only"
        )
    letters = "".join(letter for flag, letter in _FLAGS.items() if flags & flag)
    prefix = f"(?{letters})" if letters else ""
    return prefix + _ESCAPE.sub(_in_re2, pattern)


def _in_re2(escape: re.Match[str]) -> str:
    """Python's spelling of an escape in RE2's."""
    code = escape[1] or escape[2]
    if code:
        return f"\\x{{{code}}}"
    return r"\z" if escape[3] else escape[0]


def _regex(name: str, source: str) -> Any:
    try:
        re2: Any = import_module("re2")
    except ImportError:
        raise ConfigurationError(
            "patterns in linear time need an extra: pip install 'procession[guards]'"
        ) from None
    options = re2.Options()
    options.log_errors = False
    try:
        made: Any = re2.compile(source, options)
    except re2.error as error:
        problem: Any = error.args[0] if error.args else b""
        raise OptionError(f"rule {name!r}: {_why(problem)}") from None
    except UnicodeEncodeError:
        raise OptionError(f"rule {name!r}: the pattern holds half a character") from None
    return made


def _why(problem: Any) -> str:
    words = problem.decode(errors="replace") if isinstance(problem, bytes) else str(problem)
    for marks, hint in _HINTS:
        if any(mark in words for mark in marks):
            return f"this pattern cannot be used: {hint}"
    return f"not a pattern: {words}"


def _template(rule: RegexRule, regex: Any) -> list[str | int]:
    """The replacement in pieces: texts, and numbers of groups."""
    given = REDACTED if rule.replacement is None else _given(rule.replacement)
    if not isinstance(given, str):
        raise OptionError(f"rule {rule.name!r}: replacement must be a text")
    if clean_text(given) != given:
        raise OptionError(f"rule {rule.name!r}: replacement holds half a character")
    pieces: list[str | int] = []
    done = 0
    for found in _REFERENCE.finditer(given):
        pieces.append(given[done : found.start()])
        pieces.append(_group(rule.name, regex, found))
        done = found.end()
    pieces.append(given[done:])
    return [piece for piece in pieces if piece != ""]


def _group(name: str, regex: Any, found: re.Match[str]) -> str | int:
    if found["literal"]:
        return found["literal"][0]
    if found["whole"]:
        return 0
    wanted = found["back"] or found["name"] or found["dollar"] or found["dollar_name"]
    number = int(wanted) if wanted.isdigit() else regex.groupindex.get(wanted, -1)
    if 0 <= number <= regex.groups:
        return number
    raise OptionError(
        f"rule {name!r}: its replacement refers to group {wanted!r}, which its pattern does not "
        f"have; write $$ or a doubled backslash for the sign itself"
    )
