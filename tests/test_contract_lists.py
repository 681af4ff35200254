"""Which processors a run has, in which order, and what adds to the user's lists."""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import Any

import pytest

from procession import (
    AbortController,
    Agent,
    APICallError,
    Around,
    ConfigurationError,
    Opening,
    RequestContext,
    tool,
)
from procession.processor import HOOKS
from procession.testing import ScriptedModel, answer, tool_call
from tests.naming import named
from tests.seeds.threeways import only, play, three_ways

KINDS = ("input_processors", "output_processors", "error_processors")


@tool
async def look(topic: str = "") -> str:
    """Look something up."""
    return "seen"


class Tap:
    """Has every hook, and notes each call but those for chunks."""

    def __init__(self, id: str, log: list[tuple[str, str]]) -> None:
        self.id = id
        self.log = log
        self.processor_index: int | None = None


def _noting(name: str) -> Any:
    def hook(self: Tap, args: Any) -> Any:
        if name == "process_output_stream":
            if args.part.type == "finish":
                self.log.append((name, self.id))
            return args.part
        self.log.append((name, self.id))
        return None

    return hook


for _name in HOOKS:
    setattr(Tap, _name, _noting(_name))


def tap(id: str, log: list[tuple[str, str]]) -> Any:
    """A processor for any list."""
    return Tap(id, log)


class Framework:
    """An extension that puts processors around the user's, and notes how runs end."""

    def __init__(self, log: list[tuple[str, str]], name: str = "framework") -> None:
        self.log = log
        self.name = name
        self.openings: list[Opening] = []
        self.ended: list[tuple[str, str]] = []

    def around(self) -> Around:
        def made(place: str) -> list[Any]:
            return [tap(f"{self.name} {place}", self.log)]

        return Around(
            before_input=made("before"),
            after_input=made("after"),
            before_output=made("before"),
            after_output=made("after"),
            error=made("error"),
        )

    def extend(self, opening: Opening) -> Around:
        self.openings.append(opening)
        return self.around()

    async def run_ended(self, run: Any) -> None:
        self.ended.append((run.run_id, run.status))


class SlowFramework(Framework):
    """The same, asynchronously."""

    def extend(self, opening: Opening) -> Any:
        return self.later(super().extend(opening))

    async def later(self, around: Around) -> Around:
        await asyncio.sleep(0)
        return around


def refused() -> APICallError:
    return APICallError("no", status_code=400)


# ── R-003 ──────────────────────────────────────────────────────────────────────────────────────


@three_ways
async def test_processor_index(way: str) -> None:
    """R-003: written by the runtime, the place in the list that was put together."""
    log: list[tuple[str, str]] = []
    seen: list[Any] = []

    class Indexed:
        processor_index: int | None = None

        def __init__(self, id: str) -> None:
            self.id = id

        def process_input(self, args: Any) -> None:
            seen.append((self.id, self.processor_index))

    first, second = Indexed("first"), Indexed("second")
    model = ScriptedModel(["An answer"])
    agent = Agent(id="a", model=model, input_processors=[first, second])
    await play(way, agent, "go")
    assert seen == [("first", 0), ("second", 1)]
    seen.clear()
    wider = Agent(
        id="a",
        model=model,
        input_processors=[first, second],
        extensions=[Framework(log)],
    )
    await play(way, wider, "go")
    assert seen == [("first", 1), ("second", 2)]
    seen.clear()
    await play(way, wider, "go", input_processors=[second])
    assert seen == [("second", 1)]


async def test_a_processor_that_cannot_be_written_to() -> None:
    """R-003: the number is a courtesy; a processor with slots works without."""

    class Slotted:
        __slots__ = ("id",)

        def __init__(self) -> None:
            self.id = "slotted"

        def process_input(self, args: Any) -> None:
            args.request_context.set("ran", True)

    context = RequestContext()
    agent = Agent(id="a", model=ScriptedModel(["ok"]), input_processors=[Slotted()])
    await agent.generate("go", request_context=context)
    assert context.get("ran") is True


# ── R-011 ──────────────────────────────────────────────────────────────────────────────────────


class WithoutId:
    def process_input(self, args: Any) -> None: ...


class WithoutHooks:
    id = "no-hooks"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", [None, "text", 3, WithoutId(), WithoutHooks(), Tap, {}], ids=named)
@pytest.mark.parametrize("when", ["agent", "call", "function", "async function"])
async def test_entries_that_are_no_processors(kind: str, bad: Any, when: str) -> None:
    """R-011: refused with the name of the list and the place, as soon as the list is there."""
    good = tap("good", [])

    def listed(scope: Any) -> list[Any]:
        return [good, bad]

    async def listed_later(scope: Any) -> list[Any]:
        return [good, bad]

    given: Any = {"function": listed, "async function": listed_later}.get(when, [good, bad])
    model = ScriptedModel(["never"])
    with pytest.raises(ConfigurationError, match=rf"{kind}\[1\]"):
        if when == "call":
            await Agent(id="a", model=model).generate("go", **{kind: given})
        else:
            agent = Agent(id="a", model=model, **{kind: given})
            assert "function" in when, "a list is checked when the agent is built"
            await agent.generate("go")
    assert model.calls == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", ["text", 3, tap("alone", []), {"a": 1}], ids=named)
async def test_functions_that_return_no_list(kind: str, bad: Any) -> None:
    """R-011, R-016: what a function returns is checked like a list that was given."""
    listed: dict[str, Any] = {kind: lambda scope: bad}
    agent = Agent(id="a", model=ScriptedModel(["never"]), **listed)
    with pytest.raises(ConfigurationError, match=kind):
        await agent.generate("go")


# ── R-016 ──────────────────────────────────────────────────────────────────────────────────────


@three_ways
async def test_functions_are_called_once_per_request(way: str) -> None:
    """R-016: once, with the request's context, whatever the number of steps and retries."""
    calls: list[tuple[str, Any]] = []

    def listing(kind: str) -> Any:
        def listed(scope: Any) -> list[Any]:
            calls.append((kind, scope.request_context.get("who")))
            return [Again()] if kind == "output_processors" else [tap(kind, [])]

        return listed

    class Again:
        id = "again"

        def process_output_step(self, args: Any) -> None:
            if args.step_number == 1 and args.retry_count < 2:
                args.abort("again", retry=True)

    script = [answer(tool_calls=[tool_call("look")]), "bad", "bad", "good"]
    model = ScriptedModel(script)
    lists: dict[str, Any] = {kind: listing(kind) for kind in KINDS}
    agent = Agent(id="a", model=model, tools=[look], **lists)
    context = RequestContext({"who": "ida"})
    assert (await play(way, agent, "go", request_context=context)).text == "good"
    assert (len(model.calls), sorted(calls)) == (4, sorted((kind, "ida") for kind in KINDS))


@three_ways
async def test_a_function_that_raises(way: str) -> None:
    """R-016: its exception is the call's; nothing has begun."""
    broken = LookupError("no such tenant")

    def listed(scope: Any) -> list[Any]:
        raise broken

    model = ScriptedModel(["never"])
    outcome = await play(way, Agent(id="a", model=model, input_processors=listed), "go")
    assert outcome.error is broken
    assert outcome.chunks is None
    assert model.calls == []


# ── R-023 ──────────────────────────────────────────────────────────────────────────────────────


@three_ways
async def test_one_id_twice(way: str) -> None:
    """R-023, R-223: two of one id share a state, and so does one that is placed twice."""
    states: list[Any] = []

    def keep(args: Any) -> None:
        args.state.setdefault("order", []).append(len(states))
        states.append(args.state)

    one, other = only("process_input", keep, id="same"), only("process_input", keep, id="same")
    last = only("process_output_result", keep, id="same")
    agent = Agent(
        id="a",
        model=ScriptedModel(["ok"]),
        input_processors=[one, other, one],
        output_processors=[last],
    )
    await play(way, agent, "go")
    assert len({id(state) for state in states}) == 1
    assert states[0] == {"order": [0, 1, 2, 3]}


#


@three_ways
@pytest.mark.parametrize("make", [Framework, SlowFramework])
@pytest.mark.parametrize("where", ["agent", "call", "emptied"])
async def test_an_extension_frames_the_users_lists(way: str, make: Any, where: str) -> None:
    """R-019, R-233: its processors run before and after the user's, whatever the call names."""
    log: list[tuple[str, str]] = []
    extension = make(log)
    own: dict[str, Any] = {kind: [tap("own", log)] for kind in KINDS}
    empty: dict[str, Any] = {kind: [] for kind in KINDS}
    on_agent: dict[str, Any] = {kind: [tap("agent's", log)] for kind in KINDS}
    if where == "agent":
        on_agent = own
    options = {"agent": {}, "call": own, "emptied": empty}[where]
    script = [answer(tool_calls=[tool_call("look")]), "An answer"]
    agent = Agent(
        id="a", model=ScriptedModel(script), tools=[look], extensions=[extension], **on_agent
    )
    outcome = await play(way, agent, "go", **options)
    assert outcome.text == "An answer"
    middle = [] if where == "emptied" else ["own"]
    for name in HOOKS[:8]:
        found = [id for hook, id in log if hook == name]
        once = ["framework before", *middle, "framework after"]
        assert found in (once, once * 2), name
    assert {id for _, id in log} == {"framework before", "framework after", *middle}
    (opening,) = extension.openings
    assert (opening.agent_id, opening.run_id) == ("a", outcome.output.run_id)
    assert extension.ended == [(outcome.output.run_id, "success")]


@three_ways
@pytest.mark.parametrize("own", [True, False])
async def test_error_processors_of_an_extension(way: str, own: bool) -> None:
    """R-019, R-220: asked after the user's; they switch on no default budget."""
    log: list[tuple[str, str]] = []
    error = refused()
    model = ScriptedModel([error])
    agent = Agent(
        id="a",
        model=model,
        error_processors=[tap("own", log)] if own else [],
        extensions=[Framework(log)],
    )
    outcome = await play(way, agent, "go")
    assert outcome.error is error
    asked = [id for hook, id in log if hook == "process_api_error"]
    assert asked == (["own"] if own else []) + ["framework error"]


@three_ways
async def test_what_the_user_has_placed_is_not_added(way: str) -> None:
    """R-021: one of the same id in the user's list takes the place of the automatic one."""
    log: list[tuple[str, str]] = []
    mine = tap("framework before", log)
    agent = Agent(
        id="a",
        model=ScriptedModel(["ok"]),
        input_processors=[tap("first", log), mine],
        extensions=[Framework(log)],
    )
    await play(way, agent, "go")
    found = [id for hook, id in log if hook == "process_input"]
    assert found == ["first", "framework before", "framework after"]
    # Its list only: the output list had none of that id.
    found = [id for hook, id in log if hook == "process_output_result"]
    assert found == ["framework before", "framework after"]


@three_ways
async def test_several_extensions(way: str) -> None:
    """R-233: each adds its own, and each is told of the end."""
    log: list[tuple[str, str]] = []
    one, other = Framework(log, "one"), Framework(log, "other")
    agent = Agent(
        id="a",
        model=ScriptedModel(["ok"]),
        input_processors=[tap("own", log)],
        extensions=[one, other],
    )
    await play(way, agent, "go")
    found = [id for hook, id in log if hook == "process_input"]
    assert sorted(found) == sorted(
        ["one before", "other before", "own", "one after", "other after"]
    )
    assert found.index("own") == 2
    assert [len(extension.ended) for extension in (one, other)] == [1, 1]


async def ending(how: str, agent: Agent, controller: AbortController) -> None:
    """Let a run of the agent end in one of the ways there are."""
    if how == "left early":
        async with agent.stream("go") as run:
            async for _ in run.full_stream:
                break
        return
    if how.startswith("dropped"):
        run = await agent.stream("go")
        if how == "dropped half read":
            assert await anext(run.full_stream)
        del run
        gc.collect()
        for _ in range(10):
            await asyncio.sleep(0)
        return
    options: dict[str, Any] = {}
    if how == "stopped":
        controller.abort()
        options["abort_signal"] = controller.signal
    if how == "empty input":
        await play("read", agent, "")
    else:
        await play("read", agent, "go", **options)


ENDINGS = {
    "success": "success",
    "blocked input": "tripwire",
    "blocked step": "tripwire",
    "blocked result": "tripwire",
    "broken input": "failed",
    "broken step": "failed",
    "model failed": "failed",
    "stopped": "canceled",
    "left early": "canceled",
    "dropped unread": "canceled",
    "dropped half read": "canceled",
    "dropped unread, blocked input": "tripwire",
    "empty input": "failed",
}


@pytest.mark.parametrize("how", ENDINGS)
async def test_an_extension_is_told_of_every_end(how: str) -> None:
    """R-233: once per run, whatever its end."""
    extension = Framework([])

    def misbehave(args: Any) -> None:
        if "blocked" in how:
            args.abort("no")
        if how.startswith("broken"):
            raise ValueError("broken")

    place = {"input": "process_input", "step": "process_output_step", "result": HOOKS[7]}
    hook = only(place.get(how.split()[-1], "process_input"), misbehave)
    agent = Agent(
        id="a",
        model=ScriptedModel([refused() if how == "model failed" else "ok"]),
        input_processors=[hook] if hasattr(hook, "process_input") else [],
        output_processors=[] if hasattr(hook, "process_input") else [hook],
        extensions=[extension],
    )
    await ending(how, agent, AbortController())
    assert [status for _, status in extension.ended] == [ENDINGS[how]]
    (opening,) = extension.openings
    assert extension.ended[0][0] == opening.run_id


@pytest.mark.parametrize("how", ["read", "unread"])
async def test_every_extension_is_told_though_one_fails(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """R-233: the trouble of one is not that of the others; it is told, or logged."""
    trouble, other = Framework([]), Framework([])

    async def fail(run: Any) -> None:
        raise RuntimeError("the disk is full")

    trouble.run_ended = fail  # type: ignore[method-assign]
    agent = Agent(id="a", model=ScriptedModel(["ok"]), extensions=[trouble, other])
    if how == "read":
        with pytest.raises(RuntimeError, match="disk"):
            await agent.generate("go")
    else:
        await ending("dropped unread", agent, AbortController())
        assert "extension Framework raised RuntimeError in run_ended" in caplog.text
        assert "the disk" not in caplog.text
    assert len(other.ended) == 1


async def test_a_run_dropped_after_its_loop() -> None:
    """R-233: when there is no loop left to tell it on, dropping a run is silent."""
    agent = Agent(id="a", model=ScriptedModel(["ok"]), extensions=[Framework([])])

    def elsewhere() -> None:
        run = asyncio.run(_opened(agent))
        del run
        gc.collect()

    await asyncio.to_thread(elsewhere)


async def _opened(agent: Agent) -> Any:
    return await agent.stream("go")


@pytest.mark.parametrize("kind", KINDS)
def test_a_processor_in_the_wrong_list(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """R-014: it is accepted and does nothing there; that is said, once."""
    hook = HOOKS[0] if kind != "input_processors" else HOOKS[8]
    lost = only(hook, lambda args: None, id=f"lost in {kind}")
    useful = Tap("tap", [])
    with caplog.at_level(logging.WARNING, logger="procession"):
        for _ in range(3):
            Agent(id="a", **{kind: [useful, lost]})
    (record,) = caplog.records
    assert record.name == "procession.engine"
    assert lost.id in record.message and kind in record.message
