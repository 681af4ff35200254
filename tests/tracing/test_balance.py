"""O-035: every span ends with its run, whatever becomes of it, and nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procession import AbortController
from procession.processor import HOOKS
from procession.tracing import InMemoryExporter, Tracing
from tests.laws.checks import REFUSED, TWO_STEPS
from tests.laws.kit import Hook, PlayedModel, Tap, agent_with
from tests.tracing.kit import check_balanced

STATUS = {"ok": "success", "error": "failed", "tripwire": "tripwire", "canceled": "canceled"}


def watched(answers: Any, *processors: Any, **options: Any) -> tuple[Any, InMemoryExporter]:
    """An agent of the laws, with tracing."""
    kept = InMemoryExporter()
    sizes = options.pop("sizes", (1,))
    hang_at = options.pop("hang_at", None)
    model = PlayedModel(answers, sizes, hang_at)
    agent = agent_with(model, *processors, observer=Tracing([kept]), **options)
    return agent, kept


def check_told(kept: InMemoryExporter, status: str) -> None:
    """All spans are there, in one tree, and the root says how the run has ended."""
    check_balanced(kept)
    (root,) = kept.of_type("agent_run")
    assert STATUS[root.status] == status
    assert root.attributes["status"] == status


async def ended(agent: Any, **options: Any) -> str:
    """Run to the end; how it has ended."""
    try:
        async with agent.stream("go", **options) as run:
            await run.consume_stream()
            return run.status
    except Exception:
        return "failed"


@settings(max_examples=120, deadline=None)
@given(
    hook=st.sampled_from([*HOOKS, "none"]),
    action=st.sampled_from(["block", "retry", "raise", "cancel"]),
    on_call=st.integers(0, 12),
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    refused=st.booleans(),
    waits=st.booleans(),
)
def test_every_outcome(
    hook: str, action: str, on_call: int, sizes: list[int], refused: bool, waits: bool
) -> None:
    """Blocked, sent back, failed and stopped, in every hook and at every call of it."""
    calls = 0
    controller = AbortController()

    def act(args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls - 1 == on_call:
            if action == "raise":
                raise ValueError("no")
            if action == "cancel":
                controller.abort()
            else:
                args.abort("no", retry=action == "retry")
        return getattr(args, "part", None)

    async def act_later(args: Any) -> Any:
        await asyncio.sleep(0)
        return act(args)

    async def check() -> None:
        guards = [] if hook == "none" else [Hook(hook, act_later if waits else act)]
        agent, kept = watched(
            REFUSED if refused else TWO_STEPS,
            Tap(),
            *guards,
            sizes=sizes,
            max_processor_retries=1,
        )
        status = await ended(agent, abort_signal=controller.signal)
        check_told(kept, status)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(check())


@pytest.mark.parametrize("leave", ["aclose", "break", "cancel", "drop"])
async def test_left_at_every_chunk(leave: str) -> None:
    """The consumer goes, after each chunk in turn: the run is canceled, or had ended."""
    most = 1
    position = 0
    while position < most:
        agent, kept = watched(TWO_STEPS, Tap())
        await _leave(agent, leave, position)
        gc.collect()
        for _ in range(5):
            await asyncio.sleep(0)
        check_balanced(kept)
        (root,) = kept.of_type("agent_run")
        assert root.status in ("canceled", "ok")
        if root.status == "canceled":
            most = position + 2
        position += 1
    assert position > 10


async def _leave(agent: Any, leave: str, position: int) -> None:
    run = await agent.stream("go")
    seen = 0

    async def read() -> None:
        nonlocal seen
        async for _ in run:
            seen += 1
            if seen > position:
                if leave == "cancel":
                    await asyncio.Event().wait()
                return

    if leave == "cancel":
        task = asyncio.create_task(read())
        for _ in range(200):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await run.aclose()
        return
    await read()
    if leave == "drop":
        del run
        return
    await run.aclose()


async def test_a_run_that_nobody_reads() -> None:
    """Dropped unread, or blocked and unread: the spans leave all the same."""
    for processors in ([], [Hook("process_input", lambda args: args.abort("no"))]):
        agent, kept = watched(TWO_STEPS, *processors)
        run = await agent.stream("go")
        del run
        gc.collect()
        check_balanced(kept)
        assert len(kept.of_type("agent_run")) == 1


async def test_a_run_that_cannot_begin() -> None:
    """What is raised while it is opened ends its span as well."""
    agent, kept = watched(TWO_STEPS, Hook("process_input", lambda args: 1 / 0))
    with pytest.raises(ZeroDivisionError):
        await agent.generate("go")
    check_balanced(kept)
    (root,) = kept.of_type("agent_run")
    assert root.status == "error"


async def test_a_caller_who_is_cancelled_while_the_model_is_silent() -> None:
    """Cancelled while nothing comes."""
    agent, kept = watched(TWO_STEPS, Tap(), hang_at=2)
    task = asyncio.create_task(agent.generate("go"))
    for _ in range(30):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    check_balanced(kept)
    (root,) = kept.of_type("agent_run")
    assert root.status == "canceled"
    (call,) = kept.of_type("model_generation")
    assert call.status == "canceled"


async def test_spans_of_ones_own_that_are_never_ended() -> None:
    """They are ended with the run, and marked."""

    def begin(args: Any) -> None:
        args.tracing_context.current_span.create_child_span(name="forgotten")

    agent, kept = watched(TWO_STEPS, Hook("process_input", begin))
    await agent.generate("go")
    check_balanced(kept)
    span = next(s for s in kept.spans if s.name == "forgotten")
    assert span.status == "canceled"


async def test_a_span_that_ends_after_the_run() -> None:
    """What somebody does later leaves later, in the same trace."""
    found: list[Any] = []

    def begin(args: Any) -> None:
        found.append(args.tracing_context.current_span)

    agent, kept = watched(TWO_STEPS, Hook("process_input", begin))
    result = await agent.generate("go")
    with found[0].create_child_span(name="later"):
        pass
    (later,) = [s for s in kept.spans if s.name == "later"]
    assert later.trace_id == result.trace_id


async def test_nothing_refers_to_a_run_that_is_over() -> None:
    """G-Q6: many runs leave nothing but what was exported."""
    tap = Tap()
    agent, kept = watched(TWO_STEPS, tap)
    counts: list[int] = []
    for _ in range(2):
        for _ in range(100):
            await agent.generate("go")
            for noted in (kept.spans, agent.model.prompts, tap.log, tap.offered):
                noted.clear()
        gc.collect()
        counts.append(len(gc.get_objects()))
    assert counts[1] - counts[0] < 100


async def test_many_spans_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace keeps so many spans; of the others it keeps the number."""
    monkeypatch.setattr("procession.tracing.live.MOST_SPANS", 10)

    def many(args: Any) -> None:
        for _ in range(50):
            args.tracing_context.current_span.create_event_span(name="tick")

    agent, kept = watched(TWO_STEPS, Hook("process_input", many))
    await agent.generate("go")
    assert len(kept.spans) == 10
    (root,) = kept.of_type("agent_run")
    assert root.attributes["dropped_spans"] > 40
