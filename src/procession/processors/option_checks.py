"""Checks of built-ins' options: a wrong one fails when the processor is made (B-014)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from math import isfinite
from types import MappingProxyType
from typing import Any, cast

from ..errors import OptionError
from ..hook_functions import near_name

__all__ = [
    "callback",
    "flag",
    "mapping_of",
    "mapping_or_none",
    "names",
    "number",
    "one_of",
    "text_or_none",
    "whole",
]


def one_of(
    owner: str,
    option: str,
    value: Any,
    allowed: Iterable[str],
    *,
    meant: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """`value`, which must be one of the texts `allowed`; else `OptionError`, a `ValueError`.

    `meant` says for other names that people use what they are called here.
    """
    known = tuple(allowed)
    if isinstance(value, str) and value in known:
        return value
    hint = ""
    if isinstance(value, str):
        near = meant.get(value.lower()) or next(iter(get_close_matches(value, known, n=1)), None)
        hint = f"; did you mean {near!r}?" if near else ""
    raise OptionError(f"{owner}: {option} must be {_or(known)}, not {_shown(value)}{hint}")


def names(owner: str, option: str, value: Any, allowed: Iterable[str] | None) -> tuple[str, ...]:
    """A list of texts, each once, in the order given; those of `allowed` only, unless `None`."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise OptionError(f"{owner}: {option} must be a list of texts, not {_shown(value)}")
    found: list[str] = []
    for entry in cast("Iterable[Any]", value):
        if allowed is not None:
            entry = one_of(owner, f"each of {option}", entry, allowed)
        elif not isinstance(entry, str) or not entry:
            raise OptionError(f"{owner}: each of {option} must be a text, not {_shown(entry)}")
        found.append(entry)
    return tuple(dict.fromkeys(found))


def flag(owner: str, option: str, value: Any) -> bool:
    """`value`, which must be a bool."""
    if not isinstance(value, bool):
        raise OptionError(f"{owner}: {option} must be True or False, not {_shown(value)}")
    return value


def whole(owner: str, option: str, value: Any, *, least: int = 0) -> int:
    """`value`, which must be a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise OptionError(
            f"{owner}: {option} must be a whole number of at least {least}, not {_shown(value)}"
        )
    return value


def number(
    owner: str, option: str, value: Any, *, least: float = 0.0, most: float | None = None
) -> float:
    """`value`, which must be a finite number between `least` and `most`, both included.

    `least` may be `-inf`, for none.
    """
    good = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    if not good or value < least or (most is not None and value > most):
        bounds = [f"at least {least:g}"] if isfinite(least) else []
        bounds += [] if most is None else [f"at most {most:g}"]
        of = f" of {' and '.join(bounds)}" if bounds else ""
        raise OptionError(f"{owner}: {option} must be a number{of}, not {_shown(value)}")
    return float(value)


def callback(owner: str, option: str, value: Any) -> Callable[..., Any] | None:
    """`value`, which must be callable or `None`."""
    if value is not None and not callable(value):
        raise OptionError(f"{owner}: {option} must be callable, not {_shown(value)}")
    return value


def text_or_none(owner: str, option: str, value: Any) -> str | None:
    """`value`, which must be a text or `None`."""
    if value is not None and not isinstance(value, str):
        raise OptionError(f"{owner}: {option} must be a text, not {_shown(value)}")
    return value


def mapping_or_none(owner: str, option: str, value: Any) -> Mapping[str, Any] | None:
    """`value`, which must be a mapping or `None`."""
    if value is not None and not isinstance(value, Mapping):
        raise OptionError(f"{owner}: {option} must be a mapping, not {_shown(value)}")
    return cast("Mapping[str, Any] | None", value)


def mapping_of(owner: str, option: str, value: Any, known: Sequence[str]) -> Mapping[str, Any]:
    """`value`, which must be a mapping with keys of `known` only; `None` is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise OptionError(f"{owner}: {option} must be a mapping, not {type(value).__name__}")
    options = cast("Mapping[str, Any]", value)
    for key in options:
        if key not in known:
            near = near_name(str(key), frozenset(known))
            hint = f"did you mean {near!r}?" if near else f"allowed: {', '.join(known)}"
            raise OptionError(f"{owner}: {option} has no option {str(key)[:40]!r}; {hint}")
    return options


def _or(allowed: tuple[str, ...]) -> str:
    return " or ".join(repr(name) for name in allowed)


def _shown(value: Any) -> str:
    """A value in an error: short texts and numbers as they are, of others only the type."""
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, str) and len(value) <= 40:
        return repr(value)
    return f"a value of type {type(value).__name__}"
