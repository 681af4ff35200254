"""Cards, bank accounts and wallets, each with its checksum."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

from .extras import library
from .keccak import keccak_256

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .scan import Scan

__all__ = ["card_finder", "iban_finder", "wallet_finder"]

Found = tuple[int, int, float]

MARK = r"[*_]{0,3}+"
"""Emphasis of Markdown."""
PLAIN_GAP = r"(?:[ \t][-/][ \t]|[ \t]{1,2}|[-./_])"
GAP = rf"(?:{MARK}(?:[ \t][-/][ \t]|[ \t]{{1,2}}|[-./]|(?<=[*_])){MARK})"
NEXT_LINE = rf"(?:{MARK}[ \t]?\r?\n[ \t]?{MARK})"
# No decimals, but behind the mark before the number in a card's first track.
EDGE = r"(?:(?<![A-Za-z0-9\xe9])|(?<=%[Bb]))(?<![0-9]\.)(?<!(?<![0-9])0,)"
AFTER = r"(?![A-Za-z0-9\xe9]|\.(?!00?(?![0-9.]))[0-9])"
FOUR, FIVE, SIX = "[0-9]{4}", "[0-9]{5}", "[0-9]{6}"
CARD_FORMS = (
    r"[0-9]{12,19}",
    rf"{FOUR}(?:{GAP}?{FOUR}){{3}}",
    rf"{FOUR}(?:{GAP}?{FOUR}){{3}}{GAP}?[0-9]{{3}}",
    rf"{FOUR}{GAP}?{SIX}{GAP}?{FIVE}",
    rf"{FOUR}{GAP}?{SIX}{GAP}?{FOUR}",
    rf"{FOUR}(?:{GAP}?{FOUR}){{2}}{GAP}?[0-9]",
    rf"[0-9](?:{PLAIN_GAP}[0-9]){{12,18}}",
)
CARDS = tuple(re.compile(rf"{EDGE}(?=[0-68])(?=({form}){AFTER})") for form in CARD_FORMS)
FIRST = r"(?<![0-9][-./_*\t ])(?<![0-9][ \t]{2})"
HEAD, AMEX = "[2-68][0-9]{3}", "3[47][0-9]{2}"
BROKEN_FORMS = (
    rf"{HEAD}{NEXT_LINE}{FOUR}{GAP}?{FOUR}{GAP}?{FOUR}",
    rf"{HEAD}{GAP}?{FOUR}{NEXT_LINE}{FOUR}{GAP}?{FOUR}",
    rf"{HEAD}{GAP}?{FOUR}{GAP}?{FOUR}{NEXT_LINE}{FOUR}",
    rf"{AMEX}{NEXT_LINE}{SIX}{GAP}?{FIVE}",
    rf"{AMEX}{GAP}?{SIX}{NEXT_LINE}{FIVE}",
)
"""With one end of a line within them; `boundaries.AFTER_LINE` knows their first lines."""
BROKEN_CARDS = tuple(re.compile(rf"{EDGE}{FIRST}(?=({form}){AFTER})") for form in BROKEN_FORMS)
DIGITS_BEHIND = re.compile(r"[ \t]{1,2}[0-9]")
DIGITS_BEFORE = re.compile(r"[0-9](?:[ \t]{1,2}|[-./_*]|[ \t]?\r?\n[ \t]?)\Z")
# First digits, from and to, and the lengths that the issuer uses.
ISSUERS: tuple[tuple[int, int, frozenset[int]], ...] = tuple(
    (first, last, frozenset(lengths))
    for first, last, lengths in (
        (4, 4, (13, 16, 19)),  # Visa
        (51, 55, (16,)),  # Mastercard
        (2221, 2720, (16,)),
        (34, 34, (15,)),  # American Express
        (37, 37, (15,)),
        (300, 305, range(14, 20)),  # Diners Club
        (3095, 3095, range(14, 20)),
        (36, 36, (14, 16, 19)),
        (38, 39, (14, 16, 19)),
        (6011, 6011, range(16, 20)),  # Discover
        (644, 659, range(16, 20)),
        (35, 35, (16,)),  # JCB
        (3528, 3589, range(16, 20)),
        (1800, 1800, (15,)),
        (2131, 2131, (15,)),
        (62, 62, range(16, 20)),  # UnionPay
        (81, 81, range(16, 20)),
        (5018, 5018, range(12, 20)),  # Maestro
        (5020, 5020, range(12, 20)),
        (5038, 5038, range(12, 20)),
        (56, 58, range(12, 20)),
        (6304, 6304, range(12, 20)),
        (6390, 6390, range(12, 20)),
        (6759, 6763, range(12, 20)),
        (2200, 2204, range(16, 20)),  # Mir
        (60, 60, (16,)),  # RuPay, Hipercard
        (82, 82, (16,)),
        (627780, 627780, (16,)),  # Elo
        (636297, 636368, (16,)),
    )
)


BY_FIRST = {
    digit: [issuer for issuer in ISSUERS if str(issuer[0])[0] <= digit <= str(issuer[1])[0]]
    for digit in "123456789"
}


def issued(digits: str) -> bool:
    """Whether some issuer gives out numbers like this."""
    if digits[0] == "0":
        return digits.startswith("0604") and len(digits) == 12
    return any(
        len(digits) in lengths and first <= int(digits[: len(str(first))]) <= last
        for first, last, lengths in BY_FIRST.get(digits[0], ())
    )


def only_digits(text: str) -> str:
    """The digits of a text that is folded."""
    return "".join(char for char in text if "0" <= char <= "9")


def card_finder() -> Callable[[Scan], Iterator[Found]]:
    """Payment cards: digits in one piece or in the groups of the issuers, with the Luhn digit
    (B-136) and an issuer's first digits and length."""
    luhn: Any = library("stdnum.luhn", "credit-card")

    def find(scan: Scan) -> Iterator[Found]:
        if CARD_LIKE.search(scan.text) is None:
            return
        for form in (*CARDS, *BROKEN_CARDS) if "\n" in scan.text else CARDS:
            for match in form.finditer(scan.text):
                digits = only_digits(match[1])
                if not issued(digits) or not luhn.is_valid(digits) or len(set(digits)) == 1:
                    continue
                if not LARGE.match(digits) and scan.said(ORDER, match.start()):
                    continue
                if form in BROKEN_CARDS and is_in_table(scan, *match.span(1)):
                    continue
                yield *match.span(1), 1.0

    return find


def is_in_table(scan: Scan, start: int, end: int) -> bool:
    """Whether other digits stand behind these, or on the line before them."""
    if DIGITS_BEHIND.match(scan.text, end):
        return True
    return DIGITS_BEFORE.search(scan.before(start, 5)) is not None


LARGE = re.compile(r"4|5[1-5]|2[2-7]|3|6(?:011|2|4|5)")
"""Large issuers. A number of another may be an order's by chance."""
ORDER = re.compile(
    r"(?:\border\b(?! to)|invoice|bestell|rechnung|auftrag|commande|facture|pedido"
    r"|factura|ordine|fattura|fatura|订单|发票|注文|주문|ऑर्डर)[^0-9]{0,24}\Z",
    re.IGNORECASE,
)
CARD_LIKE = re.compile(
    rf"[0-9]{{6}}|[0-9]{{4}}(?:{GAP}|{NEXT_LINE})[0-9]{{4}}|(?:[0-9]{PLAIN_GAP}){{12}}"
)

IBAN_HEAD = re.compile(r"(?<![A-Za-z0-9\xe9])[A-Za-z]{2}[0-9]{2}(?=[ \t-]?[A-Za-z0-9])")


def iban_finder() -> Callable[[Scan], Iterator[Found]]:
    """Bank accounts: the country's length and structure, and the remainder by 97."""
    iban: Any = library("stdnum.iban", "iban")
    lengths = iban_lengths(library("stdnum.numdb", "iban").get("iban"))

    def find(scan: Scan) -> Iterator[Found]:
        for head in IBAN_HEAD.finditer(scan.text):
            length = lengths(head[0][:2].upper())
            body = bodies(length).match(scan.text, head.start()) if length else None
            if body is not None and iban.is_valid(body[0], check_country=False):
                yield *body.span(), 1.0

    return find


def iban_lengths(countries: Any) -> Callable[[str], int]:
    """How long a country's numbers are; 0 for one that has none."""
    known: dict[str, int] = {}

    def length(country: str) -> int:
        if country not in known:
            fields: dict[str, str] = countries.info(country)[0][1]
            parts = re.findall(r"([0-9]+)!", fields.get("bban", ""))
            known[country] = 4 + sum(map(int, parts)) if parts else 0
        return known[country]

    return length


BODIES: dict[int, re.Pattern[str]] = {}


def bodies(length: int) -> re.Pattern[str]:
    """Numbers of this many characters, with or without single separators; small letters only in
    one piece, where no gap has to be looked at."""
    if length not in BODIES:
        BODIES[length] = re.compile(
            rf"(?:[A-Z0-9](?:[ \t-]?[A-Z0-9]){{{length - 1}}}"
            rf"|[A-Za-z0-9](?:-?[A-Za-z0-9]){{{length - 1}}}"
            rf"|[A-Za-z]{{2}}[0-9]{{2}}(?:[ \t-]?[0-9]){{{length - 4}}})(?![A-Za-z0-9\xe9])"
        )
    return BODIES[length]


BASE58 = re.compile(
    r"(?<![A-Za-z0-9\xe9_])[13LMDTr][1-9A-HJ-NP-Za-km-z]{24,34}(?![A-Za-z0-9\xe9_])"
)
BECH32 = re.compile(
    r"(?<![A-Za-z0-9\xe9_])(?:(?:bc|tb|ltc)1[02-9ac-hj-np-z]{8,86}|(?:BC|TB|LTC)1[02-9AC-HJ-NP-Z]{8,86})"
    r"(?![A-Za-z0-9\xe9_])"
)
ETHEREUM = re.compile(r"(?<![A-Za-z0-9\xe9_])0[xX][0-9a-fA-F]{40}(?![A-Za-z0-9\xe9_])")
VERSIONS = {"1": {0}, "3": {5}, "L": {48}, "M": {50}, "D": {30}, "T": {65}, "r": {0}}
RIPPLE = str.maketrans(
    "rpshnaf39wBUDNEGHJKLM4PQRST7VWXYZ2bcdeCg65jkm8oFqi1tuvAxyz",
    "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
)


def wallet_finder() -> Callable[[Scan], Iterator[Found]]:
    """Addresses of Bitcoin, Litecoin, Dogecoin, Tron, XRP (all with checksums) and Ethereum (the
    checksum of EIP-55 where letters of both cases are used)."""
    bitcoin: Any = library("stdnum.bitcoin", "crypto-wallet")

    def find(scan: Scan) -> Iterator[Found]:
        for match in BASE58.finditer(scan.text):
            if is_base58(match[0], bitcoin.b58decode):
                yield *match.span(), 1.0
        for match in BECH32.finditer(scan.text):
            if is_bech32(match[0].lower(), bitcoin.bech32_checksum):
                yield *match.span(), 1.0
        for match in ETHEREUM.finditer(scan.text):
            if is_ethereum(match[0][2:]):
                yield *match.span(), 1.0

    return find


def is_base58(address: str, decode: Callable[[str], bytes]) -> bool:
    """Whether version and checksum of the address fit."""
    versions = VERSIONS[address[0]]
    raw = decode(address.translate(RIPPLE) if address[0] == "r" else address)
    if len(raw) != 25 or raw[0] not in versions:
        return False
    return hashlib.sha256(hashlib.sha256(raw[:-4]).digest()).digest()[:4] == raw[-4:]


BECH32_CHARS = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
BECH32_SUMS = (1, 0x2BC830A3)  # of the first form, and of the one for Taproot


def is_bech32(address: str, checksum: Callable[[list[int]], int]) -> bool:
    """Whether the checksum of the address fits, in the form that its version demands."""
    prefix, _, data = address.partition("1")
    values = [BECH32_CHARS.index(char) for char in data]
    expanded = [ord(char) >> 5 for char in prefix] + [0] + [ord(char) & 31 for char in prefix]
    return checksum(expanded + values) == BECH32_SUMS[values[0] > 0]


def is_ethereum(digits: str) -> bool:
    """Whether the letters' case is the checksum, or is the same throughout."""
    if digits in (digits.lower(), digits.upper()):
        return len(set(digits)) > 4
    digest = keccak_256(digits.lower().encode()).hex()
    return all(
        char.isdigit() or char.isupper() == (int(nibble, 16) >= 8)
        for char, nibble in zip(digits, digest, strict=False)
    )
