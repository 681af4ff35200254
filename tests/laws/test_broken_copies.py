"""The checks of the laws, run on engines that are broken on purpose: each must notice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from procession import TripWire
from procession.engine.gate import Gate
from procession.engine.loop import Loop
from procession.engine.pipeline import Chain
from procession.engine.run_state import RunState
from procession.message_list import MessageList
from procession.processor import HOOKS
from tests.laws.checks import (
    LEAVING,
    TWO_STEPS,
    check_any_cutting,
    check_balanced,
    check_every_hook_runs,
    check_linear,
    check_nothing_left,
    check_one_engine,
    check_one_gate,
    check_verdict,
    many_chunks,
    many_steps,
)
from tests.laws.kit import METADATA, end, said


async def noticed(check: Any) -> None:
    """The check passes the broken engine by? Then it checks nothing."""
    with pytest.raises(AssertionError):
        async with asyncio.timeout(5):
            await check


@pytest.mark.parametrize("hook", [name for name in HOOKS if name != "process_output_stream"])
async def test_a_hook_that_is_skipped(hook: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the nine hooks has no call site."""
    of = Chain.of.__func__  # type: ignore[attr-defined]

    def forgetful(cls: Any, processors: Any, name: str) -> Chain:
        return of(cls, () if name == hook else processors, name)

    monkeypatch.setattr(Chain, "of", classmethod(forgetful))
    await noticed(check_every_hook_runs())


async def test_a_chunk_that_leaves_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """One delta is delivered before the chain saw it."""
    offer = Gate.offer

    async def early(self: Gate, chunk: Any, **options: Any) -> Any:
        if chunk.type == "text-delta":
            self._run.out.append(chunk)
            await offer(self, chunk, **options)
            return None
        return await offer(self, chunk, **options)

    monkeypatch.setattr(Gate, "offer", early)
    await noticed(check_one_gate(TWO_STEPS, every=50))


async def test_a_piece_that_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all hooks are plain, pieces of text go past them."""
    monkeypatch.setattr(Gate, "ask", lambda self, chunk: chunk)
    await noticed(check_one_gate(TWO_STEPS, every=50, plain=True))


async def test_a_chunk_that_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The closing chunk of a step goes past the processors."""
    offer = Gate.offer

    async def past(self: Gate, chunk: Any, **options: Any) -> Any:
        return chunk if chunk.type == "step-finish" else await offer(self, chunk, **options)

    monkeypatch.setattr(Gate, "offer", past)
    await noticed(check_one_gate(TWO_STEPS, every=50))


@pytest.mark.parametrize("way", LEAVING)
async def test_a_task_that_lives_on(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run leaves a task behind."""
    chunks = Loop.chunks
    kept: list[Any] = []

    async def leaking(self: Loop) -> Any:
        kept.append(asyncio.create_task(asyncio.sleep(3600)))
        async for batch in chunks(self):
            yield batch

    monkeypatch.setattr(Loop, "chunks", leaking)
    monkeypatch.setattr("tests.laws.kit.PATIENCE", 0.01)
    await noticed(check_nothing_left(way, 30))


async def test_a_second_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """`generate` runs without the stream processors."""
    from procession import agent as module

    opened = module.open_run

    async def other(agent: Any, given: Any, options: Any, *, streaming: bool) -> Any:
        changes = {} if streaming else {"output_processors": []}
        return await opened(agent, given, {**options, **changes}, streaming=streaming)

    monkeypatch.setattr(module, "open_run", other)
    await noticed(check_one_engine(TWO_STEPS))


async def test_a_cut_that_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deltas are stripped, which only shows when a cut falls beside a space."""
    offer = Gate.offer

    async def stripping(self: Gate, chunk: Any, **options: Any) -> Any:
        if chunk.type == "text-delta":
            chunk.payload.text = chunk.payload.text.rstrip()
        return await offer(self, chunk, **options)

    monkeypatch.setattr(Gate, "offer", stripping)
    whole = [[METADATA, *said("one two"), end()]]
    pieces = [[METADATA, *said("one ", "two"), end()]]
    await noticed(check_any_cutting(whole, pieces, (1,)))


async def test_a_verdict_that_is_lost_in_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verdicts are known only when they come bare."""

    def bare_only(error: Any) -> Any:
        return error if isinstance(error, TripWire) else None

    monkeypatch.setattr("procession.engine.pipeline.verdict_in", bare_only)
    await noticed(check_verdict("process_output_step", way="raised-in-group"))


async def test_a_verdict_after_which_tools_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A verdict on a step is taken for an ordinary return."""
    from procession.engine import pipeline

    failed = pipeline.failed

    async def lenient(run: Any, link: Any, args: Any, error: BaseException) -> None:
        if link.name != "process_output_step":
            await failed(run, link, args, error)

    monkeypatch.setattr(pipeline, "failed", lenient)
    await noticed(check_verdict("process_output_step"))


async def test_prompts_without_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of tools are not sent."""
    prompt = MessageList.provider_prompt

    def unbalanced(self: MessageList, *given: Any) -> Any:
        return [entry for entry in prompt(self, *given) if entry["role"] != "tool"]

    monkeypatch.setattr(MessageList, "provider_prompt", unbalanced)
    await noticed(check_balanced(TWO_STEPS))


async def test_calls_that_stay_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """The history keeps an open call after the run."""
    release = RunState.release

    def reopening(self: RunState) -> None:
        for message in self.message_list.messages():
            for part in message.parts:
                if part.type == "tool-invocation":
                    part.tool_invocation.state = "call"
        release(self)

    monkeypatch.setattr(RunState, "release", reopening)
    await noticed(check_balanced(TWO_STEPS))


async def test_chunks_that_get_dearer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each chunk looks at all those before it."""
    offer, past = Gate.offer, list[Any]()

    async def quadratic(self: Gate, chunk: Any, **options: Any) -> Any:
        past.append(chunk)
        assert all(map(len, (seen.type for seen in past)))
        return await offer(self, chunk, **options)

    monkeypatch.setattr(Gate, "offer", quadratic)
    await noticed(check_linear(many_chunks, (100, 200, 400), 1.05))


async def test_steps_that_get_dearer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step copies the whole conversation."""
    import copy

    prompt = MessageList.provider_prompt
    monkeypatch.setattr(
        MessageList, "provider_prompt", lambda self, *given: copy.deepcopy(prompt(self, *given))
    )
    await noticed(check_linear(many_steps, (10, 20, 40), 1.35))
