"""What guards say of an object, and add to it, and when its parts are shown."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from procession import Agent, processor
from procession.chunks import Chunk
from procession.hold import Pattern
from procession.processors import StructuredOutputProcessor
from procession.testing import ScriptedModel, answer
from tests.hold.kit import guard
from tests.hold.objects_kit import SECRET, asked, in_two_blocks


async def test_a_verdict_on_the_object_of_a_second_model_is_the_guards() -> None:
    """Nothing of it is stored, and the reason is that of the guard; it is told once."""
    told: list[Any] = []

    def refuse(args: Any) -> Any:
        if args.piece is not None and "secret" in args.piece.text:
            args.abort("no secrets", passing=args.with_text(""))
        return args.part

    no = processor(id="no", process_output_stream=refuse, watches=SECRET, on_violation=told.append)
    second = ScriptedModel(['{"a": "x", "b": "\\u0073ecret"}'])
    agent = Agent(id="a", model=ScriptedModel("Words"), output_processors=[no])
    run = await agent.stream("go", structured_output={"schema": None, "model": second})
    partials = [chunk.object async for chunk in run if chunk.type == "object"]
    assert partials[-1] == {"a": "x", "b": ""}
    assert run.tripwire is not None
    assert (run.tripwire.reason, run.tripwire.processor_id) == ("no secrets", "no")
    assert await run.object is None
    assert len(told) == 1


async def test_what_a_second_model_has_written_last_is_seen() -> None:
    """A number might go on until the text has ended."""
    second = ScriptedModel(["12"])
    hides = guard([Pattern(r"\d{4}")])
    assert (await asked("Words", hides, model=second, schema={"type": "integer"})).object == 12


@pytest.mark.parametrize("is_second", [False, True])
async def test_what_an_attempt_had_begun_is_forgotten(is_second: bool) -> None:
    """R-113: the text of the next one begins anew, though its block has the same id, and its leaves
    are new ones."""
    seen: list[str] = []

    def refuse(args: Any) -> Any:
        if args.piece is not None and args.piece.of_object:
            seen.append(args.piece.text)
            if args.piece.text == "x" and seen.count("x") == 1:
                args.abort("no x", retry=True)
        return args.part

    once = processor(id="once", process_output_stream=refuse, watches=SECRET)
    answers = ['{"a": "b", "c": "x", "d": 1}', '{"a": "b", "c": "x"}']
    models = [ScriptedModel(answers), ScriptedModel("Words")]
    more: Any = {"model": models[0]} if is_second else {}
    agent = Agent(id="a", model=models[is_second], output_processors=[once])
    output = await agent.generate(
        "go", structured_output={"schema": None, **more}, max_processor_retries=1
    )
    assert output.object == {"a": "b", "c": "x"}
    assert seen == ["a", "b", "c", "x", "a", "b", "c", "x"]


@pytest.mark.parametrize("source", ["answer", "two blocks", "second model"])
async def test_what_a_guard_adds_to_an_object_is_delivered(source: str) -> None:
    """R-198: other chunks of it, and what it writes, pass those behind it."""

    async def add(args: Any) -> Any:
        if args.piece is None or args.piece.text != "secret":
            return args.part
        await args.writer.custom({"type": "data-written", "data": 1})
        return [Chunk("data-added", data=2), args.part]

    passed: list[str] = []

    def see(args: Any) -> Any:
        if args.part.type.startswith("data-"):
            passed.append(args.part.type)
        return args.part

    chain = [
        processor(id="adds", process_output_stream=add, watches=SECRET),
        processor(id="sees", process_output_stream=see, process_data_parts=True),
    ]
    model: Any = ScriptedModel([r'{"a": "\u0073ecret"}'])
    asking: dict[str, Any] = {"schema": None}
    if source == "second model":
        asking["model"], model = model, ScriptedModel("Words")
    elif source == "two blocks":
        model = in_two_blocks()
    agent = Agent(id="a", model=model, output_processors=chain)
    run = await agent.stream("go", structured_output=asking)
    found = [chunk.type async for chunk in run if chunk.type.startswith("data-")]
    assert found == passed == ["data-written", "data-added"]
    assert await run.object == {"a": "secret"}


class Light(StructuredOutputProcessor):
    """Makes objects, and makes light of what happens meanwhile."""

    async def process_output_step(self, args: Any) -> None:
        with contextlib.suppress(Exception):
            await super().process_output_step(args)


@pytest.mark.parametrize("is_verdict", [True, False])
async def test_nobody_makes_light_of_what_a_guard_says_of_an_object(is_verdict: bool) -> None:
    """Law 2: a verdict stands, and so does a failure, whoever catches it."""

    def refuse(args: Any) -> Any:
        if args.piece is not None and args.piece.text == "secret":
            if is_verdict:
                args.abort("no secrets")
            raise ValueError("broken")
        return args.part

    no = processor(id="no", process_output_stream=refuse, watches=SECRET)
    light = Light(schema=None, model=ScriptedModel([r'{"a": "\u0073ecret"}']))
    run = await Agent(id="a", model=ScriptedModel("Words"), output_processors=[no, light]).stream(
        "go"
    )
    assert [chunk.type async for chunk in run].count("object-result") == 0
    if is_verdict:
        assert run.tripwire is not None
        assert run.tripwire.reason == "no secrets"
    else:
        assert isinstance(run.error, ValueError)


async def test_what_is_written_while_a_guard_looks_comes_before_what_it_has_looked_at() -> None:
    """R-198: it waits until the guard is through, and no longer."""
    kept: list[Any] = []
    notes: list[Any] = []

    async def write(args: Any) -> Any:
        if args.piece is not None and args.piece.text == "x":
            note = {"type": "data-note", "data": 1}
            notes.append(asyncio.create_task(kept[0].custom(note)))
            await asyncio.sleep(0)
        return args.part

    chain = [
        processor(id="keeps", process_output_step=lambda args: kept.append(args.writer)),
        processor(id="writes", process_output_stream=write, watches=SECRET),
    ]
    second = ScriptedModel(['{"a": "x"}'])
    run = await Agent(id="a", model=ScriptedModel("Words"), output_processors=chain).stream(
        "go", structured_output={"schema": None, "model": second}
    )
    shown = [c.object if c.type == "object" else c.type async for c in run]
    await asyncio.gather(*notes)
    assert shown.index("data-note") < shown.index({"a": "x"})


async def test_a_guard_that_fails_fails_the_run() -> None:
    """Nothing of the object is shown then."""

    def fail(args: Any) -> Any:
        if args.piece is not None and args.piece.text == "x":
            raise ValueError("broken")
        return args.part

    failing = processor(id="failing", process_output_stream=fail, watches=SECRET)
    second = ScriptedModel(['{"a": "x"}'])
    with pytest.raises(ValueError, match="broken"):
        await asked("Words", failing, model=second)


@pytest.mark.parametrize("is_second", [False, True])
async def test_no_partial_object_behind_a_fence_that_escapes_have_made(is_second: bool) -> None:
    """G-A: a string among words is written anew without its escapes. Backticks that were escaped
    open a fence then, behind which nobody has looked for JSON: it is shown when that is done."""
    text = r'"\u0060\u0060\u0060["\u0073ecret"]'
    for pieces in ([text], list(text)):
        assert await shown_at_the_end(pieces, guard([SECRET]), is_second) == ["######"]


@pytest.mark.parametrize("is_second", [False, True])
async def test_no_partial_object_where_words_were_taken_out(is_second: bool) -> None:
    """What begins at the beginning, since the guard took out the words before it, was not looked at
    as the object that it is then: it is shown when it has been."""

    def take_out(args: Any) -> Any:
        if args.piece is None:
            return args.part
        return args.with_text(args.piece.text.replace("secret", ""))

    takes = processor(id="takes", process_output_stream=take_out, watches=SECRET)
    text = 'secret{"a": "```", "b": "\\u0073ecret"}'
    assert await shown_at_the_end(list(text), takes, is_second) == {"a": "```", "b": ""}


async def shown_at_the_end(pieces: list[str], guard: Any, is_second: bool) -> Any:
    """The object of an answer, or of what a second model writes, of which no part was shown."""
    asking: dict[str, Any] = {"schema": None}
    model = ScriptedModel([answer(*pieces)])
    if is_second:
        asking["model"], model = model, ScriptedModel("Words")
    agent = Agent(id="a", model=model, output_processors=[guard])
    run = await agent.stream("go", structured_output=asking)
    assert not [chunk.object async for chunk in run if chunk.type == "object"]
    return await run.object
