"""THE loop: request, model, tools, and again; every mode of running an agent is this generator.

It yields lists of delivered chunks. It is pulled, never pushes: nothing happens between two pulls
but what hooks and tools do that run beside it. Closing it closes the model's connection, cancels
tools, and settles what is left (law 6).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from .asking import ModelFailure, ask, resolved_model
from .choices import chosen_by_hooks, copied, model_request, step_args
from .chunks import Chunk
from .closing import (
    block,
    block_result,
    broken,
    cut_off,
    deliver_finish,
    record_failure,
    reject,
    settle,
    stopped_by_caller,
)
from .errors import ModelError, TripWire
from .frames import error_chunk, start_chunk, step_finish_chunk, tripwire_chunk
from .intake import Intake
from .pipeline import Chain, fold
from .processor import (
    ABSENT,
    ProcessAPIErrorArgs,
    ProcessLLMRequestArgs,
    ProcessLLMResponseArgs,
    ProcessOutputResultArgs,
    ProcessOutputStepArgs,
)
from .response import mark_boundary, merge
from .results import OutputResult
from .returns import (
    apply_messages,
    apply_nothing,
    apply_step,
    cached_response,
    checked_prompt,
    read_request,
    wants_retry,
)
from .step import Step
from .toolphase import use_tools
from .tracks import report_call

if TYPE_CHECKING:
    from .results import StepResult
    from .run_state import RunState

__all__ = ["Loop"]

Batches = AsyncGenerator[list[Chunk], None]


class Interrupted(Exception):
    """The caller's signal fired, or the run was closed while someone waited for it."""


class Loop:
    """One run of an agent, from `start` to `finish`."""

    def __init__(self, run: RunState) -> None:
        self.run = run
        self._waiting = False
        self._interrupted = False
        self._puller: asyncio.Task[Any] | None = None

    # ── being stopped from outside ─────────────────────────────────────────────────────────────

    def interrupt(self, *, anywhere: bool = False) -> None:
        """End the wait for the model (or, `anywhere`, whatever is waited for) as a stop."""
        puller = self.run.engine_task
        if (self._waiting or anywhere) and puller is not None and not self._interrupted:
            self._interrupted = True
            self._puller = puller
            puller.cancel()

    def _check_signal(self) -> None:
        signal = self.run.abort_signal
        if self._interrupted or (signal is not None and signal.aborted):
            raise Interrupted

    def _was_interrupted(self, error: BaseException) -> bool:
        """Whether a cancellation was ours; the caller's own goes on as what it is."""
        if isinstance(error, Interrupted):
            return True
        if not self._interrupted or isinstance(error, GeneratorExit | TripWire):
            return False
        if isinstance(error, asyncio.CancelledError) and self._puller is not None:
            return self._puller.uncancel() == 0
        return True

    # ── the run ────────────────────────────────────────────────────────────────────────────────

    async def chunks(self) -> Batches:
        """Everything the run delivers, in lists."""
        run = self.run
        last: list[Chunk] | None = None
        if run.blocked is not None:
            await settle(run)
            yield [tripwire_chunk(run, run.blocked)]
            return
        run.in_loop = True
        try:
            yield [start_chunk(run)]
            self._check_signal()
            async for batch in self._steps():
                yield batch
            async for batch in self._result():
                yield batch
        except BaseException as error:
            last = await self._last_words(error)
        finally:
            await settle(run)
        if last is not None:
            yield run.take_out() + last

    async def _last_words(self, error: BaseException) -> list[Chunk]:
        """How a run that did not come to its regular end says so; raises what is not ours."""
        run = self.run
        if isinstance(error, TripWire):
            return [tripwire_chunk(run, error)]
        if self._was_interrupted(error):
            return await stopped_by_caller(run, run.step)
        if isinstance(error, Exception):
            return broken(run, run.step, error)
        cut_off(run, run.step)
        raise error

    async def _steps(self) -> Batches:
        run = self.run
        while True:
            step = Step(run, run.message_list.mark_response())
            async for batch in self._attempt(step):
                yield batch
            if run.out:
                yield run.take_out()
            if step.failure is not None:
                self._check_signal()
                async for batch in self._recover(step, step.failure):
                    yield batch
                if run.error is not None:
                    return
            elif step.wire is not None:
                async for batch in self._judged(step, step.wire):
                    yield batch
            elif step.continues:
                mark_boundary(run)
            else:
                return
            self._check_signal()

    async def _judged(self, step: Step, wire: TripWire) -> Batches:
        """A verdict in a step: another attempt, if it asks for one and there is budget (R-173)."""
        run = self.run
        if not (wire.retry and run.retry_count < run.retry_budget):
            block(run, step, wire)
            raise wire
        async for batch in reject(run, step, wire):
            yield batch

    async def _attempt(self, step: Step) -> Batches:
        """One pass through a step: its hooks, the model, its tools (R-042 to R-054).

        A verdict or a failed call ends the pass; it is left on the step.
        """
        run = self.run
        run.begin_attempt(step)
        try:
            if run.step_chain:
                async for batch in self._choose(step):
                    yield batch
            self._check_signal()
            await self._prepare(step)
            if run.pipeline.process_llm_request:
                async for batch in self._request(step):
                    yield batch
            async for batch in self._listen(step):
                yield batch
            async for batch in self._complete(step):
                yield batch
        except TripWire as wire:
            step.wire = wire
        except ModelFailure as failure:
            step.failure = failure.error

    async def _prepare(self, step: Step) -> None:
        """The model and the prompt; a call that cannot be made fails like a refused one (R-083)."""
        run = self.run
        try:
            step.model = resolved_model(run, step)
            step.prompt = await run.prompt_for(step.model)
        except Exception as error:
            step.asked = True
            await Intake(run, step).start()
            raise ModelFailure(error) from error

    # ── before the model ───────────────────────────────────────────────────────────────────────

    async def _choose(self, step: Step) -> Batches:
        run = self.run
        args = step_args(run, step)
        run.between_steps = True
        async for batch in self._phase(run.step_chain, args, apply_step):
            yield batch
        run.between_steps = False
        chosen_by_hooks(step, args)

    async def _request(self, step: Step) -> Batches:
        """`process_llm_request`; a response that stands in for the call is left on the step."""
        run = self.run
        args = run.args(ProcessLLMRequestArgs)
        args.model, args.step_number, args.steps = step.model, step.number, list(run.steps)
        args.renew = lambda: setattr(args, "prompt", copied(step.prompt))

        def apply(_run: RunState, link: Any, _args: Any, returned: Any) -> None:
            result = read_request(link, returned)
            if isinstance(result.prompt, list | tuple) or result.prompt:
                step.prompt = checked_prompt(link, result.prompt)
            if result.response and step.replay is None:
                response, chunks = cached_response(link, result.response)
                step.from_cache = True
                step.warnings = list(response.warnings or ())
                step.request_info = dict(response.request or {})
                step.raw_response = response.raw_response
                step.replay = chunks

        async for batch in self._phase(run.pipeline.process_llm_request, args, apply):
            yield batch

    # ── the model ──────────────────────────────────────────────────────────────────────────────

    async def _listen(self, step: Step) -> Batches:
        """Ask the model, or replay; every chunk passes the gate as it comes (R-046 to R-049)."""
        run = self.run
        step.asked = True
        intake = Intake(run, step)
        beside = run.gate.writes or (intake.has_results and run.pipeline.process_tool_result.writes)
        source = self._source(step)
        started = perf_counter()
        self._waiting = True
        try:
            async for read in source:
                self._waiting = False
                if beside:
                    async for batch in run.outbox.attend(intake.take(read)):
                        yield batch
                else:
                    await intake.take(read)
                if run.out:
                    yield run.take_out()
                self._check_signal()
                self._waiting = True
            self._waiting = False
        except ModelFailure as failure:
            self._waiting = False
            if self._interrupted:
                raise Interrupted from failure
            await intake.start()
            raise
        finally:
            self._waiting = False
            await source.aclose()
            report_call(run, step, perf_counter() - started)
        await intake.end()
        if run.out:
            yield run.take_out()

    def _source(self, step: Step) -> AsyncGenerator[Sequence[Chunk], None]:
        if step.replay is not None:
            return _replayed(step.replay)
        return ask(self.run, model_request(self.run, step))

    # ── after the model ────────────────────────────────────────────────────────────────────────

    async def _complete(self, step: Step) -> Batches:
        run = self.run
        answer = step.answer
        _check_calls(run, step)
        if run.pipeline.process_llm_response:
            async for batch in self._response(step):
                yield batch
        step.portion = merge(run, answer, step.portion)
        run.label_response(step)
        run.answer = None
        text = answer.text()
        if run.pipeline.process_output_step:
            async for batch in self._review(step, text):
                yield batch
            text = step.portion.text(run.message_list)
        if answer.calls:
            async for batch in use_tools(run, step):
                yield batch
        result = step.result(run, text)
        step.continues = await self._goes_on(step, result)
        closing = step_finish_chunk(run, step, result, continued=step.continues)
        passed = await run.gate.offer(closing)
        run.accept(step, result)
        if passed is not None:
            run.out.append(passed)
        yield run.take_out()
        await run.call_back("on_step_finish", result)

    async def _response(self, step: Step) -> Batches:
        run = self.run
        args = run.args(ProcessLLMResponseArgs)
        args.message_list = ABSENT
        args.chunks = step.cacheable()
        args.model, args.step_number = step.model, step.number
        args.steps = [*run.steps, step.result(run, step.answer.text())]
        args.from_cache, args.warnings = step.from_cache, step.warnings
        args.request, args.raw_response = step.request_info, step.raw_response
        chain = run.pipeline.process_llm_response
        async for batch in self._phase(chain, args, apply_nothing):
            yield batch

    async def _review(self, step: Step, text: str) -> Batches:
        run, answer = self.run, step.answer
        args = run.args(ProcessOutputStepArgs)
        args.step_number, args.text = step.number, text
        args.finish_reason, args.usage = answer.finish_reason, answer.usage
        args.provider_metadata = answer.provider_metadata
        args.tool_calls = step.calls()
        args.steps = list(run.steps)
        if answer.finish_reason != "content-filter":
            args.steps.append(step.result(run, text))
        chain = run.pipeline.process_output_step
        async for batch in self._phase(chain, args, apply_messages):
            yield batch

    async def _goes_on(self, step: Step, result: StepResult) -> bool:
        """Whether another step follows (R-523 to R-527)."""
        run = self.run
        if not step.had_outcome or step.waits_for_client:
            return False
        if len(run.steps) + 1 >= run.max_steps:
            return False
        if run.abort_signal is not None and run.abort_signal.aborted:
            return False
        for condition in run.stop_when:
            stop = condition([*run.steps, result])
            if await stop if inspect.isawaitable(stop) else stop:
                return False
        return True

    # ── when the call failed ───────────────────────────────────────────────────────────────────

    async def _recover(self, step: Step, error: Exception) -> Batches:
        """Ask the error processors; either another attempt follows, or the error is final."""
        run = self.run
        asked: list[bool] = []
        if run.pipeline.process_api_error:
            try:
                async for batch in self._ask_for_retry(step, error, asked):
                    yield batch
            except TripWire as wire:
                step.asked = step.answer.has_begun  # a refused call leaves no entry in the steps
                block(run, step, wire)
                raise
        if asked and run.retry_count < run.retry_budget:
            async for batch in reject(run, step, None):
                yield batch
            return
        step.answer.finish_reason = "error"
        result = record_failure(run, step, error)
        try:
            closing = step_finish_chunk(run, step, result, continued=False)
            for chunk in (error_chunk(run, error), closing):
                passed = await run.gate.offer(chunk)
                if passed is not None:
                    run.out.append(passed)
        except TripWire as wire:
            block(run, step, wire)
            raise
        yield run.take_out()
        await run.call_back("on_error", {"error": error})

    async def _ask_for_retry(self, step: Step, error: Exception, asked: list[bool]) -> Batches:
        run = self.run
        args = run.args(ProcessAPIErrorArgs)
        args.error, args.step_number, args.steps = error, step.number, list(run.steps)

        def apply(_run: RunState, link: Any, _args: Any, returned: Any) -> None:
            if wants_retry(link, returned):
                asked.append(True)

        args.renew = lambda: setattr(args, "retry_count", run.api_retry_count)
        for link in run.pipeline.process_api_error:
            chain = Chain.single(link, writes=run.pipeline.process_api_error.writes)
            try:
                async for batch in self._phase(chain, args, apply):
                    yield batch
            except Exception as problem:  # counts as declined
                run.log_declined(link, problem)
            if asked:
                return

    # ── the end ────────────────────────────────────────────────────────────────────────────────

    async def _result(self) -> Batches:
        run = self.run
        run.conclude()
        if run.pipeline.process_output_result:
            before = run.answered()
            try:
                async for batch in self._last_hooks():
                    yield batch
            except TripWire as wire:
                block_result(run, wire)
                raise
            run.read_back(before)
        yield await deliver_finish(run, run.step)

    async def _last_hooks(self) -> Batches:
        run = self.run
        args = run.args(ProcessOutputResultArgs)
        args.writer = run.outbox.writer_to_client()
        args.result = OutputResult(
            text=run.text,
            usage=run.usage,
            finish_reason=run.finish_reason,
            steps=list(run.all_steps),
        )
        chain = run.pipeline.process_output_result
        async for batch in self._phase(chain, args, apply_messages):
            yield batch

    async def _phase(self, chain: Chain, args: Any, apply: Any) -> Batches:
        """Run a chain; yields what its hooks write, at once when they may write while running."""
        run = self.run
        work = fold(run, chain, args, apply)
        if chain.writes:
            async for batch in run.outbox.attend(work):
                yield batch
        else:
            await work
            if run.out:
                yield run.take_out()


async def _replayed(chunks: list[Chunk]) -> AsyncGenerator[Sequence[Chunk], None]:
    yield [c for c in chunks if c.type != "step-start"]


def _check_calls(run: RunState, step: Step) -> None:
    """A model that says "tool calls" without one has answered badly, unless it said something."""
    answer = step.answer
    if answer.finish_reason != "tool-calls" or answer.calls:
        return
    problem = "the model stopped to call tools, but made no call"
    if not answer.text():
        raise ModelFailure(ModelError(problem))
    run.warnings.append({"type": "other", "message": problem})
