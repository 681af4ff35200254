"""Branches do not see each other, whatever their timing; the first verdict ends them all."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procession import Agent, MessageList, processor
from procession.messages import DataPart
from procession.workflows import create_step
from tests.laws.kit import others_done, run_async
from tests.workflows.kit import flow, rewriting, side_by_side, speaker, speaking

turns = st.lists(st.integers(0, 4), min_size=4, max_size=4)
"""How often each of two branches gives way before and after its work."""


async def give_way(times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


def slow(id: str, before: int, after: int, work: Any, hook: str = "process_input") -> Any:
    """A processor that gives way before its work and after."""

    async def run(args: Any) -> Any:
        await give_way(before)
        returned = work(args)
        await give_way(after)
        return returned

    return processor(id=id, **{hook: run})


def spoil(args: Any) -> Any:
    """Change everything within reach."""
    for part in args.messages[0].parts:
        part.text = part.text.upper()
    args.message_list.add("more", "input")
    args.message_list.add_system("spoilt")
    args.messages[0].content.metadata = {"spoilt": True}
    return None


def only_looks(args: Any) -> Any:
    """Return what was given."""
    return args.messages


@given(turns, st.booleans(), st.booleans())
def test_only_the_chosen_branch_counts(times: list[int], first: bool, rewrites: bool) -> None:
    """W-063, W-185: mapping the one that rewrites gives the rewrite, else the original."""
    a = slow("rewrites", times[0], times[1], spoil)
    b = slow("looks", times[2], times[3], only_looks)
    made = side_by_side(*((a, b) if first else (b, a)), choose="rewrites" if rewrites else "looks")
    model = speaking("hi")
    agent = Agent(id="a", model=model, input_processors=[made])
    output = run_async(agent.generate("Hello", instructions="Be brief."))
    expected = "Be brief.\nspoilt\nHELLO\nmore" if rewrites else "Be brief.\nHello"
    assert model.calls[0].text == expected
    metadata = output.messages[0].content.metadata
    assert bool(metadata) is rewrites


@given(turns)
def test_a_branch_sees_nothing_of_its_sibling(times: list[int]) -> None:
    """W-063: whatever is written, at whatever time, is the branch's own."""
    seen: list[Any] = []

    def look(args: Any) -> None:
        seen.append([m.text for m in args.message_list.messages()])
        seen.append(args.message_list.get_all_system_messages())

    a = slow("spoils", times[0], times[1], spoil)
    b = slow("looks", times[2], times[3], look)
    agent = Agent(
        id="a", model=speaking("hi"), input_processors=[side_by_side(a, b, choose="looks")]
    )
    run_async(agent.generate("Hello"))
    assert seen == [["Hello"], []]


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=5))
def test_the_first_verdict_counts_and_ends_the_others(plans: list[tuple[int, bool]]) -> None:
    """W-066: the lowest index of those that come at the same time; nobody works on after it."""
    ended: list[str] = []

    def branch(index: int, times: int, stops: bool) -> Any:
        async def work(args: Any) -> None:
            try:
                await give_way(times)
                if stops:
                    args.abort(str(index))
                await asyncio.sleep(5)
            except asyncio.CancelledError:
                await give_way(20)  # who cleans up is waited for
                raise
            finally:
                ended.append(str(index))

        return processor(id=f"b{index}", process_input=work)

    stopping = [(times, index) for index, (times, stops) in enumerate(plans) if stops]
    branches = [branch(index, *plan) for index, plan in enumerate(plans)]
    if not stopping:
        return
    agent = Agent(
        id="a", model=speaking("hi"), input_processors=[side_by_side(*branches, choose="b0")]
    )
    output = run_async(agent.generate("x"), seconds=4)
    assert output.tripwire is not None
    assert output.tripwire.processor_id == f"b{min(stopping)[1]}"
    assert sorted(ended) == [str(index) for index in range(len(plans))]


async def test_who_cleans_up_is_waited_for() -> None:
    """W-066: siblings have ended when the verdict takes effect."""
    ended: list[str] = []

    async def wait(args: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await give_way(50)
            ended.append("waited")

    async def stop(args: Any) -> None:
        await give_way(2)
        args.abort("no")

    made = side_by_side(
        processor(id="waits", process_input=wait),
        processor(id="stops", process_input=stop),
        choose="waits",
    )
    output = await Agent(id="a", model=speaking("hi"), input_processors=[made]).generate("x")
    assert (output.status, ended) == ("tripwire", ["waited"])


HOOKS = [
    "process_input",
    "process_input_step",
    "process_output_stream",
    "process_output_step",
    "process_output_result",
]


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("after", range(8))
async def test_cancelled_at_any_moment_nothing_is_left(hook: str, after: int) -> None:
    """W-066, law 6: at every await of a branch, also while siblings clean up."""
    before = set(asyncio.all_tasks())
    open_, entered = 0, asyncio.Event()

    async def work(args: Any) -> Any:
        nonlocal open_
        open_ += 1
        entered.set()
        try:
            await give_way(3)
        finally:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
            open_ -= 1
        return getattr(args, "part", None)

    inner = flow("inner").then(create_step(processor(id="c", **{hook: work}))).commit()
    made = flow().parallel([create_step(processor(id=id, **{hook: work})) for id in "ab"] + [inner])
    made = made.map(lambda context: context.input_data["processor:a"]).commit()
    where = "input_processors" if "input" in hook else "output_processors"
    agent = Agent(id="a", model=speaking("hi"), **{where: [made]})
    task = asyncio.ensure_future(agent.generate("x"))
    async with asyncio.timeout(30):  # where the hook is never called
        await entered.wait()
    await give_way(after)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    await others_done(before)
    assert open_ == 0


async def test_three_slow_checks_take_as_long_as_the_slowest() -> None:
    """W-181: they are under way at the same time."""
    under_way = most = 0
    all_in = asyncio.Event()

    async def check(args: Any) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if under_way == 3:
            all_in.set()
        async with asyncio.timeout(30):
            await all_in.wait()
        under_way -= 1

    checks = [processor(id=id, process_input=check) for id in "abc"]
    await Agent(
        id="a", model=speaking("hi"), input_processors=[side_by_side(*checks, choose="a")]
    ).generate("x")
    assert most == 3


async def test_what_is_written_and_sent_meanwhile_stays() -> None:
    """R-200, R-717: data and signals have left; the chosen branch does not undo them."""

    async def write(args: Any) -> None:
        await args.writer.custom({"type": "data-note", "data": 1})
        await args.send_signal({"type": "reactive", "contents": "remember"})

    made = side_by_side(
        processor(id="writes", process_output_step=write),
        rewriting("up", str.upper, "process_output_step"),
        choose="up",
    )
    output = await speaker(speaking("hi"), made).generate("x")
    parts = [part for message in output.messages for part in message.parts]
    assert output.text == "HI"
    assert [part.data for part in parts if isinstance(part, DataPart) and part.data == 1] == [1]
    assert "signal" in [message.role for message in output.messages]


# ── the list of messages ───────────────────────────────────────────────────────────────────────


def filled() -> MessageList:
    return MessageList().add(["one", "two"], "input").add_system("be kind")


def test_a_list_follows_its_twin() -> None:
    """What was changed, added and removed there is here; what says the same stays the object."""
    live = filled()
    first, second = live.messages()
    known, twin = live.ids(), live.twin()
    assert live.follow(twin, known) is False
    twin.messages()[1].parts[0].text = "TWO"
    twin.add("three", "response")
    twin.add_system("and brief")
    assert live.follow(twin, known) is True
    assert [m.text for m in live.messages()] == ["one", "TWO", "three"]
    assert live.messages()[0] is first
    assert live.messages()[1] is not second
    assert [live.source_of(m.id) for m in live.messages()] == ["input", "input", "response"]
    assert len(live.get_all_system_messages()) == 2
    twin = live.twin()
    known = live.ids()
    twin.remove_by_ids([first.id])
    twin.delete_stored(["stored"])
    assert live.follow(twin, known) is True
    assert [m.text for m in live.messages()] == ["TWO", "three"]
    assert live.stored_changes.deleted == {"stored"}


def test_what_was_done_here_meanwhile_stays() -> None:
    live = filled()
    known, twin = live.ids(), live.twin()
    live.add("meanwhile", "input")
    live.remove_by_ids([live.messages()[0].id])
    twin.messages()[1].parts[0].text = "TWO"
    live.follow(twin, known)
    assert [m.text for m in live.messages()] == ["TWO", "meanwhile"]


def test_memory_that_nobody_looked_at_goes_on_sleeping() -> None:
    """Law 7: a long history is not copied for a branch that does not look at it."""
    live = MessageList()
    live.receive([{"role": "user", "content": f"m{n}"} for n in range(50)], "memory", shared=True)
    live.add("now", "input")
    known, twin = live.ids(), live.twin()
    twin.add("more", "input")
    assert live.follow(twin, known) is True
    assert [m.text for m in live.messages()][-3:] == ["m49", "now", "more"]
    gone = live.messages()[3].id
    known, twin = live.ids(), live.twin()
    twin.remove_by_ids([gone])
    live.follow(twin, known)
    assert gone not in {m.id for m in live.messages()}
