"""Finding the verdict in what was raised; the one place where it is unwrapped."""

from __future__ import annotations

from typing import cast

from .errors import TripWire

__all__ = ["verdict_in"]


def verdict_in(error: BaseException | None) -> TripWire | None:
    """The verdict that `error` is or holds: task groups wrap it in an exception group."""
    if isinstance(error, TripWire):
        return error
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            found = verdict_in(inner)
            if found is not None:
                return found
    return None
