"""Telling errors apart: those that pass by themselves, and those that never do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from ...causes import causes, field_of, status_of
from ...errors import MissingKeyError

__all__ = [
    "invites_retry",
    "is_authorization_failure",
    "is_bad_request_error",
    "is_retryable_openai_responses_stream_error",
]

Record = Mapping[str, Any]

_TRANSIENT = frozenset(
    "server_error internal_error internal_server_error api_error rate_limit_exceeded "
    "rate_limit_error too_many_requests slow_down overloaded overloaded_error server_overloaded "
    "server_is_overloaded engine_overloaded service_unavailable service_unavailable_error timeout "
    "timeout_error request_timeout vector_store_timeout".split()
)
"""Codes and types of errors in a stream after which the same call may succeed."""

_PERMANENT = frozenset(
    "context_length_exceeded string_above_max_length insufficient_quota billing_hard_limit_reached "
    "model_not_found not_found_error content_policy_violation content_filter bad_request "
    "unsupported_parameter unsupported_value request_too_large".split()
)
"""Codes that speak against another try, whatever the text says; `invalid_…` does so as well."""

_UNAUTHORIZED = frozenset(
    "invalid_api_key incorrect_api_key authentication_error invalid_authentication unauthorized "
    "unauthenticated permission_error permission_denied insufficient_permissions forbidden "
    "access_denied account_deactivated expired_api_key missing_api_key".split()
)

_INVITATION = re.compile(
    r"\b(you can|you may|please) retry\b"
    r"|\btry again (later|shortly|soon|in (a|an|some|\d))"
    r"|\btry your request again\b",
    re.IGNORECASE,
)

_PASSING_STATUS = frozenset({408, 409, 425, 429})


def is_retryable_openai_responses_stream_error(error: Any) -> bool:
    """Whether an error, or a cause of it, is one that OpenAI reports in a stream and that passes.

    That is an `error` or `response.failed` event with a transient code (`server_error`,
    `rate_limit_exceeded`, …), or a text that invites to try again. The event may be the error
    itself, stand in its response body, or be what it was made of. An error that bears the status of
    a rejected request, or a permanent code, is none, whatever its text says (B-421, B-425).
    """
    return any(_is_passing(cause) for cause in causes(error))


def is_bad_request_error(error: Any) -> bool:
    """Whether an error, or a cause of it, is a request refused with status 400 (B-425)."""
    return any(status_of(cause) == 400 for cause in causes(error))


def is_authorization_failure(error: Any) -> bool:
    """Whether an error, or a cause of it, says that the key is missing, wrong or not allowed."""
    return any(_is_refused_entry(cause) for cause in causes(error))


def invites_retry(text: str) -> bool:
    """Whether a provider's words say that the same request may succeed later."""
    return _INVITATION.search(text) is not None


def _is_passing(error: Any) -> bool:
    status = status_of(error)
    if status is not None and 400 <= status < 500 and status not in _PASSING_STATUS:
        return False
    records = list(_records(error))
    names = {name for record in records for name in _names(record)}
    if names & _TRANSIENT:
        return True
    if any(name in _PERMANENT or name.startswith("invalid_") for name in names):
        return False
    texts = [record.get("message") for record in records]
    texts.append(str(error) if isinstance(error, BaseException) else None)
    return any(isinstance(text, str) and invites_retry(text) for text in texts)


def _is_refused_entry(error: Any) -> bool:
    if isinstance(error, MissingKeyError) or status_of(error) in (401, 403):
        return True
    return any(name in _UNAUTHORIZED for record in _records(error) for name in _names(record))


def _names(record: Record) -> Iterator[str]:
    """The code and the type of an error record, in small letters; Google calls it `status`."""
    for key in ("code", "type", "status"):
        value = record.get(key)
        if isinstance(value, str):
            yield value.lower()


def _records(error: Any) -> Iterator[Record]:
    """The records in an error: itself, its fields, its body; each with what stands inside."""
    given = [error, field_of(error, "body", "data"), _decoded(error)]
    if isinstance(error, BaseException):
        given.append({key: field_of(error, key) for key in ("code", "type", "message")})
    for value in given:
        yield from _unpacked(value)


def _unpacked(value: Any, depth: int = 3) -> Iterator[Record]:
    """A record, and those at the places where providers put the error in it."""
    if not isinstance(value, Mapping) or not depth:
        return
    record = cast("Record", value)
    yield record
    for key in ("error", "response"):
        yield from _unpacked(record.get(key), depth - 1)


def _decoded(error: Any) -> Any:
    body = field_of(error, "response_body", "responseBody")
    if not isinstance(body, str):
        return None
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
