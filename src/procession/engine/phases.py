"""The phases of a step that call hooks, and the last one of a run.

Each is a generator of what the hooks write while they run. What hooks return is applied to the
step or the run before the next processor is asked.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from ..chunks import Chunk
from ..conversation.prompt_files import resolve_files
from ..processor import (
    ABSENT,
    ProcessAPIErrorArgs,
    ProcessLLMRequestArgs,
    ProcessLLMResponseArgs,
    ProcessOutputResultArgs,
    ProcessOutputStepArgs,
)
from ..results import OutputResult
from .asking import ModelFailure
from .choices import copied, response_format, step_args
from .delivery import batches, phase_of
from .granting import error_links, grant, may_grant
from .pipeline import Apply, Chain, fold
from .returns import (
    apply_messages,
    apply_nothing,
    apply_step,
    cached_response,
    checked_prompt,
    read_request,
    wants_retry,
)

if TYPE_CHECKING:
    from ..processor import HookArgs
    from ..results import StepResult
    from .delivery import Phase
    from .pipeline import Link
    from .run_state import RunState
    from .step import Step

__all__ = [
    "ask_for_retry",
    "choose",
    "fetch_files",
    "finish_hooks",
    "request",
    "response",
    "review",
]

Batches = AsyncGenerator[list[Chunk], None]


def run_chain(run: RunState, chain: Chain, args: HookArgs[Any], apply: Apply) -> Phase:
    """A chain at work; what its hooks write is yielded at once when they may write meanwhile."""
    return phase_of(run, fold(run, chain, args, apply), writes=chain.writes)


def choose(run: RunState, step: Step) -> Phase:
    """`process_input_step`, then `prepare_step`: what this step asks, and of whom (R-043)."""
    step.choices = step_args(run, step)
    return run_chain(run, run.step_chain, step.choices, apply_step)


async def fetch_files(_run: RunState, step: Step) -> None:
    """Files behind URLs that the model cannot fetch are fetched and sent along (R-362)."""
    supported = getattr(step.model, "supported_urls", None)
    try:
        step.prompt = await resolve_files(step.prompt, supported)
    except Exception as error:
        step.asked = True
        raise ModelFailure(error) from error


def request(run: RunState, step: Step) -> Phase:
    """`process_llm_request`: another prompt, or a response that stands in for the call (R-045)."""
    args = run.args(ProcessLLMRequestArgs)
    args.model, args.step_number, args.steps = step.model, step.number, list(run.steps)
    args.tools = step.usable_tools()
    args.response_format = response_format(step.structured_output)
    args.renew = lambda: setattr(args, "prompt", copied(step.prompt))

    def apply(_run: RunState, link: Link, _args: Any, returned: Any) -> None:
        result = read_request(link, returned)
        if isinstance(result.prompt, list | tuple) or result.prompt:
            step.prompt = checked_prompt(link, result.prompt)
        if result.response and step.replay is None:  # the first response wins
            step.use(*cached_response(link, result.response))
            run.warnings = step.warnings

    return run_chain(run, run.pipeline.process_llm_request, args, apply)


def response(run: RunState, step: Step) -> Phase:
    """`process_llm_response`: the response is complete (R-050)."""
    args = run.args(ProcessLLMResponseArgs)
    args.message_list = ABSENT
    args.chunks = step.cacheable()
    args.model, args.step_number = step.model, step.number
    args.steps = [*run.steps, step.result(run, step.answer.text())]
    args.from_cache, args.warnings = step.from_cache, step.warnings
    args.request, args.raw_response = step.request_info, step.raw_response
    args.on_tool_result = step.result_listeners.append
    return run_chain(run, run.pipeline.process_llm_response, args, apply_nothing)


def review(run: RunState, step: Step) -> Phase:
    """`process_output_step`: the last word on a response before its tools run (R-051)."""
    answer = step.answer
    args = run.args(ProcessOutputStepArgs)
    args.step_number, args.text = step.number, answer.text()
    args.finish_reason, args.usage = answer.finish_reason, answer.usage
    args.provider_metadata = answer.provider_metadata
    args.tool_calls = step.calls()
    args.make_steps = lambda: _with_current(run, step)
    return run_chain(run, run.pipeline.process_output_step, args, apply_messages)


def _with_current(run: RunState, step: Step) -> list[StepResult]:
    if step.answer.finish_reason == "content-filter":
        return list(run.steps)
    return [*run.steps, step.result(run, step.answer.text())]


async def ask_for_retry(run: RunState, step: Step, error: Exception) -> Batches:
    """`process_api_error`: the first processor that wants another call is the last one asked.

    `step.wants_retry` says what came of it: whether it was granted. An exception in a hook counts
    as "no" (R-117).
    """
    args = run.args(ProcessAPIErrorArgs)
    args.error, args.step_number, args.steps = error, step.number, list(run.steps)
    args.retry_count = run.api_retry_count

    def apply(_run: RunState, link: Link, _args: Any, returned: Any) -> None:
        step.wants_retry = wants_retry(link, returned)

    writes = run.pipeline.process_api_error.writes
    for link in error_links(run):
        args.may_retry = may_grant(run, link)
        try:
            single = Chain.single(link, writes=writes or link.may_write)
            async with aclosing(batches(run, run_chain(run, single, args, apply))) as written:
                async for batch in written:
                    yield batch
        except Exception as problem:
            run.log_declined(link, problem)
        if step.wants_retry:
            step.wants_retry = grant(run, link)
            return


def finish_hooks(run: RunState) -> Phase:
    """`process_output_result`: once, when the loop is over (R-056)."""
    args = run.args(ProcessOutputResultArgs)
    args.show = run.response_shown
    args.writer = run.outbox.writer_to_client()
    args.result = OutputResult(
        text=run.text,
        usage=run.usage,
        finish_reason=run.finish_reason,
        steps=list(run.all_steps),
    )
    return run_chain(run, run.pipeline.process_output_result, args, apply_messages)
