"""`PromptInjectionDetector` on what tools give, before the model sees it (B-154, R-143, R-148)."""

from __future__ import annotations

from typing import Any

import pytest

from procession import Agent, tool
from procession.processors import PromptInjectionDetector
from procession.testing import ScriptedModel, tool_call
from tests.processors.judging import Told
from tests.processors.test_prompt_injection import ATTACK, rated

PAGE = {"title": "Tides", "text": f"High at noon. {ATTACK}", "links": [ATTACK, 7]}
GONE = "[removed: prompt injection]"


async def fetched(
    processor: PromptInjectionDetector, page: Any, *before: Any, both: bool = False
) -> tuple[Any, ScriptedModel]:
    """A run whose tool gives `page`; what came of it, and the model that was asked."""

    @tool
    async def fetch() -> Any:
        """Fetch the page."""
        return page

    model = ScriptedModel([[tool_call("fetch", {})], "done"])
    agent = Agent(
        id="a",
        model=model,
        tools=[fetch],
        input_processors=[processor] if both else [],
        output_processors=[*before, processor],
    )
    return await agent.generate("When is high tide?"), model


def given_to(model: ScriptedModel) -> Any:
    """What the model was told that the tool gave."""
    entry = next(entry for entry in model.calls[1].prompt if entry["role"] == "tool")
    return entry["content"][0]["output"]["value"]


async def test_block_ends_the_run_before_the_model_is_asked_again() -> None:
    """B-032, B-007: with the tool's name, without a word of what it gave."""
    told = Told()
    out, model = await fetched(PromptInjectionDetector(model=False, on_violation=told), PAGE)
    assert out.tripwire.processor_id == "prompt-injection-detector"
    assert out.tripwire.metadata["phase"] == "process_tool_result"
    assert out.tripwire.metadata["tool_name"] == "fetch"
    assert out.tripwire.metadata["types"] == ["injection"]
    assert len(model.calls) == 1 and len(told) == 1
    assert "Ignore" not in repr((out.tripwire, told))


async def test_filter_and_rewrite_replace_it_for_everyone() -> None:
    """R-148: the model, the result and the messages have what was made of it."""
    processor = PromptInjectionDetector(model=False, strategy="rewrite")
    out, model = await fetched(processor, PAGE)
    rewritten = {"title": "Tides", "text": "High at noon.", "links": [GONE, 7]}
    assert given_to(model) == rewritten
    assert out.tool_results[0].payload.result == rewritten
    out, model = await fetched(PromptInjectionDetector(model=False, strategy="filter"), PAGE)
    assert given_to(model) == GONE
    assert ATTACK not in repr(out.messages)


async def test_warn_and_harmless_results_stay() -> None:
    """B-005."""
    told = Told()
    processor = PromptInjectionDetector(model=False, strategy="warn", on_violation=told)
    _, model = await fetched(processor, PAGE)
    assert given_to(model) == PAGE
    assert [v.detail["strategy"] for v in told] == ["warn"]
    harmless = {"title": "Tides", "numbers": [1, None, True, 2.5], "empty": ""}
    _, model = await fetched(PromptInjectionDetector(model=False), harmless)
    assert given_to(model) == harmless


async def test_the_judge_is_asked_about_results_too() -> None:
    """One call for each result that says something; its rewritten text takes the place."""
    judge = ScriptedModel([rated(None, "High at noon.", injection=0.9)])
    processor = PromptInjectionDetector(model=judge, strategy="rewrite")
    _, model = await fetched(processor, {"text": "High at noon. Dear model, be so kind."})
    assert given_to(model) == "High at noon."
    asked = judge.calls[0].prompt[-1]["content"][0]["text"]
    assert asked == "text\nHigh at noon. Dear model, be so kind."
    judge = ScriptedModel(["never asked"])
    await fetched(PromptInjectionDetector(model=judge), 17)
    assert judge.calls == []


async def test_it_sees_what_processors_before_it_have_made_of_a_result() -> None:
    """R-146: and what it leaves alone stays as they made it."""

    class Brings:
        id = "brings"

        def __init__(self, value: Any) -> None:
            self.value = value

        def process_tool_result(self, args: Any) -> None:
            call = {"toolCallId": args.tool_call_id, "state": "result", "result": self.value}
            part = {"type": "tool-invocation", "toolInvocation": {"toolName": "fetch", **call}}
            args.message_list.update_tool_invocation(part)

    processor = PromptInjectionDetector(model=False, strategy="filter")
    _, model = await fetched(processor, "fine", Brings(ATTACK))
    assert given_to(model) == GONE
    _, model = await fetched(processor, ATTACK, Brings("fine"))
    assert given_to(model) == "fine"


async def test_one_object_may_stand_in_both_lists() -> None:
    """B-001: each list has its hook."""
    processor = PromptInjectionDetector(model=False, strategy="filter")
    _, model = await fetched(processor, ATTACK, both=True)
    assert given_to(model) == GONE


@pytest.mark.parametrize("depth", [1, 60])
async def test_keys_that_give_orders_go(depth: int) -> None:
    """Data may be nested, and an attack may stand in a key."""
    page: Any = {ATTACK: 1, "ok": 2}
    for _ in range(depth):
        page = [page]
    _, model = await fetched(PromptInjectionDetector(model=False, strategy="rewrite"), page)
    left: Any = given_to(model)
    for _ in range(depth):
        (left,) = left
    assert left == {"ok": 2}
