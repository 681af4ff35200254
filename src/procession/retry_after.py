"""How long a provider asks us to wait before the next call."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, cast

__all__ = ["asked_pause"]


def asked_pause(headers: Any) -> float | None:
    """Seconds that `retry-after-ms` or `Retry-After` asks for, from 0 on; `None`: nothing usable.

    `Retry-After` is a number of seconds or an HTTP date, which counts from now by this machine's
    clock. Values that are neither, negative ones and dates in the past count for nothing.
    `headers` is a mapping, with names in any spelling; anything else asks for nothing.
    """
    if not isinstance(headers, Mapping):
        return None
    entries = cast("Mapping[Any, Any]", headers).items()
    given = {str(name).lower(): value for name, value in entries}
    milliseconds = _number(given.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    asked = given.get("retry-after")
    seconds = _number(asked)
    return seconds if seconds is not None else _until(asked)


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if isfinite(number) and number >= 0 else None


def _until(date: Any) -> float | None:
    """Seconds from now until an HTTP date."""
    # Loaded only after a failure that names a date.
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    if not isinstance(date, str):
        return None
    try:
        then = parsedate_to_datetime(date)
    except (TypeError, ValueError, OverflowError):
        return None
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    seconds = (then - datetime.now(UTC)).total_seconds()
    return seconds if seconds >= 0 else None
