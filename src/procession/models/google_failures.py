"""What Google says when it refuses a call."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, cast

import msgspec

from .call_errors import refused

if TYPE_CHECKING:
    import httpx2

    from ..errors import APICallError

__all__ = ["google_refusal"]

Json = dict[str, Any]


def google_refusal(provider: str, response: httpx2.Response, key: str) -> APICallError:
    """The error of an answer whose body has been read."""
    record = _error_record(response.content)
    error = refused(provider, response, record or response.text, key)
    pause = _pause(record)
    headers = dict(error.response_headers or {})
    if pause is not None and "retry-after" not in {name.lower() for name in headers}:
        error.response_headers = {**headers, "retry-after": str(pause)}
    return error


def _error_record(content: bytes) -> Json | None:
    """`{error: {code, message, status, details}}`, also as the only entry of an array."""
    try:
        body: Any = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if isinstance(body, list):
        body = next(iter(cast("list[Any]", body)), None)
    if not isinstance(body, dict):
        return None
    record = cast("Json", body)
    inner = record.get("error")
    return cast("Json", inner) if isinstance(inner, dict) else record


def _pause(record: Json | None) -> int | None:
    """The whole seconds after which `RetryInfo` invites to ask again."""
    details = (record or {}).get("details")
    for detail in cast("list[Any]", details if isinstance(details, list) else []):
        delay = cast("Json", detail).get("retryDelay") if isinstance(detail, dict) else None
        found = re.fullmatch(r"(\d+(?:\.\d+)?)s", delay) if isinstance(delay, str) else None
        if found:
            return math.ceil(float(found[1]))
    return None
