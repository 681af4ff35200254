"""A model of its own for the object (R-568, B-380 to B-383)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from procession import (
    AbortController,
    Agent,
    APICallError,
    ConfigurationError,
    Usage,
    processor,
    tool,
)
from procession.errors import MissingKeyError, UnknownModelError
from procession.model import register_provider
from procession.processors import StructuredOutputProcessor
from procession.testing import Answer, ScriptedModel, answer, tool_call

if TYPE_CHECKING:
    from procession.chunks import Chunk


class City(BaseModel):
    """A place."""

    city: str
    n: int


SAID = "It is Paris, and there are three."
PARIS = ('{"city":"Par', 'is","n":3}')
FOUND = City(city="Paris", n=3)


def models(*said: Any, made: Any = None) -> tuple[ScriptedModel, ScriptedModel]:
    """The model that answers, and the one that makes the object."""
    return ScriptedModel(said or (SAID,)), ScriptedModel(made or [answer(*PARIS)], name="second")


def kinds(chunks: list[Chunk]) -> list[str]:
    return [chunk.type for chunk in chunks]


async def test_a_second_call_makes_the_object() -> None:
    """R-568, B-380, B-381: the answer is free, partial objects come live, the text is unchanged."""
    first, second = models()
    agent = Agent(id="a", model=first)
    run = await agent.stream("Where", structured_output={"schema": City, "model": second})
    chunks = [chunk async for chunk in run]
    assert kinds(chunks)[-6:] == [
        "text-end",
        "object",
        "object",
        "object-result",
        "step-finish",
        "finish",
    ]
    assert await run.object == FOUND
    assert await run.text == SAID
    (call,) = first.calls
    assert call.response_format is None
    (made,) = second.calls
    assert made.response_format is not None
    assert SAID in made.text
    assert made.tools == []
    (message,) = (await run.response).db_messages
    assert [part.type for part in message.content.parts] == ["text"]
    assert message.content.metadata["structuredOutput"] == {"city": "Paris", "n": 3}  # type: ignore[index]
    assert chunks[-1].payload.output.object == {"city": "Paris", "n": 3}


async def test_partial_objects_are_live() -> None:
    """R-517: the reader sees one while the second model is still writing."""
    gate = asyncio.Event()

    class Slow(ScriptedModel):
        async def stream(self, request: Any) -> Any:
            async for read in super().stream(request):
                if any(chunk.type == "text-end" for chunk in read):
                    await gate.wait()
                yield read

    first, _ = models()
    second = Slow([answer(*PARIS)])
    run = await Agent(id="a", model=first).stream(
        "Where", structured_output={"schema": City, "model": second}
    )
    async for chunk in run:
        if chunk.type == "object":
            gate.set()
    assert await run.object == FOUND


async def test_its_tokens_are_counted_apart() -> None:
    """R-508: `usage` is the sum over the steps."""
    first, second = models(made=[answer(*PARIS, usage=Usage(input_tokens=7, output_tokens=2))])
    output = await Agent(id="a", model=first).generate(
        "Where", structured_output={"schema": City, "model": second}
    )
    assert (output.usage.input_tokens, output.usage.output_tokens) == (3, 1)
    assert (output.processor_usage.input_tokens, output.processor_usage.output_tokens) == (7, 2)


@tool
async def look(topic: str = "") -> str:
    """Look something up."""
    return "seen"


async def test_steps_that_call_tools_are_left_alone() -> None:
    """B-383."""
    first, second = models(answer("Looking.", tool_calls=[tool_call("look")]), SAID)
    agent = Agent(id="a", model=first, tools=[look])
    output = await agent.generate("Where", structured_output={"schema": City, "model": second})
    assert (output.object, len(second.calls)) == (FOUND, 1)


async def test_what_the_second_model_is_shown() -> None:
    """B-380: the text, what was thought and what tools gave, in one call without tools."""
    parts: list[Any] = [
        {"type": "reasoning-start", "id": "r"},
        {"type": "reasoning-delta", "id": "r", "delta": "Three of them."},
        {"type": "reasoning-end", "id": "r"},
        {**tool_call("search", id="p"), "providerExecuted": True},
        {
            "type": "tool-result",
            "toolCallId": "p",
            "toolName": "search",
            "result": "seen",
            "providerExecuted": True,
        },
        *answer("It is Paris.").parts,
    ]
    first, second = models(Answer(parts=parts))
    agent = Agent(id="a", model=first)
    output = await agent.generate("Where", structured_output={"schema": City, "model": second})
    assert output.object == FOUND
    (made,) = second.calls
    assert not [
        said for said in ("It is Paris.", "Three of them.", "seen") if said not in made.text
    ]
    assert made.tools == []


async def test_options_of_the_second_call() -> None:
    first, second = models()
    agent = Agent(id="a", model=first)
    await agent.generate(
        "Where",
        structured_output={
            "schema": City,
            "model": second,
            "instructions": "Write it down.",
            "model_settings": {"temperature": 0.0},
            "provider_options": {"mock": {"a": 1}},
            "json_prompt_injection": True,
        },
    )
    (made,) = second.calls
    assert made.prompt[0]["content"].startswith("Write it down.")
    assert '"city"' in made.prompt[0]["content"]
    assert made.response_format is None
    assert (made.settings, made.provider_options) == ({"temperature": 0.0}, {"mock": {"a": 1}})
    assert first.calls[0].prompt[0]["role"] == "user"


BROKEN = [answer("no json"), answer('{"city":1}'), APICallError("sk-secret", status_code=500)]


@pytest.mark.parametrize("made", BROKEN, ids=["no json", "misfit", "refused"])
async def test_strict(made: Any) -> None:
    """B-382: a tripwire that asks for another attempt."""
    first, second = models(made=[made])
    run = await Agent(id="a", model=first).stream(
        "Where", structured_output={"schema": City, "model": second}
    )
    chunks = [chunk async for chunk in run]
    assert chunks[-1].type == "tripwire"
    assert run.tripwire is not None
    assert (run.tripwire.processor_id, run.tripwire.retry) == ("structured-output", True)
    assert run.tripwire.metadata["error"]
    assert "secret" not in run.tripwire.reason
    assert await run.object is None
    assert await run.text == ""


@pytest.mark.parametrize("made", BROKEN, ids=["no json", "misfit", "refused"])
@pytest.mark.parametrize(("strategy", "found"), [("warn", None), ("fallback", 7)])
async def test_other_strategies(made: Any, strategy: Any, found: Any) -> None:
    """B-382."""
    first, second = models(made=[made])
    run = await Agent(id="a", model=first).stream(
        "Where",
        structured_output={
            "schema": City,
            "model": second,
            "error_strategy": strategy,
            "fallback_value": 7,
        },
    )
    chunks = [chunk async for chunk in run]
    assert (await run.object, await run.text, run.status) == (found, SAID, "success")
    assert kinds(chunks).count("object-result") == (found is not None)
    assert await run.used_fallback_value is (found is not None)


async def test_with_a_budget_the_answer_is_made_again() -> None:
    first, second = models("Somewhere.", SAID, made=["no json", answer(*PARIS)])
    agent = Agent(id="a", model=first, max_processor_retries=1)
    output = await agent.generate("Where", structured_output={"schema": City, "model": second})
    assert (output.object, output.text) == (FOUND, SAID)
    assert "[Processor Feedback]" in first.calls[1].text
    assert output.processor_usage.output_tokens == 3


async def test_each_model_is_told_what_is_its_business() -> None:
    """The writer that something is missing, the other one what was wrong with its JSON (B-382)."""
    first, second = models("Somewhere.", SAID, made=['{"city":"x"}', answer(*PARIS)])
    agent = Agent(id="a", model=first, max_processor_retries=1)
    await agent.generate("Where", structured_output={"schema": City, "model": second})
    assert "n: Field required" in first.calls[1].text
    assert "JSON" not in first.calls[1].text
    assert "n: Field required" not in second.calls[0].text
    assert "n: Field required" in second.calls[1].text


async def test_a_misfit_that_was_let_pass_is_not_told_later() -> None:
    def edit(args: Any) -> Any:
        args.messages[-1].content.parts[0].text = "It is Rome."
        return args.messages

    first, second = models(made=['{"city":"x"}', answer(*PARIS)])
    asked: Any = {"schema": City, "model": second, "error_strategy": "warn"}
    agent = Agent(id="a", model=first, output_processors=[processor(process_output_result=edit)])
    output = await agent.generate("Where", structured_output=asked)
    assert output.object == FOUND
    assert "rejected" not in second.calls[1].text


@pytest.fixture
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GROQ_API_KEY", "GROQ_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


WRONG: list[tuple[Any, type[Exception], str]] = [
    ("nobody/x", UnknownModelError, "nobody"),
    ("groq/x", MissingKeyError, "GROQ_API_KEY"),
    (["groq/x"], MissingKeyError, "GROQ_API_KEY"),
    (7, ConfigurationError, "not a model: int"),
    ({"id": "a/b"}, ConfigurationError, "'url'"),
]


@pytest.mark.parametrize("strategy", ["strict", "warn", "fallback"])
@pytest.mark.parametrize("placed", [False, True])
@pytest.mark.parametrize(("model", "kind", "told"), WRONG)
async def test_a_model_that_cannot_be_set_up_is_no_answer_that_misfits(
    no_keys: None, model: Any, kind: type[Exception], told: str, placed: bool, strategy: Any
) -> None:
    """Another answer could not put it right: it is raised, and the writer is not asked again."""
    first = ScriptedModel([SAID])
    asked: Any = {
        "schema": City,
        "model": model,
        "error_strategy": strategy,
        "fallback_value": FOUND,
    }
    output = [StructuredOutputProcessor(**asked)] if placed else []
    agent = Agent(id="a", model=first, max_processor_retries=3, output_processors=output)
    with pytest.raises(kind, match=told):
        await agent.generate("Where", structured_output=None if placed else asked)
    assert len(first.calls) <= 1


async def test_an_unknown_one_fails_before_anybody_is_asked() -> None:
    first = ScriptedModel([SAID])
    with pytest.raises(UnknownModelError):
        await Agent(id="a", model=first).generate(
            "Where", structured_output={"schema": City, "model": "nobody/x"}
        )
    assert first.calls == []


async def test_a_call_that_fails_is_told_with_its_status() -> None:
    """And without the provider's words, which the writer would be shown."""
    first, second = models(made=[APICallError("sk-secret", status_code=500)])
    run = await Agent(id="a", model=first).stream(
        "Where", structured_output={"schema": City, "model": second}
    )
    await run.consume_stream()
    assert run.tripwire is not None
    assert (
        "the structuring model mock/mock-1 failed: APICallError, status 500" in run.tripwire.reason
    )


@pytest.mark.parametrize("form", ["id", "list", "entry", "placed"])
async def test_the_second_model_is_resolved_once(form: str) -> None:
    """So that calls share its connections, and none is left behind with each (law 6)."""
    made: list[str] = []

    def factory(name: str) -> ScriptedModel:
        made.append(name)
        return ScriptedModel([answer(*PARIS)])

    register_provider("structures", factory)
    forms: dict[str, Any] = {"list": ["structures/x"], "entry": [{"model": "structures/x"}]}
    asked: Any = {"schema": City, "model": forms.get(form, "structures/x")}
    output = [StructuredOutputProcessor(**asked)] if form == "placed" else []
    agent = Agent(id="a", model=ScriptedModel([SAID]), output_processors=output)
    for _ in range(3):
        again = None if form == "placed" else {**asked}
        assert (await agent.generate("Where", structured_output=again)).object == FOUND
    assert made == ["x"]


async def test_the_second_model_sees_what_processors_left() -> None:
    """B4: a step hook's edit too, though it looked at the steps before."""

    def edit(args: Any) -> Any:
        assert args.steps[-1].text
        args.messages[-1].content.parts[0].text = "It is [city]."
        return args.messages

    first, second = models()
    agent = Agent(id="a", model=first, output_processors=[processor(process_output_step=edit)])
    await agent.generate("Where", structured_output={"schema": City, "model": second})
    assert "Paris" not in second.calls[0].text
    assert "It is [city]." in second.calls[0].text


async def test_an_edit_at_the_end_makes_the_object_anew() -> None:
    def edit(args: Any) -> Any:
        args.messages[-1].content.parts[0].text = "It is Rome."
        return args.messages

    first, second = models(made=[answer(*PARIS), answer('{"city":"Rome","n":1}')])
    agent = Agent(id="a", model=first, output_processors=[processor(process_output_result=edit)])
    output = await agent.generate("Where", structured_output={"schema": City, "model": second})
    assert output.object == City(city="Rome", n=1)
    assert "It is Rome." in second.calls[1].text


@pytest.mark.parametrize("asked_too", [False, True])
async def test_it_may_be_placed_by_hand(asked_too: bool) -> None:
    """In `output_processors`, and it is not added again then (R-021)."""
    first, second = models()
    placed = StructuredOutputProcessor(schema=City, model=second)
    agent = Agent(id="a", model=first, output_processors=[placed])
    asked: Any = {"schema": City, "model": second} if asked_too else None
    output = await agent.generate("Where", structured_output=asked)
    assert (output.object, len(second.calls)) == (FOUND, 1)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"schema": City, "model": None}, "model"),
        ({"schema": 7, "model": "a/b"}, "schema"),
        ({"schema": City, "model": "a/b", "error_strategy": "loud"}, "strict, warn, fallback"),
    ],
)
def test_set_up(options: Any, told: str) -> None:
    """B-014."""
    with pytest.raises(ConfigurationError, match=told):
        StructuredOutputProcessor(**options)


async def test_leaving_closes_the_second_model() -> None:
    """Law 6: nothing is left behind."""
    first, second = models()
    async with Agent(id="a", model=first).stream(
        "Where", structured_output={"schema": City, "model": second}
    ) as run:
        async for chunk in run:
            if chunk.type == "object":
                break
    assert second.closed == [0]


class Waits:
    """A model that does not answer, and makes of being cancelled what transports do."""

    provider, model_id = "second", "waits"

    def __init__(self, ends: str) -> None:
        self.ends = ends
        self.asked = asyncio.Event()

    async def stream(self, request: Any) -> Any:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if self.ends == "honest":
                raise
            if self.ends == "error":
                raise ConnectionError from None
            return
        yield []


@pytest.mark.parametrize("strategy", ["strict", "warn", "fallback"])
@pytest.mark.parametrize("ends", ["honest", "error", "silent"])
@pytest.mark.parametrize("how", ["signal", "close"])
async def test_a_stop_ends_the_second_call(how: str, ends: str, strategy: Any) -> None:
    """R-555: at once, and no strategy is asked about it."""
    first, _ = models()
    second: Any = Waits(ends)
    controller = AbortController()
    run = await Agent(id="a", model=first, max_processor_retries=2).stream(
        "Where",
        structured_output={
            "schema": City,
            "model": second,
            "error_strategy": strategy,
            "fallback_value": FOUND,
        },
        abort_signal=controller.signal,
    )
    reading = asyncio.create_task(run.consume_stream())
    await second.asked.wait()
    if how == "signal":
        controller.abort()
    else:
        await run.aclose()
    await asyncio.wait_for(reading, 5)
    assert (run.status, await run.finish_reason, await run.object) == ("canceled", "aborted", None)
    assert len(first.calls) == 1


@pytest.mark.parametrize("ends", ["honest", "error", "silent"])
async def test_a_cancelled_caller_stays_cancelled(ends: str) -> None:
    first, _ = models()
    second: Any = Waits(ends)
    agent = Agent(id="a", model=first)
    task = asyncio.create_task(
        agent.generate("Where", structured_output={"schema": City, "model": second})
    )
    await second.asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)


@pytest.mark.parametrize(
    ("retries", "own", "listed", "calls"),
    [(1, {}, False, 2), (0, {"max_retries": 1}, False, 2), (1, {}, True, 2), (0, {}, False, 1)],
)
async def test_the_second_call_is_made_again(
    retries: int, own: Any, listed: bool, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-216: as often as the agent or the call's own settings say."""
    monkeypatch.setattr("procession.retrying.FIRST_PAUSE", 0.0)
    first, second = models(made=[APICallError("busy", is_retryable=True), answer(*PARIS)])
    asked: Any = {"schema": City, "model": [second] if listed else second, "model_settings": own}
    output = await Agent(id="a", model=first, max_retries=retries).generate(
        "Where", structured_output=asked
    )
    assert len(second.calls) == calls
    assert output.object == (FOUND if calls > 1 else None)


async def test_another_model_stands_in_for_the_second_one() -> None:
    first, second = models()
    failing = ScriptedModel([APICallError("no")])
    output = await Agent(id="a", model=first).generate(
        "Where", structured_output={"schema": City, "model": [failing, second]}
    )
    assert output.object == FOUND
