"""Opening a run: everything is resolved once, the message list is filled, `process_input` runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakSet

from ..errors import InputError, TripWire
from ..extension import Opening
from ..ids import new_id
from ..logs import log_fields
from ..message_list import MessageList
from ..options import (
    CALLBACKS,
    ContinueOptions,
    RequestScope,
    check_options,
    count,
)
from ..processor import ProcessInputArgs, processor
from ..request_context import MASTRA_RESOURCE_ID_KEY, MASTRA_THREAD_ID_KEY, RequestContext
from ..run import Run
from ..tools import tool_map
from ..waiting import fingerprint
from .assembling import (
    LISTS,
    arounds_of,
    combined,
    extensions_of,
    identity,
    own_lists,
    resolved,
)
from .choices import chosen_by_hooks, step_args
from .closing import block, blocked_in_input, settle
from .compiled import compile_lists
from .interruption import Interrupted, Interruption
from .loop import Loop
from .pipeline import NO_PROCESSORS, Chain, Link, Pipeline, fold, verdict_in
from .reporting import begin_reporting
from .response import find_call
from .returns import apply_messages, apply_step
from .run_state import RunState
from .suspending import mark_allowed
from .together import begin_recording
from .waiting_form import kept_from_form

if TYPE_CHECKING:
    from ..abort_signal import AbortSignal
    from ..agent import Agent
    from ..waiting import Decision, Waiting
    from .step import Step

__all__ = ["continue_run", "open_run"]

_log = logging.getLogger("procession.engine")

DEFAULT_ERROR_RETRIES = 10
_LISTED = frozenset(LISTS)
_TAKEN = frozenset(
    {
        "abort_signal",
        "hide_signals",
        "include_raw_chunks",
        "max_retries",
        "max_steps",
        "observer",
        "provider_options",
        "require_tool_approval",
        "structured_output",
        "tool_choice",
    }
)
"""The options that a run has under the same name."""


async def open_run(agent: Agent, given: Any, options: Mapping[str, Any], *, streaming: bool) -> Run:
    """Start a run; it has gone as far as `process_input` when this returns (R-039, R-040)."""
    check_options(options)
    context, thread, resource = identity(options)
    # A resource alone names no conversation: its id stays in the request context.
    run = RunState(MessageList(thread, resource if thread else None), context)
    run.owner, run.agent_id = agent, agent.id
    run.run_id = options.get("run_id") or new_id()
    run.message_id = new_id()
    run.streaming = streaming
    run.max_retries = agent.max_retries
    run.models = agent.models
    run.observer = cast("Any", agent.listener)  # as it was given, until `begin_reporting`
    run.options = options
    run.waiting_calls = agent.waiting_calls
    run.pipeline = NO_PROCESSORS
    _take_options(run, options)
    begin_reporting(run, options)
    recordings = begin_recording(agent, run, options)
    run.interruption = Interruption(run.abort_signal)
    try:
        await _model_and_tools(agent, run)
        extensions = await extensions_of(agent, RequestScope(run.request_context))
        run.extensions = (*extensions, *recordings)
        await _set_up(agent, run, options)
        _check_memory(agent, run, options.get("memory"))
        await _fill(agent, run, given, options)
        if run.abort_signal is not None:
            _listen_to_signal(run, run.abort_signal)
        if run.pipeline.process_input:
            await _process_input(run)
    except BaseException as error:
        given = verdict_in(error)  # of a function of the request, or of an extension
        wire = given or run.given  # else: cancelled while `on_violation` was told of it
        if wire is not None:
            blocked_in_input(run, wire)
        else:
            run.status = "failed"
        if given is None:
            await settle(run)  # what an extension has begun, it is told the end of
            raise
    return Run(Loop(run))


async def continue_run(
    agent: Agent,
    run_id: str,
    tool_call_id: str | None,
    decide: Callable[[Waiting], Decision],
    options: Mapping[str, Any],
    *,
    streaming: bool,
) -> Run:
    """Go on with a run that waits: one of its calls has been decided (R-571).

    `process_input` does not run again: the run is where it was. Raises `InputError` when no such
    call waits, or when its arguments are no longer those that were shown.
    """
    check_options(options, known=ContinueOptions)
    room = agent.waiting_calls
    kept, tool_call_id = await room.find(
        agent, run_id, tool_call_id, lambda form: kept_from_form(form, agent, options)
    )
    held = kept.step.waiting[tool_call_id]
    decision = decide(held)
    run = RunState(kept.carried["message_list"], kept.carried["request_context"])
    run.take_up(kept.carried)
    if kept.tool_names is not None:
        await _take_over(agent, run)
        _check_tool(agent, run, held, kept.tool_names)
    part = find_call(run, tool_call_id)
    if decision.allowed and (part is None or fingerprint(part.tool_invocation.args) != held.shown):
        raise InputError(
            f"the arguments of tool call {tool_call_id!r} have changed since they were shown, so "
            f"nobody has approved them: decline the call"
        )
    _bring_context(run, options.get("request_context"))
    _take_options(run, options)
    if run.abort_signal is not None and run.abort_signal.aborted:
        raise InputError(
            f"the abort signal of run {run_id!r} has fired already, so nothing would be done: "
            f"decide the call with another abort_signal, or with abort_signal=None"
        )
    await room.take(kept)
    begin_reporting(run, options)
    recordings = begin_recording(agent, run, options)
    run.streaming = streaming
    run.pipeline = NO_PROCESSORS
    run.interruption = Interruption(run.abort_signal)
    try:
        extensions = await extensions_of(agent, RequestScope(run.request_context))
        run.extensions = (*extensions, *recordings)
        await _set_up(agent, run, run.options, continues=True)
        run.gate.seen.extend(kept.seen)
        step: Step = kept.step.continued(tool_call_id, decision)
        run.step, run.step_number = step, step.number
        if kept.tool_names is not None:
            await _outfit(run, step, kept.tool_names)
    except BaseException as error:
        wire = verdict_in(error)
        if wire is not None and run.step is not None:  # of a hook that was asked again
            run.blocked = wire
            block(run, run.step, wire)
            return Run(Loop(run))
        with suppress(InputError):  # another run has taken its place meanwhile
            await room.keep(kept, until=kept.until)  # nothing of the call has begun
        run.status = "failed"
        await settle(run)
        raise
    if part is not None and decision.allowed:
        mark_allowed(part.tool_invocation)
    if run.abort_signal is not None:
        _listen_to_signal(run, run.abort_signal)
    return Run(Loop(run))


def _bring_context(run: RunState, given: Any) -> None:
    """What the request that goes on with a run has to say; not whose conversation it is."""
    if not given:
        return
    context = run.request_context
    for key, value in RequestContext(
        given.all if isinstance(given, RequestContext) else given
    ).entries():
        if key in (MASTRA_THREAD_ID_KEY, MASTRA_RESOURCE_ID_KEY):
            if value != context.get(key):
                raise InputError(
                    f"run {run.run_id!r} belongs to another conversation than request_context "
                    f"names under {key!r}, so nothing was decided"
                )
            continue
        context.set(key, value)


async def _take_over(agent: Agent, run: RunState) -> None:
    """A run that another process has begun: model, tools and the rest are those of the agent."""
    run.max_retries, run.models = agent.max_retries, agent.models
    run.observer = cast("Any", agent.listener)  # as above
    run.waiting_calls = agent.waiting_calls
    _take_options(run, run.options)
    await _model_and_tools(agent, run)


def _check_tool(agent: Agent, run: RunState, held: Waiting, tool_names: Collection[str]) -> None:
    """Refuse a decision here when nobody could carry it out, before it is used up.

    A tool that a processor brings is seen only when it is asked; without processors there is none.
    """
    name = held.tool_name
    asked = (agent.input_processors, agent.extensions, agent.memory)
    if name in tool_names and name not in run.tools and not any(asked):
        raise InputError(
            f"agent {agent.id!r} has no tool {name!r} in this process, so the call cannot be run "
            f"here: give the agent the tools it had, or decide the call elsewhere"
        )


async def _outfit(run: RunState, step: Step, tool_names: Collection[str]) -> None:
    """The model and the tools of a step that another process has begun (G-F6).

    Tools that the agent does not have were brought by processors: they are asked again.
    """
    step.model, step.tools = run.model, run.tools
    step.provider_options, step.model_settings = run.provider_options, run.model_settings
    step.structured_output = run.structured_output
    if set(tool_names) <= set(step.tools) or not run.step_chain:
        return
    step.choices = step_args(run, step)
    choice, active = step.tool_choice, step.active_tools
    await fold(run, run.step_chain, step.choices, apply_step)
    chosen_by_hooks(step)
    step.tool_choice, step.active_tools = choice, active


async def _set_up(
    agent: Agent, run: RunState, options: Mapping[str, Any], *, continues: bool = False
) -> None:
    """The processors of a run, and what depends on them."""
    run.pipeline = await _pipeline(agent, run, options, continues=continues)
    _set_budget(agent, run, options)
    run.step_chain = _step_chain(run.pipeline, options.get("prepare_step"))
    if run.include_raw_chunks:
        watching = [link for link in run.pipeline.process_output_stream if link.sought()[0]]
        if watching:
            _tell_raw(", ".join(link.processor_id for link in watching))


def _check_memory(agent: Agent, run: RunState, asked: Mapping[str, Any] | None) -> None:
    """Say once that a conversation was named to an agent that remembers none (M-003).

    A processor with a `storage` may be one of memory's, built by hand (M-045).
    """
    if not asked or not asked.get("thread") or agent.memory is not None or agent in _told:
        return
    if any(hasattr(link.processor, "storage") for link in run.pipeline.process_input):
        return
    _told.add(agent)
    _log.warning(
        "agent %r was called with memory=…, but has no memory: nothing is loaded or kept. Give it "
        "one: Agent(…, memory=Memory(storage=…))",
        agent.id,
        extra=log_fields(run=run),
    )


_told: WeakSet[Agent] = WeakSet()


@lru_cache(maxsize=256)  # told once, not with every call
def _tell_raw(ids: str) -> None:
    """Say that raw chunks undo guards: they hold the text as the provider sent it (G-A)."""
    _log.warning(
        "include_raw_chunks: chunks of type 'raw' hold the answer as the provider sent it, and "
        "what watches the text (%s) does not look into them, so what it takes out or blocks "
        "leaves with them: drop them before a client that must not see it",
        ids,
    )


async def _process_input(run: RunState) -> None:
    args = run.args(ProcessInputArgs)
    args.on_processor_call = run.on_processor_call
    args.writer = None
    try:
        await fold(run, run.pipeline.process_input, args, apply_messages)
    except TripWire as wire:
        blocked_in_input(run, wire)
    except Interrupted:
        pass  # the caller's signal has fired: the loop hears it before anything else


async def _model_and_tools(agent: Agent, run: RunState) -> None:
    """Those of the agent; a function of the request is asked once."""
    run.model, run.model_is_object = agent.fixed_model, agent.fixed_model is not None
    if not run.model_is_object:
        run.model = await resolved(agent.model, RequestScope(run.request_context))
    if agent.fixed_tools is not None:
        run.tools = agent.fixed_tools
    else:
        run.tools = tool_map(await resolved(agent.tools, RequestScope(run.request_context)))


def _take_options(run: RunState, options: Mapping[str, Any]) -> None:
    """What the call was given, checked before, takes the place of what a run has by itself."""
    for name, value in options.items():
        if name in _TAKEN:
            setattr(run, name, value)
        elif name == "model_settings":
            run.model_settings = value or {}
        elif name == "active_tools" and value is not None:
            run.active_tools = list(value)
        elif name in CALLBACKS and value is not None:
            run.callbacks[name] = value
        elif name == "stop_when" and value is not None:
            run.stop_when = [value] if callable(value) else list(value)


async def _pipeline(
    agent: Agent, run: RunState, options: Mapping[str, Any], *, continues: bool
) -> Pipeline:
    """The call's processors, compiled."""
    own = agent.compiled
    if own is not None and not run.extensions and _LISTED.isdisjoint(options):
        return own
    lists = await own_lists(agent, options, RequestScope(run.request_context))
    given = [kind for kind in LISTS if options.get(kind) is not None]
    run.options = {**options, **dict(zip(LISTS, lists, strict=True))}  # should the run wait
    run.options.setdefault("own_lists", given)
    inputs, outputs, errors = lists
    opening = Opening(
        run_id=run.run_id,
        agent_id=agent.id,
        request_context=run.request_context,
        message_list=run.message_list,
        memory=options.get("memory"),
        input_processors=inputs,
        output_processors=outputs,
        continues=continues,
    )
    arounds = await arounds_of(run.extensions, opening)
    for added in arounds:
        if added.tools:
            run.tools = {**added.tools, **run.tools}
    steady = not given and not any(callable(getattr(agent, kind)) for kind in LISTS)
    compiled = agent.pipelines.of if steady else compile_lists
    return compiled(*combined(lists, arounds), own_errors=bool(errors))


def _set_budget(agent: Agent, run: RunState, options: Mapping[str, Any]) -> None:
    """How many retries the call has, for all who may ask for one (R-212 to R-214)."""
    asked = options.get("max_processor_retries")
    if asked is None:
        asked = agent.max_processor_retries
    if asked is None:
        run.retry_budget = DEFAULT_ERROR_RETRIES if run.pipeline.has_error_processors else 0
    else:
        run.retry_budget = count("max_processor_retries", asked)
        run.forbids_retries = not asked
    if run.own_retries:  # of a run that goes on
        run.retry_budget += sum(run.own_retries.values())


def _step_chain(pipeline: Pipeline, prepare: Callable[..., Any] | None) -> Chain:
    if prepare is None:
        return pipeline.process_input_step
    last = Link(processor(id="prepare-step", process_input_step=prepare), "process_input_step")
    return Chain.joined(pipeline.process_input_step, last)


async def _fill(agent: Agent, run: RunState, given: Any, options: Mapping[str, Any]) -> None:
    """Instructions, the caller's system text, context, input (R-039, R-350)."""
    messages, shared = run.message_list, _may_share(run)
    instructions = options.get("instructions", agent.instructions)
    if instructions is not None and not isinstance(instructions, str | Mapping | list):
        instructions = await resolved(instructions, RequestScope(run.request_context))
    _add("instructions", messages.add_system, instructions)
    _add("system", messages.add_system, options.get("system"), "user-provided")
    if "context" in options:
        _add("context", messages.receive, options["context"], "context", shared=shared)
    _add("input", messages.receive, _not_empty(given), "input", shared=shared)


def _add(place: str, add: Callable[..., Any], *given: Any, **how: Any) -> None:
    """Add messages; an error says where these were given."""
    try:
        add(*given, **how)
    except InputError as error:
        raise type(error)(f"{place}: {error}") from None
    except RecursionError:
        raise InputError(f"{place}: a value is nested too deeply, or contains itself") from None


def _not_empty(given: Any) -> Any:
    """The input, which must say something: a list that holds nothing does not."""
    if isinstance(given, Iterator):
        given = list(cast("Iterator[Any]", given))
    if isinstance(given, list | tuple):
        empty = all(entry is None for entry in cast("Sequence[Any]", given))
    else:
        empty = given is None or (isinstance(given, str) and not given)
    if empty:
        raise InputError("the input is empty: give a text, a message, or a list of messages")
    return cast("Any", given)


def _may_share(run: RunState) -> bool:
    """Whether no hook, tool or extension of this run could edit the caller's own messages."""
    messages = run.message_list
    alone = run.pipeline.is_empty and not run.tools and not run.extensions
    return alone and not messages.thread_id and not messages.resource_id


def _listen_to_signal(run: RunState, signal: AbortSignal) -> None:
    """A fired signal wakes the wait for the model, from whatever thread it is fired."""
    events = asyncio.get_running_loop()

    def wake() -> None:
        if not events.is_closed():
            events.call_soon_threadsafe(run.interruption.interrupt)

    run.on_release = signal.add_callback(wake)
