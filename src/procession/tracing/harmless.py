"""Tracing never harms what it watches: what fails within it is logged, and the run goes on."""

from __future__ import annotations

import logging
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["log", "unharmed"]

log = logging.getLogger("procession.tracing")

P = ParamSpec("P")
T = TypeVar("T")


def unharmed(told: Callable[P, T]) -> Callable[P, T | None]:
    """The function, which gives `None` where it would raise."""

    @wraps(told)
    def called(*given: P.args, **named: P.kwargs) -> T | None:
        try:
            return told(*given, **named)
        except Exception as error:
            log.warning("a span is incomplete: %s raised %s", told.__name__, type(error).__name__)
            return None

    return called
