"""Runs that wait are kept in a store: another process goes on with them, each call once (G-F5)."""

from __future__ import annotations

import asyncio
import json
import math
from typing import TYPE_CHECKING, Any

import pytest

import tests.test_approval as approval
from procession import Agent, InputError, ToolContext, WaitingCalls, processor, tool
from procession.errors import ConfigurationError, ProcessionError
from procession.request_context import MASTRA_AUTH_TOKEN_KEY
from procession.stores import InMemoryStore
from procession.testing import ScriptedModel, answer, tool_call
from tests.test_approval import PAID, payer, paying, payment, states, told

if TYPE_CHECKING:
    from collections.abc import Iterator

OTHERWISE = {
    # It edits the live message, which nobody shares with another process.
    "test_arguments_that_have_changed_since_are_refused",
    # A signal, callbacks and the number of runs in memory belong to the process.
    "test_a_signal_that_has_fired_uses_no_approval_up",
    "test_callbacks_go_on_with_the_run",
    "test_the_room_is_limited_and_nothing_waits_for_ever",
    # Agents of one id are one agent there: it is the id that both processes know.
    "test_another_agent_in_the_same_room_cannot_continue",
}

# Whatever holds for a run that goes on where it began holds for one that goes on elsewhere.
for _name, _test in vars(approval).items():
    if _name.startswith("test_") and _name not in OTHERWISE:
        globals()[_name] = _test


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each room keeps its runs in a store, and remembers nothing itself."""
    PAID.clear()
    begin, find = WaitingCalls.__init__, WaitingCalls.find

    def init(self: WaitingCalls, **options: Any) -> None:
        begin(self, **{"store": InMemoryStore(), **options})

    async def forgetful(self: WaitingCalls, *args: Any) -> Any:
        self._kept.clear()
        return await find(self, *args)

    monkeypatch.setattr(WaitingCalls, "__init__", init)
    monkeypatch.setattr(WaitingCalls, "find", forgetful)
    yield


def room(store: InMemoryStore, **options: Any) -> WaitingCalls:
    return WaitingCalls(store=store, **options)


async def test_g_f5_another_process_continues_with_the_store_and_the_run_id() -> None:
    store = InMemoryStore()
    model = paying(5, beside=("look",))
    first = payer(model, waiting_calls=room(store))
    waiting = await first.generate("Pay 5")
    there = ScriptedModel(["Done there."])
    second = payer(there, waiting_calls=room(store))
    [asked] = await second.waiting_calls.of(waiting.run_id)
    assert asked.to_json() == waiting.waiting[0].to_json()
    result = await second.approve_tool_call_generate(waiting.run_id)
    assert (result.text, result.status, PAID) == ("Let me. Done there.", "success", [5])
    assert told(there, 0) == ["paid 5", "seen"]
    assert [step.finish_reason for step in result.steps] == ["tool-calls", "stop"]
    assert result.usage.input_tokens is not None
    assert states(result.messages) == {"c0": "result", "look": "result"}


async def test_g_f5_of_several_processes_one_runs_the_call() -> None:
    store = InMemoryStore()
    waiting = await payer(paying(5), waiting_calls=room(store)).generate("Pay 5")
    agents = [payer(ScriptedModel(["Done."]), waiting_calls=room(store)) for _ in range(5)]
    tries = [agent.approve_tool_call_generate(waiting.run_id) for agent in agents]
    found = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(isinstance(result, InputError) for result in found) == 4
    assert PAID == [5]


async def test_g_f5_a_run_that_waits_again_is_not_taken_for_what_it_was() -> None:
    """The first process still holds what it was when both calls waited."""
    store = InMemoryStore()
    first = payer(ScriptedModel([*payment(1, 2)[:1], "Done."]), waiting_calls=room(store))
    waiting = await first.generate("Pay")
    second = payer(ScriptedModel(["Done."]), waiting_calls=room(store))
    again = await second.approve_tool_call_generate(waiting.run_id, "c0")
    assert again.status == "suspended"
    with pytest.raises(InputError, match="waits for another tool call: give one of 'c1'"):
        await first.approve_tool_call(waiting.run_id, "c0")
    result = await first.approve_tool_call_generate(waiting.run_id, "c1")
    assert (result.status, sorted(PAID)) == ("success", [1, 2])


async def test_g_f6_tools_that_a_processor_brings_are_brought_again() -> None:
    @tool(require_approval=True)
    async def hidden(amount: int, context: ToolContext) -> str:
        """Pay."""
        PAID.append(amount)
        return "hidden"

    def bring(args: Any) -> Any:
        return {"tools": {**args.tools, "hidden": hidden}}

    def agent(model: ScriptedModel) -> Agent:
        bringing = processor(id="bring", process_input_step=bring)
        return payer(model, input_processors=[bringing], waiting_calls=room(store))

    store = InMemoryStore()
    call = answer(tool_calls=[tool_call("hidden", {"amount": 3}, id="c0")])
    waiting = await agent(ScriptedModel([call])).generate("Pay")
    result = await agent(ScriptedModel(["Done."])).approve_tool_call_generate(waiting.run_id)
    assert (result.text, PAID) == ("Done.", [3])


async def test_g_f4_hooks_see_the_whole_run_with_the_state_they_had() -> None:
    seen: list[Any] = []

    def count(args: Any) -> Any:
        args.state["count"] = args.state.get("count", 0) + 1
        return args.part

    def end(args: Any) -> None:
        seen.append((args.state["count"], [len(step.tool_calls) for step in args.result.steps]))

    def agent(model: ScriptedModel) -> Agent:
        counting = processor(id="n", process_output_stream=count, process_output_result=end)
        return payer(model, output_processors=[counting], waiting_calls=room(store))

    store = InMemoryStore()
    waiting = await agent(paying(5)).generate("Pay")
    await agent(ScriptedModel(["Done."])).approve_tool_call_generate(waiting.run_id)
    once: list[Any] = list(seen)
    seen.clear()
    whole = agent(paying(5))
    waiting = await whole.generate("Pay")
    await whole.approve_tool_call_generate(waiting.run_id)
    assert seen == once and once[0][0] > 5


async def test_a_state_that_is_more_than_json_begins_anew(caplog: pytest.LogCaptureFixture) -> None:
    def keep(args: Any) -> Any:
        args.state.setdefault("secret thing", object())
        return args.part

    store = InMemoryStore()
    odd = processor(id="odd", process_output_stream=keep)
    agent = payer(paying(5), output_processors=[odd], waiting_calls=room(store))
    waiting = await agent.generate("Pay")
    assert "the state of processor 'odd' is more than JSON data" in caplog.text
    assert "secret" not in caplog.text
    assert (await agent.approve_tool_call_generate(waiting.run_id)).status == "success"


@pytest.mark.parametrize("odd", [math.inf, float("nan"), (1,), "itself"], ids=repr)
async def test_a_state_that_json_would_change_begins_anew(
    odd: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Infinity would come back as nothing at all; what contains itself has no JSON form."""
    if odd == "itself":
        odd = [1]
        odd.append(odd)
    seen = list[Any]()

    def keep(args: Any) -> Any:
        seen.append("odd" in args.state)
        args.state.setdefault("odd", odd)
        return args.part

    store = InMemoryStore()
    hook = processor(id="odd", process_output_stream=keep)
    agents = [
        payer(model, output_processors=[hook], waiting_calls=room(store))
        for model in (paying(5), ScriptedModel(["Done."]))
    ]
    waiting = await agents[0].generate("Pay")
    assert "the state of processor 'odd' is more than JSON data" in caplog.text
    seen.clear()
    result = await agents[1].approve_tool_call_generate(waiting.run_id)
    assert (result.status, seen[0]) == ("success", False)


@pytest.mark.parametrize("names", [("pay",), {"pay"}, ["pay"]], ids=repr)
async def test_whatever_lists_the_active_tools_still_does(names: Any) -> None:
    """G-I: a tuple is as good as a list. Left out, it would open every tool to the model."""
    store = InMemoryStore()
    settings: Any = {"stop_sequences": ("END",)}
    waiting = await payer(paying(5), waiting_calls=room(store)).generate(
        "Pay", active_tools=names, model_settings=settings
    )
    there = ScriptedModel([answer(tool_calls=[tool_call("look")]), "Done."])
    await payer(there, waiting_calls=room(store)).approve_tool_call_generate(waiting.run_id)
    assert [call.tool_names for call in there.calls] == [["pay"], ["pay"]]
    assert there.calls[0].settings == {"stop_sequences": ["END"]}


async def test_a_form_that_is_not_whole_is_refused_and_stays() -> None:
    """Whatever is missing of it, or of another kind: nothing is run, and nothing is lost."""
    store = InMemoryStore()
    shelf = store.get_store("workflows")
    waiting = await payer(paying(5), waiting_calls=room(store)).generate("Pay")
    whole = await shelf.get("waiting-run", waiting.run_id)
    assert whole is not None
    cut = [{k: v for k, v in whole.items() if k != name} for name in whole]
    odd = [{**whole, name: 5} for name in ("run", "messages", "steps", "step")]
    for form in [*cut, *odd]:
        await shelf.put("waiting-run", waiting.run_id, form)
        agent = payer(ScriptedModel(["Done."]), waiting_calls=room(store))
        with pytest.raises(InputError):
            await agent.approve_tool_call(waiting.run_id, "c0")
        assert await shelf.get("waiting-run", waiting.run_id) == form
    await shelf.put("waiting-run", waiting.run_id, {**whole, "step": {}})
    with pytest.raises(InputError, match="is damaged"):
        await room(store).of(waiting.run_id)
    assert not PAID


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"output_processors": []}, "output_processors"),
        ({"provider_options": {"acme": {"odd": object()}}}, "provider_options"),
        ({"model_settings": {"temperature": math.nan}}, "model_settings"),
        ({"require_tool_approval": lambda info: True}, "require_tool_approval"),
        ({"stop_when": lambda steps: False}, "stop_when"),
        ({"prepare_step": lambda args: None}, "prepare_step"),
        ({"structured_output": {"schema": int}}, "structured_output"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_shaped_the_run_and_cannot_be_kept_is_not_left_out(
    options: Any, name: str
) -> None:
    """G-I: a run never goes on without what guards it."""
    store = InMemoryStore()
    agent = payer(ScriptedModel([payment(1)[0], "7"]), waiting_calls=room(store))
    waiting = await agent.generate("Pay", **options)
    with pytest.raises(InputError, match=f"started with {name} of its own call"):
        await agent.approve_tool_call(waiting.run_id)
    assert await agent.waiting_calls.of(waiting.run_id), "nothing is lost"
    if name in ("require_tool_approval", "stop_when"):
        result = await agent.approve_tool_call_generate(waiting.run_id, **options)
        assert result.status == "success"


async def test_options_of_the_call_and_the_request_context_go_on() -> None:
    store, seen = InMemoryStore(), list[Any]()

    @tool
    async def who(context: ToolContext) -> str:
        """Who asks."""
        seen.append({**context.request_context.all})
        return "you"

    def agent(model: ScriptedModel) -> Agent:
        return Agent(id="a", model=model, tools=[who], waiting_calls=room(store))

    given = {"tenant": "acme", "odd": object(), MASTRA_AUTH_TOKEN_KEY: "hush"}
    waiting = await agent(ScriptedModel([answer(tool_calls=[tool_call("who")])])).generate(
        "Who am I?",
        request_context=given,
        require_tool_approval=True,
        max_steps=2,
        model_settings={"temperature": 0.5},
        memory={"thread": "t", "resource": "r"},
    )
    text = json.dumps(await store.get_store("workflows").get("waiting-run", waiting.run_id))
    assert "hush" not in text and "acme" in text
    model = ScriptedModel([answer(tool_calls=[tool_call("who")]), "Never."])
    there = agent(model)
    with pytest.raises(InputError, match="another conversation"):
        await there.approve_tool_call(
            waiting.run_id, request_context={"mastra__resourceId": "other"}
        )
    result = await there.approve_tool_call_generate(
        waiting.run_id, request_context={MASTRA_AUTH_TOKEN_KEY: "new", "tenant": "acme"}
    )
    assert seen[0] == {
        "tenant": "acme",
        MASTRA_AUTH_TOKEN_KEY: "new",
        "mastra__threadId": "t",
        "mastra__resourceId": "r",
    }
    assert model.calls[0].settings == {"temperature": 0.5}
    assert (len(result.steps), result.status) == (2, "suspended")


async def test_a_store_that_fails_fails_the_run_and_nothing_waits() -> None:
    class Full(InMemoryStore):
        def get_store(self, domain: Any) -> Any:
            return self if domain == "workflows" else super().get_store(domain)

        async def get(self, kind: str, id: str) -> None:
            return None

        async def put(self, *args: Any, **more: Any) -> None:
            raise ProcessionError("the disk is full")

    agent = payer(paying(5), waiting_calls=WaitingCalls(store=Full()))  # type: ignore[arg-type]
    run = await agent.stream("Pay")
    kinds = [chunk.type async for chunk in run]
    assert kinds[-1] == "error" and run.status == "failed" and len(agent.waiting_calls) == 0
    assert "tool-call-approval" not in kinds


async def test_an_unknown_form_is_refused() -> None:
    store = InMemoryStore()
    shelf = store.get_store("workflows")
    form = {"version": 99, "agentId": "payer", "token": "x", "until": "2999-01-01T00:00:00Z"}
    await shelf.put("waiting-run", "r", form)
    with pytest.raises(InputError, match="kept by another version"):
        await payer(paying(5), waiting_calls=room(store)).approve_tool_call("r")


@pytest.mark.parametrize("trips", [True, False])
async def test_a_hook_that_is_asked_again_for_its_tools_may_end_the_run(trips: bool) -> None:
    """Laws 4 and 6, G-F6: a verdict blocks the run, an error leaves the call waiting."""
    agreed = [True]

    @tool(require_approval=True)
    async def hidden(amount: int) -> str:
        """Pay."""
        PAID.append(amount)
        return "hidden"

    def bring(args: Any) -> Any:
        if not agreed[0]:
            if trips:
                args.abort("not any more")
            raise LookupError("no tools today")
        return {"tools": {**args.tools, "hidden": hidden}}

    def agent(model: ScriptedModel) -> Agent:
        bringing = processor(id="bring", process_input_step=bring)
        return payer(model, input_processors=[bringing], waiting_calls=room(store))

    store = InMemoryStore()
    call = answer(tool_calls=[tool_call("hidden", {"amount": 3}, id="c0")])
    waiting = await agent(ScriptedModel([call])).generate("Pay")
    agreed[0] = False
    second = agent(ScriptedModel(["Done."]))
    if trips:
        result = await second.approve_tool_call_generate(waiting.run_id)
        assert result.status == "tripwire" and result.tripwire.processor_id == "bring"
    else:
        with pytest.raises(LookupError):
            await second.approve_tool_call_generate(waiting.run_id)
        agreed[0] = True
        result = await second.approve_tool_call_generate(waiting.run_id)
        assert result.status == "success"
    assert PAID == ([] if trips else [3])


async def test_a_process_without_the_tool_uses_no_decision_up() -> None:
    store = InMemoryStore()
    waiting = await payer(paying(5), waiting_calls=room(store)).generate("Pay 5")
    bare = Agent(id="payer", model=ScriptedModel(["Never."]), waiting_calls=room(store))
    with pytest.raises(InputError, match="agent 'payer' has no tool 'pay' in this process"):
        await bare.approve_tool_call(waiting.run_id)
    second = payer(ScriptedModel(["Done."]), waiting_calls=room(store))
    assert (await second.approve_tool_call_generate(waiting.run_id)).status == "success"
    assert PAID == [5]


@pytest.mark.parametrize(
    ("store", "told"),
    [
        (InMemoryStore().get_store("workflows"), "must be a whole store.* Snapshots has no"),
        ("app.db", "must be a whole store"),
        (InMemoryStore, r"not the class InMemoryStore: write store=InMemoryStore"),
    ],
    ids=["domain", "path", "class"],
)
def test_what_is_no_store_is_told_when_the_room_is_made_g_f5(store: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        WaitingCalls(store=store)
