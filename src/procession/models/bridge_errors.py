"""What pydantic-ai raises, as errors of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from pydantic_ai import exceptions

from ..errors import APICallError, ConfigurationError, ModelError, ProcessionError
from .call_errors import conceal, is_retryable_status, public_headers

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model, StreamedResponse

__all__ = ["failure_of", "is_cut"]

_PASSING = (
    exceptions.ModelRateLimitError,
    exceptions.ModelUnavailableError,
    exceptions.ModelServerError,
    exceptions.ModelConnectionError,
)


def failure_of(error: Exception, model: Model) -> ProcessionError:
    """The error of ours that says the same, without the key.

    That is taken out of what is behind the error, too: a traceback shows it.
    """
    key = _key_of(model)
    behind: BaseException | None = error
    while behind is not None:
        conceal(behind, key)
        behind = behind.__cause__ or behind.__context__
    failure = _failure_of(error, model.system)
    conceal(failure, key)
    return failure


def _failure_of(error: Exception, provider: str) -> ProcessionError:
    if isinstance(error, exceptions.UserError):
        return ConfigurationError(f"{provider}: {error}")
    if isinstance(error, exceptions.ModelAPIError):
        return _refused(error, provider)
    if isinstance(error, exceptions.ContentFilterError | exceptions.OutputTokenLimitExceeded):
        return ModelError(str(error))
    if isinstance(error, exceptions.UnexpectedModelBehavior) and "without content" in str(error):
        return APICallError(
            f"{provider} answered with nothing that could be read: check the base URL",
            is_retryable=True,
        )
    if isinstance(error, exceptions.UnexpectedModelBehavior):
        first = str(error).partition("\n")[0]
        return ModelError(f"{first}: is it an answer of {provider}? Check the base URL")
    if isinstance(error, exceptions.AgentRunError):
        return ModelError(str(error))
    return ModelError(
        f"pydantic-ai could not read the answer of {provider}, {type(error).__name__}: "
        f"check the base URL"
    )


def _refused(error: exceptions.ModelAPIError, provider: str) -> APICallError:
    status: int | None = getattr(error, "status_code", None)
    if status is None and error.body is None and "JSON" in str(error):
        # Its text repeats the whole answer: a page, most often.
        return APICallError(
            f"{provider} answered with something else than JSON: check the base URL"
        )
    headers = public_headers(getattr(error, "headers", None) or {})
    if error.retry_after is not None:
        headers.setdefault("retry-after", str(error.retry_after))
    return APICallError(
        _words(error),
        status_code=status,
        is_retryable=isinstance(error, _PASSING) or is_retryable_status(status),
        response_body=_text(error.body),
        response_headers=headers,
        provider=provider,
    )


def _key_of(model: Model) -> str:
    """The key that the provider's client sends, where it tells."""
    client: Any = getattr(model, "client", None)
    key = getattr(client, "api_key", None)
    return key if isinstance(key, str) else ""


def is_cut(stream: StreamedResponse, answer: ModelResponse) -> bool:
    """Whether an answer ended without the provider's word that it is complete.

    Nothing of pydantic-ai tells: what the provider said of its end stands among the details, and a
    model of OpenAI's format makes up a reason where none came.
    """
    if (answer.provider_details or {}).get("finish_reason"):
        return False
    kinds = type(stream).__mro__
    if not any(kind.__module__.startswith(_TELLING) for kind in kinds):
        return False
    made_up = any(kind.__name__ == "OpenAIStreamedResponse" for kind in kinds)
    return answer.finish_reason is None or (made_up and answer.finish_reason == "stop")


_TELLING = tuple(
    f"pydantic_ai.models.{name}"
    for name in "anthropic bedrock google groq huggingface mistral openai xai".split()
)
"""Models whose answers say why they ended; one of your own need not, nor do those for tests."""


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
