"""What hooks are told: one argument object for each of the nine."""

from __future__ import annotations

from copy import copy
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeVar

from msgspec import Struct

from .errors import ConfigurationError, InputError, TripWire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence

    from typing_extensions import TypeVar as TypeVarWithDefault

    from .abort_signal import AbortSignal
    from .chunks import Chunk, Usage
    from .hold.piece import Piece
    from .message_list import MessageList
    from .messages import Message
    from .model import LanguageModel, ModelSettings, Prompt, ToolChoice
    from .request_context import RequestContext
    from .results import ModelCall, OutputResult, StepResult
    from .signals import Signal
    from .tools import Tool

    M = TypeVarWithDefault("M", default=Any)
else:
    M = TypeVar("M")

SystemMessage = dict[str, Any]
"""`{"role": "system", "content": str, "providerOptions"?: …}` (R-351)."""


class ProcessorStreamWriter(Protocol):
    """How a hook talks to the client while the run goes on (R-195)."""

    async def custom(
        self, chunk: Chunk | Mapping[str, Any], options: Mapping[str, Any] | None = None
    ) -> None:
        """Deliver a chunk whose type begins with `data-`; another type raises `InputError`.

        `transient: true` on the chunk keeps it out of storage (R-201).
        """
        ...

    async def object(
        self, value: Any, *, final: bool = False, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Deliver an `object` chunk; `final`: the `object-result`, which the run's `object` is."""
        ...


class CachedLLMStepChunk(Struct):
    """A chunk reduced to what a cache keeps."""

    type: str
    payload: dict[str, Any]


class ToolCallInfo(Struct, frozen=True, kw_only=True):
    """A tool call the model made, as hooks see it. `args` is `{}` when its JSON was broken."""

    tool_name: str
    tool_call_id: str
    args: Any


_TEXT_OF = {
    "text-delta": "text",
    "reasoning-delta": "text",
    "tool-call-delta": "args_text_delta",
}
"""Where the pieces of a block have their text."""

ABSENT: Any = None
"""What does not apply in a hook is there all the same, as `None` (R-008)."""


class CountUsage(Protocol):
    """How tokens of a processor's own model are counted."""

    def __call__(self, usage: Usage, /, *, model: Any = None) -> None:
        """Count the tokens of a call that is over; `model` has `provider` and `model_id`."""
        ...


class HookArgs(Generic[M]):
    """What every hook is told.

    An argument object is valid during the call it was made for: the engine fills it anew for the
    next one. What does not apply is `None`, so reading a documented attribute never fails (R-008).
    For tests of your own hooks, `procession.testing.hook_args` makes one with everything in place.
    """

    message_list: MessageList = ABSENT
    """The one message list of the run (R-035)."""
    retry_count: int = 0
    """Attempts already rejected in this call of `generate` or `stream` (R-182)."""
    retry_budget: int = 0
    """How many attempts of this call may be rejected in all (R-212)."""
    request_context: RequestContext = ABSENT
    """The request's own values (R-029)."""
    state: dict[str, Any] = ABSENT
    """This processor's dict, the same in all hooks of the run (R-191 to R-193)."""
    abort_signal: AbortSignal | None = ABSENT
    """The caller's wish to stop, when there is a signal (R-032)."""
    tracing_context: Any = ABSENT
    """Set when tracing is active (R-028)."""
    writer: ProcessorStreamWriter | None = ABSENT
    """For data chunks; `None` in `process_input` (R-031, R-203)."""
    send_signal: Callable[..., Awaitable[Signal]] | None = ABSENT
    """`await send_signal({"type": "reactive", "contents": …})` adds a reminder (R-713)."""
    count_usage: CountUsage = ABSENT
    """`count_usage(usage, model=…)` counts tokens spent on a model of the processor's own, in
    `processor_usage`, and where calls are listened to (`on_processor_call`) if the model is told:
    an object with `provider` and `model_id`."""
    take_turn: Callable[[], Awaitable[None]] = ABSENT
    """The engine's: how `turn` waits."""
    note_failure: Callable[[str, str, str, str], None] = ABSENT
    """The engine's: `note_failure(processor_id, hook, action, error)` tells in `policy_events` of a
    check that a processor could not make, and what it has done instead (B-025)."""
    current_model: Callable[[], LanguageModel | None] = ABSENT
    """The engine's: the model that the agent would ask now, for processors that ask one themselves
    (B-021)."""
    max_retries: int = 0
    """The engine's: how often a failed call of a model is made again (R-216)."""
    run: Any = ABSENT
    """The engine's: the run, for what stands for several processors (`stands_for`)."""
    run_id: str = ABSENT
    """The run's id, as on every chunk."""
    processor_id: str | None = ABSENT
    """The id of the processor that is being called."""

    fixed: tuple[str, ...] = ()
    """The engine's: attributes that look as if assigning to them changed something."""
    instead: str = ""
    """The engine's: what to do instead."""
    pick_fixed: Callable[[Any], tuple[Any, ...]] | None = None
    """The engine's: the values of these attributes, and of the first one again: always a tuple."""
    renew: Callable[[], object] | None = ABSENT
    """The engine's: what else is made anew for each processor."""

    shown: tuple[Sequence[Message], Sequence[SystemMessage]] = ((), ())
    """The engine's: messages and system messages when the hook was called; never changed."""
    verdict: TripWire | None = None
    """The engine's: what `abort` raised in this call. It holds even if the hook swallows it."""
    show: Callable[[], tuple[Sequence[Message], Sequence[SystemMessage]]] = ABSENT
    """The engine's: makes `shown`, anew for each hook."""
    # The lists of a call, each with the `shown` that it was made of: another call makes its own.
    listed: tuple[Any, list[Message]] | None = None
    system_listed: tuple[Any, list[SystemMessage]] | None = None

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if cls.fixed:
            cls.pick_fixed = attrgetter(*cls.fixed, cls.fixed[0])

    def __init__(self, **values: Any) -> None:
        for name, value in values.items():
            if name == "messages":
                self.listed = (self.shown, value)
            elif name == "system_messages":
                self.system_listed = (self.shown, value)
            elif name.startswith("_") or not hasattr(type(self), name):
                raise ConfigurationError(f"{type(self).__name__} has no argument {name!r}")
            else:
                setattr(self, name, value)

    @property
    def messages(self) -> list[Message]:
        """Messages as they were when the hook was called, in a list of its own (R-033).

        The messages are the live ones: editing their parts takes effect. Changing the list itself
        does nothing unless the list is returned.
        """
        found = self.listed
        if found is None or found[0] is not self.shown:
            found = self.listed = self.shown, sorted(self.shown[0], key=_created_at)
        return found[1]

    @property
    def system_messages(self) -> list[SystemMessage]:
        """All system messages, untagged then tagged, in a list of its own (R-036)."""
        found = self.system_listed
        if found is None or found[0] is not self.shown:
            copies = [dict(message) for message in self.shown[1]]
            found = self.system_listed = self.shown, copies
        return found[1]

    def handed(self) -> Sequence[Message]:
        """The engine's: the messages the hook was shown, whatever it did to its list (R-158)."""
        return self.shown[0]

    async def turn(self) -> None:
        """Where the hook is called for several pieces at a time, by its processor's `concurrency`:
        wait until what it was called for before has been decided (B-105).

        What a hook asks of others it asks before, what it does about the answer it does after that:
        reports, verdicts, what it notes in `state`. Else this returns at once.
        """
        if self.take_turn is not ABSENT:
            await self.take_turn()

    def abort(
        self,
        reason: str | None = None,
        options: Mapping[str, Any] | None = None,
        *,
        retry: bool = False,
        metadata: M | None = None,
    ) -> NoReturn:
        """Stop here: raises `TripWire`, never returns (R-025).

        With `retry=True` and budget left the step is tried again, with `reason` as feedback to the
        model (R-173). `metadata` is attached to the tripwire. `options` is the mapping form of the
        two.
        """
        if options:
            retry = bool(options.get("retry", retry))
            metadata = options.get("metadata", metadata)
        wire = TripWire(
            reason or f"blocked by processor {self.processor_id!r}",
            retry=retry,
            metadata=metadata,
            processor_id=self.processor_id,
        )
        if self.verdict is None:
            self.verdict = wire
        raise wire


def _created_at(message: Message) -> Any:
    return message.created_at


class ProcessInputArgs(HookArgs[M]):
    """Arguments of `process_input`, which runs once, before the loop (R-062)."""

    on_processor_call: Callable[[Hashable, Callable[[ModelCall], object]], None] = ABSENT
    """The engine's: `on_processor_call(key, tell)` has `tell(call)` called for each call of a model
    that processors have counted in this run, those before included, but once for each key. `tell`
    is plain, and what it raises counts for nothing."""


class ProcessInputStepArgs(HookArgs[M]):
    """Arguments of `process_input_step`, which runs before each model call (R-071)."""

    step_number: int = 0
    """0-based; a retried step keeps its number (R-180)."""
    steps: list[StepResult] = ABSENT
    """Accepted steps so far (R-073)."""
    model: LanguageModel = ABSENT
    """The model as chosen so far."""
    tool_choice: ToolChoice = ABSENT
    """`"auto"` unless chosen otherwise (R-072)."""
    active_tools: list[str] | None = ABSENT
    """Names of the tools that may be used; `None` means all."""
    tools: dict[str, Tool] = ABSENT
    """All tools by name."""
    provider_options: Mapping[str, Any] | None = ABSENT
    """Options for one provider, keyed by its name."""
    model_settings: ModelSettings = ABSENT
    """Temperature and the like."""
    structured_output: Any = ABSENT
    """The structured output asked for, if any."""
    llm_request_stage: bool = True
    """Whether `process_llm_request` will run in this step: not within a workflow (B-255)."""
    on_processor_call: Callable[[Hashable, Callable[[ModelCall], object]], None] = ABSENT
    """The engine's: `on_processor_call(key, tell)` has `tell(call)` called for each call of a model
    that processors have counted in this run, those before included, but once for each key. `tell`
    is plain, and what it raises counts for nothing."""
    on_model_call: Callable[[Callable[[ModelCall], object]], None] = ABSENT
    """`args.on_model_call(tell)`: `tell(call)` is called for each call that this step makes of a
    model, once it is over, whatever came of it. It is plain, and what it raises counts for nothing.
    """


class ProcessLLMRequestArgs(HookArgs[M]):
    """Arguments of `process_llm_request`, which sees the provider prompt (R-090)."""

    fixed = ("prompt",)
    instead = "return ProcessLLMRequestResult(prompt=…)"

    prompt: Prompt = ABSENT
    """A copy of the prompt, yours to change; only a returned prompt counts (R-093)."""
    model: LanguageModel = ABSENT
    """The model that is about to be asked."""
    tools: Mapping[str, Tool] = ABSENT
    """The tools that are sent along, by name: to read, not to change."""
    response_format: Mapping[str, Any] | None = ABSENT
    """The form of the answer, with its schema, where the model is asked for JSON."""
    step_number: int = 0
    """0-based."""
    steps: list[StepResult] = ABSENT
    """Accepted steps so far."""


class ProcessLLMResponseArgs(HookArgs[M]):
    """Arguments of `process_llm_response`, which runs when a response is complete (R-100)."""

    chunks: list[CachedLLMStepChunk] = ABSENT
    """What the model produced, before any output processor, as `{type, payload}` (R-101)."""
    model: LanguageModel = ABSENT
    """The model that answered."""
    step_number: int = 0
    """0-based."""
    steps: list[StepResult] = ABSENT
    """Accepted steps and, last, the current one (R-102)."""
    from_cache: bool = False
    """Whether the response was replayed (R-096)."""
    warnings: list[Any] = ABSENT
    """The provider's warnings."""
    request: dict[str, Any] | None = ABSENT
    """What was sent, where the model tells."""
    raw_response: Any = ABSENT
    """What came back, where the model tells."""
    on_tool_result: Callable[[Callable[[str, Any], object]], None] = ABSENT
    """`args.on_tool_result(tell)`: `tell(tool_call_id, result)` is called for each tool of this
    step that has returned, with what it returned, before `process_tool_result`. The result is a
    copy. `tell` is plain, and what it raises counts for nothing. Who listens sees what guards may
    take out of the result: it is meant for what goes through those guards again (C-074).
    """


class ProcessAPIErrorArgs(HookArgs[M]):
    """Arguments of `process_api_error`, which runs when a model call failed (R-110)."""

    error: Exception = ABSENT
    """The original exception; an `APICallError` when a provider refused (R-236)."""
    may_retry: bool = True
    """Whether a retry would be granted; if not, the error is final whatever is answered (R-116)."""
    step_number: int = 0
    """0-based."""
    steps: list[StepResult] = ABSENT
    """Accepted steps so far."""


class ProcessOutputStreamArgs(HookArgs[M]):
    """Arguments of `process_output_stream`, which sees every chunk (R-120)."""

    part: Chunk = ABSENT
    """The chunk; return it, changed or not, or another one, or `None` to drop it (R-122).

    A list of chunks takes its place: what was held back goes before the chunk that ends its block.
    """
    stream_parts: Sequence[Chunk] = ABSENT
    """All chunks of this run so far as they entered the chain, this one included (R-121)."""
    piece: Piece | None = ABSENT
    """What `part` holds, for a processor that has `watches`; `None` for a chunk of no lane."""
    set_timer: Callable[[float], None] = ABSENT
    """The engine's: how `flush_within` is heard."""

    def abort(
        self,
        reason: str | None = None,
        options: Mapping[str, Any] | None = None,
        *,
        retry: bool = False,
        metadata: M | None = None,
        passing: Chunk | None = None,
    ) -> NoReturn:
        """Stop here: raises `TripWire`, never returns (R-025).

        `passing` is delivered first: what of `part` is harmless, as `args.with_text(...)`. With
        watches, that is what makes the text before a verdict the same however the answer was cut.
        The processors behind this one see it, and when one of them gives a verdict on it, that one
        counts.
        """
        try:
            super().abort(reason, options, retry=retry, metadata=metadata)
        except TripWire as wire:
            wire.passing = passing
            raise

    def with_text(self, text: str) -> Chunk:
        """A copy of `part` with another text, whatever kind of lane it belongs to.

        In tool arguments that is the plain text of a leaf: it is made JSON again for you. Raises
        `InputError` when `part` is no piece of text, reasoning or tool arguments.
        """
        name = _TEXT_OF.get(self.part.type)
        if name is None:
            raise InputError(f"with_text: a chunk of type {self.part.type!r} has no text")
        made = copy(self.part)
        made.payload = copy(made.payload)
        setattr(made.payload, name, text)
        return made

    def flush_within(self, seconds: float) -> None:
        """Have the processor's `flush(state)` called in so many seconds, while the model is waited
        for, unless it was called before (B-363). The last call counts.

        The model's stream may end first: then `flush` is called at once. Raises
        `ConfigurationError` when the processor has none.
        """
        if self.set_timer is ABSENT:
            raise ConfigurationError(
                f"processor {self.processor_id!r} called flush_within, but has no flush(state)"
            )
        self.set_timer(seconds)

    @property
    def messages(self) -> list[Message]:
        """Messages as they are now, in a list of its own (R-033)."""
        if self.listed is not None or self.message_list is ABSENT:
            return super().messages
        return list(self.message_list.messages())

    @property
    def system_messages(self) -> list[SystemMessage]:
        """All system messages as they are now, in a list of its own (R-036)."""
        if self.system_listed is not None or self.message_list is ABSENT:
            return super().system_messages
        return [dict(message) for message in self.message_list.get_all_system_messages()]


class ProcessOutputStepArgs(HookArgs[M]):
    """Arguments of `process_output_step`, which runs before a step's tools (R-134)."""

    fixed = ("text", "tool_calls")
    instead = "edit the parts of the answer's message in `messages`, or return messages"

    step_number: int = 0
    """0-based."""
    finish_reason: str | None = ABSENT
    """Why the model stopped (R-518)."""
    provider_metadata: Mapping[str, Any] | None = ABSENT
    """What the provider said about its response."""
    tool_calls: list[ToolCallInfo] = ABSENT
    """The calls of this step; empty when there are none."""
    text: str = ""
    """This step's text as the stream processors left it; `""` when there is none (R-235)."""
    usage: Usage = ABSENT
    """This step's tokens."""
    make_steps: Callable[[], list[StepResult]] = ABSENT
    """The engine's: makes `steps`, which few hooks look at."""
    made_steps: list[StepResult] | None = None

    @property
    def steps(self) -> list[StepResult]:
        """Accepted steps and, last, the current one (R-135)."""
        if self.made_steps is None and self.make_steps is not ABSENT:
            self.made_steps = self.make_steps()
        return self.made_steps if self.made_steps is not None else ABSENT

    @steps.setter
    def steps(self, steps: list[StepResult]) -> None:
        self.made_steps = steps


class ProcessToolResultArgs(HookArgs[M]):
    """Arguments of `process_tool_result`, which sees each result before anyone else (R-143)."""

    fixed = ("result",)
    instead = (
        "call message_list.update_tool_invocation({'toolInvocation': "
        "{'toolCallId': args.tool_call_id, 'result': …}}), or return messages"
    )

    step_number: int = 0
    """The step that made the call (R-144)."""
    tool_name: str = ABSENT
    """The tool's name."""
    tool_call_id: str = ABSENT
    """The call's id."""
    args: Any = ABSENT
    """The call's arguments."""
    result: Any = ABSENT
    """What the tool returned; replace it with `message_list.update_tool_invocation` (R-148)."""
    provider_executed: bool | None = ABSENT
    """True when the provider ran the tool."""
    steps: list[StepResult] = ABSENT
    """Accepted steps and, last, the current one."""


class ProcessOutputResultArgs(HookArgs[M]):
    """Arguments of `process_output_result`, which runs once at the end (R-152)."""

    fixed = ("result",)
    instead = "edit the parts of `messages`, or return messages"

    result: OutputResult = ABSENT
    """Text, usage, finish reason and steps of the whole run (R-153)."""
