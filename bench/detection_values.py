"""Values of each type as people write them, broken ones, and what only looks like one."""

from __future__ import annotations

import hashlib
import re
import string
from base64 import b64encode, urlsafe_b64encode
from importlib import import_module
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

__all__ = ["BROKEN", "NATIONAL", "VALUES", "broken_id", "grouped", "phone", "pick", "stdnum"]

DIGITS = string.digits
UPPER = string.ascii_uppercase
ALNUM = string.ascii_letters + DIGITS
URLSAFE = ALNUM + "-_"


def stdnum(name: str) -> Any:
    """A module of the library of checksums."""
    return import_module(f"stdnum.{name}")


def pick(rng: Random, alphabet: str, size: int) -> str:
    """So many characters of an alphabet."""
    return "".join(rng.choices(alphabet, k=size))


def grouped(digits: str, separator: str, *sizes: int) -> str:
    """The text in groups of these sizes."""
    groups: list[str] = []
    for size in sizes:
        groups.append(digits[:size])
        digits = digits[size:]
    return separator.join(groups)


def card_digits(rng: Random) -> str:
    """The digits of a card of a large issuer, without the last."""
    prefixes = [("4", 16), ("51", 16), ("55", 16), ("2345", 16), ("6011", 16), ("3530", 16)]
    prefix, size = rng.choice([*prefixes, ("62", 16), ("34", 15), ("37", 15), ("36", 14)])
    return prefix + pick(rng, DIGITS, size - 1 - len(prefix))


def written_card(rng: Random, digits: str) -> str:
    """As it stands on the card, with dashes, or in one piece."""
    sizes = {16: (4, 4, 4, 4), 15: (4, 6, 5), 14: (4, 6, 4)}[len(digits)]
    return grouped(digits, rng.choice(" - "), *sizes) if rng.random() < 0.6 else digits


def card(rng: Random) -> str:
    """A card with its Luhn digit."""
    digits = card_digits(rng)
    return written_card(rng, digits + stdnum("luhn").calc_check_digit(digits))


def broken_card(rng: Random) -> str:
    """A card with another last digit."""
    digits = card_digits(rng)
    right = int(stdnum("luhn").calc_check_digit(digits))
    return written_card(rng, digits + str((right + rng.randint(1, 9)) % 10))


BANKS = ("DE", "FR", "GB", "ES", "IT", "NL", "CH", "AT", "BE", "PL", "BR", "PT", "SE", "SA", "AE")
KINDS = {"n": DIGITS, "a": UPPER, "c": UPPER + DIGITS}


def iban_with(rng: Random, change: int) -> str:
    """An account; `change` is added to the check digits."""
    country = rng.choice(BANKS)
    structure: str = stdnum("numdb").get("iban").info(country)[0][1]["bban"]
    parts = re.findall(r"([0-9]+)!([nac])", structure)
    bban = "".join(pick(rng, KINDS[kind], int(size)) for size, kind in parts)
    right = int(stdnum("iban").calc_check_digits(f"{country}00{bban}"))
    check = right if not change else (right + change - 2) % 97 + 2
    value = f"{country}{check:02}{bban}"
    return grouped(value, " ", *[4] * 9).strip() if rng.random() < 0.5 else value


def iban(rng: Random) -> str:
    """An account of one of several countries, in groups of four or in one piece."""
    return iban_with(rng, 0)


def broken_iban(rng: Random) -> str:
    """An account with wrong check digits."""
    return iban_with(rng, rng.randint(1, 95))


def wallet(rng: Random) -> str:
    """A Bitcoin address of the old form or an Ethereum one in small letters."""
    if rng.random() < 0.4:
        return "0x" + pick(rng, "0123456789abcdef", 40)
    return base58(rng, 0)


def broken_wallet(rng: Random) -> str:
    """A Bitcoin address whose checksum is wrong."""
    return base58(rng, 1)


def base58(rng: Random, change: int) -> str:
    """An address of 25 bytes; `change` is added to the last of them."""
    body = bytes([rng.choice((0, 5))]) + rng.randbytes(20)
    check = bytearray(hashlib.sha256(hashlib.sha256(body).digest()).digest()[:4])
    check[-1] = (check[-1] + change) % 256
    number = int.from_bytes(body + check, "big")
    alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
    turned = ""
    while number:
        number, rest = divmod(number, 58)
        turned = alphabet[rest] + turned
    zeros = len(body) - len(body.lstrip(b"\0"))
    return "1" * zeros + turned


def api_key(rng: Random) -> str:
    """A key in the form of one of the vendors."""
    forms = (
        lambda: f"sk-{pick(rng, ALNUM, 48)}",
        lambda: f"sk-proj-{pick(rng, URLSAFE, 60)}x",
        lambda: f"sk-ant-api03-{pick(rng, URLSAFE, 90)}x",
        lambda: f"ghp_{pick(rng, ALNUM, 36)}",
        lambda: f"github_pat_{pick(rng, ALNUM, 22)}_{pick(rng, ALNUM, 59)}",
        lambda: f"glpat-{pick(rng, ALNUM, 20)}",
        lambda: f"xoxb-{pick(rng, DIGITS, 12)}-{pick(rng, DIGITS, 12)}-{pick(rng, ALNUM, 24)}",
        lambda: f"sk_live_{pick(rng, ALNUM, 24)}",
        lambda: f"AIza{pick(rng, ALNUM, 35)}",
        lambda: f"SG.{pick(rng, ALNUM, 22)}.{pick(rng, ALNUM, 43)}",
        lambda: f"SK{pick(rng, '0123456789abcdef', 32)}",
        lambda: f"npm_{pick(rng, ALNUM, 36)}",
        lambda: f"pypi-{pick(rng, ALNUM, 100)}",
        lambda: f"hf_{pick(rng, string.ascii_letters, 34)}",
    )
    return rng.choice(forms)()


def aws_id(rng: Random) -> str:
    """The id of a key."""
    return f"AKIA{pick(rng, UPPER + '234567', 16)}"


def jwt(rng: Random) -> str:
    """A signed token."""

    def part(raw: bytes) -> str:
        return urlsafe_b64encode(raw).decode().rstrip("=")

    body = f'{{"sub":"{rng.randint(1, 10**9)}","iat":{rng.randint(10**9, 2 * 10**9)}}}'
    head = part(b'{"alg":"HS256"}')
    return f"{head}.{part(body.encode())}.{part(rng.randbytes(32))}"


def private_key(rng: Random) -> str:
    """A key in PEM form; the body means nothing."""
    kind = rng.choice(("RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", ""))
    body = b64encode(rng.randbytes(rng.choice((48, 120, 600)))).decode()
    lines = "\n".join(body[at : at + 64] for at in range(0, len(body), 64))
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{lines}\n-----END {kind}PRIVATE KEY-----"


def ip(rng: Random) -> str:
    """An address of version 4 or 6."""
    if rng.random() < 0.6:
        return ".".join(str(rng.randint(1, 254)) for _ in range(4))
    groups = [f"{rng.randint(0x1000, 0xFFFF):x}" for _ in range(8)]
    return ":".join(groups) if rng.random() < 0.5 else f"2001:db8::{groups[0]}:{groups[1]}"


def uuid(rng: Random) -> str:
    """A random one."""
    return str(UUID(bytes=rng.randbytes(16), version=4))


def url(rng: Random) -> str:
    """A page of an invented site."""
    name, top = pick(rng, string.ascii_lowercase, 7), rng.choice(("com", "org", "net"))
    host = f"{rng.choice(('www', 'shop', 'api'))}.{name}.{top}"
    tail = rng.choice(("", "/", "/a/b.html", f"/p?id={rng.randint(1, 999)}&x=a,b", "/a_(b)"))
    return f"{rng.choice(('http', 'https'))}://{host}{tail}"


def url_with_credentials(rng: Random) -> str:
    """A connection string."""
    scheme = rng.choice(("https", "postgres", "mongodb+srv", "redis"))
    return f"{scheme}://admin:{pick(rng, ALNUM, 12)}@db.example.com:5432/main"


def secret(rng: Random) -> str:
    """What somebody may have chosen as a password."""
    parts = (string.ascii_letters, 8), (DIGITS, 4), (ALNUM + "!#%_", 6)
    return "".join(pick(rng, alphabet, size) for alphabet, size in parts) + "x"


def bearer(rng: Random) -> str:
    """An opaque token."""
    return pick(rng, ALNUM, 40)


def aws_secret(rng: Random) -> str:
    """The secret that belongs to an id."""
    return pick(rng, ALNUM + "/+", 39) + "x"


def tried(check: Any, make: Callable[[], str]) -> str:
    """The first value that passes the check."""
    while True:
        value = make()
        if check(value):
            return value


def ssn(rng: Random) -> str:
    """A number of the US social security."""
    value = tried(stdnum("us.ssn").is_valid, lambda: grouped(pick(rng, DIGITS, 9), "-", 3, 2, 4))
    return rng.choice((value, value, value.replace("-", " ")))


def itin(rng: Random) -> str:
    """A number of a US taxpayer without social security."""
    return tried(
        stdnum("us.itin").is_valid, lambda: f"9{grouped(pick(rng, DIGITS, 8), '-', 2, 2, 4)}"
    )


def nino(rng: Random) -> str:
    """A British insurance number."""
    prefix = tried(
        lambda value: value not in ("BG", "GB", "NK", "KN", "TN", "NT", "ZZ"),
        lambda: pick(rng, "ABCEGHJKLMNPRSTWXYZ", 2),
    )
    return grouped(
        prefix + pick(rng, DIGITS, 6) + rng.choice("ABCD"), rng.choice(" _"), 2, 2, 2, 2, 1
    ).replace("_", "")


def with_check(module: str, make: Callable[[Random], str]) -> Callable[[Random], str]:
    """Values that the module of an id accepts."""

    def value(rng: Random) -> str:
        return tried(stdnum(module).is_valid, lambda: make(rng))

    return value


def date6(rng: Random) -> str:
    """Year, month and day in two digits each."""
    return f"{rng.randint(50, 99)}{rng.randint(1, 12):02}{rng.randint(1, 28):02}"


def nir(rng: Random) -> str:
    """A French number with its key, in groups or not."""
    body = f"{rng.choice('12')}{rng.randint(40, 99)}{rng.randint(1, 12):02}"
    body += f"{rng.randint(1, 95):02}{pick(rng, DIGITS, 6)}"
    value = body + stdnum("fr.nir").calc_check_digits(body)
    return grouped(value, rng.choice((" ", "")), 1, 2, 2, 2, 3, 3, 2)


def dni(rng: Random) -> str:
    """A Spanish number with its letter."""
    digits = pick(rng, DIGITS, 8)
    return digits + rng.choice(("", "-")) + stdnum("es.dni").calc_check_digit(digits)


def codice(rng: Random) -> str:
    """An Italian code with its letter."""
    consonants = "BCDFGLMNPRSTV"
    body = pick(rng, consonants, 6) + f"{rng.randint(40, 99)}{rng.choice('ABCDEHLMPRST')}"
    body += f"{rng.randint(1, 28):02}H{pick(rng, DIGITS, 3)}"
    return body + stdnum("it.codicefiscale").calc_check_digit(body)


def ric(rng: Random) -> str:
    """A Chinese number of Beijing's districts."""
    body = f"11010{rng.choice('12568')}19{date6(rng)}{pick(rng, DIGITS, 3)}"
    return body + stdnum("cn.ric").calc_check_digit(body + "0")


def rrn(rng: Random) -> str:
    """A Korean number, with or without a check digit: the latest have none."""
    body = f"{date6(rng)}{rng.choice('12')}{rng.randint(0, 95):02}{pick(rng, DIGITS, 3)}"
    last = stdnum("kr.rrn").calc_check_digit(body) if rng.random() < 0.5 else pick(rng, DIGITS, 1)
    return f"{body[:6]}-{body[6:]}{last}"


def my_number(rng: Random) -> str:
    """A Japanese number, in groups or not."""
    body = pick(rng, DIGITS, 11)
    value = body + stdnum("jp.in_").calc_check_digit(body)
    return grouped(value, rng.choice((" ", "-", "")), 4, 4, 4)


def cpf(rng: Random) -> str:
    """A Brazilian person's number."""
    body = pick(rng, DIGITS, 9)
    value = tried(stdnum("br.cpf").is_valid, lambda: body + pick(rng, DIGITS, 2))
    return stdnum("br.cpf").format(value) if rng.random() < 0.7 else value


def cnpj(rng: Random) -> str:
    """A Brazilian company's number."""
    body = pick(rng, DIGITS, 8) + "0001"
    value = tried(stdnum("br.cnpj").is_valid, lambda: body + pick(rng, DIGITS, 2))
    return stdnum("br.cnpj").format(value)


def aadhaar(rng: Random) -> str:
    """An Indian number, in groups or not."""
    body = rng.choice("23456789") + pick(rng, DIGITS, 10)
    value = tried(stdnum("in_.aadhaar").is_valid, lambda: body + pick(rng, DIGITS, 1))
    return grouped(value, rng.choice((" ", "")), 4, 4, 4)


def pan(rng: Random) -> str:
    """An Indian taxpayer's number."""

    def made() -> str:
        return f"{pick(rng, UPPER, 3)}{rng.choice('PCHF')}{pick(rng, UPPER, 1)}{tail()}"

    def tail() -> str:
        return pick(rng, DIGITS, 4) + pick(rng, UPPER, 1)

    return tried(stdnum("in_.pan").is_valid, made)


def idnr(rng: Random) -> str:
    """A German tax id, in groups or not."""
    value = tried(stdnum("de.idnr").is_valid, lambda: unlike_digits(rng) + pick(rng, DIGITS, 1))
    return grouped(value, rng.choice((" ", "")), 2, 3, 3, 3)


def unlike_digits(rng: Random) -> str:
    """Ten digits of which one occurs twice."""
    digits = rng.sample(DIGITS, 10)
    digits[rng.randrange(1, 10)] = digits[0]
    rng.shuffle(digits)
    return "".join(digits)


NATIONAL: dict[str, dict[str, Callable[[Random], str]]] = {
    "en": {
        "ssn": ssn,
        "us-itin": itin,
        "uk-nino": nino,
        "uk-nhs": with_check("gb.nhs", lambda rng: grouped(pick(rng, DIGITS, 10), " ", 3, 3, 4)),
    },
    "fr": {"fr-nir": nir},
    "de": {"de-idnr": idnr},
    "es": {
        "es-dni": dni,
        "es-nie": with_check(
            "es.nie",
            lambda rng: rng.choice("XYZ") + pick(rng, DIGITS, 7) + pick(rng, "TRWAGMYFPDXB", 1),
        ),
    },
    "it": {"it-cf": codice},
    "zh": {"cn-ric": ric},
    "ko": {"kr-rrn": rrn},
    "ja": {"jp-my-number": my_number},
    "pt": {"br-cpf": cpf, "br-cnpj": cnpj},
    "hi": {"in-aadhaar": aadhaar, "in-pan": pan},
}

VALUES: dict[str, Callable[[Random], str]] = {
    "credit-card": card,
    "iban": iban,
    "crypto-wallet": wallet,
    "api-key": api_key,
    "aws-key": aws_id,
    "jwt": jwt,
    "private-key": private_key,
    "ip-address": ip,
    "uuid": uuid,
    "url": url,
    "url-credentials": url_with_credentials,
    "assigned": secret,
    "bearer-token": bearer,
    "aws-secret": aws_secret,
}
"""By type; `assigned` and `aws-secret` are found as other types, by the name beside them."""


def broken_id(language: str) -> Callable[[Random], str]:
    """An id of the language's country with another last digit or letter, wrong by its checksum."""

    def value(rng: Random) -> str:
        name = rng.choice(list(NATIONAL[language]))
        if (
            name == "kr-rrn"
        ):  # its check digit has lost its meaning; a thirteenth month never gets one
            return f"{rng.randint(50, 99)}13{rng.randint(10, 28)}-{pick(rng, DIGITS, 7)}"
        if name in ("ssn", "us-itin", "uk-nino", "in-pan"):  # no checksum could be wrong
            return "000-12-3456"
        right = NATIONAL[language][name](rng)
        alphabet = DIGITS if right[-1].isdigit() else UPPER
        return right[:-1] + rng.choice([char for char in alphabet if char != right[-1]])

    return value


BROKEN: dict[str, Callable[[Random], str]] = {
    "card": broken_card,
    "iban": broken_iban,
    "wallet": broken_wallet,
}


def phone(rng: Random, region: str) -> str:
    """A valid number of the region in one of its usual forms."""
    plans: Any = import_module("phonenumbers")
    kind = rng.choice((plans.PhoneNumberType.MOBILE, plans.PhoneNumberType.FIXED_LINE))
    number = plans.example_number_for_type(region, kind) or plans.example_number(region)
    text = str(number.national_number)
    for _ in range(50):
        changed = text[:-4] + pick(rng, DIGITS, 4)
        candidate = plans.PhoneNumber(
            country_code=number.country_code,
            national_number=int(changed),
            italian_leading_zero=number.italian_leading_zero,
        )
        if plans.is_valid_number(candidate):
            number = candidate
            break
    form = rng.choice(
        (
            plans.PhoneNumberFormat.INTERNATIONAL,
            plans.PhoneNumberFormat.E164,
            plans.PhoneNumberFormat.NATIONAL,
        )
    )
    return plans.format_number(number, form)
