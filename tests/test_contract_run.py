"""The run as its reader has it: chunks, values, callbacks, the message that is made."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from procession import (
    AbortController,
    Agent,
    APICallError,
    Around,
    MastraModelOutput,
    Tool,
    ToolContext,
    TripWire,
    Usage,
    tool,
)
from procession.testing import ScriptedModel, answer, text, tool_call
from tests.seeds.threeways import EagerModel, only, play, three_ways


@tool
async def look(topic: str = "") -> str:
    """Look something up."""
    return "seen"


@tool
async def tells(context: ToolContext) -> str:
    """Writes while it runs."""
    await context.writer.write({"aKey": "half way"})
    return "told"


def looking(*deltas: str) -> ScriptedModel:
    first = answer("Looking.", tool_calls=[tool_call("look", id="c1")])
    return ScriptedModel([first, answer(*(deltas or ("Seen.",)))])


END = {"type": "finish", "finishReason": "stop", "usage": {"inputTokens": 1, "outputTokens": 1}}


#


async def test_envelopes() -> None:
    """R-500 to R-503: JSON keys are camelCase, attributes are not; dumping gives the JSON form."""
    model = ScriptedModel([answer(tool_calls=[tool_call("tells", id="c1")]), "Done."])
    run = await Agent(id="a", model=model, tools=[tells]).stream("go")
    chunks = [chunk async for chunk in run]
    assert {chunk.from_ for chunk in chunks if chunk.type != "tool-output"} == {"AGENT"}
    (output,) = [chunk for chunk in chunks if chunk.type == "tool-output"]
    assert output.to_json() == {
        "type": "tool-output",
        "runId": run.run_id,
        "from": "USER",
        "payload": {"toolCallId": "c1", "toolName": "tells", "output": {"aKey": "half way"}},
    }
    assert output["runId"] == output.run_id == run.run_id
    assert output.payload["toolCallId"] == output.payload.tool_call_id == "c1"
    for chunk in chunks:
        form = chunk.to_json()
        assert json.loads(json.dumps(form)) == form
        assert set(form) <= {"type", "runId", "from", "payload", "metadata"}


async def test_steps_in_a_chunk_have_the_form_of_the_wire() -> None:
    """R-503, R-507, R-546: camelCase in every depth, and absent fields are left out."""
    first = answer("Looking.", tool_calls=[tool_call("look", {"topic": "a_b"}, id="c1")])
    model = ScriptedModel([first, answer("Seen.")])
    run = await Agent(id="a", model=model, tools=[look]).stream("go")
    (finish,) = [chunk async for chunk in run if chunk.type == "finish"]
    steps = json.loads(json.dumps(finish.to_json()))["payload"]["output"]["steps"]
    assert [step["text"] for step in steps] == ["Looking.", "Seen."]
    assert (steps[0]["stepType"], steps[0]["finishReason"]) == ("initial", "tool-calls")
    assert steps[0]["toolCalls"][0]["payload"]["args"] == {"topic": "a_b"}
    assert steps[0]["toolResults"][0]["payload"]["toolCallId"] == "c1"
    keys = {key for step in steps for key in (*step, *step["usage"], *step["response"])}
    assert not [key for key in keys if "_" in key]
    assert None not in steps[0].values()
    assert "tripwire" not in steps[0]


async def test_unknown_chunks_pass() -> None:
    """R-505: through processors and stream, unchanged."""
    odd = {"type": "mood", "level": 3, "innerKey": {"a_b": 1}}
    seen: list[str] = []

    def pass_on(args: Any) -> Any:
        seen.append(args.part.type)
        return args.part

    model = ScriptedModel([[odd, text("ok"), END]])
    agent = Agent(id="a", model=model, output_processors=[only("process_output_stream", pass_on)])
    run = await agent.stream("go")
    (found,) = [chunk.to_json() async for chunk in run if chunk.type == "mood"]
    assert found["payload"] == {"level": 3, "innerKey": {"a_b": 1}}
    assert "mood" in seen
    assert await run.text == "ok"


@pytest.mark.parametrize(
    ("options", "continued"),
    [
        ({}, [True, True, True, True, False]),
        ({"max_steps": 2}, [True, False]),
        ({"stop_when": lambda steps: len(steps) == 3}, [True, True, False]),
        ({"stop_when": [lambda steps: False, lambda steps: len(steps) == 2]}, [True, False]),
        ({"stop_when": lambda steps: len(steps) == 4, "max_steps": 2}, [True, False]),
        ({"stop_when": lambda steps: len(steps) == 2, "max_steps": 4}, [True, False]),
    ],
)
async def test_whether_it_goes_on(options: dict[str, Any], continued: list[bool]) -> None:
    """R-510, R-526, R-527: true exactly when another step follows; what comes first stops."""
    run = await Agent(id="a", model=EagerModel(), tools=[look]).stream("go", **options)
    chunks = [chunk async for chunk in run]
    closings = [chunk.payload.step_result for chunk in chunks if chunk.type == "step-finish"]
    assert [closing.is_continued for closing in closings] == continued
    assert chunks[-1].payload.step_result.is_continued is False
    assert len(await run.tool_results) == len(continued)
    assert await run.finish_reason == "tool-calls"


@three_ways
async def test_conditions_may_be_async(way: str) -> None:
    """R-527: and they are told of the steps so far, the last one included."""
    seen: list[int] = []

    async def enough(steps: Any) -> bool:
        await asyncio.sleep(0)
        seen.append(len(steps[-1].tool_results))
        return len(steps) == 2

    agent = Agent(id="a", model=EagerModel(), tools=[look])
    assert len((await play(way, agent, "go", stop_when=enough)).steps) == 2
    assert seen == [1, 1]


async def test_delivered_chunks_stay_as_they_are() -> None:
    """R-511: whatever processors and later steps do."""

    def later(args: Any) -> None:
        for message in args.messages:
            for part in message.content.parts:
                if part.type == "text":
                    part.text = "changed"

    agent = Agent(
        id="a",
        model=looking(),
        tools=[look],
        output_processors=[only("process_output_result", later)],
    )
    run = await agent.stream("go")
    kept: list[Any] = []
    then: list[Any] = []
    async for chunk in run:
        kept.append(chunk)
        then.append(json.dumps(chunk.to_json()))
    assert [json.dumps(chunk.to_json()) for chunk in kept] == then
    assert await run.text == "changedchanged"


#


@three_ways
@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content-filter", "content-filter"),
        ("other", "other"),
        ("unknown", "other"),
    ],
)
async def test_reasons_to_end(way: str, given: str, shown: str) -> None:
    """R-518, R-519, R-524: without a tool outcome each of them ends the run."""
    model = ScriptedModel([answer("An answer", finish_reason=given), "never"])
    outcome = await play(way, Agent(id="a", model=model), "go")
    assert (outcome.finish_reason, len(model.calls)) == (shown, 1)
    assert outcome.output.status == "success"


@three_ways
async def test_the_providers_own_word(way: str) -> None:
    """R-573: the unified value, beside it what the provider said."""
    finish = {"type": "finish", "finishReason": "stop", "rawFinishReason": "end_turn", "usage": {}}
    model = ScriptedModel([[text("ok"), finish]])
    outcome = await play(way, Agent(id="a", model=model), "go")
    assert outcome.finish_reason == "stop"
    if outcome.chunks is not None:
        closings = [c.payload.step_result for c in outcome.chunks if "finish" in c.type]
        assert [closing.raw_reason for closing in closings] == ["end_turn", "end_turn"]


@three_ways
async def test_no_finish_at_all(way: str) -> None:
    """R-520: no reason, no usage, and the run ends."""
    model = ScriptedModel([[text("ok")]])
    outcome = await play(way, Agent(id="a", model=model), "go")
    assert (outcome.text, outcome.finish_reason, len(model.calls)) == ("ok", None, 1)
    assert outcome.output.usage == Usage()


def test_totals() -> None:
    """R-521, R-522: computed when both counts are known; sums add what is known."""
    assert Usage(input_tokens=1, output_tokens=2).total_tokens == 3
    assert Usage(input_tokens=1).total_tokens is None
    assert Usage(input_tokens=1, output_tokens=2, total_tokens=9).total_tokens == 9
    one = Usage(input_tokens=1, output_tokens=2, raw="one")
    other = Usage(input_tokens=4, reasoning_tokens=5, raw="other")
    assert one + other == Usage(
        input_tokens=5, output_tokens=2, total_tokens=3, reasoning_tokens=5, raw="other"
    )


#


async def test_the_handle() -> None:
    """R-536, R-537, R-538, R-540, R-541, R-547: known at once, while it runs, and at the end."""
    run = await Agent(id="a", model=looking("See", "n."), tools=[look]).stream("go")
    assert isinstance(run, MastraModelOutput)
    assert (run.status, run.tripwire, run.error) == ("running", None, None)
    assert [message.text for message in run.message_list.messages()] == ["go"]
    pieces = [piece async for piece in run.text_stream]
    assert pieces == ["Looking.", "See", "n."]
    assert run.status == "success"
    chunks = [chunk async for chunk in run.full_stream]
    assert [chunk async for chunk in run.full_stream] == chunks
    assert chunks[0].payload.message_id == run.message_id
    output = await run.get_full_output()
    await run.consume_stream()
    assert output.run_id == run.run_id
    assert (await run.text, await run.text) == (output.text, "Looking.Seen.")


async def test_several_readers() -> None:
    """R-537, R-539: each gets everything, whoever drives the run."""
    run = await Agent(id="a", model=looking(), tools=[look]).stream("go")

    async def read() -> list[str]:
        return [chunk.type async for chunk in run.full_stream]

    async def words() -> str:
        return "".join([piece async for piece in run.text_stream])

    one, other, said, awaited = await asyncio.gather(read(), read(), words(), run.text)
    assert one == other
    assert said == awaited == "Looking.Seen."


@three_ways
async def test_values_of_a_run(way: str) -> None:
    """R-542 to R-546: over all accepted steps."""
    thoughts = [
        {"type": "reasoning-start", "id": "r1"},
        {"type": "reasoning-delta", "id": "r1", "delta": "Hm, "},
        {"type": "reasoning-delta", "id": "r1", "delta": "well."},
        {"type": "reasoning-end", "id": "r1"},
        {"type": "source", "id": "s1", "sourceType": "url", "url": "https://example.com/a"},
        text("Looking."),
        tool_call("look", {"topic": "owls"}, id="c1"),
        {"type": "finish", "finishReason": "tool-calls", "usage": {"inputTokens": 1}},
    ]
    picture = {"type": "file", "mediaType": "image/png", "data": "aGVsbG8="}
    closing = [text("Seen."), picture, {**END, "providerMetadata": {"example": {"k": 1}}}]
    agent = Agent(id="a", model=ScriptedModel([thoughts, closing]), tools=[look])
    outcome = await play(way, agent, "go")
    output = outcome.output
    assert output.text == "Looking.Seen."
    assert output.usage == output.total_usage
    assert output.usage.input_tokens == 2
    assert output.reasoning_text == outcome.steps[0].reasoning_text == "Hm, well."
    assert outcome.steps[1].reasoning_text is None
    assert [chunk.payload.url for chunk in output.sources] == ["https://example.com/a"]
    assert [chunk.payload.mime_type for chunk in output.files] == ["image/png"]
    assert [chunk.payload.args for chunk in output.tool_calls] == [{"topic": "owls"}]
    assert [chunk.payload.result for chunk in output.tool_results] == ["seen"]
    assert output.provider_metadata == {"example": {"k": 1}}
    response = output.response
    assert (response.id, response.model_id) == ("resp-mock-1-1", "mock-1")
    assert [entry["role"] for entry in response.messages] == ["assistant", "tool", "assistant"]
    assert [message["role"] for message in response.ui_messages] == ["assistant"]

    # one message, its parts in the order of the stream.
    (message,) = outcome.answers
    assert [part.type for part in message.parts] == [
        "reasoning",
        "source",
        "text",
        "tool-invocation",
        "step-start",
        "text",
        "file",
    ]
    thought, source, *_, file = (part.to_json() for part in message.parts)
    assert thought["reasoning"] == "Hm, well."
    assert thought["details"] == [{"type": "text", "text": "Hm, well."}]
    assert source["source"]["url"] == "https://example.com/a"
    assert (file["mimeType"], file["data"]) == ("image/png", "aGVsbG8=")
    metadata = message.content.metadata or {}
    assert (metadata["modelId"], metadata["provider"]) == ("mock-1", "mock")
    if outcome.chunks is not None:
        ids = {c.payload["messageId"] for c in outcome.chunks if "messageId" in (c.payload or ())}
        assert ids == {message.id}


@three_ways
async def test_several_texts(way: str) -> None:
    """R-310, R-314: one part for each id; deltas without borders give one, empty ones none."""
    bare = [
        {"type": "text-delta", "id": "x", "delta": "no "},
        {"type": "text-delta", "id": "x", "delta": "borders"},
    ]
    script = [*text("one", id="a"), *text("", id="e"), *text("two ", "three", id="b"), *bare, END]
    outcome = await play(way, Agent(id="a", model=ScriptedModel([script])), "go")
    assert outcome.text == "onetwo threeno borders"
    texts = [part.text for part in outcome.answers[0].parts if part.type == "text"]
    assert texts == ["one", "two three", "no borders"]


@three_ways
async def test_tools_of_the_client(way: str) -> None:
    """R-525: a call to one ends the run; it is kept as an open call."""
    mine = Tool(name="pick", description="The client picks.")
    model = ScriptedModel([answer(tool_calls=[tool_call("pick", id="c1")]), "never"])
    outcome = await play(way, Agent(id="a", model=model, tools=[mine]), "go")
    assert (outcome.finish_reason, len(model.calls)) == ("tool-calls", 1)
    part = outcome.answers[0].parts[0].to_json()
    assert part["toolInvocation"]["state"] == "call"
    assert outcome.output.tool_results == []


# ── R-554 ──────────────────────────────────────────────────────────────────────────────────────


class Callbacks:
    """The caller's callbacks, plain or async."""

    def __init__(self, later: bool) -> None:
        self.later = later
        self.log: list[tuple[str, Any]] = []

    def options(self) -> Any:
        names = ("on_step_finish", "on_finish", "on_chunk", "on_error", "on_abort")
        return {name: self.callback(name) for name in names}

    def callback(self, name: str) -> Any:
        def plain(value: Any) -> None:
            self.log.append((name, value))

        async def later(value: Any) -> None:
            await asyncio.sleep(0)
            plain(value)

        return later if self.later else plain

    def of(self, name: str) -> list[Any]:
        return [value for called, value in self.log if called == name]


@three_ways
@pytest.mark.parametrize("later", [False, True])
async def test_callbacks(way: str, later: bool) -> None:
    """R-554: each step, the end, and chunks of content and tools only."""
    callbacks = Callbacks(later)
    agent = Agent(id="a", model=looking(), tools=[look])
    await play(way, agent, "go", **callbacks.options())
    assert [step.text for step in callbacks.of("on_step_finish")] == ["Looking.", "Seen."]
    assert [output.text for output in callbacks.of("on_finish")] == ["Looking.Seen."]
    assert [chunk.type for chunk in callbacks.of("on_chunk")] == [
        "text-delta",
        "tool-call",
        "tool-result",
        "text-delta",
    ]
    assert callbacks.of("on_error") == callbacks.of("on_abort") == []


@three_ways
async def test_callbacks_of_other_ends(way: str) -> None:
    """R-554: a final error is told, a verdict is nobody's end."""
    callbacks = Callbacks(later=False)
    error = APICallError("no", status_code=400)
    agent = Agent(id="a", model=ScriptedModel([error]))
    await play(way, agent, "go", **callbacks.options())
    assert callbacks.of("on_error") == [{"error": error}]
    assert callbacks.of("on_finish") == []

    callbacks = Callbacks(later=False)
    judge = only("process_output_step", lambda args: args.abort("no"))
    agent = Agent(id="a", model=ScriptedModel(["An answer"]), output_processors=[judge])
    await play(way, agent, "go", **callbacks.options())
    assert [name for name, _ in callbacks.log] == ["on_chunk"]


NAMES = ["on_chunk", "on_step_finish", "on_finish", "on_error", "on_abort"]


def ending(name: str, problem: BaseException, later: bool) -> tuple[Agent, Any, list[Any]]:
    """An agent, the options of a call that reaches a callback which raises, and what is stored."""
    ends: list[Any] = []

    class Store:
        def extend(self, opening: Any) -> Around:
            return Around()

        async def run_ended(self, run: Any) -> None:
            ends.append((run.status, run.raises))

    def plain(value: Any) -> None:
        raise problem

    async def deferred(value: Any) -> None:
        await asyncio.sleep(0)
        plain(value)

    options: Any = {name: deferred if later else plain}
    model = looking()
    if name == "on_error":
        model = ScriptedModel([APICallError("the model's own", status_code=400)])
    if name == "on_abort":
        controller = AbortController()
        controller.abort()
        options["abort_signal"] = controller.signal
    return Agent(id="a", model=model, tools=[look], extensions=[Store()]), options, ends


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("name", NAMES)
async def test_a_callback_that_raises(name: str, later: bool) -> None:
    """R-188, R-554: it fails the run as a hook would, with one `error` chunk, the last one."""
    problem = LookupError("trouble in a callback")
    agent, options, ends = ending(name, problem, later)
    run = await agent.stream("go", **options)
    chunks = [chunk async for chunk in run]
    assert chunks[-1].type == "error" and chunks[-1].payload.error is problem
    assert sum(chunk.payload.error is problem for chunk in chunks if chunk.type == "error") == 1
    assert (run.status, run.error) == ("failed", problem)
    assert ends == [("failed", True)]
    with pytest.raises(LookupError) as raised:
        await run.text
    assert name in "".join(raised.value.__notes__)
    agent, options, ends = ending(name, problem, later)
    with pytest.raises(LookupError):
        await agent.generate("go", **options)


@pytest.mark.parametrize("retry", [False, True])
@pytest.mark.parametrize("name", NAMES)
async def test_a_verdict_in_a_callback(name: str, retry: bool) -> None:
    """R-168 to R-174: it blocks; a step that was accepted is taken out again, and counted once."""
    agent, options, ends = ending(name, TripWire("enough", retry=retry), later=False)
    run = await agent.stream("go", max_processor_retries=3, **options)
    chunks = [chunk async for chunk in run]
    assert [chunk.type for chunk in chunks].count("tripwire") == 1
    payload = chunks[-1].payload
    assert (chunks[-1].type, payload.reason, payload.processor_id) == ("tripwire", "enough", name)
    assert (run.status, run.error, await run.text) == ("tripwire", None, "")
    assert ends == [("tripwire", False)]
    assert not run.message_list.response_messages()
    steps = await run.steps
    numbers = [step.step_number for step in steps]
    assert numbers == sorted(set(numbers))
    counted = sum(step.usage.total_tokens or 0 for step in steps)
    assert ((await run.usage).total_tokens or 0) == counted
    assert not any(step.text for step in steps)
    if name == "on_step_finish":
        (step,) = steps
        assert (step.finish_reason, step.tool_calls) == ("other", [])
        assert step.tripwire.reason == "enough"


@pytest.mark.parametrize("place", ["while it waits", "between"])
async def test_leaving_while_a_callback_is_called(place: str) -> None:
    """R-554: the run is settled, whoever is cancelled; nothing of it is left open."""
    begun = asyncio.Event()

    async def wait(chunk: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    agent, _, ends = ending("on_chunk", ValueError(), later=False)
    run = await agent.stream("go", on_chunk=wait)
    reader = asyncio.create_task(run.consume_stream())
    await begun.wait()
    if place == "between":
        await run.aclose()
        await reader
    else:
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
    assert run.status == "canceled" and ends == [("canceled", False)]
    assert await run.finish_reason == "aborted"


async def test_a_callback_that_stops_an_iteration() -> None:
    """R-554: `StopAsyncIteration` out of a callback is not the end of the stream."""
    agent, options, _ = ending("on_chunk", StopAsyncIteration(), later=True)
    run = await agent.stream("go", **options)
    await run.consume_stream()
    assert run.status == "failed"


async def test_a_verdict_in_a_callback_keeps_the_steps_before() -> None:
    """R-170: a later step's verdict leaves the accepted ones alone."""

    def trip(step: Any) -> None:
        if step.step_number == 1:
            raise TripWire("enough")

    run = await Agent(id="a", model=looking(), tools=[look]).stream("go", on_step_finish=trip)
    assert await run.text == "Looking."
    assert [step.finish_reason for step in await run.steps] == ["tool-calls", "other"]
    (message,) = run.message_list.response_messages()
    kinds = [part.type for part in message.content.parts]
    assert kinds == ["text", "tool-invocation", "step-start"]


#


@pytest.mark.parametrize(
    ("hidden", "shown"),
    [
        (False, ["data-signal", "data-user-message"]),
        (True, []),
        (["reactive"], ["data-user-message"]),
        (["user"], ["data-signal"]),
    ],
)
async def test_hidden_signals(hidden: Any, shown: list[str]) -> None:
    """R-715, R-716, R-719: hiding is for clients; the model is told all the same."""

    async def remind(args: Any) -> None:
        await args.send_signal({"type": "reactive", "contents": "Be brief."})
        await args.send_signal({"type": "user", "contents": "Be kind."})

    model = ScriptedModel(["ok"])
    agent = Agent(id="a", model=model, input_processors=[only("process_input_step", remind)])
    run = await agent.stream("go", hide_signals=hidden)
    kinds = [chunk.type async for chunk in run]
    assert kinds[: len(shown) + 2] == ["start", *shown, "step-start"]
    assert model.calls[0].text.split("\n") == [
        "go",
        "<system-reminder>Be brief.</system-reminder>",
        "Be kind.",
    ]
