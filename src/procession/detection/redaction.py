"""What is put in the place of a value (B-126)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .found import Detection

__all__ = ["METHODS", "Method", "redacted", "with_redactions"]

Method = Literal["mask", "hash", "remove", "placeholder"]
METHODS: tuple[Method, ...] = get_args(Method)
"""The names of the methods."""


def with_redactions(
    text: str,
    found: Iterable[Detection],
    method: Method = "mask",
    *,
    preserve_format: bool = True,
) -> str:
    """The text with each find replaced; the finds come from left to right and do not overlap."""
    pieces: list[str] = []
    done = 0
    for detection in found:
        pieces.append(text[done : detection.start])
        value = text[detection.start : detection.end]
        pieces.append(redacted(detection.type, value, method, preserve_format=preserve_format))
        done = detection.end
    return "".join((*pieces, text[done:]))


def redacted(
    type_id: str, value: str, method: Method = "mask", *, preserve_format: bool = True
) -> str:
    """What stands for a value of this type.

    `mask` shows a little of the value, or nothing of it without `preserve_format`; `hash` tells
    equal values from different ones; `placeholder` names the type; `remove` leaves nothing.
    """
    if method == "hash":
        digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
        return f"[HASH:{digest[:8]}]"
    if method == "placeholder":
        return f"[{type_id.upper()}]"
    if method == "remove":
        return ""
    if not preserve_format:
        return "*" * 8
    return MASKS.get(type_id, masked_middle)(value)


def masked_middle(value: str) -> str:
    """Asterisks between the first and the last character; nothing else of a short value."""
    if len(value) < 3:
        return "*" * len(value)
    return f"{value[0]}{'*' * (len(value) - 2)}{value[-1]}"


def masked_email(value: str) -> str:
    """The ends of the part before the `@`, and the top-level domain."""
    local, sign, domain = value.rpartition("@")
    if not sign:
        return masked_middle(value)
    name, _, top = domain.rpartition(".")
    hidden = local[:1] + "*" if len(local) == 2 else masked_middle(local)
    return f"{hidden}@{covered(name, keep='.')}.{top}"


def masked_phone(value: str) -> str:
    """The last four digits."""
    return "XXX-XXX-" + "".join(filter(str.isdigit, value))[-4:]


def masked_card(value: str) -> str:
    """The last four digits, and what separates the groups; less where they are not at the end."""
    return covered(value, last=4) if value[-4:].isdigit() else masked_middle(value)


def masked_ssn(value: str) -> str:
    """The last four digits in the usual form."""
    return "***-**-" + "".join(filter(str.isdigit, value))[-4:]


def masked_uuid(value: str) -> str:
    """The dashes."""
    return covered(value, keep="-")


def masked_iban(value: str) -> str:
    """The country and the last four characters."""
    return value[:2] + covered(value[2:], last=4)


def covered(value: str, *, last: int = 0, keep: str = " -./\t\xa0\u202f") -> str:
    """An asterisk for each character but those of `keep` and the `last` others."""
    shown = last
    turned: list[str] = []
    for char in reversed(value):
        if char in keep:
            turned.append(char)
        elif shown:
            shown -= 1
            turned.append(char)
        else:
            turned.append("*")
    return "".join(reversed(turned))


MASKS: dict[str, Callable[[str], str]] = {
    "email": masked_email,
    "phone": masked_phone,
    "credit-card": masked_card,
    "ssn": masked_ssn,
    "uuid": masked_uuid,
    "iban": masked_iban,
}
