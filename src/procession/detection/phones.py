"""Phone numbers: international ones of every country, national ones of chosen countries."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import OptionError
from .extras import library
from .phone_words import AGAINST, FOR, WORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .scan import Scan

__all__ = ["DEFAULT_REGIONS", "checked_regions", "phone_finder"]

Found = tuple[int, int, float]

DEFAULT_REGIONS = ("US", "GB", "FR", "DE", "ES", "IT", "CN", "KR", "JP", "BR", "IN")
"""Countries whose national numbers are looked for unless others are named."""

LOOSE_LEFT = r"(?<![A-Za-z0-9\xe9+])(?<![A-Za-z0-9][-.#@])"
LOOSE_RIGHT = r"(?![A-Za-z0-9\xe9]|[-.:@%][0-9A-Za-z])"
# A number may be part of a row, but is no day of a date, nor thousands, nor does it have decimals.
LEFT = rf"{LOOSE_LEFT}(?<![0-9]/)(?!(?<=[0-9],)[0-9]{{3}}(?![0-9]))(?<!(?<![0-9])[01],)"
RIGHT = rf"{LOOSE_RIGHT}(?!/[0-9]|,[0-9]{{1,2}}(?![0-9,;/-]))"
GAP = r"(?:[ \t]{1,2}|[-./]|[ \t][-/][ \t])"
MARKED_GAP = rf"(?:(?:\*\*|__)?+{GAP}(?:\*\*|__)?+)"
NEXT_LINE = r"(?:(?:\*\*|__)?+[ \t]?\r?\n[ \t]?(?:\*\*|__)?+)"
EXTENSION = r"(?:x[0-9]{1,6})?"

ABROAD = re.compile(
    r"(?<![A-Za-z0-9\xe9+])(?<![0-9][-.])"
    r"\(?(?:\+|(?<![0-9][,/(])(?:00(?=\(?[1-9])|011[ -](?=[1-9])))(?=\(?[1-9])"
)
NOT_A_PHONE = re.compile(
    r"(?:[0-9]{1,3}[.,][0-9]{4,}|[0-9]{1,2}[-./ ][0-9]{1,2}[-./ ](?:19|20)[0-9]{2}"
    r"|(?:19|20)[0-9]{2}[-./ ][0-9]{1,2}[-./ ][0-9]{1,2}"
    r"|(?:19|20)[0-9]{2}[01][0-9][0-3][0-9]|0?1234567890?"
    r"|[0-9]{1,3}(?:\.[0-9]{1,3}){3})\Z"
)
BODY = re.compile(rf"\(?[0-9](?:\)?{MARKED_GAP}?\(?[0-9]){{6,17}}")
BROKEN_BODY = re.compile(
    rf"\(?[0-9](?:\)?{MARKED_GAP}?\(?[0-9]){{1,7}}+\)?{NEXT_LINE}\(?[0-9]"
    rf"(?:\)?{MARKED_GAP}?\(?[0-9]){{1,15}}"
)
BODY_SIZE = 64
END = re.compile(rf"{EXTENSION}{LOOSE_RIGHT}")
PRICE_END = re.compile(r"/[0-9]|,[0-9]{1,2}(?![0-9,;/-])")
GROUP_END = re.compile(r"[0-9](?![0-9])")
REGION = re.compile(r"[A-Z]{2}\Z")
MEANT = {
    "UK": "GB",
    "EN": "GB",
    "USA": "US",
    "EL": "GR",
    "JA": "JP",
    "ZH": "CN",
    "KO": "KR",
    "CS": "CZ",
    "DA": "DK",
}
"""Codes that people use for countries, of languages for instance."""


class Form(NamedTuple):
    """A national way of writing. `regions`: where it is used, all for none. `bare`: other numbers
    look like this, so a word has to speak for it. `loose`: right by its looks alone."""

    pattern: re.Pattern[str]
    regions: frozenset[str] = frozenset()
    bare: bool = False
    loose: bool = False


def form(pattern: str, *regions: str, bare: bool = False, loose: bool = False) -> Form:
    """The form, with what may stand around it; every place is tried."""
    left, right = (LOOSE_LEFT, LOOSE_RIGHT) if loose else (LEFT, RIGHT)
    whole = re.compile(f"{left}(?=({pattern}{EXTENSION}){right})")
    return Form(whole, frozenset(regions), bare, loose)


VALID = 0.95
"""How sure it is that a number of the plans is one."""

FORMS = (
    form(
        r"(?:1[-. ])?(?:\([1-9][0-9]{2}\)[ \t]?|[1-9][0-9]{2}[-.])[0-9]{3}[-. ][0-9]{4}",
        "US",
        "CA",
        loose=True,
    ),
    form(r"(?:1[-. ])?[2-9][0-9]{2}[ \t][0-9]{3}[- \t][0-9]{4}", "US", "CA"),
    form(rf"\(0[0-9]{{1,5}}\){GAP}?[0-9]{{2,8}}(?:{GAP}[0-9]{{2,6}}){{0,4}}"),
    form(rf"0[0-9]{{1,5}}(?:{GAP}[0-9]{{2,8}}){{1,5}}"),
    form(rf"0[0-9](?:{GAP}?[0-9]{{2}}){{4}}", "FR"),
    form(r"01[0-9]{8,9}|0[2-9][0-9]{7,9}", bare=True),
    form(r"1[3-9][0-9](?:[ \t-]?[0-9]{4}){2}", "CN"),
    form(r"[6-9][0-9]{2}(?:[ \t.-][0-9]{2}){3}", "ES"),
    form(r"[6-9][0-9]{2}(?:[ \t.-][0-9]{3}){2}", "ES", bare=True),
    form(r"3[0-9]{2}(?:[ \t.-][0-9]{6,7}|[ \t.-][0-9]{3}[ \t.-][0-9]{3,4})", "IT"),
    form(r"\(?0?[1-9][0-9]\)?[ \t-]?9?[0-9]{4}[ \t-][0-9]{4}", "BR"),
    form(r"[6-9][0-9]{4}[ \t-][0-9]{5}", "IN"),
    form(rf"\(?[0-9]{{2,5}}\)?(?:{GAP}?[0-9]{{2,8}}){{1,4}}|[0-9]{{7,12}}", bare=True),
)


def checked_regions(regions: Iterable[str] | None) -> tuple[str, ...]:
    """The codes of countries, in the order given; raises `OptionError` for what is none."""
    if regions is None:
        return DEFAULT_REGIONS
    found = (regions,) if isinstance(regions, str) else tuple(regions)
    for code in found:
        if not REGION.match(str(code)):
            raise OptionError(
                f"regions: {code!r} is no two-letter code of a country such as 'DE'"
                + _hint(str(code))
            )
    return tuple(dict.fromkeys(found))


def _hint(code: str) -> str:
    """What was meant by a code that is none, where that can be told."""
    upper = code.upper()
    meant = MEANT.get(upper) or (upper if upper != code and REGION.match(upper) else None)
    return f"; did you mean {meant!r}?" if meant else ""


def phone_finder(regions: tuple[str, ...]) -> Callable[[Scan], Iterator[Found]]:
    """Phone numbers as the plans of their countries have them."""
    return PhoneFinder(library("phonenumbers", "phone"), regions).find


HASH = "[HASH:"
"""What stands for a value that was found, and may be of nothing but digits."""


class PhoneFinder:
    """Candidates by their looks, judged by the numbering plans."""

    def __init__(self, plans: Any, regions: tuple[str, ...]) -> None:
        unknown = sorted(set(regions) - set(plans.SUPPORTED_REGIONS))
        if unknown:
            named = ", ".join(map(repr, unknown))
            hint = _hint(unknown[0]) if len(unknown) == 1 else ""
            raise OptionError(f"regions: no phone numbers are known of {named}{hint}")
        self._plans = plans
        self._regions = regions
        self._forms = [form for form in FORMS if not form.regions or form.regions & set(regions)]

    def find(self, scan: Scan) -> Iterator[Found]:
        """All numbers, international ones first."""
        yield from self._abroad(scan)
        mentioned = scan.mentions(WORDS)
        for form in self._forms:
            if form.bare and not mentioned:
                continue
            for match in form.pattern.finditer(scan.text):
                start, end = match.span(1)
                if scan.text.endswith(HASH, 0, start):
                    continue
                said = self._said(scan, start) if mentioned else self._denied(scan, start)
                if said <= 0 and not self._may_stand(scan, start, end, form, said):
                    continue
                confidence = self._national(match[1], form, spoken=said > 0)
                if confidence:
                    yield start, end, confidence

    def _said(self, scan: Scan, start: int) -> int:
        """What the words before say: 1 that it is a phone number, -1 that it is another, or 0. The
        later word counts."""
        spoken, denied = scan.place_beside(FOR, start), scan.place_beside(AGAINST, start)
        return (spoken > denied) - (spoken < denied)

    def _denied(self, scan: Scan, start: int) -> int:
        """-1 if a word before says that it is another number, or 0."""
        return -1 if scan.place_beside(AGAINST, start) >= 0 else 0

    def _may_stand(self, scan: Scan, start: int, end: int, form: Form, said: int) -> bool:
        """Whether a number may be one without a word that says so."""
        if form.loose:
            return True
        if form.bare or said < 0:
            return False
        return " " not in scan.text[start:end] or scan.is_alone(start, end)

    def _abroad(self, scan: Scan) -> Iterator[Found]:
        for head in ABROAD.finditer(scan.text):
            end, confidence = self._from(scan, head, BODY)
            if confidence < VALID and "+" in head[0] and "\n" in scan.text:
                over = self._from(scan, head, BROKEN_BODY)
                if over[1] == VALID:
                    end, confidence = over
            if confidence:
                yield head.start(), end, confidence

    def _from(self, scan: Scan, head: re.Match[str], form: re.Pattern[str]) -> tuple[int, float]:
        """Where the number of this form ends that begins so, and how sure it is; 0: it is none.

        `00` is not meant as `+` amid other numbers, nor where words say what else it is.
        """
        body = form.match(scan.text, head.end(), head.end() + BODY_SIZE)
        if body is None:
            return 0, 0.0
        said = self._said(scan, head.start())
        zeros = "+" not in head[0]
        if zeros and said <= 0 and (said or not scan.is_first(head.start())):
            return 0, 0.0
        end, confidence = self._furthest(scan.text, head, body, said)
        if zeros and said <= 0 and not scan.is_last(end):
            return 0, 0.0
        return end, confidence

    def _furthest(
        self, text: str, head: re.Match[str], body: re.Match[str], said: int
    ) -> tuple[int, float]:
        """Where the longest valid number ends, or else the longest possible one."""
        best = head.end(), 0.0
        for end in group_ends(text, *body.span()):
            finish = END.match(text, end)
            confidence = self._foreign(head[0], text[body.start() : end], said) if finish else 0.0
            if confidence < VALID and PRICE_END.match(text, end):
                continue
            if finish and confidence > best[1]:
                best = finish.end(), confidence
            if confidence == VALID:
                break
        return best

    def _foreign(self, head: str, body: str, said: int) -> float:
        """How sure it is that this is a number with a country code; 0: it is none."""
        digits = digits_of(body)
        number = self._parsed("+" + digits, None)
        if number is None:
            return 0.0
        if self._plans.is_valid_number(number):
            return VALID
        if self._plans.is_possible_number(number) and ("+" in head or len(digits) < len(body)):
            return 0.75
        return 0.65 if "+" in head and said > 0 and 8 <= len(digits) <= 15 else 0.0

    def _national(self, value: str, form: Form, *, spoken: bool) -> float:
        """How sure it is that this is a number of one of the countries; 0: it is none."""
        digits = digits_of(value.partition("x")[0])
        most = 12 if form.bare else 13
        if not (7 if spoken else 9) <= len(digits) <= most or NOT_A_PHONE.match(value):
            return 0.0
        if form.loose:
            return 0.95 if spoken else 0.85
        regions = form.regions & set(self._regions) if form.regions else self._regions
        numbers = [(region, self._parsed(digits, region)) for region in regions]
        if any(
            number and self._plans.is_valid_number_for_region(number, region)
            for region, number in numbers
        ):
            return 0.95 if spoken else 0.8
        possible = spoken and any(
            number and self._plans.is_possible_number(number) for _, number in numbers
        )
        return 0.7 if possible else 0.0

    def _parsed(self, digits: str, region: str | None) -> Any:
        try:
            return self._plans.parse(digits, region)
        except self._plans.NumberParseException:
            return None


def group_ends(text: str, start: int, end: int) -> list[int]:
    """Where groups of digits end, the last first; a closing bracket is not part of them."""
    return [match.end() for match in GROUP_END.finditer(text, start, end)][::-1]


def digits_of(text: str) -> str:
    """The digits of a folded text."""
    return "".join(filter(str.isdigit, text))
