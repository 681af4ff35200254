"""Judges that come to no verdict: nonsense, refusals, no answer, no end (B-025 to B-028, B-902).

The run comes to the state that `error_strategy` says, or the policy, within its timeout, and there
is an event of it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

from procession import AbortController, Agent, APICallError, Breaker, Policy
from procession.processor import ProcessInputArgs
from procession.processors import LanguageDetector, ModerationProcessor, SystemPromptScrubber
from procession.testing import ScriptedModel, hook_args
from tests.laws.kit import PlayedModel, others_done
from tests.processors.judging import (
    KINDS,
    PATIENT,
    Endless,
    Seen,
    Told,
    broken_judges,
    hanging,
    judged_answer,
    judged_input,
    refused,
    slow,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

TEXT = "Say something longer, with SECRET words."
PIECES = ["Say something longer, ", "with SECRET words."]
CLEAN = {
    "moderation": '{"category_scores": null, "reason": null}',
    "language-detector": '{"iso_code": "en", "confidence": 1}',
    "system-prompt-scrubber": '{"detections": null, "reason": null}',
}
FLAGGED = {
    "moderation": '{"category_scores": [{"category": "hate", "score": 1}], "reason": null}',
    "language-detector": '{"iso_code": "fr", "confidence": 1}',
    "system-prompt-scrubber": (
        '{"detections": [{"type": "rules", "value": "SECRET", "confidence": 1, "start": 14, '
        '"end": 20}], "reason": null}'
    ),
}
PLACES = [
    (ModerationProcessor, "process_input"),
    (ModerationProcessor, "process_output_stream"),
    (ModerationProcessor, "process_output_result"),
    (LanguageDetector, "process_input"),
    (SystemPromptScrubber, "process_output_stream"),
    (SystemPromptScrubber, "process_output_result"),
]
everywhere = pytest.mark.parametrize(
    ("kind", "phase"), PLACES, ids=[f"{kind.__name__}-{phase}" for kind, phase in PLACES]
)


class Until:
    """Judges well so often, and then as `then` does."""

    provider, model_id = "example", "judge-1"

    def __init__(self, count: int, verdict: str, then: Any) -> None:
        self.count = count
        self.good, self.then = ScriptedModel([verdict]), then

    def stream(self, request: Any) -> AsyncGenerator[Any, None]:
        self.count -= 1
        return (self.good if self.count >= 0 else self.then).stream(request)


async def run(kind: Any, phase: str, judge: Any, **options: Any) -> tuple[Seen, Told]:
    """A run in which `judge` is asked in that hook, and well-meaning ones are before."""
    told = Told()
    if phase == "process_output_result":
        judge = Until(len(PIECES), CLEAN[kind.fixed_id], judge)
    processor = kind(model=judge, strategy="block", on_violation=told, **options)
    if phase == "process_input":
        return await judged_input(processor, TEXT, max_retries=0), told
    return await judged_answer(processor, PIECES, max_retries=0), told


def hooks_of(phase: str) -> list[str]:
    """The hooks in which a judge fails that fails in this one: the answer is judged twice."""
    return [phase, "process_output_result"] if phase == "process_output_stream" else [phase]


@everywhere
@pytest.mark.parametrize("fault", broken_judges())
async def test_fail_open(
    kind: Any, phase: str, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    """B-025, B-028: the text counts as clean, and goes on as it is; it is logged, and an event."""
    with caplog.at_level(logging.DEBUG, "procession"):
        seen, told = await run(kind, phase, broken_judges()[fault]())
    assert seen.tripwire is None and seen.error is None
    assert told == []
    if phase == "process_input":
        assert seen.prompt[0]["content"][0]["text"] == TEXT
    else:
        assert seen.deltas == PIECES
        assert seen.stored == TEXT
    assert [(e.processor_id, e.hook, e.action, e.kind, e.error) for e in seen.events] == [
        (kind.fixed_id, hook, "bypassed", "error", KINDS.get(fault, "StructuredOutputError"))
        for hook in hooks_of(phase)
    ]
    assert kind.__name__ in caplog.text
    assert "SECRET" not in caplog.text
    assert "structuring model" not in caplog.text
    if fault in KINDS:
        assert f"-1 failed: {KINDS[fault]}" in caplog.text.partition("no verdict: the judge ")[2]


@everywhere
@pytest.mark.parametrize("fault", broken_judges())
async def test_fail_closed(kind: Any, phase: str, fault: str) -> None:
    """B-025, B-026: it says which check failed, with empty `types`, and nothing of the failure."""
    seen, told = await run(kind, phase, broken_judges()[fault](), error_strategy="strict")
    assert seen.tripwire.processor_id == kind.fixed_id
    assert kind.__name__ in seen.tripwire.reason
    metadata = dict(seen.tripwire.metadata)
    assert metadata.pop("message_id", "") is not None
    assert metadata == {
        "processor_id": kind.fixed_id,
        "strategy": "block",
        "phase": phase,
        "types": [],
        "error": True,
    }
    assert [violation.processor_id for violation in told] == [kind.fixed_id]
    assert "SECRET" not in repr((seen.tripwire, told, seen.events))
    assert [(e.action, e.error) for e in seen.events] == [
        ("blocked", KINDS.get(fault, "StructuredOutputError"))
    ]
    assert seen.stored == ""


@everywhere
@pytest.mark.parametrize(("on_error", "action"), [("block", "blocked"), ("allow", "bypassed")])
@pytest.mark.parametrize("error_strategy", ["warn", "strict"])
async def test_a_judge_that_hangs(
    kind: Any, phase: str, on_error: Any, action: str, error_strategy: Any
) -> None:
    """The policy's timeout ends the wait, and what it says applies; nothing of the call is left."""
    before = asyncio.all_tasks()
    judge = hanging()
    policy = Policy(timeout=PATIENT, on_error=on_error)
    seen, _ = await run(kind, phase, judge, policy=policy, error_strategy=error_strategy)
    assert (seen.tripwire is not None) == (on_error == "block")
    hooks = hooks_of(phase) if on_error == "allow" else [phase]
    assert [(e.processor_id, e.hook, e.action, e.kind) for e in seen.events] == [
        (kind.fixed_id, hook, action, "timeout") for hook in hooks
    ]
    if on_error == "allow" and phase != "process_input":
        assert seen.text == seen.stored == TEXT
    assert judge.open == 0
    await others_done(before)


@everywhere
async def test_a_judge_that_is_slow(kind: Any, phase: str) -> None:
    """Within its timeout: its verdict counts, and there is no event."""
    policy = Policy(timeout=600, on_error="allow")
    seen, told = await run(kind, phase, slow(FLAGGED[kind.fixed_id]), policy=policy)
    assert seen.tripwire is not None
    assert len(told) == 1
    assert seen.events == []


async def test_a_pause_that_a_provider_asks_for_ends_with_the_timeout() -> None:
    """A rate limit that is to pass in an hour does not hold the run for an hour."""
    error = APICallError(
        "wait", status_code=429, is_retryable=True, response_headers={"retry-after": "3600"}
    )
    judge = ScriptedModel([error])
    processor = ModerationProcessor(model=judge, policy=Policy(timeout=PATIENT, on_error="allow"))
    seen = await judged_input(processor, TEXT, max_retries=2)
    assert seen.text == "ok"
    assert [event.kind for event in seen.events] == ["timeout"]


async def test_a_call_that_may_be_repeated_is() -> None:
    """R-216: a refusal that passes is no failure."""
    refusal = refused()
    refusal.response_headers = {"retry-after-ms": "1"}
    judge = ScriptedModel([refusal, FLAGGED["moderation"]])
    seen = await judged_input(ModerationProcessor(model=judge), TEXT, max_retries=1)
    assert seen.tripwire.metadata["types"] == ["hate"]
    assert seen.events == []


async def test_a_breaker_leaves_a_judge_alone_that_keeps_hanging() -> None:
    """It is not asked again and again for every piece."""
    judge = hanging()
    policy = Policy(timeout=PATIENT, on_error="allow", breaker=Breaker(failures=2, seconds=60))
    processor = ModerationProcessor(model=judge, policy=policy)
    seen = await judged_answer(processor, ["a ", "b ", "c ", "d"])
    assert seen.text == "a b c d"
    assert len(judge.prompts) == 2
    assert {event.kind for event in seen.events} == {"timeout", "circuit-open"}


async def test_a_hook_that_is_called_alone() -> None:
    """There is no run that could keep an event."""
    processor = ModerationProcessor(model=ScriptedModel(["nonsense"]))
    assert await processor.process_input(hook_args(ProcessInputArgs, messages=TEXT)) is None


async def test_an_answer_without_end_is_broken_off() -> None:
    """What it costs is bounded, whatever the model does."""
    judge = Endless()
    await judged_input(ModerationProcessor(model=judge), TEXT)
    assert judge.written < 100


@pytest.mark.parametrize("kind", [ModerationProcessor, SystemPromptScrubber])
async def test_nothing_of_the_judge_reaches_the_client(kind: Any) -> None:
    """Its chunks are not the run's, whatever it writes."""
    seen, _ = await run(kind, "process_output_stream", ScriptedModel([CLEAN[kind.fixed_id]]))
    assert seen.types == [
        *("start", "step-start", "text-start", "text-delta", "text-delta", "text-end"),
        *("step-finish", "finish"),
    ]
    assert seen.text == TEXT


async def test_the_callers_signal_ends_a_call_at_once() -> None:
    """B-022: and the run is aborted, not failed."""
    judge, controller = hanging(), AbortController()
    agent = Agent(
        id="a",
        model=PlayedModel([[]]),
        input_processors=[ModerationProcessor(model=judge, error_strategy="strict")],
    )
    going = asyncio.ensure_future(agent.generate(TEXT, abort_signal=controller.signal))
    await judge.hanging.wait()
    controller.abort("enough")
    out = await asyncio.wait_for(going, 30)
    assert out.finish_reason == "aborted"
    assert out.tripwire is None
    assert judge.open == 0


@pytest.mark.parametrize(("error_strategy", "would"), [("warn", "allow"), ("strict", "block")])
async def test_watched_only(error_strategy: Any, would: str) -> None:
    """Under `observe` a failure is told as what it would have been."""
    processor = ModerationProcessor(
        model=ScriptedModel(["nonsense"]),
        error_strategy=error_strategy,
        policy=Policy(observe=True),
    )
    seen = await judged_input(processor, TEXT)
    assert seen.text == "ok"
    failures = [event for event in seen.events if event.kind == "error"]
    assert [(e.action, e.would, e.error) for e in failures] == [
        ("observed", would, "StructuredOutputError")
    ]
