"""Time is up: hooks that wait are cut short wherever they wait, and nothing of them is left."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

import pytest

from procession import AbortController, Breaker, Policy
from procession.policy import bounded
from procession.policy.bounded import Bounded, TimedOut
from procession.processor import HOOKS
from tests.laws.checks import TWO_STEPS
from tests.laws.kit import Hook, PlayedModel, Tap, agent_with, others_done
from tests.policy.kit import PATIENT
from tests.policy.test_table import answers_for


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "GRACE", 0.02)


async def forever() -> None:
    await asyncio.Event().wait()


async def _in_a_task() -> None:
    await asyncio.create_task(forever())


async def _in_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(forever())
        group.create_task(forever())


async def _gathered() -> None:
    await asyncio.gather(forever(), forever())


async def _in_a_timeout() -> None:
    async with asyncio.timeout(60):
        await forever()


async def _shielded() -> None:
    inner = asyncio.ensure_future(asyncio.sleep(0.05))
    await asyncio.shield(inner)


async def _queue() -> None:
    await asyncio.Queue[int]().get()


async def _lock() -> None:
    lock = asyncio.Lock()
    async with lock, lock:
        pass


async def _busy() -> None:
    while True:  # noqa: ASYNC110  # a hook at its worst
        await asyncio.sleep(0)


PLACES = {
    f.__name__.strip("_"): f
    for f in (
        forever,
        _in_a_task,
        _in_a_group,
        _gathered,
        _in_a_timeout,
        _shielded,
        _queue,
        _lock,
        _busy,
    )
}


@pytest.mark.parametrize("place", PLACES)
async def test_cut_short(place: str) -> None:
    before = set(asyncio.all_tasks())
    tidied: list[str] = []

    async def work() -> None:
        try:
            await PLACES[place]()
        finally:
            await asyncio.sleep(0)
            tidied.append(place)

    task = asyncio.current_task()
    assert task is not None
    with pytest.raises(TimedOut):
        await Bounded(work(), PATIENT)
    assert tidied == [place] and not task.cancelling()
    await others_done(before)


async def test_what_does_not_wait_has_no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chunk path pays for a timer only where a hook waits."""
    loop = asyncio.get_running_loop()
    made: list[Any] = []
    call_at = loop.call_at
    monkeypatch.setattr(loop, "call_at", lambda *a, **k: made.append(a) or call_at(*a, **k))

    async def at_once() -> int:
        return 1

    assert await Bounded(at_once(), 60) == 1 and not made
    assert await Bounded(asyncio.sleep(0, 2), 60) == 2
    assert len(made) == 1


async def test_in_time() -> None:
    async def adds(count: int) -> int:
        total = 0
        for number in range(count):
            total += await asyncio.sleep(0 if number % 2 else 0.0001, number)
        return total

    assert await Bounded(adds(6), 60) == 15
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_result, 7)
    assert await Bounded(future, 60) == 7
    with pytest.raises(ValueError, match="x"):
        await Bounded(_raises(), 60)


async def _raises() -> None:
    await asyncio.sleep(0.001)
    raise ValueError("x")


@pytest.mark.parametrize("deaf", ["once", "always", "in-a-task"])
async def test_who_does_not_listen(deaf: str, short_grace: None) -> None:
    """A hook that swallows its cancellation neither hangs the run nor lives on."""
    before = set(asyncio.all_tasks())
    stubborn: list[asyncio.Task[None]] = []
    stop = asyncio.Event()

    async def work() -> str:
        if deaf == "in-a-task":
            stubborn.append(asyncio.create_task(ignores(stop)))
            await stubborn[0]
            return "through"
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if deaf == "once":
                    return "let it pass"

    with pytest.raises(TimedOut):
        await Bounded(work(), PATIENT)
    stop.set()  # a task that the hook has made is the hook's own
    await others_done(before)


async def ignores(stop: asyncio.Event) -> None:
    while not stop.is_set():
        with contextlib.suppress(asyncio.CancelledError):
            await stop.wait()


@pytest.mark.parametrize("place", PLACES)
async def test_cancelled_from_outside(place: str) -> None:
    """Who awaits may be cancelled as ever, and the hook with him."""
    before = set(asyncio.all_tasks())
    begun = asyncio.Event()
    ends: list[str] = []

    async def work() -> None:
        begun.set()
        try:
            await PLACES[place]()
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    async def outer() -> None:
        await Bounded(work(), 60)

    task = asyncio.create_task(outer())
    await begun.wait()
    await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ends == ["cancelled"]
    await others_done(before)


async def test_cancelled_from_outside_when_time_is_up() -> None:
    """A cancellation that comes while the hook is tidying up is not lost."""

    async def work() -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(0.02)

    task = asyncio.create_task(_awaits(work()))
    await asyncio.sleep(PATIENT + 0.008)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def _awaits(work: Any) -> None:
    await Bounded(work, PATIENT)


@pytest.mark.parametrize("way", ["cancel", "aclose", "signal"])
@pytest.mark.parametrize("observe", [False, True])
@pytest.mark.parametrize("hook", [h for h in HOOKS if h not in ("process_input",)])
async def test_the_run_is_stopped_meanwhile(hook: str, observe: bool, way: str) -> None:
    """R-558: a stop of the run is no failure of the hook that it interrupts."""
    before = set(asyncio.all_tasks())
    waiting, controller = asyncio.Event(), AbortController()

    async def waits(args: Any) -> Any:
        waiting.set()
        if way == "signal":
            await args.abort_signal.wait()
            return getattr(args, "part", None)
        await forever()

    hooked: Any = Hook(hook, waits)
    hooked.policy = Policy(
        on_error="allow", timeout=60, observe=observe, breaker=Breaker(failures=1)
    )
    model = PlayedModel(answers_for(hook))
    run = await agent_with(model, hooked).stream("go", abort_signal=controller.signal)
    reader = asyncio.create_task(run.consume_stream())
    await waiting.wait()
    if way == "cancel":
        reader.cancel()
    elif way == "aclose":
        await run.aclose()
    else:
        controller.abort()
    await asyncio.wait([reader], timeout=5)
    assert reader.done() and reader.cancelled() == (way == "cancel")
    assert not run.policy_events and model.open == 0
    assert not hooked.policy.circuit_of(hooked).is_open
    await others_done(before)


@pytest.mark.parametrize("is_async", [False, True])
async def test_late_but_there(is_async: bool) -> None:
    """What cannot be cut short has its outcome; the delay is told, and counts for the breaker."""

    def plain(args: Any) -> Any:
        time.sleep(PATIENT * 2)
        return args.part

    async def awaited(args: Any) -> Any:
        return plain(args)

    hooked: Any = Hook("process_output_stream", awaited if is_async else plain)
    hooked.policy = Policy(timeout=PATIENT, breaker=Breaker(failures=3, seconds=60))
    run = await agent_with(PlayedModel(TWO_STEPS), hooked).stream("go")
    await run.consume_stream()
    (late, blocked) = run.policy_events
    assert (late.action, late.kind, late.count) == ("late", "timeout", 3)
    assert (blocked.action, blocked.kind) == ("blocked", "circuit-open")


async def test_a_slow_client_and_its_writer() -> None:
    """A hook that is cut short in the middle of writing leaves the gate open for the others."""
    tap = Tap()

    async def writes(args: Any) -> Any:
        if args.part.type == "text-delta":
            await args.writer.custom({"type": "data-x", "data": 1})
            await forever()
        return args.part

    async def slow(args: Any) -> Any:
        if args.part.type == "data-x":
            await asyncio.sleep(PATIENT * 2)
        return args.part

    writer, guard = Hook("process_output_stream", writes), Hook("process_output_stream", slow)
    writer.policy = Policy(on_error="allow", timeout=PATIENT)  # type: ignore[attr-defined]
    run = await agent_with(PlayedModel(TWO_STEPS), writer, guard, tap).stream("go")
    await run.consume_stream()
    assert await run.text == "lookingdone" and run.status == "success"
    assert sum(e.count for e in run.policy_events) == 4
