"""Checks of tracing's options: a wrong one fails when the object is made (B-014)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

from ..errors import OptionError

__all__ = ["checked", "function", "is_bool", "is_texts"]


def checked(owner: str, option: str, value: Any, kinds: str, fits: Callable[[Any], bool]) -> Any:
    """`value`, if it fits; else `OptionError` with what it must be. The value is not shown."""
    if not fits(value):
        raise OptionError(f"{owner}: {option} must be {kinds}, not {type(value).__name__}")
    return value


def function(owner: str, option: str, value: Any) -> Callable[..., Any] | None:
    """`value`, which must be callable or `None`."""
    fits = value is None or callable(value)
    return checked(owner, option, value, "a function, or None", lambda _: fits)


def is_bool(value: Any) -> bool:
    """Whether a value is true or false."""
    return isinstance(value, bool)


def is_texts(value: Any) -> bool:
    """Whether a value is a collection of texts, and not a text."""
    if isinstance(value, str | Mapping) or not isinstance(value, Collection):
        return False
    return all(isinstance(entry, str) for entry in cast("Collection[Any]", value))
