"""A recorded model answers again, and fails loudly when it is asked something else (X9)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procession import Agent, APICallError, InputError, LanguageModel, ModelError, processor, tool
from procession.recording import RecordedRun, Recorder
from procession.stores import InMemoryStore
from procession.testing import ScriptedModel, answer, collect, tool_call

if TYPE_CHECKING:
    from procession.chunks import Chunk


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"21 degrees in {city}"


async def a_recording(*answers: Any, raw: bool = True, **options: Any) -> tuple[RecordedRun, Any]:
    recorder = Recorder(InMemoryStore(), raw=raw)
    agent = Agent(
        id="desk",
        model=ScriptedModel(answers),
        record=recorder,
        **{"tools": [weather], "max_retries": 0, **options},
    )
    run = await agent.stream("How warm is it?", run_id="r1")
    await run.consume_stream()
    return await recorder.runs.load("r1"), run


WITH_A_TOOL = (
    answer(tool_calls=[tool_call("weather", {"city": "Oslo"}, id="c1")]),
    answer("It is ", "21"),
)


def shape(chunks: list[Chunk]) -> list[Any]:
    kept = ("text-delta", "reasoning-delta", "tool-call", "tool-result", "step-finish", "finish")
    found: list[Any] = []
    for chunk in chunks:
        if chunk.type in kept:
            text = getattr(chunk.payload, "text", None)
            outcome = getattr(chunk.payload, "step_result", None)
            found.append((chunk.type, text, None if outcome is None else outcome.reason))
    return found


async def test_a_run_is_run_again_against_a_changed_pipeline() -> None:
    recorded, _ = await a_recording(*WITH_A_TOOL)
    model = recorded.model()
    assert isinstance(model, LanguageModel)
    assert (model.provider, model.model_id) == ("mock", "mock-1")
    shout = processor(
        id="shout",
        process_output_stream=lambda args: (
            args.with_text(args.part.payload.text.upper())
            if args.part.type == "text-delta"
            else args.part
        ),
    )
    agent = Agent(id="desk", model=model, tools=[weather], output_processors=[shout])
    result = await agent.generate("How warm is it?")
    assert result.text == "IT IS 21"
    assert result.usage.total_tokens == recorded.usage.total_tokens
    assert model.calls == 2


@settings(max_examples=25, deadline=None)
@given(pieces=st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=5))
def test_the_stream_is_that_of_the_recorded_run(pieces: list[str]) -> None:
    async def check() -> None:
        recorded, run = await a_recording(WITH_A_TOOL[0], answer(*pieces))
        agent = Agent(id="desk", model=recorded.as_scripted_model(), tools=[weather])
        again = await collect(await agent.stream("How warm is it?"))
        assert shape(again) == shape(await collect(run))

    asyncio.run(check())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"instructions": "Be brief."}, "entry 0 of the prompt (user) says something else now"),
        ({"tools": []}, "the tools were weather, and are none now"),
        ({"input": "How cold is it?"}, "entry 0 of the prompt (user) says something else now"),
    ],
)
async def test_another_question_fails_loudly_and_quotes_nothing(
    change: dict[str, Any], said: str
) -> None:
    recorded, _ = await a_recording(*WITH_A_TOOL)
    asked = change.pop("input", "How warm is it?")
    agent = Agent(id="desk", model=recorded.model(), **{"tools": [weather], **change})
    with pytest.raises(ModelError) as caught:
        await agent.generate(asked)
    assert str(caught.value) == f"call 0 of the model is not as in recorded run 'r1': {said}"


async def test_not_strict_answers_other_questions_but_not_one_call_too_many() -> None:
    recorded, _ = await a_recording("It is 21")
    model = recorded.model(strict=False)
    agent = Agent(id="desk", model=model, tools=[weather])
    assert (await agent.generate("Something else?")).text == "It is 21"
    with pytest.raises(ModelError, match=r"call 1 of the model .*: it made 1 calls"):
        await agent.generate("Something else?")


async def test_a_refused_call_is_refused_again() -> None:
    recorded, _ = await a_recording(APICallError("busy", status_code=503, is_retryable=True))
    with pytest.raises(APICallError) as caught:
        await Agent(id="desk", model=recorded.model(), tools=[weather]).generate("How warm is it?")
    assert (caught.value.status_code, caught.value.message) == (503, "busy")


async def test_calls_that_were_made_again_are_all_there() -> None:
    recorded, _ = await a_recording(
        APICallError("busy", status_code=503, is_retryable=True), "It is 21", max_retries=1
    )
    assert [call.error is not None for call in recorded.calls] == [True, False]
    agent = Agent(id="desk", model=recorded.model(), tools=[weather], max_retries=1)
    assert (await agent.generate("How warm is it?")).text == "It is 21"


async def test_an_answer_that_a_guard_cut_off_is_not_taken_for_a_whole_one() -> None:
    def stop(args: Any) -> Any:
        if args.part.type == "text-delta" and "b" in args.part.payload.text:
            args.abort("no b")
        return args.part

    guard = processor(id="guard", process_output_stream=stop)
    recorded, _ = await a_recording(answer("a", "b", "c"), output_processors=[guard])
    agent = Agent(id="desk", model=recorded.model(), tools=[weather])
    with pytest.raises(ModelError, match="this answer was cut off"):
        await agent.generate("How warm is it?")


async def test_texts_that_were_cut_are_compared_as_far_as_they_are_there() -> None:
    recorder = Recorder(InMemoryStore(), raw=True, max_text=100)
    question = "How warm is it in the north of Norway? " * 5
    agent = Agent(id="desk", model=ScriptedModel(["fine"]), record=recorder)
    await agent.generate(question, run_id="r1")
    recorded = await recorder.runs.load("r1")
    assert (await Agent(id="desk", model=recorded.model()).generate(question)).text == "fine"
    with pytest.raises(ModelError, match="entry 0"):
        await Agent(id="desk", model=recorded.model()).generate("What?")


async def test_without_chunks_there_is_no_model() -> None:
    recorded, _ = await a_recording("It is 21", raw=False)
    with pytest.raises(InputError, match="raw=True"):
        recorded.model()
