"""Checks of what caches are made with."""

from __future__ import annotations

from ..errors import OptionError

__all__ = ["most", "time_to_live"]


def most(owner: str, option: str, value: object) -> int:
    """`value`, which must be a whole number above 0; else `OptionError`."""
    if type(value) is not int or value < 1:
        raise OptionError(f"{owner}: {option} must be a whole number of at least 1")
    return value


def time_to_live(owner: str, option: str, value: object) -> int:
    """`value`, which must be a whole number of milliseconds, 0 for ever; else `OptionError`."""
    if type(value) is not int or value < 0:
        raise OptionError(
            f"{owner}: {option} must be a whole number of milliseconds, or 0 for no end"
        )
    return value
