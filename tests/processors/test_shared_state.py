"""Several built-ins of one class in one list: the state is shared by id (R-191), and yet each keeps
what is its own.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procession import Agent, APICallError, Policy, tool
from procession.processors import (
    BatchPartsProcessor,
    ModerationProcessor,
    PIIDetector,
    RegexFilterProcessor,
    RegexRule,
    RetryMatcher,
    StreamErrorRetryProcessor,
    SystemPromptScrubber,
    TokenLimiter,
)
from procession.testing import ScriptedModel, answer, collect, tool_call
from tests.laws.kit import PlayedModel, end, run_async, said
from tests.processors.judging import JudgeByText

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TEXT = "one secret two secret, and joe@example.com three."


def secret() -> RegexFilterProcessor:
    return RegexFilterProcessor(rules=[RegexRule("s", "secret", "***")], strategy="redact")


def moderation() -> ModerationProcessor:
    def verdict(text: str) -> str:
        scores = [{"category": "hate", "score": 0.9}] if "secret" in text else None
        return json.dumps({"category_scores": scores, "reason": None})

    return ModerationProcessor(model=JudgeByText(verdict), strategy="filter", chunk_window=2)


def scrubber() -> SystemPromptScrubber:
    def verdict(text: str) -> str:
        return json.dumps({"detections": None, "reason": None, "redacted_content": None})

    return SystemPromptScrubber(model=JudgeByText(verdict), custom_patterns=["secret"])


MAKERS: dict[str, Callable[[], Any]] = {
    "batch": lambda: BatchPartsProcessor(batch_size=3),
    "regex": secret,
    "pii": lambda: PIIDetector(model=False, strategy="redact"),
    "moderation": moderation,
    "scrubber": scrubber,
    "tokens": lambda: TokenLimiter(9),
}


async def outcome(pieces: Sequence[str], processors: Sequence[Any]) -> tuple[list[str], str]:
    model = PlayedModel([[*said(*pieces), end()]])
    run = await Agent(id="a", model=model, output_processors=processors).stream("go")
    chunks = [chunk async for chunk in run]
    deltas = [chunk.payload.text for chunk in chunks if chunk.type == "text-delta"]
    return deltas, await run.text


@pytest.mark.parametrize("kind", MAKERS)
async def test_two_of_one_id_are_as_two_of_different_ids(kind: str) -> None:
    """R-191: in neighbouring places, and with a guard in between."""
    for between in ((), (secret,)):
        seen: list[Any] = []
        for other in (None, "another-id"):
            first, last = MAKERS[kind](), MAKERS[kind]()
            last.id = other or last.id
            seen.append(await outcome(list(TEXT), [first, *(make() for make in between), last]))
        assert seen[0] == seen[1], between


@given(st.lists(st.integers(1, 4), min_size=2, max_size=3), st.booleans())
def test_batches_of_batches_lose_nothing(sizes: list[int], guarded: bool) -> None:
    """B-360, B-361: the text stays in order, whatever was held by whom."""
    batches = [BatchPartsProcessor(batch_size=size) for size in sizes]
    processors = [batches[0], secret(), *batches[1:]] if guarded else batches
    expected = TEXT.replace("secret", "***") if guarded else TEXT
    deltas, text = run_async(outcome(list(TEXT), processors))
    assert "".join(deltas) == text == expected


def refused(status: int) -> APICallError:
    return APICallError("no", status_code=status, is_retryable=False, provider="x")


def only(status: int, **options: Any) -> StreamErrorRetryProcessor:
    """Makes a call again, once, that failed so."""

    def match(error: Any) -> bool:
        return getattr(error, "status_code", 0) == status

    return StreamErrorRetryProcessor(matchers=[RetryMatcher(match=match)], **options)


async def calls_made(answers: Sequence[Any], processors: Sequence[Any]) -> int:
    model = ScriptedModel(answers)
    run = await Agent(id="a", model=model, error_processors=processors).stream("q")
    await collect(run)
    return len(model.calls)


async def test_each_counts_its_own_retries() -> None:
    """B-420: what one has made again leaves the other all that it may."""

    answers = [refused(418), refused(451), "ok"]
    assert await calls_made(answers, [only(418), only(451)]) == 3


async def test_a_fallback_of_the_same_class_counts_its_own() -> None:
    """B-420: it stands in the place of one that fails, and has the same id as the others."""

    class Failing(StreamErrorRetryProcessor):
        async def process_api_error(self, args: Any) -> Any:
            raise ValueError("no")

    first = Failing(policy=Policy(on_error="degrade", fallback=only(418)))
    answers = [refused(418), refused(451), "ok"]
    assert await calls_made(answers, [first, only(451)]) == 3


@tool
def long_list(words: int) -> str:
    """Gives much."""
    return "word " * words


async def test_each_limit_tells_what_it_cuts(caplog: pytest.LogCaptureFixture) -> None:
    """B-253: two limits in one list, and the log has both."""
    asked = [answer(tool_calls=[tool_call("long_list", {"words": n})]) for n in (900, 300)]
    model = ScriptedModel([*asked, "ok"])
    limits = [TokenLimiter(600), TokenLimiter(150)]
    agent = Agent(id="a", model=model, tools=[long_list], input_processors=limits)
    with caplog.at_level(logging.WARNING, "procession"):
        await agent.generate("go")
    told = [record.message for record in caplog.records if "not fit" in record.message]
    assert len(told) == 2
