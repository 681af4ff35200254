"""E-60, E-61, E-63: the built-in processors as the guide sets them up.

Memory (E-62): with its part.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from procession import Agent, APICallError, ModelRequest
from procession.processors import (
    ModerationProcessor,
    PIIDetector,
    PrefillErrorHandler,
    PromptInjectionDetector,
    SystemPromptScrubber,
    TokenLimiter,
    UnicodeNormalizer,
)
from procession.testing import ScriptedModel
from tests.seeds.threeways import check_tripped, play, three_ways

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from procession import Chunk


def rated(**scores: float) -> str:
    """What a judge answers that moderates."""
    found = [{"category": name, "score": score} for name, score in scores.items()]
    return json.dumps({"category_scores": found or None, "reason": None})


# ── E-60 ───────────────────────────────────────────────────────────────────────────────────────


@three_ways
@pytest.mark.parametrize(("score", "trips"), [(0.69, False), (0.7, True), (0.9, True)])
async def test_e60_the_moderated_agent(way: str, score: float, trips: bool) -> None:
    """E-60 (B-024, B-100, B-102, B-109): what reaches the threshold trips, without a model call."""
    judge = ScriptedModel([rated(hate=0.1, harassment=score)])
    model = ScriptedModel(["An answer"])
    agent = Agent(
        id="moderated-agent",
        name="moderated-agent",
        instructions="You help with orders.",
        model=model,
        input_processors=[
            ModerationProcessor(
                model=judge,
                categories=["hate", "harassment", "violence"],
                threshold=0.7,
                strategy="block",
            )
        ],
    )
    outcome = await play(way, agent, "Where is my parcel?")
    assert len(judge.calls) == 1
    if not trips:
        assert (outcome.text, outcome.tripwire, len(model.calls)) == ("An answer", None, 1)
        return
    assert outcome.tripwire is not None
    assert "harassment" in outcome.tripwire.reason
    [message] = outcome.messages
    check_tripped(
        outcome,
        reason=outcome.tripwire.reason,
        processor_id="moderation",
        metadata={
            "processor_id": "moderation",
            "strategy": "block",
            "phase": "process_input",
            "message_id": message.id,
            "types": ["harassment"],
            "categories": ["harassment"],
            "scores": {"harassment": score},
        },
    )
    assert model.calls == []


# ── E-61 ───────────────────────────────────────────────────────────────────────────────────────


CLEAN = {
    "moderation": rated(),
    "injection": '{"categories": null, "reason": null}',
    "rewriting": '{"categories": null, "reason": null, "rewritten_content": null}',
    "pii": '{"categories": null, "detections": null, "redacted_content": null}',
    "scrubber": '{"detections": null, "reason": null}',
}
KINDS = {frozenset(json.loads(verdict)): kind for kind, verdict in CLEAN.items()}


def kind_of(request: ModelRequest) -> str:
    """Who asks: the judge whose verdict has these keys, or the agent itself."""
    if request.response_format is None:
        return "agent"
    keys = frozenset(request.response_format["schema"]["properties"])
    kinds = [kind for required, kind in KINDS.items() if required <= keys]
    return max(kinds, key=lambda kind: len(json.loads(CLEAN[kind])))


class OneForAll:
    """The model of an agent, which its judges ask as well (B-021); notes who asked about what."""

    provider, model_id = "example", "one-for-all"

    def __init__(self, words: str = "An answer", **verdicts: Callable[[str], str]) -> None:
        self.words = words
        self.verdicts = verdicts
        self.asked: list[tuple[str, str]] = []

    def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Chunk], None]:
        kind = kind_of(request)
        text = request.prompt[-1]["content"][0]["text"]
        self.asked.append((kind, text))
        verdict = self.verdicts.get(kind, lambda text: CLEAN.get(kind, self.words))
        return ScriptedModel([verdict(text)]).stream(request)


def injected(text: str) -> str:
    found = [{"type": "jailbreak", "score": 0.9}] if "jailbreak" in text else None
    return json.dumps({"categories": found, "reason": None})


def rewritten(text: str) -> str:
    return json.dumps(
        {**json.loads(injected(text)), "rewritten_content": text.replace("jailbreak", "open")}
    )


@three_ways
async def test_e61_three_that_need_nothing(way: str) -> None:
    """E-61 (R-015, B-021, B-210): in list order, each on what the one before it left."""
    model = OneForAll()
    agent = Agent(
        id="guarded",
        model=model,
        input_processors=[UnicodeNormalizer(), PromptInjectionDetector(), ModerationProcessor()],
    )
    outcome = await play(way, agent, "  Of\ufb01ce   hours \u2460 ")
    assert outcome.text == "An answer"
    said = "Office hours 1"
    assert model.asked == [("injection", said), ("moderation", said), ("agent", said)]
    assert [message.text for message in outcome.messages] == [said, "An answer"]


@three_ways
async def test_e61_another_order(way: str) -> None:
    """E-61 (R-015): judges that stand before the normaliser see the text as it came."""
    model = OneForAll()
    agent = Agent(
        id="guarded",
        model=model,
        input_processors=[ModerationProcessor(), UnicodeNormalizer(), PromptInjectionDetector()],
    )
    await play(way, agent, "of\ufb01ce")
    assert model.asked == [
        ("moderation", "of\ufb01ce"),
        ("injection", "office"),
        ("agent", "office"),
    ]


@three_ways
async def test_e61_what_one_has_rewritten(way: str) -> None:
    """E-61 (R-015, B-151): the next judge is asked about the new text."""
    model = OneForAll(rewriting=rewritten)
    rewriter = PromptInjectionDetector(strategy="rewrite")
    lists = [[rewriter, ModerationProcessor()], [ModerationProcessor(), rewriter]]
    seen: list[list[tuple[str, str]]] = []
    for processors in lists:
        model.asked.clear()
        agent = Agent(id="guarded", model=model, input_processors=processors)
        await play(way, agent, "jailbreak it")
        seen.append(model.asked.copy())
    assert seen == [
        [("rewriting", "jailbreak it"), ("moderation", "open it"), ("agent", "open it")],
        [("moderation", "jailbreak it"), ("rewriting", "jailbreak it"), ("agent", "open it")],
    ]


@three_ways
async def test_e61_none_behind_one_that_blocks(way: str) -> None:
    """E-61 (R-015, B-032): nobody further down the list is asked, nor is the agent's model."""
    model = OneForAll(injection=injected)
    agent = Agent(
        id="guarded",
        model=model,
        input_processors=[UnicodeNormalizer(), PromptInjectionDetector(), ModerationProcessor()],
    )
    outcome = await play(way, agent, "jailbreak  it")
    assert outcome.tripwire is not None
    assert outcome.tripwire.processor_id == "prompt-injection-detector"
    assert model.asked == [("injection", "jailbreak it")]


@three_ways
@pytest.mark.parametrize("redacts_first", [True, False])
async def test_e61_the_same_order_for_output(way: str, redacts_first: bool) -> None:
    """E-61 (R-015, B-021): three output processors that need nothing; what leaves is the same."""
    model = OneForAll("Write to bob@example.com now.")
    pii, moderation = PIIDetector(), ModerationProcessor()
    processors = [SystemPromptScrubber(), pii, moderation]
    if not redacts_first:
        processors = [SystemPromptScrubber(), moderation, pii]
    outcome = await play(way, Agent(id="guarded", model=model, output_processors=processors), "go")
    shown = "Write to b*b@*******.com now."
    assert outcome.text == shown
    assert "bob" not in json.dumps([message.to_json() for message in outcome.messages])
    judged = dict.fromkeys(text for kind, text in model.asked if kind == "moderation")
    assert "".join(judged).startswith(shown if redacts_first else model.words)
    assert ("bob@" in "".join(judged)) == (not redacts_first)
    scrubbed = "".join(dict.fromkeys(text for kind, text in model.asked if kind == "scrubber"))
    assert "bob@example.com" in scrubbed


# ── E-63 ───────────────────────────────────────────────────────────────────────────────────────


PREFILL = "This model does not support assistant message prefill."


def support(model: Any, judge: Any, limit: int = 4000) -> Agent:
    """The guide's agent of three lists."""
    return Agent(
        id="support-agent",
        name="support-agent",
        model=model,
        instructions="You help with orders.",
        input_processors=[TokenLimiter(limit), ModerationProcessor(model=judge)],
        output_processors=[ModerationProcessor(model=judge)],
        error_processors=[PrefillErrorHandler()],
    )


def judged(judge: ScriptedModel) -> list[str]:
    return [call.prompt[-1]["content"][0]["text"] for call in judge.calls]


@three_ways
async def test_e63_three_lists(way: str) -> None:
    """E-63 (R-014, B-107): the judge is asked for the input, the piece, and the whole answer."""
    judge, model = ScriptedModel([rated()]), ScriptedModel(["An answer"])
    outcome = await play(way, support(model, judge), "A question")
    assert (outcome.text, outcome.tripwire) == ("An answer", None)
    assert judged(judge) == ["A question", "An answer", "An answer"]


@three_ways
@pytest.mark.parametrize("side", ["input", "output"])
async def test_e63_either_side_trips(way: str, side: str) -> None:
    """E-63 (R-014): each instance guards its own side."""
    clean = [] if side == "input" else [rated()]
    judge, model = ScriptedModel([*clean, rated(hate=0.5)]), ScriptedModel(["An answer"])
    outcome = await play(way, support(model, judge), "A question")
    assert outcome.tripwire is not None
    assert outcome.tripwire.processor_id == "moderation"
    phase = "process_input" if side == "input" else "process_output_stream"
    assert outcome.tripwire.metadata["phase"] == phase
    assert (len(model.calls), outcome.text) == (int(side == "output"), "")


@three_ways
async def test_e63_limiter_and_handler_do_their_work(way: str) -> None:
    """E-63 (R-014, B-250): the old turns are not sent, and the refused call is made again."""
    refusal = APICallError(PREFILL, status_code=400)
    judge, model = ScriptedModel([rated()]), ScriptedModel([refusal, "An answer"])
    talk = [
        {"role": role, "content": f"{name} {'word ' * 60}"}
        for role, name in [("user", "first"), ("assistant", "second"), ("user", "third")]
    ]
    outcome = await play(way, support(model, judge, limit=200), talk)
    assert outcome.text == "An answer"
    assert len(model.calls) == 2
    for call in model.calls:
        assert "first" not in call.text
        assert "third" in call.text
    assert "continue</system-reminder>" in model.calls[1].text


def test_e63_the_limit_is_the_sole_positional_argument() -> None:
    """E-63 (B-250): it needs no name, and everything else does."""
    assert TokenLimiter(4000).get_max_tokens() == TokenLimiter(limit=4000).get_max_tokens() == 4000
    with pytest.raises(TypeError):
        TokenLimiter(4000, "abort")  # type: ignore[misc]
    with pytest.raises(TypeError):
        TokenLimiter()  # type: ignore[call-arg]
