"""THE loop: request, model, tools, and again; every mode of running an agent is this generator.

It yields lists of delivered chunks. It is pulled, never pushes: nothing happens between two pulls
but what hooks and tools do that run beside it. Closing it closes the model's connection, cancels
tools, and settles what is left (law 6).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import aclosing
from types import AsyncGeneratorType, CoroutineType
from typing import TYPE_CHECKING, Any

from ..aio import begin as begin_unnoticed
from ..chunks import Chunk
from ..errors import ModelError, TripWire
from ..structured.output import attend
from .asking import ModelFailure, resolved_model
from .choices import chosen_by_hooks
from .closing import (
    block,
    block_result,
    broken,
    close_attempt,
    cut_off,
    end_well,
    may_retry,
    parting,
    record_failure,
    settle,
    stopped_by_caller,
    take_back,
    uphold,
)
from .delivery import deliver, pass_on, phase_of
from .frames import error_chunk, start_chunk, step_finish_chunk
from .listening import begin, listen
from .phases import (
    ask_for_retry,
    choose,
    fetch_files,
    finish_hooks,
    request,
    response,
    review,
)
from .pipeline import verdict_in
from .reminders import hear
from .response import mark_boundary, merge
from .step import Step
from .suspending import tell
from .toolphase import use_tools

if TYPE_CHECKING:
    from ..results import StepResult
    from .delivery import Phase
    from .run_state import RunState

__all__ = ["Loop"]

Batches = AsyncGenerator[list[Chunk], None]


class Loop:
    """One run of an agent, from `start` to `finish`."""

    __slots__ = ("run",)

    def __init__(self, run: RunState) -> None:
        self.run = run

    # One frame for a batch, not several.
    async def chunks(self) -> Batches:  # noqa: C901
        """Everything the run delivers, in lists."""
        run = self.run
        if run.blocked is not None:
            await self._settle()
            yield parting(run)
            return
        run.in_loop = True
        try:
            yield [start_chunk(run)] if run.step is None else []
            plan = self._plan()
            phase = next(plan)
            while phase is not None:
                try:
                    if isinstance(phase, CoroutineType):
                        await phase
                        if run.out:
                            yield run.take_out()
                    else:
                        following_batch = begin_unnoticed(phase)
                        while True:
                            try:
                                batch = await following_batch
                            except StopAsyncIteration:
                                break
                            yield batch
                            following_batch = phase.__anext__()
                except (TripWire, ModelFailure) as verdict:
                    if isinstance(verdict, TripWire):
                        await run.stop_beside()
                    following = plan.throw(verdict)
                else:
                    following = next(plan)
                finally:
                    if isinstance(phase, AsyncGeneratorType):
                        await phase.aclose()
                phase = following
            await end_well(run)
        except BaseException as error:
            await self._end_otherwise(error)
        finally:
            run.interruption.take_back()
            await self._settle()
        yield parting(run)

    async def _end_otherwise(self, error: BaseException) -> None:
        """The outcome of a run that did not come to its regular end; raises what is not ours."""
        run = self.run
        stopped = run.interruption.is_behind(error)
        wire = uphold(run, error)
        ours = stopped or isinstance(error, Exception) or verdict_in(error) is not None
        if wire is not None and ours:
            return
        if stopped and run.settled:
            return  # too late: it has come to its end
        if stopped:
            await stopped_by_caller(run)
        elif isinstance(error, Exception):
            broken(run, error)
        else:
            cut_off(run)
            raise error

    async def _settle(self) -> None:
        try:
            try:
                await self.run.stop_beside()
            finally:
                await settle(self.run)
        except asyncio.CancelledError as error:
            if not self.run.interruption.is_behind(error):
                raise

    # ── the plan ───────────────────────────────────────────────────────────────────────────────

    def _plan(self) -> Generator[Phase | None, None, None]:
        """The phases of a run, each made when the one before it is over; `None` is the end.

        A verdict or a failed call in a phase is raised here, where it decides what follows.
        """
        run = self.run
        step = run.step  # the one whose calls have waited, in a run that goes on
        while True:
            run.interruption.check()
            if step is not None:
                phases = self._outcome(step)
            else:
                step = Step(run, run.message_list.mark_response())
                run.begin_attempt(step)
                phases = self._attempt(step)
            try:
                yield from phases
                if step.waiting:
                    yield None
            except TripWire as wire:
                step.wire = wire
                yield self._judge(step, wire)
            except ModelFailure as failure:
                yield self._recover(step, failure.error)
            if step.cut_short:
                run.interruption.check()
            if not step.continues:
                break
            step = None
        run.conclude()
        if run.pipeline.process_output_result:
            yield from self._result()
        yield None

    def _attempt(self, step: Step) -> Iterator[Phase]:
        """One attempt at a step (R-042 to R-054)."""
        run = self.run
        if run.inbox:
            yield phase_of(run, hear(run), writes=run.gate.writes)
        if run.step_chain:
            run.between_steps = True
            yield choose(run, step)
            run.between_steps = False
            chosen_by_hooks(step)
        run.interruption.check()
        attend(run, step)
        pipeline = run.pipeline
        _prepare(run, step)
        if run.message_list.prompt_has_urls:
            yield fetch_files(run, step)
        if pipeline.process_llm_request:
            yield request(run, step)
        yield listen(run, step)
        _check_calls(run, step)
        if pipeline.process_llm_response:
            yield response(run, step)
        step.portion = merge(run, step.answer, step.portion)
        run.label_response(step)
        run.answer = None
        if pipeline.process_output_step:
            yield review(run, step)
        yield from self._outcome(step)

    def _outcome(self, step: Step) -> Iterator[Phase]:
        """What a step leads to: its tools run, and unless one of their calls waits, it counts."""
        run = self.run
        if step.answer.calls:
            yield use_tools(run, step)
        if step.waiting:
            yield phase_of(run, tell(run, step), writes=run.gate.writes)
        if not step.waiting:
            yield phase_of(run, self._close(step), writes=run.gate.writes)

    async def _close(self, step: Step) -> None:
        """The step counts: `step-finish`, and whether another one follows (R-054, R-055)."""
        run = self.run
        assert step.portion is not None
        if run.pipeline.process_output_step:
            text = step.portion.text(run.message_list)
        else:
            text = step.answer.text()
        result = step.result(run, text)
        step.continues = await self._goes_on(step, result)
        chunk = step_finish_chunk(run, step, result)
        await pass_on(run, chunk)
        run.accept(step, result)
        if step.continues:
            mark_boundary(run)
        if "on_step_finish" in run.callbacks:
            await run.call_back("on_step_finish", result)

    async def _goes_on(self, step: Step, result: StepResult) -> bool:
        """Whether another step follows (R-523 to R-527)."""
        run = self.run
        if not step.had_outcome or step.waits_for_client:
            return False
        if len(run.steps) + 1 >= run.max_steps:
            return False
        if run.abort_signal is not None and run.abort_signal.aborted:
            step.cut_short = True
            return False
        for condition in run.stop_when:
            stop = condition([*run.steps, result])
            if await stop if inspect.isawaitable(stop) else stop:
                return False
        return True

    # ── attempts that do not count ─────────────────────────────────────────────────────────────

    async def _judge(self, step: Step, wire: TripWire) -> Batches:
        """A verdict in a step: another attempt, if it asks for one and there is budget (R-173).

        It is carried out before anything is handed to the consumer, who may not come back.
        """
        run = self.run
        rejected: StepResult | None = None
        if may_retry(run, wire):
            rejected = take_back(run, step, wire)
        else:
            block(run, step, wire)
        if run.out:
            yield run.take_out()
        if rejected is None:
            raise wire
        async with aclosing(self._again(step, rejected)) as closing:
            async for batch in closing:
                yield batch

    async def _again(self, step: Step, rejected: StepResult) -> Batches:
        """An attempt that was taken back is closed; another one follows."""
        run = self.run
        step.continues = True
        try:
            async with aclosing(close_attempt(run, step, rejected)) as closing:
                async for batch in closing:
                    yield batch
        except TripWire as wire:  # on the chunk that closes the attempt: nothing can follow it
            block(run, step, wire)
            raise

    async def _recover(self, step: Step, error: Exception) -> Batches:
        """Ask the error processors; if none wants another attempt, the error is final."""
        run = self.run
        step.failure = error
        if run.out:
            yield run.take_out()
        run.interruption.check()
        try:
            async with aclosing(begin(run, step)) as begun:
                async for batch in begun:
                    yield batch
            if run.gate.holds and run.answer is not None:
                await run.gate.let_go_of_own()
                if run.out:
                    yield run.take_out()
            async with aclosing(ask_for_retry(run, step, error)) as written:
                async for batch in written:
                    yield batch
        except TripWire as wire:
            block(run, step, wire)
            raise
        run.interruption.check()  # a hook may have waited, and heard of the stop
        if step.wants_retry:
            following = self._again(step, take_back(run, step, None))
        else:
            following = self._fail(step, error)
        async with aclosing(following) as closing:
            async for batch in closing:
                yield batch

    async def _fail(self, step: Step, error: Exception) -> Batches:
        """The error is final: `error`, `step-finish` (R-119, R-551)."""
        run = self.run
        result = record_failure(run, step, error)
        try:
            for chunk in (error_chunk(run, error), step_finish_chunk(run, step, result)):
                async with aclosing(deliver(run, chunk)) as delivered:
                    async for batch in delivered:
                        yield batch
        except TripWire as wire:
            block(run, step, wire)
            raise
        await run.call_back("on_error", {"error": error})

    # ── the end ────────────────────────────────────────────────────────────────────────────────

    def _result(self) -> Iterator[Phase]:
        run = self.run
        before = run.answered()
        try:
            yield finish_hooks(run)
        except TripWire as wire:
            block_result(run, wire)
            raise
        run.read_back(before)


def _prepare(run: RunState, step: Step) -> None:
    """The model and the prompt; a call that cannot be made fails like a refused one (R-083)."""
    try:
        step.model = resolved_model(run, step)
        step.prompt = run.message_list.provider_prompt(run.untouched_message())
    except Exception as error:
        step.asked = True
        raise ModelFailure(error) from error


def _warn_of_unmatched(run: RunState, step: Step) -> None:
    """The client's results that answer no call are told: nothing else would show it (R-335)."""
    told = [
        f"the result of tool call {call_id[:80]!r} was left out: no call here has that id"
        for call_id in run.message_list.unmatched_results
    ]
    found: list[Any] = [{"type": "other", "message": message} for message in told]
    run.warnings = step.warnings = [*step.warnings, *found]


def _check_calls(run: RunState, step: Step) -> None:
    """A model that says "tool calls" without one has answered badly, unless it said something."""
    if run.message_list.unmatched_results:
        _warn_of_unmatched(run, step)
    answer = step.answer
    if answer.finish_reason != "tool-calls" or answer.calls:
        return
    problem = "the model stopped to call tools, but made no call"
    if not answer.text():
        raise ModelFailure(ModelError(problem))
    run.warnings.append({"type": "other", "message": problem})
