"""Which traces are kept; decided once, at the root span (O-051)."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any, TypeAlias, cast

from msgspec import Struct

from ..errors import OptionError
from ..request_context import RequestContext
from .ids import share_of

__all__ = ["RootSpan", "Sampling", "sampler_of"]


class RootSpan(Struct, frozen=True, kw_only=True):
    """What a function that samples is told of a trace that begins."""

    name: str
    trace_id: str
    entity_id: str | None
    run_id: str | None
    request_context: RequestContext | None


Sampling: TypeAlias = str | float | Callable[[RootSpan], bool]
"""`"always"`, `"never"`, a share between 0 and 1, or a function of the root span.

A share goes by the trace's id: processes that work on one trace decide alike.
"""
Sampler = Callable[[RootSpan], bool]


def sampler_of(sampling: Any) -> Sampler:
    """The function that decides. Raises `OptionError` for what is no `Sampling`."""
    if sampling == "always":
        return _always
    if sampling == "never":
        return _never
    if callable(sampling):
        return cast("Sampler", sampling)
    is_number = isinstance(sampling, int | float) and not isinstance(sampling, bool)
    if not is_number or not isfinite(sampling) or not 0 <= sampling <= 1:
        raise OptionError(
            "Tracing: sampling must be 'always', 'never', a number between 0 and 1, or a function "
            "of the root span"
        )
    share = float(sampling)
    return lambda root: share_of(root.trace_id) < share


def _always(_root: RootSpan) -> bool:
    return True


def _never(_root: RootSpan) -> bool:
    return False
