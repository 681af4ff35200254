"""OpenAI Agents SDK. Its hooks: input and output guardrails, once a run; there is none for chunks.

Tracing is off, as in a program that does not send traces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrail,
    ModelResponse,
    OutputGuardrail,
    Runner,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from agents import (
    Model as BaseModel,
)
from agents.testing import assistant_message, function_call
from openai.types.responses import Response, ResponseCompletedEvent, ResponseTextDeltaEvent

from bench.case import (
    ANSWER,
    DONE,
    IDLE_TEXTS,
    QUESTION,
    Case,
    Hook,
    Recorder,
    Setup,
    conversation,
    only,
    relay_hooks,
    relayed,
    tokens,
)
from bench.formats import texts_of as wire_texts_of
from bench.wire import Wire

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Callable, Sequence

set_tracing_disabled(True)
PASSED = GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)
DELTA = "response.output_text.delta"


class Model(Recorder, BaseModel):
    """Plays what `script` makes of the input: an output item, or an async iterator of events."""

    def __init__(self, script: Callable[[Any], Any]) -> None:
        self.script = script

    def heard(self, asked: Any) -> Any:
        if self.log is not None:
            self.log.append(asked if isinstance(asked, str) else list(asked))
        return self.script(asked)

    # The names are the base class's: it is called by keyword.
    async def get_response(
        self, system_instructions: Any, input: Any, *_: Any, **__: Any
    ) -> ModelResponse:
        return ModelResponse(output=[self.heard(input)], usage=Usage(), response_id=None)

    async def stream_response(
        self, system_instructions: Any, input: Any, *_: Any, **__: Any
    ) -> Any:
        async for event in self.heard(input):
            yield event


def plain_before(context: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
    return PASSED


def plain_after(context: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
    return PASSED


async def async_before(context: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
    return PASSED


async def async_after(context: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
    return PASSED


def delta(text: str, number: int = 0) -> ResponseTextDeltaEvent:
    return ResponseTextDeltaEvent(
        type=DELTA,
        content_index=0,
        delta=text,
        item_id="m",
        logprobs=[],
        output_index=0,
        sequence_number=number,
    )


def completed(text: str) -> ResponseCompletedEvent:
    response = Response(
        id="r",
        created_at=0,
        model="scripted",
        object="response",
        output=[assistant_message(text)],
        tool_choice="none",
        tools=[],
        parallel_tool_calls=False,
        status="completed",
    )
    return ResponseCompletedEvent(type="response.completed", response=response, sequence_number=0)


def texts_of(asked: Any) -> list[str]:
    if isinstance(asked, str):
        return [asked]
    return [str(item.get("content", "")) for item in asked]


def agent_of(model: Model, setup: Setup, **values: Any) -> tuple[Agent[Any], list[Hook]]:
    """The agent, and its hooks, which run once each."""
    plain = setup.kind == "plain"
    before, after = (plain_before, plain_after) if plain else (async_before, async_after)
    numbers = range(setup.processors)
    agent = Agent(
        name="bench",
        model=model,
        input_guardrails=[InputGuardrail(before, name=f"in{i}") for i in numbers],
        output_guardrails=[OutputGuardrail(after, name=f"out{i}") for i in numbers],
        **values,
    )
    return agent, [Hook(hook.__code__, setup.processors) for hook in (before, after)]


def request(setup: Setup) -> Case:
    answer = assistant_message(ANSWER)
    model = Model(lambda _: answer)
    agent, hooks = agent_of(model, setup)
    earlier = conversation(setup, lambda role, text: {"role": role, "content": text})

    async def run() -> str:
        given: Any = QUESTION
        if setup.size:
            given = [*earlier(), {"role": "user", "content": QUESTION}]
        return (await Runner.run(agent, given)).final_output

    return Case(run=run, expected=ANSWER, model=model, texts=texts_of, hooks=hooks)


def chunks(setup: Setup) -> Case:
    only(setup, "async", "no hook for chunks; async generators stand in")
    texts = tokens(setup.size)
    made = [delta(text, number) for number, text in enumerate(texts)]
    last = completed("".join(texts))

    async def events(_: Any) -> AsyncIterator[Any]:
        for event in made:
            yield event
        yield last

    model = Model(events)
    agent = Agent(name="bench", model=model)

    async def run() -> list[str]:
        stream = Runner.run_streamed(agent, QUESTION).stream_events()
        return [
            event.data.delta
            async for event in relayed(stream, setup.processors)
            if event.type == "raw_response_event" and event.data.type == DELTA
        ]

    async def alone(_: Sequence[Any]) -> list[str]:
        stream = model.stream_response(None, QUESTION)
        return [event.delta async for event in stream if event.type == DELTA]

    hooks = relay_hooks(setup)
    return Case(run=run, expected=texts, model=model, texts=texts_of, hooks=hooks, alone=alone)


def steps(setup: Setup) -> Case:
    ran: list[int] = []

    @function_tool
    async def echo(x: int) -> int:
        """Echo."""
        ran.append(x)
        return x

    answer = assistant_message(DONE)

    def script(asked: Any) -> Any:
        done = 0 if isinstance(asked, str) else len(asked) // 2
        if done == setup.size:
            return answer
        return function_call("echo", f'{{"x":{done}}}', call_id=f"c{done}")

    model = Model(script)
    agent, hooks = agent_of(model, setup, tools=[echo])

    async def run() -> tuple[str, list[int]]:
        ran.clear()
        result = await Runner.run(agent, QUESTION, max_turns=setup.size + 1)
        return result.final_output, ran

    expected = (DONE, list(range(setup.size)))
    return Case(run=run, expected=expected, model=model, texts=texts_of, hooks=hooks)


def agent_on(url: str, wire: str) -> Agent[Any]:
    # Imported here: its objects would give the collector work in all other measurements.
    from agents import OpenAIChatCompletionsModel, OpenAIResponsesModel
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=url, api_key="bench")
    model = OpenAIChatCompletionsModel if wire == "chat" else OpenAIResponsesModel
    return Agent(name="bench", model=model("bench", client))


def wire(setup: Setup) -> Case:
    only(setup, "async", "no hook for chunks; async generators stand in")
    provider = Wire(setup.size)
    agent = agent_on(provider.url, setup.wire)

    async def run() -> list[str]:
        stream = Runner.run_streamed(agent, QUESTION).stream_events()
        return [
            event.data.delta
            async for event in relayed(stream, setup.processors)
            if event.type == "raw_response_event" and event.data.type == DELTA
        ]

    return Case(
        run=run,
        expected=tokens(setup.size),
        model=provider,
        texts=wire_texts_of,
        hooks=relay_hooks(setup),
    )


def paced(url: str, wire: str) -> Callable[[], AsyncIterator[str]]:
    agent = agent_on(url, wire)

    async def texts() -> AsyncIterator[str]:
        async for event in Runner.run_streamed(agent, QUESTION).stream_events():
            if event.type == "raw_response_event" and event.data.type == DELTA:
                yield event.data.delta

    return texts


def idle(gate: asyncio.Event) -> Callable[[], AsyncIterator[str]]:
    async def events(_: Any) -> AsyncIterator[Any]:
        yield delta(IDLE_TEXTS[0])
        await gate.wait()
        yield delta(IDLE_TEXTS[1])
        yield completed("".join(IDLE_TEXTS))

    agent = Agent(name="bench", model=Model(events))

    async def texts() -> AsyncIterator[str]:
        async for event in Runner.run_streamed(agent, QUESTION).stream_events():
            if event.type == "raw_response_event" and event.data.type == DELTA:
                yield event.data.delta

    return texts
