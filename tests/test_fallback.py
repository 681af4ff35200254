"""Lists of models: who is asked when, who answered, and what is no reason to ask somebody else."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from procession import AbortController, Agent, APICallError, ConfigurationError, tool
from procession.chunks import BlockPayload, Chunk, ErrorPayload, ModelStartPayload
from procession.errors import MissingKeyError, UnknownModelError
from procession.fallback import FallbackModel
from procession.model import ModelRequest, register_provider, resolve_model
from procession.testing import ScriptedModel, answer, collect, tool_call

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("procession.retrying.FIRST_PAUSE", 0.0)


def refuses(status: int = 503, *, name: str = "one") -> ScriptedModel:
    error = APICallError("not now", status_code=status, is_retryable=status >= 500)
    return ScriptedModel([error], provider="first", model_id=name)


def says(text: str = "Hello", **names: Any) -> ScriptedModel:
    return ScriptedModel([text], **{"provider": "second", "model_id": "two", **names})


def request() -> ModelRequest:
    return ModelRequest(prompt=[], settings={})


async def test_the_next_one_is_asked_and_named() -> None:
    first, second, third = refuses(400), says(), says("Never")
    agent = Agent(id="a", model=[first, second, third])
    result = await agent.generate("Hi")
    assert result.text == "Hello"
    assert [len(model.calls) for model in (first, second, third)] == [1, 1, 0]
    assert result.warnings == [
        {"type": "other", "message": "first/one did not answer: not now"},
    ]
    stream = await agent.stream("Hi")
    finish = [chunk for chunk in await collect(stream.full_stream) if chunk.type == "finish"][-1]
    told = finish.payload.metadata["modelMetadata"]
    assert (told["modelId"], told["modelProvider"]) == ("two", "second")


async def test_nothing_is_told_when_the_first_one_answers() -> None:
    result = await Agent(id="a", model=[says(), says("Never")]).generate("Hi")
    assert (result.text, result.warnings) == ("Hello", [])


@pytest.mark.parametrize(
    ("entry", "of_agent", "calls"),
    [
        ({}, 0, 1),
        ({}, 2, 3),
        ({"max_retries": 1}, 0, 2),
        ({"max_retries": 0}, 2, 1),
    ],
)
async def test_each_entry_has_its_retries(entry: Any, of_agent: int, calls: int) -> None:
    """An entry without its own has those of the agent (R-216)."""
    first, second = refuses(), says()
    models = [{"model": first, **entry}, second]
    result = await Agent(id="a", model=models, max_retries=of_agent).generate("Hi")
    assert result.text == "Hello"
    assert (len(first.calls), len(second.calls)) == (calls, 1)


async def test_what_cannot_pass_is_not_tried_again() -> None:
    first, second = refuses(401), says()
    await Agent(id="a", model=[first, second], max_retries=3).generate("Hi")
    assert len(first.calls) == 1


async def test_the_last_error_is_that_of_the_call() -> None:
    """And the engine does not go through the list again (R-236)."""
    first, last = refuses(500), refuses(503, name="last")
    agent = Agent(id="a", model=[{"model": first, "max_retries": 1}, last], max_retries=2)
    with pytest.raises(APICallError) as caught:
        await agent.generate("Hi")
    assert caught.value.status_code == 503
    assert (len(first.calls), len(last.calls)) == (2, 3)


async def test_error_processors_hear_of_the_last_error_and_may_ask_for_all_of_it_again() -> None:
    seen: list[Any] = []

    class Again:
        id = "again"

        def process_api_error(self, args: Any) -> Any:
            seen.append(args.error.status_code)
            return {"retry": True}

    first = ScriptedModel([APICallError("no", status_code=500), "Now"])
    last = refuses(400)
    result = await Agent(id="a", model=[first, last], error_processors=[Again()]).generate("Hi")
    assert (result.text, seen) == ("Now", [400])


async def test_what_has_begun_to_answer_is_not_replaced() -> None:
    error = APICallError("broke off", is_retryable=True)
    parts = [
        {"type": "text-start", "id": "t"},
        {"type": "text-delta", "id": "t", "delta": "Hel"},
        {"type": "error", "error": error},
    ]
    first, second = ScriptedModel([parts]), says()
    stream = await Agent(id="a", model=[first, second], max_retries=2).stream("Hi")
    chunks = await collect(stream.full_stream)
    assert stream.error is error
    assert [c.payload.text for c in chunks if c.type == "text-delta"] == ["Hel"]
    assert (len(first.calls), len(second.calls)) == (1, 0)


async def test_an_error_before_anything_else_is_a_failure() -> None:
    first = ScriptedModel([[{"type": "error", "error": APICallError("no")}]])
    result = await Agent(id="a", model=[first, says()]).generate("Hi")
    assert result.text == "Hello"


class Waits:
    """A model that does not answer, and makes an error of being cancelled, as transports do."""

    provider, model_id = "first", "waits"

    def __init__(self, *, hides: bool) -> None:
        self.hides = hides
        self.asked = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[list[Chunk], None]:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if self.hides:
                raise APICallError("connection lost", is_retryable=True) from None
            raise
        yield []


@pytest.mark.parametrize("hides", [False, True])
async def test_an_abort_is_no_failure(hides: bool) -> None:
    """Nobody else is asked, and nobody again (R-555)."""
    first, second, controller = Waits(hides=hides), says(), AbortController()
    agent = Agent(id="a", model=[{"model": first, "max_retries": 3}, second])

    async def stop() -> None:
        await first.asked.wait()
        controller.abort()

    result, _ = await asyncio.gather(agent.generate("Hi", abort_signal=controller.signal), stop())
    assert (result.finish_reason, result.error, result.text) == ("aborted", None, "")
    assert second.calls == []


@pytest.mark.parametrize("hides", [False, True])
async def test_a_cancelled_caller_is_no_failure(hides: bool) -> None:
    first, second = Waits(hides=hides), says()
    agent = Agent(id="a", model=[first, second])
    task = asyncio.create_task(agent.generate("Hi"))
    await first.asked.wait()
    task.cancel()
    with pytest.raises((asyncio.CancelledError, APICallError)):
        await task
    assert second.calls == []


async def test_an_abort_between_two_tries_is_heard() -> None:
    controller = AbortController()
    error = APICallError("wait", is_retryable=True, response_headers={"Retry-After": "50"})
    first = ScriptedModel([error], on_call=lambda call: controller.abort())
    second = says()
    agent = Agent(id="a", model=[{"model": first, "max_retries": 1}, second])
    result = await agent.generate("Hi", abort_signal=controller.signal)
    assert (result.finish_reason, len(first.calls), second.calls) == ("aborted", 1, [])


@tool
def add(a: int) -> int:
    """Add one."""
    return a + 1


async def test_each_step_begins_with_the_first_one() -> None:
    first = ScriptedModel([APICallError("no", status_code=500), "Done"])
    second = ScriptedModel([answer(tool_calls=[tool_call("add", {"a": 1})])])
    result = await Agent(id="a", model=[first, second], tools=[add]).generate("Hi")
    assert result.text == "Done"
    assert (len(first.calls), len(second.calls)) == (2, 1)


async def test_a_reader_who_leaves_closes_the_model() -> None:
    model = resolve_model([refuses(), says("a b c")])
    second = model.entries[1].model  # type: ignore[attr-defined]
    stream = model.stream(request())
    await anext(stream)
    await stream.aclose()
    assert second.closed == [0]


async def test_a_missing_key_is_a_failure_like_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    monkeypatch.delenv("GROQ_BASE_URL", raising=False)
    result = await Agent(id="a", model=["groq/example-1", says()]).generate("Hi")
    assert result.text == "Hello"
    assert "GROQ_API_KEY" in result.warnings[0]["message"]
    with pytest.raises(MissingKeyError):
        await Agent(id="a", model=["groq/example-1"]).generate("Hi")


def test_entries_are_switched_off() -> None:
    model = resolve_model([{"model": refuses(), "enabled": False}, says()])
    assert repr(model) == "FallbackModel(second/two)"
    assert (model.provider, model.model_id) == ("second", "two")


@pytest.mark.parametrize(
    ("models", "problem"),
    [
        ([], "one that is enabled"),
        ([{"model": says(), "enabled": False}], "one that is enabled"),
        ([{"model": says(), "retries": 1}], "keys given"),
        ([{"model": says(), "max_retries": -1}], "a number from 0 on"),
        ([{"model": says(), "max_retries": True}], "a number from 0 on"),
        ([{"model": says(), "enabled": "no"}], "True or False"),
        ([7], "not a model: int"),
    ],
)
def test_lists_that_cannot_work(models: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        resolve_model(models)


async def test_an_unknown_id_is_told_whatever_stands_before_it() -> None:
    with pytest.raises(UnknownModelError):
        await Agent(id="a", model=[says(), "nobody/x"]).generate("Hi")


def test_only_what_all_of_them_fetch_is_left_to_them() -> None:
    """R-362."""
    models: list[Any] = [says(), says(), says()]
    models[0].supported_urls = {"image/*": ["a", "b"], "application/pdf": ["a"]}
    models[1].supported_urls = {"image/*": ["b", "c"]}
    assert resolve_model(models[:2]).supported_urls == {"image/*": ["b"]}  # type: ignore[attr-defined]
    assert resolve_model(models).supported_urls == {}  # type: ignore[attr-defined]


async def test_other_errors_than_exceptions_have_a_type() -> None:
    class Odd(Waits):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[list[Chunk], None]:
            yield [Chunk(type="error", payload=ErrorPayload(error="odd"))]

    model = FallbackModel(resolve_model([Odd(hides=False)]).entries)  # type: ignore[attr-defined]
    with pytest.raises(Exception, match="odd"):
        await anext(model.stream(request()))


@pytest.mark.parametrize("listed", [False, True])
async def test_an_id_is_resolved_once_for_an_agent(listed: bool) -> None:
    """So that steps and runs share its connections."""
    made: list[str] = []

    def factory(name: str) -> ScriptedModel:
        made.append(name)
        calls = answer(tool_calls=[tool_call("add", {"a": 1})])
        return ScriptedModel([calls, "Done", calls, "Done"])

    register_provider("counted", factory)
    agent = Agent(id="a", model=["counted/x"] if listed else "counted/x", tools=[add])
    assert [(await agent.generate("Hi")).text for _ in range(2)] == ["Done", "Done"]
    assert made == ["x"]


class Plays:
    """A model that yields what it was given, each time the same objects."""

    provider, model_id = "first", "plays"

    def __init__(self, *reads: Any) -> None:
        self.reads = reads

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Any, None]:
        for read in self.reads:
            yield read


async def test_warnings_are_those_of_the_run() -> None:
    """A model may yield one and the same chunk in each of its calls."""
    shared = Chunk(type="stream-start", payload=ModelStartPayload())
    said = Chunk(type="text-start", payload=BlockPayload(id="t"))
    for _ in range(3):
        agent = Agent(id="a", model=[refuses(400), Plays([shared], [said])])
        assert len((await agent.generate("Hi")).warnings) == 1


ANNOUNCED = Chunk(type="stream-start", payload=ModelStartPayload())


@pytest.mark.parametrize(
    ("reads", "told"),
    [
        ([], "ended its stream without an answer"),
        ([[ANNOUNCED]], "ended its stream without an answer"),
        ([["no chunk"]], "must yield lists of chunks; a list with str in it came"),
        ([5], "must yield lists of chunks, not int"),
        (
            [[Chunk("error", ErrorPayload(error={"name": "Odd", "message": "too hot"}))]],
            ": too hot",
        ),
    ],
)
async def test_what_is_no_answer_is_a_failure(reads: list[Any], told: str) -> None:
    result = await Agent(id="a", model=[Plays(*reads), says()]).generate("Hi")
    assert result.text == "Hello"
    (warning,) = result.warnings
    assert warning["message"].endswith(told)


@pytest.mark.parametrize("listed", [False, True])
async def test_a_cancelled_caller_stays_cancelled(listed: bool) -> None:
    """Though the transport makes an error of it, with a list of models or without."""
    model = Waits(hides=True)
    agent = Agent(id="a", model=[model] if listed else model, max_retries=3)
    task = asyncio.create_task(agent.generate("Hi"))
    await model.asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
