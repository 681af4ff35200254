"""What pydantic-ai raises, as errors of ours."""

from __future__ import annotations

from typing import Any

import msgspec
from pydantic_ai import exceptions

from ..errors import APICallError, ConfigurationError, ModelError, ProcessionError
from .call_errors import is_retryable_status, public_headers

__all__ = ["failure_of"]

_PASSING = (
    exceptions.ModelRateLimitError,
    exceptions.ModelUnavailableError,
    exceptions.ModelServerError,
    exceptions.ModelConnectionError,
)


def failure_of(error: Exception, provider: str) -> ProcessionError:
    """The error of ours that says the same."""
    if isinstance(error, exceptions.UserError):
        return ConfigurationError(f"{provider}: {error}")
    if not isinstance(error, exceptions.ModelAPIError):
        return ModelError(str(error))
    status: int | None = getattr(error, "status_code", None)
    headers = public_headers(getattr(error, "headers", None) or {})
    if error.retry_after is not None:
        headers.setdefault("retry-after", str(error.retry_after))
    return APICallError(
        _words(error),
        status_code=status,
        is_retryable=isinstance(error, _PASSING) or is_retryable_status(status),
        response_body=_text(error.body),
        response_headers=headers,
    )


def _words(error: exceptions.ModelAPIError) -> str:
    """The provider's own message, where the body has one."""
    body: Any = error.body
    for _ in range(2):
        if isinstance(body, dict):
            body = body.get("error") or body.get("message")  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return body if isinstance(body, str) and body else str(error)


def _text(body: Any) -> str | None:
    if body is None or isinstance(body, str):
        return body
    return msgspec.json.encode(body, enc_hook=str).decode()
