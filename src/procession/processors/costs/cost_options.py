"""The options of a cost guard: what they may be, and what else people write (B-014, B-274)."""

from __future__ import annotations

import logging
import re
from datetime import timedelta
from math import isfinite
from typing import Any

from ...errors import OptionError
from ..option_checks import one_of

__all__ = ["NAME", "WINDOWS", "is_limit", "percent", "template", "window_of"]

_log = logging.getLogger("procession.processors")

NAME = "CostGuardProcessor"
_USUAL = "7d"
WINDOWS = {
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
    "365d": timedelta(days=365),
}
_SPANS = {
    "hour": "1h",
    "1d": "24h",
    "day": "24h",
    "1w": "7d",
    "week": "7d",
    "month": "30d",
    "1y": "365d",
    "year": "365d",
}
"""What spans of time are called elsewhere."""


def is_limit(value: Any) -> bool:
    """Whether a value is a limit: a number above 0 (B-274)."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and isfinite(value) and value > 0


def window_of(window: Any, scope: str) -> str:
    """The window of a scope: the usual one unless one is given, which a run must not have."""
    if window is None:
        return _USUAL
    if scope == "run":
        raise OptionError(f"{NAME}: window is not for scope='run', which is all that a run costs")
    return one_of(NAME, "window", window, WINDOWS, meant=_SPANS)


def percent(value: Any) -> float | None:
    """A part of the limit, from a percentage between 0 and 100 (B-274)."""
    if value is None:
        return None
    if not is_limit(value) or value >= 100:
        raise OptionError(f"{NAME}: warn_at_percent must be a number between 0 and 100")
    if value < 1:
        _log.warning(
            "%s: warn_at_percent=%g means %g %% of the limit; for %g %% give %g",
            *(NAME, value, value, value * 100, value * 100),
        )
    return value / 100


def template(message: Any) -> str | None:
    """`message`, in which `{usage}` and `{limit}` may stand; another name would stay as it is."""
    if message is not None and not isinstance(message, str):
        raise OptionError(f"{NAME}: message must be a text, with {{usage}} and {{limit}} in it")
    for name in re.findall(r"\{(\w+)\}", message or ""):
        one_of(NAME, "each {…} in message", name, ("usage", "limit"))
    return message
