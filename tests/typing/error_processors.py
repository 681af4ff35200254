"""Error processors and rules as users write them; checked, not run."""

from __future__ import annotations

from typing import Any

from procession import Agent, Message, ProcessAPIErrorArgs
from procession.processors import (
    HistoryRule,
    PrefillErrorHandler,
    ProviderHistoryCompat,
    RetryMatcher,
    RulePrompt,
    StreamErrorRetryProcessor,
    TrailingAssistantGuard,
    is_bad_request_error,
    is_retryable_openai_responses_stream_error,
)


async def is_odd(error: Any) -> bool:
    return "odd" in str(error) and not is_retryable_openai_responses_stream_error(error)


async def pause(args: ProcessAPIErrorArgs) -> float:
    return 5.0 if args.may_retry else 0.0


def no_change(about: RulePrompt) -> list[dict[str, Any]] | None:
    return about.prompt if about.model.provider == "acme" else None


def forget(messages: list[Message]) -> bool:
    return bool(messages)


odd: RetryMatcher = {"match": is_odd, "max_retries": 2, "delay_ms": pause}
retry = StreamErrorRetryProcessor(delay_ms=pause, matchers=[odd, is_bad_request_error])
compat = ProviderHistoryCompat(
    additional_rules=[
        HistoryRule(name="none", apply_to_prompt=no_change),
        HistoryRule(name="forget", error_patterns=["too long"], fix=forget),
    ]
)
agent = Agent(
    id="helper",
    input_processors=[compat, TrailingAssistantGuard()],
    error_processors=[retry, compat, PrefillErrorHandler()],
)
