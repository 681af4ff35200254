"""Processor steps in a run of a workflow's own: tried out by hand, with messages as JSON data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from ..chunks import Chunk
from ..engine.asking import ResolvedModels
from ..engine.pipeline import NO_PROCESSORS
from ..engine.run_state import RunState
from ..ids import new_id
from ..message_list import MessageList
from ..messages import Message
from ..waiting import WaitingCalls
from .hosting import HookHost
from .phases import INPUT, OUTPUT_STREAM, PHASES, Phase
from .step_gate import StepGate
from .values import StepValue, as_part, chunks_in, forked, set_args, with_list

if TYPE_CHECKING:
    from ..abort_signal import AbortSignal
    from ..engine.interruption import Interruption
    from ..request_context import RequestContext
    from .journal import Journal
    from .steps import Step

__all__ = ["RunHost"]


class RunHost:
    """Calls processor steps without an agent; each processor has one state for the whole run."""

    def __init__(
        self,
        run_id: str,
        context: RequestContext,
        interruption: Interruption,
        signal: AbortSignal,
        journal: Journal,
    ) -> None:
        run = self._run = RunState(MessageList(), context)
        run.run_id, run.message_id, run.agent_id = run_id, new_id(), ""
        run.pipeline, run.interruption, run.abort_signal = NO_PROCESSORS, interruption, signal
        run.model, run.model_is_object, run.models = None, False, ResolvedModels(None)
        run.tools, run.options, run.waiting_calls = {}, {}, WaitingCalls()
        self._journal = journal

    def fork(self, value: Any) -> Any:
        """The value with messages of its own."""
        phase = PHASES[value["phase"]]
        return forked(phase, value, lambda: _list_of(phase, value))

    async def call(self, step: Step, value: Any, path: tuple[str, ...]) -> Any:
        """What the processor's hook of the value's phase makes of it."""
        phase = PHASES[value["phase"]]
        link = step.link(phase.hook)
        if link is None:
            return value
        if phase.name == OUTPUT_STREAM:
            return await self._chunk(step, link, value)
        if value.get("message_list") is None:
            value = with_list(phase, StepValue(value), _list_of(phase, value))
        args = self._run.args(phase.args)
        writer: Any = self._journal.writer(step)
        args.writer = None if phase.name == INPUT else writer
        args.send_signal = writer.send_signal
        set_args(phase, args, value)
        return await HookHost(phase, args, keeps=True).call(step, value, path)

    async def _chunk(self, step: Step, link: Any, value: Any) -> Any:
        """One chunk alone: nothing follows, so all that is kept leaves."""
        part: Any = value.get("part")
        given = StepValue(value)
        if isinstance(part, Mapping):
            given["part"] = Chunk.from_json(dict(cast("Mapping[str, Any]", part)))
        given.make_list = MessageList
        gate = StepGate(self._run, link, self._journal.writer(step), 0)
        made = await gate.offer(given)
        made["part"] = as_part([*chunks_in(made), *await gate.let_go(due=False)])
        return made


def _list_of(phase: Phase, value: Mapping[str, Any]) -> MessageList:
    """A list of the messages in a value, which may be JSON data."""
    known = value.get("message_list")
    if isinstance(known, MessageList):
        return known
    made = MessageList()
    for entry in value.get("messages") or ():
        message: Any = entry
        if isinstance(entry, Mapping):
            form = dict(cast("Mapping[str, Any]", entry))
            message = Message.from_json(form) if isinstance(form.get("content"), dict) else form
        answered = getattr(message, "role", None) == "assistant" and phase.hook.startswith(
            ("process_output", "process_tool")
        )
        made.add(message, "response" if answered else "input")
    made.add_system(list(value.get("system_messages") or ()))
    return made
