"""How streams end: with one closing chunk, for every reader, whoever leaves and whatever fails."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from pydantic import AfterValidator

from procession import Agent, Around, ModelError, ProcessionError, Tool, TripWire, tool
from tests.laws.kit import Hook, PlayedModel, agent_with, call, end, said, stored_text

if TYPE_CHECKING:
    from collections.abc import Callable

CLOSING = frozenset({"finish", "tripwire", "error"})


class Extension:
    """An extension whose end is a function of the run."""

    def __init__(self, run_ended: Callable[[Any], Any]) -> None:
        self.run_ended = run_ended

    def extend(self, opening: Any) -> Around:
        return Around()


async def kinds(run: Any) -> list[str]:
    return [chunk.type async for chunk in run]


async def texts(run: Any) -> str:
    return "".join([text async for text in run.text_stream])


async def cut(reader: asyncio.Task[Any]) -> None:
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader


# ── extensions that fail ───────────────────────────────────────────────────────────────────────


def raising(problem: BaseException) -> Extension:
    async def run_ended(run: Any) -> None:
        await asyncio.sleep(0)
        raise problem

    return Extension(run_ended)


PROBLEMS = [
    ValueError("a secret"),
    TripWire("a secret"),
    BaseExceptionGroup("a secret", [TripWire("a secret")]),
    asyncio.CancelledError("a secret"),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: type(problem).__name__)
async def test_an_extension_fails_a_run_that_was_successful(problem: BaseException) -> None:
    """R-516, R-553: the stream ends with `error`, what is awaited raises."""
    agent = agent_with(PlayedModel([[*said("hi"), end()]]), extensions=[raising(problem)])
    run = await agent.stream("go")
    chunks = [chunk async for chunk in run]
    assert chunks[-1].type == "error" and chunks[-1].payload.error is run.error
    assert CLOSING.isdisjoint(chunk.type for chunk in chunks[:-1])
    assert run.status == "failed"
    assert problem in (run.error, run.error.__cause__)
    assert isinstance(run.error, ValueError | ProcessionError)
    with pytest.raises(type(run.error)):
        await run.text


def tripping(args: Any) -> None:
    args.abort("no")


def breaking(args: Any) -> None:
    raise LookupError("broken")


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: type(problem).__name__)
@pytest.mark.parametrize(
    ("hook", "behave", "last"),
    [
        ("process_input", tripping, "tripwire"),
        ("process_output_step", tripping, "tripwire"),
        ("process_output_result", breaking, "error"),
        ("none", None, "finish"),
    ],
)
async def test_an_extension_fails_when_the_run_has_ended_otherwise(
    problem: BaseException,
    hook: str,
    behave: Any,
    last: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """R-516, G-W2: the outcome stands, its closing chunk is delivered, and the trouble is told."""
    hooks = [Hook(hook, behave)] if behave else []
    answers: list[list[Any]] = [[*said("hi"), end()] if behave else [ConnectionError("gone")]]
    agent = agent_with(PlayedModel(answers), *hooks, extensions=[raising(problem)])
    run = await agent.stream("go")
    found = await kinds(run)
    assert found[-1] == last and run.status == ("tripwire" if last == "tripwire" else "failed")
    (record,) = [r for r in caplog.records if r.levelname == "ERROR"]
    told = f"extension Extension raised {type(problem).__name__} in run_ended"
    assert told in record.getMessage() and "secret" not in caplog.text
    if run.error is not None:
        assert not isinstance(run.error, ValueError) and told in run.error.__notes__
    else:
        assert [warning["message"] for warning in await run.warnings] == [told]


def tripping_at_the_end(args: Any) -> Any:
    if args.part.type == "text-end":
        args.abort("no")
    return args.part


HOOKED = {
    "tripwire": [Hook("process_output_stream", tripping_at_the_end)],
    "blocked": [Hook("process_input", tripping)],
    "broken": [Hook("process_output_result", breaking)],
}


@pytest.mark.parametrize("how", ["success", "tripwire", "failed", "broken", "blocked"])
@pytest.mark.parametrize("leaving", ["cancel", "aclose"])
async def test_who_leaves_while_extensions_work(how: str, leaving: str) -> None:
    """Law 6, R-516: their work is done to its end; the outcome and its chunk are what they were."""
    begun, work, told = asyncio.Event(), asyncio.Event(), list[str]()

    async def store(run: Any) -> None:
        begun.set()
        await work.wait()
        told.append(run.status)

    refused: list[list[Any]] = [[ConnectionError("gone")]]
    model = PlayedModel(refused if how == "failed" else [[*said("hi"), end()]], (10,))
    run = await agent_with(model, *HOOKED.get(how, ()), extensions=[Extension(store)]).stream("go")
    reader = asyncio.create_task(kinds(run))
    await begun.wait()
    if leaving == "cancel":
        for _ in range(3):
            reader.cancel()
            await asyncio.sleep(0)
        closing = asyncio.create_task(asyncio.sleep(0))
    else:
        closing = asyncio.create_task(run.aclose())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not told
    work.set()
    await closing
    if leaving == "cancel":
        with pytest.raises(asyncio.CancelledError):
            await reader
    else:
        await reader
    status = {"broken": "failed", "blocked": "tripwire"}.get(how, how)
    assert told == [status] == [run.status]
    found = await kinds(run)
    last = {"success": "finish", "failed": "finish", "broken": "error"}.get(how, "tripwire")
    assert found[-1] == last
    assert CLOSING.isdisjoint(found[:-1]) or how == "failed"
    if how == "tripwire":
        assert await texts(run) == "hi"


# ── runs that are cut off ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("leaving", ["cancel", "aclose"])
async def test_what_has_passed_is_on_the_tape(leaving: str, beside: bool) -> None:
    """Law 2, M-105: deltas == text == what is stored, though a read was taken in halfway."""
    there = asyncio.Event()

    async def wait(args: Any) -> Any:
        if beside:
            assert args.writer  # so it may write
        if args.part.type == "text-delta" and args.part.payload.text == "c":
            there.set()
            await asyncio.Event().wait()
        return args.part

    model = PlayedModel([[*said(*"abcdefgh"), end()]], (10,))
    run = await agent_with(model, Hook("process_output_stream", wait)).stream("go")
    reader = asyncio.create_task(kinds(run))
    await there.wait()
    if leaving == "cancel":
        await cut(reader)
    else:
        await run.aclose()
    assert await texts(run) == "ab" == await run.text
    assert stored_text(run.message_list.messages()) == "ab"
    found = await kinds(run)
    assert found[-2:] == ["abort", "finish"] and CLOSING.isdisjoint(found[:-1])


@pytest.mark.parametrize("leaving", ["cancel", "aclose"])
async def test_what_is_cut_off_while_it_is_shown(leaving: str) -> None:
    """Law 2: who leaves in `on_chunk` takes nothing from the others."""
    there = asyncio.Event()

    async def wait(chunk: Any) -> None:
        if chunk.type == "text-delta" and chunk.payload.text == "c":
            there.set()
            await asyncio.Event().wait()

    model = PlayedModel([[*said(*"abcd"), end()]], (10,))
    run = await agent_with(model).stream("go", on_chunk=wait)
    reader = asyncio.create_task(kinds(run))
    await there.wait()
    if leaving == "cancel":
        await cut(reader)
    else:
        await run.aclose()
    assert await texts(run) == "abcd" == await run.text
    assert (await kinds(run))[-2:] == ["abort", "finish"]


@pytest.mark.parametrize("hang_at", [0, 2, 4])
async def test_the_reader_that_drives_is_cancelled(hang_at: int) -> None:
    """R-516, R-555, R-557: the stream of the other one ends as that of a run that was stopped."""
    model = PlayedModel([[*said(*"abc"), end()]], hang_at=hang_at)
    run = await agent_with(model).stream("go")
    reader = asyncio.create_task(run.consume_stream())
    await model.hanging.wait()
    other = asyncio.create_task(kinds(run))
    await asyncio.sleep(0)
    await cut(reader)
    found = await asyncio.wait_for(other, 30)
    assert found[0] == "start" and found[-2:] == ["abort", "finish"]
    assert CLOSING.isdisjoint(found[:-1]) and found == await kinds(run)
    *_, finish = [chunk async for chunk in run]
    assert finish.payload.step_result.reason == "aborted" == await run.finish_reason
    assert finish.payload.output.text == await run.text


async def test_closed_at_every_chunk() -> None:
    """R-516, R-556: a run that is closed ends with one closing chunk, also one nobody has read."""
    model = PlayedModel([[*said("ab"), call("look"), end("tool-calls")], [*said("c"), end()]])
    for count in range(100):
        run = await agent_with(model, tools=[look]).stream("go")
        model.prompts.clear()
        stream = run.full_stream
        seen = [await anext(stream, None) for _ in range(count)]
        await run.aclose()
        await run.aclose()
        found = await kinds(run)
        assert found[0] == "start" and found[-1] == "finish", count
        assert CLOSING.isdisjoint(found[:-1]), count
        assert await texts(run) == await run.text == stored_text(run.message_list.messages())
        if seen and seen[-1] is None:
            assert run.status == "success"
            return
        if count == 0:
            assert found == ["start", "abort", "finish"]
    raise AssertionError("the run did not come to its end")


@tool
async def look() -> str:
    """Look."""
    return "seen"


async def test_closed_unread_when_it_was_blocked() -> None:
    """R-069, R-516: a blocked input is all that such a stream tells."""
    run = await agent_with(PlayedModel([]), Hook("process_input", tripping)).stream("go")
    await run.aclose()
    assert await kinds(run) == ["tripwire"] and run.status == "tripwire"


async def test_who_comes_while_it_is_closed() -> None:
    """R-516, R-537: a reader that comes while the run is being closed reads its end as well."""
    slow = asyncio.Event()

    async def store(run: Any) -> None:
        await slow.wait()

    agent = agent_with(PlayedModel([[*said("hi"), end()]]), extensions=[Extension(store)])
    run = await agent.stream("go")
    await anext(run.full_stream)
    closing = asyncio.create_task(run.aclose())
    await asyncio.sleep(0)
    reader = asyncio.create_task(kinds(run))
    await asyncio.sleep(0)
    slow.set()
    await closing
    assert await reader == ["start", "abort", "finish"]


@pytest.mark.parametrize("left", [False, True])
async def test_a_verdict_that_was_given_is_told_to_the_others(left: bool) -> None:
    """R-167, R-171: cut off before a verdict takes effect, the stream ends with `tripwire`."""
    told = asyncio.Event()

    async def tell(violation: Any) -> None:
        told.set()
        await asyncio.sleep(3600 if left else 0)

    judge = Hook("process_output_step", tripping)
    judge.on_violation = tell  # type: ignore[attr-defined]
    run = await agent_with(PlayedModel([[*said("hi"), end()]]), judge).stream("go")
    reader = asyncio.create_task(kinds(run))
    await told.wait()
    if left:
        await cut(reader)
    found = await kinds(run)
    assert found[-1] == "tripwire" and CLOSING.isdisjoint(found[:-1])


# ── `on_chunk` ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("problem", [TripWire("enough"), ValueError("broken")], ids=type)
async def test_nothing_behind_the_chunk_that_on_chunk_refused(problem: BaseException) -> None:
    """R-554, law 4: what stands behind it in the same read is not delivered."""

    def refuse(chunk: Any) -> None:
        if chunk.type == "text-delta" and chunk.payload.text == "b":
            raise problem

    model = PlayedModel([[*said(*"abcd"), end()]], (10,))
    run = await agent_with(model).stream("go", on_chunk=refuse)
    found = [chunk async for chunk in run]
    assert "".join(c.payload.text for c in found if c.type == "text-delta") == "ab"
    assert found[-1].type == ("tripwire" if isinstance(problem, TripWire) else "error")


@pytest.mark.parametrize("problem", [TripWire("enough"), ValueError("broken")], ids=type)
async def test_on_chunk_is_too_late(
    problem: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """R-516, R-554: once the run has ended otherwise, its stream comes to its end all the same."""

    def refuse(chunk: Any) -> None:
        if chunk.type == "text-delta":
            raise problem

    model = PlayedModel([[*said(*"abcd"), end()]], (10,))

    def fail(args: Any) -> Any:
        if args.part.type == "text-end":
            breaking(args)
        return args.part

    hook = Hook("process_output_stream", fail)
    run = await agent_with(model, hook).stream("go", on_chunk=refuse)
    found = await kinds(run)
    assert found[-1] == "error" and found.count("text-delta") == 4
    assert isinstance(run.error, LookupError)
    assert f"on_chunk raised {type(problem).__name__}" in caplog.text


# ── who is to blame ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", [TypeError, AttributeError])
@pytest.mark.parametrize("form", ["plain", "async", "beside"])
async def test_what_a_hook_spoils_is_not_the_models_mistake(form: str, kind: Any) -> None:
    """R-133: a hook that raises fails the run; nobody is asked for another call."""
    asked: list[Any] = []

    def spoil(args: Any) -> Any:
        if args.part.type == "text-delta":
            args.part.payload.text = None
            raise kind("of the hook")
        return args.part

    async def spoil_later(args: Any) -> Any:
        if form == "beside":
            assert args.writer
        return spoil(args)

    hook = Hook("process_output_stream", spoil if form == "plain" else spoil_later)
    agent = Agent(
        id="a",
        model=PlayedModel([[*said("hi"), end()]], (5,)),
        output_processors=[hook],
        error_processors=[Hook("process_api_error", asked.append)],
    )
    run = await agent.stream("go", max_processor_retries=2)
    found = await kinds(run)
    assert found[-1] == "error" and isinstance(run.error, kind) and asked == []


async def test_what_a_model_spoils_is_its_mistake() -> None:
    """R-114: the same from the model is an answer that cannot be used."""
    model = PlayedModel([[*said("hi"), end()]], (5,))
    take = model.stream

    async def stream(request: Any) -> Any:
        async for read in take(request):
            for chunk in read:
                if chunk.type == "text-delta":
                    chunk.payload.text = None
            yield read

    model.stream = stream  # type: ignore[method-assign]
    run = await agent_with(model).stream("go")
    await run.consume_stream()
    assert isinstance(run.error, ModelError)


# ── verdicts outside of hooks ──────────────────────────────────────────────────────────────────


def refusing(grouped: bool) -> Callable[..., Any]:
    async def refuse(*given: Any) -> Any:
        await asyncio.sleep(0)
        if grouped:
            raise BaseExceptionGroup("several", [TripWire()])
        raise TripWire

    return refuse


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize(
    "place", ["instructions", "model", "tools", "input_processors", "extensions"]
)
async def test_a_verdict_while_the_run_is_opened(place: str, grouped: bool) -> None:
    """R-069, R-172: a function of the request that trips blocks the input."""
    ended: list[str] = []

    class Refusing:
        extend = staticmethod(refusing(grouped))

        async def run_ended(self, run: Any) -> None:
            ended.append(run.status)

    options: Any = {"model": PlayedModel([[*said("hi"), end()]])}
    options[place] = [Refusing()] if place == "extensions" else refusing(grouped)
    agent = Agent(id="desk", **options)
    run = await agent.stream("go")
    (chunk,) = [chunk async for chunk in run]
    assert (chunk.type, run.status) == ("tripwire", "tripwire")
    assert chunk.payload.processor_id == "desk" and "'desk'" in chunk.payload.reason
    assert ended == (["tripwire"] if place == "extensions" else [])
    result = await agent.generate("go")
    assert result.tripwire is not None and result.text == "" and result.finish_reason == "other"


def checked(check: Callable[[Any], Any]) -> Tool:
    """A tool whose argument has a validator of the user's."""

    async def look(topic: str) -> str:
        return "seen"

    look.__annotations__["topic"] = Annotated[str, AfterValidator(lambda value: check(value))]
    return tool(look)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("place", ["stop_when", "model", "to_model_output", "validate"])
async def test_a_verdict_outside_of_hooks_is_signed(place: str, grouped: bool) -> None:
    """R-166, R-172: `processorId` says whose it is: the tool's, else the agent's."""

    def refuse(*given: Any) -> Any:
        if grouped:
            raise BaseExceptionGroup("several", [TripWire()])
        raise TripWire

    async def execute(arguments: Any, context: Any) -> str:
        return "seen"

    looking: Any = Tool(name="look", execute=execute)
    if place == "to_model_output":
        looking = Tool(name="look", execute=execute, to_model_output=refuse)
    elif place == "validate":
        looking = checked(refuse)
    model = PlayedModel([[*said("hi"), call("look", '{"topic": "x"}'), end("tool-calls")]])
    if place == "model":
        model.stream = refuse  # type: ignore[method-assign]
    agent = agent_with(model, tools=[looking])
    run = await agent.stream("go", stop_when=refuse if place == "stop_when" else None)
    found = [chunk async for chunk in run]
    assert found[-1].type == "tripwire" and run.status == "tripwire"
    name = agent.id if place in ("stop_when", "model") else "look"
    assert found[-1].payload.processor_id == name and repr(name) in found[-1].payload.reason
    assert (await run.steps)[-1].tripwire.processor_id == name
