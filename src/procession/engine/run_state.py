"""Everything that belongs to one run: what was asked for, and how far it has come."""

from __future__ import annotations

import inspect
import logging
from collections import defaultdict
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar, cast

from msgspec.structs import replace

from ..chunks import Chunk, Usage
from ..errors import ProcessorError
from ..logs import log_fields
from ..messages import joined_text
from ..policy.events import note
from ..processor import HookArgs, ToolCallInfo
from ..results import ResponseInfo, StepResult, Tripwire
from ..structured.object_chunk import ObjectChunk
from .answer import put_data_part
from .gate import Gate
from .outbox import TO_CLIENT, Outbox, StreamWriter
from .own_calls import OwnCalls
from .pipeline import verdict_in
from .response import Portion, response_message

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from ..abort_signal import AbortSignal
    from ..errors import TripWire
    from ..message_list import MessageList
    from ..messages import Message
    from ..model import LanguageModel, ModelSettings, ModelSpec, ToolChoice
    from ..request_context import RequestContext
    from ..results import ModelCall
    from ..signals import Signal
    from ..spans import RunObserver
    from ..tools import Tool
    from ..waiting import WaitingCalls
    from .answer import Answer
    from .asking import ResolvedModels
    from .interruption import Interruption
    from .pipeline import Chain, Link, Pipeline
    from .step import Step

__all__ = ["RunState"]

_log = logging.getLogger("procession.engine")

A = TypeVar("A", bound=HookArgs[Any])

DEFAULT_MAX_STEPS = 5


class RunState:
    """The state of one run. The loop writes it, hooks see parts of it, the run handle reads it."""

    # ── what was asked for ──
    run_id: str
    agent_id: str
    message_list: MessageList
    pipeline: Pipeline
    request_context: RequestContext
    model: LanguageModel | ModelSpec | None
    model_is_object: bool
    """Whether `model` has been found to be a model object, not an id or a config."""
    models: ResolvedModels
    """What the specs of the agent's models stand for."""
    tools: dict[str, Tool]
    tool_choice: ToolChoice
    active_tools: list[str] | None
    provider_options: Mapping[str, Any] | None
    model_settings: ModelSettings
    structured_output: Any
    abort_signal: AbortSignal | None
    max_steps: int
    max_retries: int
    retry_budget: int
    stop_when: Sequence[Callable[[list[StepResult]], Any]]
    callbacks: dict[str, Callable[[Any], Any]]
    extensions: Sequence[Any]
    observer: RunObserver | None
    """Who is told of it while it goes on; see `begin_reporting`."""
    tracing_context: Any
    """What hooks are given when the run is traced, or could have been."""
    streaming: bool
    hide_signals: bool | Sequence[str]
    include_raw_chunks: bool
    require_tool_approval: bool | Callable[[ToolCallInfo], Any]
    options: Mapping[str, Any]
    """What the call was given; the processors among it as they were found to be."""
    owner: object
    """The agent: nobody else can continue the run."""
    waiting_calls: WaitingCalls
    """Where the run is kept when it has to wait (R-570)."""
    step_chain: Chain
    """`process_input_step` of the input processors, then `prepare_step` (R-022)."""

    # ── how far it has come ──
    message_id: str
    """Id of the message that the answer goes into; a signal may open a new one (R-717)."""
    outbox: Outbox
    out: list[Chunk]
    """What the next batch will deliver."""
    states: defaultdict[str, dict[str, Any]]
    """Each processor's own, by its id."""
    step_number: int
    retry_count: int
    """Rejected attempts of this run, whoever rejected them (R-182)."""
    api_retry_count: int
    """Those of them that error processors asked for."""
    own_retries: dict[str, int] | None
    """How often error processors were granted a retry of their own, by id (R-220)."""
    forbids_retries: bool
    """Whether the budget was set to none, so that nobody brings one of its own (R-214)."""
    steps: list[StepResult]
    """Accepted steps."""
    all_steps: list[StepResult]
    """Accepted steps and rejected attempts, in time."""
    own_messages: set[str]
    """Ids of the messages that answers of this run went into."""
    portions: list[tuple[StepResult, Portion]]
    """Where each accepted step stands in the response."""
    ids_before: frozenset[str]
    """Response messages that were there before the loop: added by `process_input`."""
    usage: Usage
    halt: BaseException | None
    """What a hook raised about something written: it holds even if the writer makes light of it."""
    hook_error: BaseException | None
    """What a hook raised last, no verdict: it is not the model's mistake."""
    given: TripWire | None
    """The verdict that was given last: it counts even if the run is cut off before its effect."""
    final: bool
    """Whether it ends the run though it asks for a retry, for no hook has given it (R-174)."""
    concluded: bool
    """Whether the loop is over: a verdict covers the whole answer from then on (R-156)."""
    answer: Answer | None
    """The answer under way, if any."""
    tripwire: Tripwire | None
    inbox: list[Signal]
    """Signals from outside of the run, until a step begins, or the run ends."""
    executed: Sequence[Message]
    """What of a blocked run may be stored, if its user asks for it; see `leaving`."""
    error: BaseException | None
    raises: bool
    """Whether awaiting a result raises `error` (a hook failed, R-553)."""
    status: str
    finish_reason: str | None
    text: str
    warnings: list[Any]
    step: Step | None
    """The attempt under way, or the last one."""
    object_result: Chunk | None
    """The object of the answer, if one was asked for and has been delivered (R-564)."""
    policy_events: dict[tuple[Any, ...], int] | None
    """What policies did, each with how often; see `procession.policy`."""
    processor_usage: Usage
    own_calls: OwnCalls | None
    """The calls of models that processors have made themselves."""
    """Tokens that processors have spent on models of their own."""
    saved_system: Any
    in_loop: bool
    between_steps: bool
    """Whether `process_input_step` is running: a signal then opens a new message (R-717)."""
    interruption: Interruption
    blocked: TripWire | None
    """The verdict of `process_input`, if there was one."""
    on_release: Callable[[], None] | None
    settled: bool
    parted: bool
    """Whether the closing chunk has been given out."""
    _counted: bool
    _response: ResponseInfo | None
    _gate: Gate | None
    _writer: StreamWriter | None

    # Every run makes one of these: slots cost a fifth of as many entries of a dict.
    __slots__ = (*__annotations__, "__weakref__")

    def __init__(self, message_list: MessageList, request_context: RequestContext) -> None:
        self.message_list = message_list
        self.request_context = request_context
        self.tool_choice = "auto"
        self.active_tools = self.provider_options = None
        self.structured_output = self.abort_signal = self.observer = self.tracing_context = None
        self.max_steps = DEFAULT_MAX_STEPS
        self.max_retries = self.retry_budget = 0
        self.stop_when = self.extensions = self.executed = ()
        self.callbacks, self.model_settings = {}, {}
        self.streaming = self.hide_signals = self.include_raw_chunks = False
        self.require_tool_approval = False
        self.outbox = Outbox(self)
        self.out = []
        self.states = defaultdict(dict)
        self.object_result, self.processor_usage = None, Usage()
        self.policy_events = self.own_calls = None
        self.step_number = self.retry_count = self.api_retry_count = 0
        self.steps, self.all_steps, self.portions, self.warnings = [], [], [], []
        self.own_messages = set()
        self.inbox = []
        self.ids_before = frozenset()
        self.usage = Usage()
        self.halt = self.given = self.blocked = self.hook_error = self.own_retries = None
        self.answer = self.tripwire = self.error = None
        self.final = self.concluded = self.parted = self.forbids_retries = False
        self.raises = self.in_loop = self.between_steps = self.settled = self._counted = False
        self.status = "running"
        self.finish_reason = self.step = self.saved_system = self.on_release = None
        self.text = ""
        self._response = self._gate = self._writer = None

    # ── waiting ────────────────────────────────────────────────────────────────────────────────

    def in_hand(self) -> dict[str, Any]:
        """What a run that waits will need to go on (R-571), in lists of its own."""
        return {name: _own(getattr(self, name)) for name in _CARRIED if hasattr(self, name)}

    def take_up(self, in_hand: dict[str, Any]) -> None:
        """Go on with what `in_hand` gave."""
        for name, value in in_hand.items():
            setattr(self, name, _own(value))

    # ── hooks ──────────────────────────────────────────────────────────────────────────────────

    @property
    def gate(self) -> Gate:
        """The run's gate."""
        if self._gate is None:
            self._gate = Gate(self)
        return self._gate

    async def stop_beside(self) -> None:
        """Nothing is at work beside the stream any more when this returns."""
        if self._gate is not None and self._gate.flushes:
            await self._gate.stop()

    def chain_of_stream(self) -> Chain:
        """The processors that stand at the gate."""
        return self.pipeline.process_output_stream

    def args(self, cls: type[A], writer: StreamWriter | None = None) -> A:
        """An argument object of this run; `refill` makes it ready for a processor."""
        args = cls()
        args.message_list = self.message_list
        args.show = self.message_list.shown
        args.retry_count = self.retry_count
        args.retry_budget = self.retry_budget
        args.count_usage = self.count_usage
        args.note_failure = self.note_failure
        args.current_model = self.current_model
        args.max_retries = self.max_retries
        args.request_context = self.request_context
        args.abort_signal = self.abort_signal
        args.run = self
        args.run_id = self.run_id
        args.tracing_context = self.tracing_context
        if writer is None:
            writer = self._writer
            if writer is None:
                writer = self._writer = self.outbox.writer()
        args.writer = writer
        args.send_signal = writer.send_signal
        return args

    def refill(self, args: HookArgs[Any], link: Link) -> None:
        """Make an argument object ready for the next processor of a chain."""
        args.processor_id = name = link.processor_id
        args.state = self.states[name]
        args.shown = args.show()
        args.verdict = None
        if link.name == "process_input_step":
            cast("Any", args).llm_request_stage = not link.is_within

    def current_model(self) -> LanguageModel | None:
        """The model that the agent would ask now; raises what resolving it raises."""
        model: Any = self.model if self.step is None else self.step.model
        if model is None or (model is self.model and self.model_is_object):
            return model
        return self.models.get(model)

    def response_shown(self) -> tuple[list[Message], list[dict[str, Any]]]:
        """What hooks at the end of the run are shown: its response (R-158)."""
        return self.message_list.response_messages(), self.message_list.shown()[1]

    def log_declined(self, link: Link, problem: Exception) -> None:
        """An error processor raised: it counts as one that declined (R-117)."""
        _log.warning(
            "processor %r raised %s in %s; it counts as declined",
            link.processor_id,
            # Our own words say what to mend; those of others may hold what is not for logs.
            problem if isinstance(problem, ProcessorError) else type(problem).__name__,
            link.name,
            extra=log_fields(link.processor_id, self),
        )

    async def call_back(self, name: str, value: Any) -> None:
        """Call one of the caller's callbacks, plain or async, when there is one (R-554).

        What it raises fails the run, as what a hook raises does; a verdict blocks it.
        """
        callback = self.callbacks.get(name)
        if callback is None:
            return
        try:
            returned = callback(value)
            if inspect.isawaitable(returned):
                await returned
        except BaseException as error:
            wire = verdict_in(error)
            if wire is None:
                if isinstance(error, Exception):
                    error.add_note(f"raised in {name}")
                raise
            wire.processor_id = wire.processor_id or name
            wire.reason = wire.reason or f"blocked by {name}"
            self.given, self.final = self.given or wire, True
            raise wire from None

    # ── steps ──────────────────────────────────────────────────────────────────────────────────

    def begin_attempt(self, step: Step) -> None:
        """A step begins: system messages are what they were when the loop began (R-086)."""
        if self.step is None and step.mark:
            self.ids_before = frozenset(marked.message.id for marked in step.mark)
        self.step = step
        self.step_number = step.number
        self.answer = step.answer
        self.object_result = None
        if self.observer is not None:
            self.observer.step_begins(self, step)
        if self.saved_system is None:
            self.saved_system = self.message_list.save_system()
        else:
            self.message_list.restore_system(self.saved_system)

    def untouched_message(self) -> Message | None:
        """The running answer, when nobody but the engine can have had it in hand."""
        if self.pipeline.changes_messages or self.extensions:
            return None
        if any(tool.takes_context for tool in self.tools.values()):
            return None
        return self.message_list.find(self.message_id)

    def label_response(self, step: Step) -> None:
        """Note in the message which model answered (R-305)."""
        message = self.message_list.find(self.message_id)
        if message is not None:
            label = {"modelId": step.model_id, "provider": step.provider}
            known = message.content.metadata
            message.content.metadata = {**known, **label} if known else label

    def accept(self, step: Step, result: StepResult) -> None:
        """A step counts."""
        step.recorded = True
        self.steps.append(result)
        self.all_steps.append(result)
        if step.portion is not None:
            self.portions.append((result, step.portion))
        self.add_usage(result.usage)

    def add_usage(self, usage: Usage) -> None:
        """Tokens of every attempt count (R-183)."""
        self.usage = self.usage + usage if self._counted else usage
        self._counted = True

    @property
    def asks_for_object(self) -> bool:
        """Whether the call, or the step that was made last, asks for structured output."""
        return bool(self.structured_output or (self.step and self.step.structured_output))

    def count_usage(self, usage: Usage, *, model: Any = None) -> None:
        """Tokens of a processor's own model: they stand beside those of the steps (R-508)."""
        self.processor_usage = self.processor_usage + usage
        if model is not None:
            self._known_calls().note(self, usage, model)

    def on_processor_call(self, key: Hashable, tell: Callable[[ModelCall], object]) -> None:
        """Tell of each call of a model that `count_usage` was told of in this run."""
        self._known_calls().listen(key, tell)

    def _known_calls(self) -> OwnCalls:
        if self.own_calls is None:
            self.own_calls = OwnCalls()
        return self.own_calls

    def note_failure(self, processor_id: str, hook: str, action: str, error: str) -> None:
        """A check of a processor's own has failed: told as failures are that policies handle."""
        note(self, processor_id, hook, action=action, kind="error", error=error)

    def disguise_call(self, tool_call_id: str, were: Any, are: Any) -> None:
        """The arguments of a call are shown and stored changed, but the tool runs with its own."""
        if self.answer is not None:
            self.answer.disguise(tool_call_id, were, are)

    def join(self, link: Link) -> None:
        """One more processor, last in the chain of its hook, from now on."""
        self.pipeline = self.pipeline.joined(link)
        if link.name == "process_output_stream" and self._gate is not None:
            self._gate.join(link)

    # ── the end ────────────────────────────────────────────────────────────────────────────────

    def conclude(self) -> None:
        """The loop is over: the run's reason and text, before the last hooks."""
        self.concluded = True
        if self.observer is not None:
            self.observer.loop_ended(self)
        if self.error is None:
            last = self.steps[-1] if self.steps else None
            self.finish_reason = last.finish_reason if last else None
            self.text = "".join(result.text for result in self.steps)
        else:
            self.finish_reason = "error"
            self.text = "".join(result.text for result in self.all_steps if result.accepted)

    def answered(self) -> str:
        """The text of the messages this run has brought about."""
        messages = self.message_list.response_messages()
        return joined_text(m for m in messages if m.id not in self.ids_before)

    def read_back(self, before: str) -> None:
        """Texts follow what `process_output_result` did to the messages (R-155, README 20).

        `before` is what `answered` gave before the hooks ran.
        """
        now = self.answered()
        if now == before:
            return
        self.text = now
        following: Portion | None = None
        for result, portion in reversed(self.portions):
            parts = portion.parts(self.message_list, until=following)
            text = "".join(part.text for part in parts if part.type == "text")
            self.replace_step(result, text=text, content=parts)
            following = portion

    def replace_step(self, result: StepResult, **changes: Any) -> None:
        """Put a changed copy in the place of a step's record: delivered chunks hold the old one."""
        made = replace(result, **changes)
        for steps in (self.steps, self.all_steps):
            for position, known in enumerate(steps):
                if known is result:
                    steps[position] = made

    def response(self) -> ResponseInfo:
        """What is known of the last response, with the run's messages in three forms (R-545)."""
        if self._response is None:
            last = self.all_steps[-1].response if self.all_steps else ResponseInfo()
            views = self.message_list.get.response
            self._response = ResponseInfo(
                id=last.id,
                timestamp=last.timestamp,
                model_id=last.model_id,
                headers=last.headers,
                messages=views.model(),
                db_messages=views.db(),
                ui_messages=views.ui(),
            )
        return self._response

    @property
    def ended(self) -> bool:
        """Whether the run's outcome is known."""
        return self.status != "running"

    def release(self) -> None:
        """Let go of what only a run under way needs; what refers back to the run is among it."""
        if self._gate is not None:
            self._gate.close()
        self._gate = self._writer = None
        self.states.clear()
        self.in_loop = False
        del self.outbox
        if self.on_release is not None:
            self.on_release()

    # ── delivery ───────────────────────────────────────────────────────────────────────────────

    def take_out(self) -> list[Chunk]:
        """What is ready to be delivered; the caller delivers it.

        `out` itself stays the same list: whoever fills it may hold on to it.
        """
        taken = self.out.copy()
        self.out.clear()
        return taken

    async def deliver_written(self, chunk: Chunk, after: int) -> None:
        """Bring a written chunk through the gate, into the message and out (R-198 to R-200)."""
        if not self.in_loop:
            return  # the run has ended: nobody is told any more
        passed: Chunk | None = chunk
        if chunk.type == "tool-output":
            chunk.run_id = self.run_id
        if after != TO_CLIENT and self.pipeline.process_output_stream:
            try:
                passed = await self.gate.through(chunk, after=after)
            except BaseException as error:
                wire = verdict_in(error)
                if wire is not None or isinstance(error, Exception):
                    self.halt = wire or error
                raise
        if passed is not None:
            self.keep(passed)
            self.out.append(passed)
        if self.gate.late:
            await self.gate.let_in()

    @property
    def is_void(self) -> bool:
        """Whether what comes now belongs to an answer of which nothing is kept."""
        return self.status == "tripwire" or (self.step is not None and self.step.taken_back)

    def keep(self, chunk: Chunk) -> None:
        """Store what a written chunk leaves in the message."""
        if chunk.type == "object-result":
            self._keep_object(chunk)
            return
        if not chunk.type.startswith("data-"):
            if self.answer is not None:
                self.answer.add(chunk)
            return
        if chunk.transient is True or self.is_void:
            return
        if self.answer is not None:
            self.answer.add_data(chunk)
        else:
            put_data_part(response_message(self).content.parts, chunk)

    def _keep_object(self, chunk: Chunk) -> None:
        """The object stands in the answer's metadata as well (R-305, R-564)."""
        if self.is_void:
            return
        self.object_result = chunk.own() if isinstance(chunk, ObjectChunk) else chunk
        content = response_message(self).content
        metadata = {**(content.metadata or {}), "structuredOutput": chunk.to_json().get("object")}
        if metadata["structuredOutput"] is None:
            del metadata["structuredOutput"]
        content.metadata = metadata


def _own(value: Any) -> Any:
    """A list, a set or a dict of one's own; what stands in it is shared."""
    return copy(cast("Any", value)) if isinstance(value, list | set | dict) else value


_OF_ONE_STREAM = frozenset(
    {
        "_gate",
        "_response",
        "_writer",
        "answer",
        "between_steps",
        "blocked",
        "error",
        "executed",
        "extensions",
        "finish_reason",
        "final",
        "given",
        "halt",
        "hook_error",
        "in_loop",
        "inbox",
        "interruption",
        "on_release",
        "out",
        "outbox",
        "parted",
        "pipeline",
        "raises",
        "retry_budget",
        "settled",
        "status",
        "step",
        "step_chain",
        "streaming",
        "text",
        "tracing_context",
        "tripwire",
        "__weakref__",
    }
)
_CARRIED = tuple(name for name in RunState.__slots__ if name not in _OF_ONE_STREAM)
"""What a run still has when it goes on after it has waited."""
