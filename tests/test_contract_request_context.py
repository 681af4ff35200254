"""What belongs to one request, and the ids of thread and resource (R-800 to R-816)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from procession import (
    MASTRA_RESOURCE_ID_KEY,
    MASTRA_THREAD_ID_KEY,
    Agent,
    Around,
    InputError,
    Message,
    Opening,
    RequestContext,
    ToolContext,
    tool,
)
from procession.processor import HOOKS
from procession.testing import ScriptedModel, answer, tool_call
from tests.seeds.threeways import only, play, three_ways

#


@pytest.mark.parametrize(
    "entries", [{"a": 1, "b": None}, [("a", 1), ("b", None)], iter([("a", 1), ("b", None)])]
)
def test_the_map(entries: Any) -> None:
    """R-800, R-801: pairs or a mapping; `None` is a value like any other."""
    context = RequestContext(entries)
    assert (context.get("a"), context.get("b"), context.get("c")) == (1, None, None)
    assert context.get("b", 5) is None
    assert context.get("c", 5) == 5
    assert [context.has(key) for key in "abc"] == [True, True, False]
    assert (context.size(), context.all) == (2, {"a": 1, "b": None})
    context.set("c", [3])
    assert (context.keys(), context.values()) == (["a", "b", "c"], [1, None, [3]])
    assert context.entries() == [("a", 1), ("b", None), ("c", [3])]
    assert (context.delete("b"), context.delete("b")) == (True, False)
    seen: list[Any] = []
    context.for_each(lambda value, key: seen.append((key, value)))
    assert seen == [("a", 1), ("c", [3])]
    context.all["d"] = 4
    assert not context.has("d")
    context.clear()
    assert (context.size(), context.keys(), RequestContext().all) == (0, [], {})


def test_what_is_given_is_copied() -> None:
    """R-800: the mapping that was given is not written to."""
    given = {"a": 1}
    context = RequestContext(given)
    context.set("b", 2)
    assert given == {"a": 1}


def test_order_is_that_of_insertion() -> None:
    """R-802: a key that is set again keeps its place; one that was deleted comes last."""
    context = RequestContext({"z": 1, "a": 2, "m": 3})
    context.set("a", 9)
    assert context.keys() == ["z", "a", "m"]
    context.delete("z")
    context.set("z", 1)
    assert context.keys() == ["a", "m", "z"]


def test_json_form() -> None:
    """R-803: what JSON cannot hold is left out, in silence."""
    loop: dict[str, Any] = {}
    loop["self"] = loop
    context = RequestContext(
        {"a": {"aKey": [1, None]}, "f": print, "loop": loop, "o": object(), "s": "é", "n": None}
    )
    form = context.to_json()
    assert form == {"a": {"aKey": [1, None]}, "s": "é", "n": None}
    assert json.loads(json.dumps(form)) == form
    assert context.size() == 6


def test_raw_names() -> None:
    """R-807: synonyms."""
    context = RequestContext()
    context.set_raw("a", 1)
    assert (context.get_raw("a"), context.has_raw("a")) == (1, True)
    assert context.delete_raw("a") is True
    assert context.get("a") is None


def test_names_of_the_keys() -> None:
    """R-808: these exact values."""
    assert MASTRA_RESOURCE_ID_KEY == "mastra__resourceId"
    assert MASTRA_THREAD_ID_KEY == "mastra__threadId"


def test_values_do_not_show() -> None:
    """A context may hold secrets: its `repr` names keys only."""
    assert "s3cret" not in repr(RequestContext({"token": "s3cret"}))


#


class Passes:
    """Every hook, a tool and every function of the request note what they find, and add a word."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.seen: dict[str, list[str]] = {}
        self.instances: set[int] = set()

    def at(self, place: str, context: RequestContext) -> None:
        self.instances.add(id(context))
        if place not in self.seen:
            self.seen[place] = list(context.get("places") or [])
            context.set("places", [*self.seen[place], place])

    def hook(self, name: str) -> Any:
        def function(args: Any) -> Any:
            self.at(name, args.request_context)
            return getattr(args, "part", None)

        return only(name, function, id=name)

    def function(self, place: str, value: Any) -> Any:
        def function(scope: Any) -> Any:
            self.at(place, scope.request_context)
            return value

        return function


def passing(passes: Passes) -> tuple[Agent, ScriptedModel]:
    @tool
    async def look(context: ToolContext) -> str:
        """Look something up."""
        passes.at("tool", context.request_context)
        return "seen"

    script = [answer(tool_calls=[tool_call("look")]), ValueError("broken"), "Seen."]
    model = ScriptedModel(script)
    errors = [only("process_api_error", _mending(passes), id="mends")]
    agent = Agent(
        id="a",
        model=passes.function("model", model),
        instructions=passes.function("instructions", "Be brief."),
        tools=passes.function("tools", [look]),
        input_processors=passes.function("inputs", [passes.hook(name) for name in HOOKS[:4]]),
        output_processors=passes.function("outputs", [passes.hook(name) for name in HOOKS[4:8]]),
        error_processors=passes.function("errors", errors),
    )
    return agent, model


def _mending(passes: Passes) -> Any:
    def mend(args: Any) -> Any:
        passes.at("process_api_error", args.request_context)
        return {"retry": True}

    return mend


PLACES = {"model", "instructions", "tools", "inputs", "outputs", "errors", "tool", *HOOKS}


@three_ways
async def test_one_instance_for_all(way: str) -> None:
    """R-029, R-804: the caller's own; what one sets, later ones see, and the caller too."""
    passes = Passes()
    agent, _ = passing(passes)
    context = RequestContext({"who": "ida"})
    outcome = await play(way, agent, "go", request_context=context)
    assert outcome.text == "Seen."
    assert passes.instances == {id(context)}
    assert set(passes.seen) == PLACES
    order = context.get("places")
    for place, before in passes.seen.items():
        assert before == order[: order.index(place)]
    assert order[-1] == "process_output_result"
    assert context.get("who") == "ida"


@three_ways
async def test_without_one(way: str) -> None:
    """R-805: each request gets its own, empty at first."""
    passes = Passes()
    agent, _ = passing(passes)
    await play(way, agent, "go")
    assert len(passes.instances) == 1
    first = next(place for place, before in passes.seen.items() if not before)
    later = Passes()
    other, _ = passing(later)
    await play(way, other, "go")
    assert later.seen[first] == []


@three_ways
async def test_a_mapping_will_do(way: str) -> None:
    """R-804: entries may be given as a plain mapping."""
    found: list[Any] = []
    hook = only("process_input", lambda args: found.append(args.request_context.get("who")))
    agent = Agent(id="a", model=ScriptedModel(["ok"]), input_processors=[hook])
    await play(way, agent, "go", request_context={"who": "ida"})
    assert found == ["ida"]


@three_ways
async def test_nothing_of_it_is_prompted(way: str) -> None:
    """R-806: a request's values are no part of what the model is told."""
    passes = Passes()
    agent, model = passing(passes)
    context = RequestContext({"token": "s3cret-w0rd"})
    outcome = await play(way, agent, "go", request_context=context)
    asked = [[call.prompt, call.settings, call.provider_options] for call in model.calls]
    assert "s3cret" not in json.dumps(asked)
    assert "process_input" not in json.dumps(asked)
    assert "s3cret" not in json.dumps([message.to_json() for message in outcome.messages])
    assert "s3cret" not in json.dumps([chunk.to_json() for chunk in outcome.chunks or ()])


#


class Ids:
    """Notes the ids that hooks, tools, functions and an extension find, and those of messages."""

    def __init__(self) -> None:
        self.found: list[tuple[str, Any, Any]] = []

    def note(self, place: str, context: RequestContext) -> None:
        thread = context.get(MASTRA_THREAD_ID_KEY)
        self.found.append((place, thread, context.get(MASTRA_RESOURCE_ID_KEY)))

    def extend(self, opening: Opening) -> Around:
        self.note("extension", opening.request_context)
        return Around()

    async def run_ended(self, run: Any) -> None: ...

    def agent(self) -> Agent:
        @tool
        async def look(context: ToolContext) -> str:
            """Look something up."""
            self.note("tool", context.request_context)
            self.found.append(("tool context", context.thread_id, context.resource_id))
            await asyncio.sleep(0)
            return "seen"

        def processors(scope: Any) -> list[Any]:
            self.note("function", scope.request_context)
            return [only("process_input", self.hook, id="one")]

        return Agent(
            id="a",
            model=ScriptedModel([answer(tool_calls=[tool_call("look")]), "Seen."]),
            tools=[look],
            input_processors=processors,
            output_processors=[only("process_output_result", self.hook, id="two")],
            extensions=[self],
        )

    def hook(self, args: Any) -> None:
        self.note("hook", args.request_context)


SOURCES: list[tuple[dict[str, Any], dict[str, Any] | None, tuple[str, str]]] = [
    ({}, {"thread": "t1", "resource": "r1"}, ("t1", "r1")),
    ({}, {"thread": {"id": "t1", "title": "One"}, "resource": "r1"}, ("t1", "r1")),
    ({MASTRA_THREAD_ID_KEY: "t2", MASTRA_RESOURCE_ID_KEY: "r2"}, None, ("t2", "r2")),
    ({MASTRA_THREAD_ID_KEY: "t2"}, {"thread": "t1", "resource": "r1"}, ("t2", "r1")),
    ({MASTRA_RESOURCE_ID_KEY: "r2"}, {"thread": "t1", "resource": "r1"}, ("t1", "r2")),
    (
        {MASTRA_THREAD_ID_KEY: "t2", MASTRA_RESOURCE_ID_KEY: "r2"},
        {"thread": "t1", "resource": "r1"},
        ("t2", "r2"),
    ),
]


@three_ways
@pytest.mark.parametrize(("entries", "memory", "expected"), SOURCES)
async def test_where_ids_come_from(
    way: str, entries: dict[str, Any], memory: Any, expected: tuple[str, str]
) -> None:
    """R-809, R-810, R-812, R-815, R-816: each id by itself, the context first; found everywhere."""
    ids = Ids()
    context = RequestContext(entries)
    options: dict[str, Any] = {} if memory is None else {"memory": memory}
    outcome = await play(way, ids.agent(), "go", request_context=context, **options)
    places = {place for place, *_ in ids.found}
    assert places == {"extension", "function", "hook", "tool", "tool context"}
    assert {tuple(rest) for _, *rest in ids.found} == {expected}
    for message in outcome.messages:
        assert (message.thread_id, message.resource_id) == expected
    assert context.all == entries, "no id is left behind in the caller's instance"


@three_ways
async def test_one_context_for_two_calls(way: str) -> None:
    """R-816: the same instance, one after the other and at the same time: each its own ids."""
    context = RequestContext({"who": "ida"})
    one, other = Ids(), Ids()
    await asyncio.gather(
        play(
            way,
            one.agent(),
            "go",
            request_context=context,
            memory={"thread": "t1", "resource": "r1"},
        ),
        play(
            way,
            other.agent(),
            "go",
            request_context=context,
            memory={"thread": "t2", "resource": "r2"},
        ),
    )
    assert {tuple(rest) for _, *rest in one.found} == {("t1", "r1")}
    assert {tuple(rest) for _, *rest in other.found} == {("t2", "r2")}
    later = Ids()
    await play(way, later.agent(), "go", request_context=context)
    assert {tuple(rest) for _, *rest in later.found} == {(None, None)}
    assert context.all == {"who": "ida"}


@three_ways
async def test_values_are_shared_with_ids_too(way: str) -> None:
    """R-804, R-816: a run with ids reads and writes the caller's entries."""
    context = RequestContext({"count": 1})

    def raise_count(args: Any) -> None:
        args.request_context.set("count", args.request_context.get("count") + 1)
        args.request_context.delete("old")

    agent = Agent(
        id="a",
        model=ScriptedModel(["ok"]),
        input_processors=[only("process_input", raise_count)],
        output_processors=[only("process_output_result", raise_count)],
    )
    context.set("old", True)
    memory = {"thread": "t1", "resource": "r1"}
    await play(way, agent, "go", request_context=context, memory=memory)
    assert context.all == {"count": 3}


@three_ways
async def test_messages_of_another_thread(way: str) -> None:
    """R-328, R-815: what belongs to another conversation is refused before the model is asked."""
    model = ScriptedModel(["never"])
    foreign = Message.from_json(
        {"role": "user", "threadId": "t9", "content": {"parts": [{"type": "text", "text": "x"}]}}
    )
    agent = Agent(id="a", model=model)
    memory = {"thread": "t1", "resource": "r1"}
    outcome = await play(way, agent, foreign, memory=memory)
    assert isinstance(outcome.error, InputError)
    assert "t9" in str(outcome.error)
    assert model.calls == []
