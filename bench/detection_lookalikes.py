"""What looks like personal data and is none."""

from __future__ import annotations

import hashlib
import string
from typing import TYPE_CHECKING

from .detection_values import grouped, pick, stdnum

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

__all__ = ["LOOKALIKES", "order", "version"]

DIGITS = string.digits
UPPER = string.ascii_uppercase


def isbn(rng: Random) -> str:
    """An ISBN with its check digit, with or without dashes."""
    body = "978" + pick(rng, DIGITS, 9)
    value = body + stdnum("ean").calc_check_digit(body)
    return f"ISBN {grouped(value, '-', 3, 1, 3, 5, 1) if rng.random() < 0.5 else value}"


def day(rng: Random) -> str:
    """A date, or a moment, in one of many forms."""
    year, month, day = 2000 + rng.randint(10, 29), rng.randint(1, 12), rng.randint(1, 28)
    return rng.choice(
        (
            f"{year}-{month:02}-{day:02}",
            f"{day:02}.{month:02}.{year}",
            f"{month:02}/{day:02}/{year}",
            f"{year}-{month:02}-{day:02}T12:{rng.randint(10, 59)}:07Z",
            f"{year}{month:02}{day:02}",
        )
    )


def price(rng: Random) -> str:
    """An amount as it is written in one of several countries."""
    large, small, cents = rng.randint(100, 999), rng.randint(1, 9), rng.randint(10, 99)
    return rng.choice(
        (
            f"${small},{large}.{cents}",
            f"{large},{cents} €",
            f"{small}.{large}.{large},00 €",
            f"R$ {large},90",
            f"{small} {large} {large} €",
        )
    )


def place(rng: Random) -> str:
    """Coordinates."""
    north, east = rng.randint(-89, 89), rng.randint(0, 179)
    return f"{north}.{pick(rng, DIGITS, 6)}, {east}.{pick(rng, DIGITS, 6)}"


def digest(rng: Random) -> str:
    """A hash, or the beginning of one, as commits have it."""
    return hashlib.sha256(rng.randbytes(8)).hexdigest()[: rng.choice((7, 8, 32, 40, 64))]


LOOKALIKES: dict[str, Callable[[Random], str]] = {
    "digest": digest,
    "day": day,
    "price": price,
    "isbn": isbn,
    "colour": lambda rng: f"#{pick(rng, '0123456789abcdef', 6)}",
    "time": lambda rng: f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}:{rng.randint(0, 59):02}",
    "package": lambda rng: f"lodash@{rng.randint(1, 9)}.{rng.randint(0, 40)}.{rng.randint(0, 40)}",
    "place": place,
    "stamp": lambda rng: str(rng.randint(15 * 10**11, 18 * 10**11)),
    "handle": lambda rng: f"@{pick(rng, string.ascii_lowercase, 8)}",
}


def order(rng: Random) -> str:
    """A number that a shop may give an order."""
    return rng.choice(
        (
            pick(rng, DIGITS, rng.choice((6, 8, 10, 12, 16))),
            f"{pick(rng, UPPER, 2)}-{pick(rng, DIGITS, 8)}",
            f"{pick(rng, DIGITS, 3)}-{pick(rng, DIGITS, 7)}-{pick(rng, DIGITS, 7)}",
            f"20{rng.randint(20, 29)}-{pick(rng, DIGITS, 6)}",
        )
    )


def version(rng: Random) -> str:
    """Two to four numbers."""
    return ".".join(str(rng.randint(0, 40)) for _ in range(rng.choice((2, 3, 3, 4))))
