"""National ids of persons, each in its usual forms and with its country's checks."""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

from .extras import library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .scan import Scan

__all__ = ["NATIONAL_IDS", "finder"]

Found = tuple[int, int, float]

LEFT = r"(?<![A-Za-z0-9\xe9])(?<![A-Za-z0-9][.@#-])"
RIGHT = r"(?![A-Za-z0-9\xe9]|[-.@:][A-Za-z0-9])"
S = r"[ \t]"


class Form(NamedTuple):
    """A way of writing an id. `alone`: no other group of digits stands before or behind it.
    `words`: only where a word of the id's kind stands before it."""

    pattern: str
    confidence: float
    alone: bool = False
    words: bool = False


class NationalId(NamedTuple):
    """An id: its forms, the module that checks it, and the words that speak for it."""

    module: str
    words: str
    forms: tuple[Form, ...]


def groups(separator: str, *sizes: int) -> str:
    """Groups of digits of these sizes."""
    return separator.join(f"[0-9]{{{size}}}" for size in sizes)


NIR_FORM = (
    r"{}[0-9]{{2}}[ \t.]?[0-9]{{2}}[ \t.]?(?:[0-9]{{2}}|2[ABab])[ \t.]?[0-9]{{3}}"
    r"[ \t.]?[0-9]{{3}}[ \t./-]?[0-9]{{2}}"
)
NATIONAL_IDS: dict[str, NationalId] = {
    "ssn": NationalId(
        "us.ssn",
        r"ssn|social security|soc\.? sec|sozialversicherung|s\.s\.n",
        (
            Form(groups("-", 3, 2, 4), 0.9),
            Form(groups(S, 3, 2, 4), 0.7, alone=True),
            Form(groups(r"[ \t.]", 3, 2, 4), 0.9, words=True),
            Form("[0-9]{9}", 0.85, words=True),
        ),
    ),
    "us-itin": NationalId(
        "us.itin",
        r"itin|taxpayer|tax(?:payer)? id|tin\b",
        (
            Form(groups("-", 3, 2, 4), 0.9),
            Form(groups(S, 3, 2, 4), 0.9, words=True),
            Form("[0-9]{9}", 0.85, words=True),
        ),
    ),
    "uk-nino": NationalId(
        "",
        r"nino|national insurance|ni n(?:o|umber)",
        (
            Form(
                r"(?!BG|GB|NK|KN|TN|NT|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z]"
                r"(?:(?P<gap>[ \t-]?)[0-9]{2}[ \t-]?[0-9]{2}[ \t-]?[0-9]{2}[ \t-]?)[A-D]",
                0.9,
            ),
        ),
    ),
    "uk-nhs": NationalId(
        "gb.nhs",
        r"nhs|national health|patient",
        (
            Form(groups(r"[ \t-]", 3, 3, 4), 0.95, words=True),
            Form("[0-9]{10}", 0.95, words=True),
        ),
    ),
    "fr-nir": NationalId(
        "fr.nir",
        r"nir\b|s[eé]cu|sociale|insee",
        (
            Form(NIR_FORM.format(r"[12][ \t.]?"), 1.0),
            Form(NIR_FORM.format(r"[3478][ \t.]?"), 1.0, words=True),
        ),
    ),
    "de-idnr": NationalId(
        "de.idnr",
        r"steuer|idnr|id-nr|identifikationsnummer|tax|tin\b|st\.?-?nr|identnummer",
        (
            Form(groups(r"[ \t]", 2, 3, 3, 3), 0.9, alone=True),
            Form(groups(r"[ \t./-]", 2, 3, 3, 3), 0.95, words=True),
            Form("[0-9]{11}", 0.95, words=True),
        ),
    ),
    "es-dni": NationalId(
        "es.dni",
        r"dni|nif\b|identidad",
        (
            Form(r"[0-9]{8}[ \t-]?[A-HJ-NP-TV-Z]", 0.95),
            Form(r"[0-9]{8}-?[a-hj-np-tv-z]", 0.95),
            Form(r"[0-9]{2}\.[0-9]{3}\.[0-9]{3}[ -]?[A-HJ-NP-TV-Z]", 0.95),
        ),
    ),
    "es-nie": NationalId(
        "es.nie",
        r"nie\b|extranjero",
        (Form(r"[XYZxyz]-?[0-9]{7}-?[A-HJ-NP-TV-Za-hj-np-tv-z]", 0.95),),
    ),
    "it-cf": NationalId(
        "it.codicefiscale",
        r"codice fiscale|c\.?f\.?\b",
        (
            Form(
                r"[A-Za-z]{6}[0-9LMNPQRSTUVlmnpqrstuv]{2}[A-EHLMPR-Ta-ehlmpr-t]"
                r"[0-9LMNPQRSTUVlmnpqrstuv]{2}[A-Za-z][0-9LMNPQRSTUVlmnpqrstuv]{3}[A-Za-z]",
                1.0,
            ),
        ),
    ),
    "cn-ric": NationalId(
        "cn",
        r"身份证|身分证|id",
        (
            Form(
                r"[1-9][0-9]{5}[ \t]?(?:18|19|20)[0-9]{2}[01][0-9][0-3][0-9][ \t]?[0-9]{3}[0-9Xx]",
                1.0,
            ),
        ),
    ),
    "kr-rrn": NationalId(
        "kr",
        r"주민|등록번호|rrn|resident registration",
        (
            Form(r"[0-9]{2}[01][0-9][0-3][0-9](?:-|[ \t]-[ \t])[0-9]{7}", 0.95),
            Form(r"[0-9]{2}[01][0-9][0-3][0-9][ \t]?[0-9]{7}", 0.95, words=True),
        ),
    ),
    "jp-my-number": NationalId(
        "jp.in_",
        r"マイナンバー|個人番号|my ?number|individual number",
        (
            Form(groups(r"[ \t-]", 4, 4, 4), 0.75, alone=True),
            Form("[0-9]{12}", 0.95, words=True),
        ),
    ),
    "br-cpf": NationalId(
        "br.cpf",
        r"cpf|pessoa f[ií]sica",
        (
            Form(r"[0-9]{3}\.[0-9]{3}\.[0-9]{3}-[0-9]{2}", 1.0),
            Form(r"[0-9]{9}-[0-9]{2}", 0.95),
            Form(r"[0-9]{11}", 0.95, words=True),
        ),
    ),
    "br-cnpj": NationalId(
        "br.cnpj",
        r"cnpj|pessoa jur[ií]dica",
        (
            Form(r"[0-9]{2}\.[0-9]{3}\.[0-9]{3}/[0-9]{4}-[0-9]{2}", 1.0),
            Form(r"[0-9]{14}", 0.95, words=True),
        ),
    ),
    "in-aadhaar": NationalId(
        "in_.aadhaar",
        r"aadh?aar|uid(?:ai)?\b|आधार",
        (
            Form(groups(r"[ \t-]", 4, 4, 4), 0.8, alone=True),
            Form("[2-9][0-9]{11}", 0.95, words=True),
        ),
    ),
    "in-pan": NationalId(
        "in_.pan",
        r"pan\b|permanent account",
        (
            Form(r"[A-Z]{3}[ABCFGHJLPT][A-Z][0-9]{4}[A-Z]", 0.9),
            Form(r"[A-Za-z]{3}[ABCFGHJLPTabcfghjlpt][A-Za-z][0-9]{4}[A-Za-z]", 0.9, words=True),
        ),
    ),
}
"""By type id. `uk-nino` has no check digit: its letters are all there is to check."""


def check_of(type_id: str) -> Callable[[str], bool] | None:
    """What tells a right id of this type, without separators, from a wrong one."""
    name = NATIONAL_IDS[type_id].module
    if name == "cn":
        return chinese(library("stdnum.iso7064.mod_11_2", type_id).is_valid)
    if name == "kr":
        return korean
    return library(f"stdnum.{name}", type_id).is_valid if name else None


def chinese(checked: Callable[[str], bool]) -> Callable[[str], bool]:
    """A day of birth and the check character. Districts come and go, so they are not asked for."""
    return lambda number: is_day(number[6:14]) and checked(number.upper())


def korean(number: str) -> bool:
    """A day of birth, and the century that goes with it. Numbers given out since October 2020 have
    no check digit."""
    return is_day(CENTURIES[int(number[6])] + number[:6])


CENTURIES = ("18", "19", "19", "20", "20", "19", "19", "20", "20", "18")
"""Of birth, by the seventh digit of a Korean number."""


def is_day(digits: str) -> bool:
    """Whether eight digits are a day: year, month, day."""
    try:
        date(int(digits[:4]), int(digits[4:6]), int(digits[6:8]))
    except ValueError:
        return False
    return True


def finder(type_id: str) -> Callable[[Scan], Iterator[Found]]:
    """What finds this id; loads the module that checks it."""
    entry = NATIONAL_IDS[type_id]
    check = check_of(type_id)
    words = re.compile(entry.words, re.IGNORECASE)
    forms = [(form, re.compile(f"{LEFT}(?=({form.pattern}){RIGHT})")) for form in entry.forms]

    def find(scan: Scan) -> Iterator[Found]:
        mentioned = scan.mentions(words)
        for form, pattern in forms:
            if form.words and not mentioned:
                continue
            for match in pattern.finditer(scan.text):
                start, end = match.span(1)
                spoken = mentioned and scan.said(words, start)
                if not spoken and not may_stand(scan, start, end, form):
                    continue
                if check is None or check("".join(filter(str.isalnum, match[1]))):
                    yield start, end, 1.0 if spoken else form.confidence

    return find


def may_stand(scan: Scan, start: int, end: int, form: Form) -> bool:
    """Whether an id is one without a word that says so."""
    if form.words:
        return False
    return not form.alone or (scan.is_alone(start, end) and not scan.said(ANY_WORD, start))


ANY_WORD = re.compile(
    "|".join(entry.words for entry in NATIONAL_IDS.values())
    + r"|card|carte|karte|tarjeta|cart[aã]",
    re.IGNORECASE,
)
"""Words for other numbers."""
