"""Checks of stores' options: a wrong one fails when the store is made (B-014)."""

from __future__ import annotations

from math import isfinite
from typing import Any

from ..errors import OptionError

__all__ = ["count", "seconds"]


def count(owner: str, option: str, value: Any, *, least: int) -> int:
    """`value`, which must be a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise OptionError(f"{owner}: {option} must be a whole number of at least {least}")
    return value


def seconds(owner: str, option: str, value: Any) -> float:
    """`value`, which must be a finite number of seconds, 0 included."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not isfinite(value) or value < 0:
        raise OptionError(f"{owner}: {option} must be a number of seconds, at least 0")
    return float(value)
