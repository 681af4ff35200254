"""What holds nothing back though it looks as if it did is told when the agent is made."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

from procession import Agent, ConfigurationError, Policy, Processor, processor
from procession.hold import Literals
from procession.processors import RegexFilterProcessor
from procession.testing import ScriptedModel


def made(**attributes: Any) -> Any:
    """A processor of a class with these attributes, and a stream hook unless it says otherwise."""
    return type("Guard", (), {"id": "g", "process_output_stream": let_pass, **attributes})()


def let_pass(self: Any, args: Any) -> Any:
    return args.part


def agent_with(guard: Any) -> Agent:
    return Agent(id="a", model=ScriptedModel(["one", "two"]), output_processors=[guard])


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("watch", Literals("secret"), "watches"),
        ("lane", ["reasoning"], "lanes"),
        ("Watches", Literals("secret"), "watches"),
        ("watchs", Literals("secret"), "watches"),
    ],
)
def test_a_misspelt_declaration(name: str, value: Any, meant: str) -> None:
    """As an attribute of the class, of the object, and as a keyword."""
    alone = made()
    setattr(alone, name, value)
    for guard in (made(**{name: value}), alone):
        with pytest.raises(ConfigurationError, match=f"did you mean {meant!r}"):
            agent_with(guard)
    given: Any = {name: value}
    with pytest.raises(ConfigurationError, match=f"did you mean {meant!r}"):
        processor(id="g", process_output_stream=lambda args: args.part, **given)


class Base(Processor[Any]):
    id = "g"

    def process_output_stream(self, args: Any) -> Any:
        return args.part


class OnlyLanes(Base):
    lanes = ("text", "reasoning")


@pytest.mark.parametrize(
    "guard",
    [
        made(lanes=["reasoning"]),
        OnlyLanes(),
        processor(id="g", process_output_stream=lambda args: args.part, lanes=["tool-arguments"]),
        processor(id="g", process_output_stream=lambda args: args.part, lanes=["text"]),
    ],
)
def test_lanes_without_watches(guard: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"'g'.* has lanes but no watches"):
        agent_with(guard)


@pytest.mark.parametrize(
    "guard",
    [
        made(process_output_stream=None, process_output_step=let_pass, watches=Literals("x")),
        processor(id="g", process_output_result=lambda args: None, watches=[Literals("x")]),
    ],
)
def test_watches_without_the_hook(guard: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"'g'.* has watches but no process_output_stream"):
        agent_with(guard)


def test_what_is_meant_so() -> None:
    """Defaults say nothing; a processor may come to have no watches, as a filter of input does."""
    agent_with(Base())
    agent_with(made(watches=(), lanes=["reasoning"]))
    agent_with(processor(id="g", process_output_stream=lambda args: args.part))
    agent_with(RegexFilterProcessor(presets=["pii"], phase="input"))


async def noted(guard: Any) -> str:
    with pytest.raises(AttributeError) as raised:
        await agent_with(guard).generate("go")
    return "".join(traceback.format_exception(raised.value))


def forgetful(args: Any) -> Any:
    return args.with_text(args.piece.text)


async def test_a_hook_that_forgets_frames_is_told_how_to_begin() -> None:
    """B-132: chunks that are no piece of a lane have none."""
    guard = processor(id="g", process_output_stream=forgetful, watches=Literals("x"))
    assert "if args.piece is None: return args.part" in await noted(guard)


async def test_a_hook_without_watches_is_told_of_them() -> None:
    said = await noted(processor(id="g", process_output_stream=forgetful))
    assert "it is there for processors with watches" in said
    assert "return args.part`" not in said


async def test_other_nothings_are_not_explained() -> None:
    def odd(args: Any) -> Any:
        nothing: Any = None
        return nothing.lane if args.piece is None else args.part

    guard = processor(id="g", process_output_stream=odd, watches=Literals("x"))
    assert "args.piece is None for" not in await noted(guard)


async def test_an_observed_hook_that_forgets_them() -> None:
    """It changes nothing, as any failure of an observed processor; the events tell of it."""
    guard = processor(
        id="g",
        process_output_stream=forgetful,
        watches=Literals("x"),
        policy=Policy(observe=True),
    )
    result = await agent_with(guard).generate("go")
    assert result.text == "one" and result.policy_events[0].error == "AttributeError"


async def test_a_class_of_its_own_that_names_no_lanes_looks_at_the_text() -> None:
    """As one that derives from `Processor` does (R-008): only an id and a hook are asked for."""

    def hide(self: Any, args: Any) -> Any:
        return args.part if args.piece is None else args.with_text(args.piece.text.upper())

    guard = made(watches=Literals("secret"), process_output_stream=hide)
    assert (await agent_with(guard).generate("go")).text == "ONE"
