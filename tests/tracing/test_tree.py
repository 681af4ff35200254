"""The tree of a run: what stands below what, and what each span says (O-020 to O-035)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from procession import Agent, Policy, processor, tool
from procession.memory import Memory
from procession.processor import HOOKS
from procession.processors import ModerationProcessor
from procession.stores import InMemoryStore
from procession.testing import RecordingObserver, ScriptedModel, answer, tool_call
from procession.tracing import InMemoryExporter, Tracing, current_span
from tests.tracing.kit import check_balanced, names, traced


class Everywhere:
    """Has all nine hooks, and lets everything pass."""

    id = "all"
    name = "All of them"
    description = "Looks on."

    def process_output_stream(self, args: Any) -> Any:
        return args.part


for _hook in HOOKS:
    if _hook != "process_output_stream":
        setattr(Everywhere, _hook, lambda self, args: None)


async def test_one_tool_loop_with_all_hooks() -> None:
    """O-022, O-025, O-026, O-151: one span for each call of a hook, one per step for the stream."""
    every = Everywhere()
    agent, kept = traced(input_processors=[every], output_processors=[every])
    result = await agent.generate("Weather?")
    (root,) = kept.tree()
    step = [
        "input step processor: all",
        "llm request processor: all",
        "llm: 'mock-1'",
        "output stream processor: all",
        "llm response processor: all",
        "output step processor: all",
    ]
    shown = [root.span.name, *(names(child) for child in root.children)]
    assert shown[0] == "agent run: 'desk'"
    assert shown[1] == "input processor: all"
    assert [shown[2][0], *sorted(shown[2][1:])] == [
        "step: 0",
        *sorted([*step, "tool: 'look'", "tool result processor: all"]),
    ]
    assert [shown[3][0], *sorted(shown[3][1:])] == ["step: 1", *sorted(step)]
    assert shown[4] == "output processor: all"
    assert {span.trace_id for span in kept.spans} == {result.trace_id}
    check_balanced(kept)


async def test_what_processor_spans_say() -> None:
    """O-023, O-024: who it is, in which phase and place."""
    every = Everywhere()
    agent, kept = traced(input_processors=[processor(process_input=_nothing), every])
    await agent.generate("Weather?")
    span = next(s for s in kept.spans if s.name == "input processor: all")
    assert (span.entity_type, span.entity_id, span.entity_name) == (
        "input_processor",
        "all",
        "All of them",
    )
    assert span.attributes["processor_phase"] == "input"
    assert span.attributes["processor_index"] == 1
    assert span.attributes["processor_executor"] == "legacy"
    assert span.attributes["processor_description"] == "Looks on."


def _nothing(args: Any) -> None: ...


async def test_stream_spans_count() -> None:
    """O-025: calls, changes and drops of a step are summed up, plain and async, at any wait."""

    def drop(args: Any) -> Any:
        part = args.part
        if part.type == "text-delta" and part.payload.text == "b":
            return None
        if part.type == "text-delta" and part.payload.text == "c":
            part.payload.text = "C"
        return part

    async def slow(args: Any) -> Any:
        if args.part.type == "text-delta":
            await asyncio.sleep(0.005)
        return drop(args)

    for hook in (drop, slow):
        guard = processor(id="guard", process_output_stream=hook)
        agent, kept = traced(script=[answer("a", "b", "c")], output_processors=[guard])
        run = await agent.stream("Go")
        await run.consume_stream()
        assert await run.text == "aC"
        (span,) = [s for s in kept.spans if s.type == "processor_run"]
        said = span.attributes
        assert (said["changed"], said["dropped"], said["outcome"]) == (1, 1, "changed")
        assert said["chunks"] >= 7
        assert (said["hook_duration_ms"] > 10) is (hook is slow)


async def test_a_span_of_ones_own() -> None:
    """O-003, O-150: agent run, processor, child."""

    def check(args: Any) -> None:
        span = args.tracing_context.current_span
        with span.create_child_span(name="look-up", input={"a": 1}) as child:
            child.update(attributes={"rows": 3}, metadata={"b": 2})
        span.create_event_span(name="seen", output=7)

    agent, kept = traced(input_processors=[processor(id="p", process_input=check)])
    await agent.generate("Weather?")
    (root,) = kept.tree()
    assert names(root.children[0]) == ["input processor: p", "look-up", "seen"]
    child, event = (node.span for node in root.children[0].children)
    assert (child.input, child.attributes, child.metadata) == ({"a": 1}, {"rows": 3}, {"b": 2})
    assert event.is_event
    assert event.output == 7
    assert event.start_time == event.end_time


async def test_judges_stand_below_their_processor() -> None:
    """O-007, O-028, O-032, O-152: moderation blocks; agent and processor say why."""
    verdict = '{"category_scores": [{"category": "hate", "score": 0.99}], "reason": "hateful"}'
    judge = ScriptedModel([verdict])
    guard = ModerationProcessor(model=judge, threshold=0.5)
    agent, kept = traced(input_processors=[guard])
    result = await agent.generate("Something bad")
    assert result.tripwire is not None
    (root,) = kept.tree()
    assert names(root) == [
        "agent run: 'desk'",
        ["input processor: moderation", "llm: 'mock-1'"],
    ]
    processor_span = root.children[0].span
    for span in (root.span, processor_span):
        assert span.status == "tripwire"
        assert span.attributes["tripwire_abort"]["reason"] == result.tripwire.reason
    assert root.span.attributes["tripwire_abort"]["processor_id"] == "moderation"
    call = root.children[0].children[0].span
    assert call.attributes["usage"]["inputTokens"] == 3


@pytest.mark.parametrize("place", ["hook", "async stream hook", "tool"])
async def test_an_agent_within_is_part_of_the_trace(place: str) -> None:
    """O-006, O-007: nothing has to be handed on, and nothing needs an observer of its own."""
    helper = Agent(id="helper", model=ScriptedModel(["Fine."]))

    async def ask(args: Any) -> Any:
        part = getattr(args, "part", None)
        if part is None or part.type == "text-end":
            await helper.generate("All well?")
        return part

    @tool
    async def delegate() -> str:
        """Ask the helper."""
        return (await helper.generate("All well?")).text

    options: dict[str, Any] = {"tools": [delegate], "script": [answer("Hm.")]}
    if place == "hook":
        options["input_processors"] = [processor(id="p", process_input=ask)]
    elif place == "tool":
        options["script"] = [answer(tool_calls=[tool_call("delegate")]), answer("Done.")]
    else:
        options["output_processors"] = [processor(id="p", process_output_stream=ask)]
    agent, kept = traced(**options)
    await agent.generate("Go")
    (root,) = kept.tree()
    above = next(n for n in root.walk() if any(c.span.entity_id == "helper" for c in n.children))
    expected = {
        "hook": "input processor: p",
        "async stream hook": "output stream processor: p",
        "tool": "tool: 'delegate'",
    }
    assert above.span.name == expected[place]
    check_balanced(kept)
    assert current_span.get() is None


async def test_a_context_is_handed_on() -> None:
    """O-007: a task of its own does not know the span of the hook; the option says it."""
    helper = Agent(id="helper", model=ScriptedModel(["Fine."]))
    found: list[Any] = []

    def remember(args: Any) -> None:
        found.append(args.tracing_context)

    agent, kept = traced(input_processors=[processor(id="p", process_input=remember)])
    async with agent.stream("Go") as run:
        await helper.generate("All well?", tracing_context=found[0])
        await run.consume_stream()
    (root,) = kept.tree()
    assert names(root.children[0]) == [
        "input processor: p",
        ["agent run: 'helper'", ["step: 0", "llm: 'mock-1'"]],
    ]


async def test_requests_of_ones_own_hold_runs() -> None:
    """A root span that is no run: what is called within is part of its trace."""
    kept = InMemoryExporter()
    tracing = Tracing([kept])
    agent = Agent(id="desk", model=ScriptedModel(["One.", "Two."]), observer=tracing)
    async with tracing.start_span("request", attributes={"path": "/ask"}):
        await agent.generate("1")
        await agent.generate("2")
    (root,) = kept.tree()
    assert [root.span.name, *(child.span.name for child in root.children)] == [
        "request",
        "agent run: 'desk'",
        "agent run: 'desk'",
    ]


async def test_memory_is_recalled_and_saved() -> None:
    """O-030, O-153: before the user's processors, and after them."""
    memory = Memory(storage=InMemoryStore())
    own = processor(id="own", process_input=_nothing, process_output_result=_nothing)
    agent, kept = traced(memory=memory, input_processors=[own], output_processors=[own])
    await agent.generate("Weather?", memory={"thread": "t", "resource": "r"})
    (root,) = kept.tree()
    told = [child.span.name for child in root.children if not child.span.name.startswith("step")]
    assert told.index("memory: recall") < told.index("input processor: own")
    assert told.index("output processor: own") < told.index("memory: save")
    spans = {node.span.name: node.span for node in root.children}
    assert spans["memory: save"].type == "memory_operation"
    assert root.span.attributes["thread_id"] == "t"


async def test_attempts_stand_side_by_side_and_tokens_count_once() -> None:
    """O-033, G-P4: tokens to be summed up stand on calls of models, and their sum is the run's."""

    def again(args: Any) -> None:
        if not args.retry_count:
            args.abort("Shorter.", retry=True)

    guard = processor(id="guard", process_output_step=again)
    agent, kept = traced(
        script=[answer("Long."), answer("Short.")],
        output_processors=[guard],
        max_processor_retries=1,
    )
    result = await agent.generate("Go")
    steps = kept.of_type("model_step")
    assert [s.attributes["attempt"] for s in steps] == [0, 1]
    assert [s.attributes["finish_reason"] for s in steps] == ["retry", "stop"]
    assert [s.name for s in steps] == ["step: 0", "step: 0"]
    calls = kept.of_type("model_generation")
    assert [c.parent_span_id for c in calls] == [s.id for s in steps]
    (root,) = kept.of_type("agent_run")
    spent = sum(call.attributes["usage"]["inputTokens"] for call in calls)
    assert spent == result.usage.input_tokens == root.attributes["usage"]["inputTokens"]
    assert steps[0].attributes["tripwire_abort"]["retry"] is True
    assert steps[0].output is None
    assert steps[1].output == {"text": "Short."}


async def test_calls_that_fail_are_told_by_kind() -> None:
    """G-P4, G-W2: each try has a span below the step; what failed is named, not quoted."""
    agent, kept = traced(script=[ConnectionError("key sk-123"), answer("Ok.")], max_retries=1)
    run = await agent.stream("Go")
    await run.consume_stream()
    calls = kept.of_type("model_generation")
    assert calls[0].error_info == {"name": "ConnectionError"}
    assert calls[0].status == "error"


async def test_what_policies_do_is_told() -> None:
    """X3: a bypass is an event of the step, with the name of the error."""

    def broken(args: Any) -> None:
        raise ValueError("sk-123")

    guard = processor(id="guard", process_output_step=broken, policy=Policy(on_error="allow"))
    agent, kept = traced(script=[answer("Ok.")], output_processors=[guard])
    await agent.generate("Go")
    (event,) = [s for s in kept.spans if s.is_event]
    assert event.name == "policy: bypassed"
    assert event.entity_id == "guard"
    assert event.attributes["error"] == "ValueError"
    hook = next(s for s in kept.spans if s.type == "processor_run")
    assert (hook.status, hook.error_info) == ("error", {"name": "ValueError"})


async def test_mutations_are_told_in_numbers() -> None:
    """O-027: what was added, removed and edited, without a word of it."""

    def edit(args: Any) -> None:
        args.message_list.add("A second one", "context")
        args.message_list.add_system("Be kind.")
        for message in args.messages:
            for part in message.content.parts:
                part.text = "xx"

    agent, kept = traced(input_processors=[processor(id="p", process_input=edit)])
    await agent.generate("Weather?")
    span = next(s for s in kept.spans if s.name == "input processor: p")
    found = {change["type"]: change for change in span.attributes["message_list_mutations"]}
    assert found["add"]["count"] == 1
    assert found["add_system"]["count"] == 1
    assert found["edit"]["characters"] == {"before": 8, "after": 2}
    assert span.attributes["outcome"] == "changed"


async def test_the_caller_says_what_is_told_of_the_root() -> None:
    """O-056."""
    agent, kept = traced(request_context_keys=["tenant"])
    await agent.generate(
        "Go",
        request_context={"tenant": "acme", "locale": "fr", "other": 1},
        tracing_options={
            "metadata": {"plan": "free"},
            "tags": ["a", "b"],
            "root_span_name": "ask",
            "request_context_keys": ["locale"],
            "trace_id": "ab" * 16,
            "parent_span_id": "cd" * 8,
        },
    )
    (root,) = kept.of_type("agent_run")
    assert (root.name, root.trace_id, root.parent_span_id) == ("ask", "ab" * 16, "cd" * 8)
    assert (root.tags, root.metadata) == (["a", "b"], {"plan": "free"})
    assert root.request_context == {"tenant": "acme", "locale": "fr"}


async def test_a_run_that_waits_and_goes_on_is_one_trace() -> None:
    """The second run stands behind the first one, in the same trace."""

    @tool(require_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    call = tool_call("pay", {"amount": 5}, id="c1")
    script = [answer(tool_calls=[call]), answer("Done.")]
    agent, kept = traced(script=script, tools=[pay])
    first = await agent.generate("Pay")
    assert first.trace_id is not None
    (before,) = kept.of_type("agent_run")
    assert before.status == "suspended"
    second = await agent.approve_tool_call_generate(first.run_id)
    assert second.trace_id == first.trace_id
    _, after = kept.of_type("agent_run")
    assert after.parent_span_id == before.id
    assert after.attributes["continues"] == before.id
    assert after.status == "ok"
    check_balanced(kept)


async def test_off_or_not_sampled() -> None:
    """O-001, O-002, O-004: no context without tracing; unsampled, a span that does nothing."""
    seen: list[Any] = []

    def look_on(args: Any) -> None:
        seen.append(args.tracing_context)

    guard = processor(id="p", process_input=look_on, process_output_step=look_on)
    lists: Any = {"input_processors": [guard], "output_processors": [guard]}
    model = ScriptedModel([answer("a")] * 3)
    result = await Agent(id="a", model=model, **lists).generate("Go")
    assert result.trace_id is None
    observer = RecordingObserver()
    await Agent(id="a", model=model, observer=observer, **lists).generate("Go")
    assert seen == [None] * 4
    agent, kept = traced(script=[answer("a")], sampling="never", **lists)
    result = await agent.generate("Go")
    assert result.trace_id is None
    assert not kept.spans
    span = seen[-1].current_span
    assert (span.id, span.trace_id, span.is_valid) == ("no-op", "no-op-trace", False)
    with span.create_child_span(name="x") as child:
        child.update(attributes={})
        child.error(ValueError())
    assert child is span
    helper = Agent(id="helper", model=model, observer=Tracing([kept]))
    inner = await helper.generate("Go", tracing_context=seen[-1])
    assert inner.trace_id is None
    assert not kept.spans


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
async def test_a_share_is_sampled_by_the_id(share: float) -> None:
    """O-051: whoever sees the same trace decides the same."""
    agent, kept = traced(script=[answer("a")] * 40, sampling=share)
    other, also = traced(script=[answer("a")] * 40, sampling=share)
    for number in range(40):
        options: Any = {"trace_id": f"{number * 0x9E3779B97F4A7C15 % (1 << 64) + 1:032x}"}
        await agent.generate("Go", tracing_options=options)
        await other.generate("Go", tracing_options=options)
    ids = [span.trace_id for span in kept.of_type("agent_run")]
    assert ids == [span.trace_id for span in also.of_type("agent_run")]
    assert len(ids) == {0.0: 0, 1.0: 40}.get(share, len(ids))
    assert share != 0.3 or 4 <= len(ids) <= 20


async def test_a_function_samples_and_may_fail() -> None:
    """O-051, O-052: it is told of the root; what it raises harms no run."""

    def of_tenant(root: Any) -> bool:
        return root.request_context.get("tenant") == "acme"

    agent, kept = traced(script=[answer("a")] * 3, sampling=of_tenant)
    await agent.generate("Go", request_context={"tenant": "acme"})
    await agent.generate("Go")
    assert len(kept.of_type("agent_run")) == 1

    def broken(root: Any) -> bool:
        raise ValueError

    agent, kept = traced(script=[answer("a")], sampling=broken)
    assert (await agent.generate("Go")).text == "a"
    assert not kept.spans
