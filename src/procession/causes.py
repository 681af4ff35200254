"""An error and what is behind it: its causes, its status, the words of it all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, cast

__all__ = ["causes", "field_of", "status_of", "words_of"]

MOST_CAUSES = 50
LONGEST_TEXT = 100_000
"""Characters: of a longer body only the beginning is looked at."""


def causes(error: Any) -> Iterator[Any]:
    """The error, then what caused it, the nearest first, each once.

    Causes are `__cause__`, else `__context__` unless that was suppressed; an attribute or key
    `cause`, which may be plain data; and the members of an exception group. A chain that leads
    back to itself ends there, and one without end after 50 causes.
    """
    waiting, met = [error], list[Any]()
    while waiting and len(met) < MOST_CAUSES:
        current = waiting.pop(0)
        if current is None or any(current is other for other in met):
            continue
        met.append(current)
        yield current
        waiting += _behind(current)


def _behind(error: Any) -> list[Any]:
    found: list[Any] = []
    if isinstance(error, BaseException):
        found.append(error.__cause__)
        if error.__cause__ is None and not error.__suppress_context__:
            found.append(error.__context__)
    found.append(field_of(error, "cause"))
    if isinstance(error, BaseExceptionGroup):
        found += cast("BaseExceptionGroup[BaseException]", error).exceptions
    return found


def field_of(error: Any, *names: str) -> Any:
    """The first of these attributes, or keys of plain data, that is there and not `None`."""
    for name in names:
        value: Any = None
        if isinstance(error, Mapping):
            value = cast("Mapping[Any, Any]", error).get(name)
        else:
            with suppress(Exception):  # a property of somebody's own
                value = getattr(error, name, None)
        if value is not None:
            return value
    return None


def status_of(error: Any) -> int | None:
    """The HTTP status that one error tells, whatever it is called there."""
    for name in ("status_code", "statusCode", "status", "code"):
        value = field_of(error, name)
        if type(value) is int:
            return value
    status = field_of(field_of(error, "response"), "status_code", "status")
    return status if type(status) is int else None


def words_of(error: Any) -> str:
    """What the error and its causes say: messages and response bodies, one after the other."""
    return "\n".join(text[:LONGEST_TEXT] for cause in causes(error) for text in _texts(cause))


def _texts(error: Any) -> Iterator[str]:
    if isinstance(error, str | BaseException):
        yield str(error)
    for name in ("message", "response_body", "responseBody", "body"):
        value = field_of(error, name)
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            yield str(cast("Any", value))
