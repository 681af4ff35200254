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


@pytest.fixture
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "GROQ_API_KEY",
        "GROQ_BASE_URL",
        "AZURE_BASE_URL",
        "AZURE_OPENAI_ENDPOINT",
        "AZURE_OPENAI_API_KEY",
        "AZURE_API_KEY",
        "OPENAI_API_KEY",
    ):
        monkeypatch.delenv(name, raising=False)
    register_provider("needs-a-package", _incomplete)


def _incomplete(name: str) -> Any:
    raise ConfigurationError("provider 'needs-a-package' needs the package 'elsewhere'")


CANNOT: list[Any] = [
    ("nobody/x", "nobody/x", "no provider 'nobody'"),
    ("no-slash", "no-slash", "an id has the form provider/model"),
    ("azure/x", "azure/x", "set AZURE_OPENAI_ENDPOINT"),
    ("groq/openai/x", "groq/openai/x", "set the environment variable GROQ_API_KEY"),
    ("pydantic-ai/openai:x", "pydantic-ai/openai:x", "pydantic-ai"),
    ("needs-a-package/x", "needs-a-package/x", "needs the package"),
    ({"id": "acme/x"}, "acme/x", "needs 'id' and 'url'"),
    ({"model": {"id": "acme/x", "uri": "x"}}, "acme/x", "needs 'id' and 'url'"),
    (["nobody/x", "azure/x"], "nobody/x", "none of the models in the list can be set up"),
    ([], "list", "one that is enabled"),
]


@pytest.mark.parametrize(("entry", "name", "reason"), CANNOT)
async def test_what_cannot_be_set_up_is_passed_over(
    nothing_set: None, entry: Any, name: str, reason: str
) -> None:
    for models in ([entry, says()], [refuses(400), entry, says()]):
        result = await Agent(id="a", model=models).generate("Hi")
        assert result.text == "Hello"
        told = result.warnings[-1]["message"]
        assert told.startswith(f"{name} cannot be set up: ")
        assert reason in told


async def test_it_is_told_in_the_log_though_another_one_answers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Once: a misspelt id would be found when it is needed, and no sooner."""
    agent = Agent(id="a", model=[says(), "nobody/x"])
    for _ in range(2):
        assert (await agent.generate("Hi")).warnings == []
    assert [record.args[0] for record in caplog.records] == ["nobody/x"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("models", "reasons"),
    [
        (["groq/x", "nobody/y"], ["groq/x: no key", "nobody/y: unknown model id"]),
        (["azure/x", ["nobody/y", "nobody/z"]], ["azure/x: ", "nobody/y", "nobody/z"]),
    ],
)
async def test_when_nobody_can_be_set_up_that_is_the_error(
    nothing_set: None, models: Any, reasons: list[str]
) -> None:
    with pytest.raises(ConfigurationError, match="none of the models in the list") as caught:
        await Agent(id="a", model=models).generate("Hi")
    assert [reason for reason in reasons if reason not in str(caught.value)] == []


async def test_one_alone_that_cannot_be_set_up_is_told_as_it_is() -> None:
    with pytest.raises(UnknownModelError):
        resolve_model(["nobody/x"])


async def failing(models: Any) -> tuple[BaseException | None, list[str], tuple[str, str]]:
    """The error, the warnings, and who was named last."""
    run = await Agent(id="a", model=models).stream("Hi")
    chunks = await collect(run.full_stream)
    last = chunks[-1].payload.metadata["modelMetadata"]
    warnings = [warning["message"] for warning in await run.warnings]
    assert [c.type for c in chunks] == ["start", "step-start", "error", "step-finish", "finish"]
    return run.error, warnings, (last["modelProvider"], last["modelId"])


async def test_when_nobody_answers_the_record_says_who_was_asked() -> None:
    """And whose the error is."""
    error, warnings, named = await failing([refuses(500), refuses(401, name="b")])
    assert isinstance(error, APICallError)
    assert error.status_code == 401
    assert warnings == ["first/one did not answer: not now"]
    assert named == ("first", "b")


async def test_the_error_is_that_of_the_last_one_that_could_be_asked(nothing_set: None) -> None:
    error, warnings, named = await failing(["nobody/x", refuses(500), "groq/x"])
    assert isinstance(error, APICallError)
    assert [warning.partition(": ")[0] for warning in warnings] == [
        "nobody/x cannot be set up",
        "groq/x cannot be set up",
    ]
    assert named == ("first", "one")


async def test_a_list_in_a_list_counts_as_its_entries() -> None:
    """Each is named, and asked again, by itself."""
    one, two = refuses(500), refuses(500, name="b")
    models = [{"model": [one, {"model": two, "max_retries": 0}], "max_retries": 2}, says()]
    result = await Agent(id="a", model=models).generate("Hi")
    assert [warning["message"] for warning in result.warnings] == [
        "first/one did not answer: not now",
        "first/b did not answer: not now",
    ]
    assert (len(one.calls), len(two.calls)) == (3, 1)


async def test_a_model_that_repeats_calls_itself_is_told_how_often() -> None:
    class Repeats(ScriptedModel):
        repeats_calls = True

        async def stream(self, request: ModelRequest) -> AsyncGenerator[Any, None]:
            allowed.append(request.max_retries)
            async for read in super().stream(request):
                yield read

    allowed: list[int] = []
    one = Repeats([APICallError("not now", status_code=500, is_retryable=True)])
    result = await Agent(id="a", model=[{"model": one, "max_retries": 2}, says()]).generate("Hi")
    assert (result.text, len(one.calls), allowed) == ("Hello", 1, [2])


@pytest.mark.parametrize(("asked", "calls"), [("120", 1), ("0", 3)])
async def test_who_asks_for_a_long_pause_is_left_for_the_next_one(asked: str, calls: int) -> None:
    error = APICallError("later", is_retryable=True, response_headers={"Retry-After": asked})
    first = ScriptedModel([error])
    models = [{"model": first, "max_retries": 2}, says()]
    result = await asyncio.wait_for(Agent(id="a", model=models).generate("Hi"), 5)
    assert (result.text, len(first.calls)) == ("Hello", calls)


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
