"""The processor contract: nine hooks, what each is told, what each may return.

A processor is any object with an `id` and at least one hook (R-001, R-006). No base class is
needed; `Processor` is there for those who like their attributes declared, and `processor(...)`
makes one from functions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    NoReturn,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
)

from msgspec import UNSET, Struct, UnsetType

from .errors import ConfigurationError, TripWire
from .model import LanguageModel, ModelSettings, Prompt, ToolChoice
from .tools import Tool

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    from .abort_signal import AbortSignal
    from .chunks import Chunk, Usage
    from .message_list import MessageList
    from .messages import Message
    from .request_context import RequestContext
    from .results import OutputResult, StepResult
    from .signals import Signal

    M = TypeVarWithDefault("M", default=Any)
else:
    M = TypeVar("M")

INPUT_HOOKS = (
    "process_input",
    "process_input_step",
    "process_llm_request",
    "process_llm_response",
)
OUTPUT_HOOKS = (
    "process_output_stream",
    "process_output_step",
    "process_tool_result",
    "process_output_result",
)
ERROR_HOOKS = ("process_api_error",)
HOOKS = INPUT_HOOKS + OUTPUT_HOOKS + ERROR_HOOKS

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


class ProcessorViolation(Struct, frozen=True, kw_only=True):
    """What `on_violation` is told: who decided, the reason, and the metadata (R-005, R-184)."""

    processor_id: str
    message: str
    detail: Any = None


class ToolCallInfo(Struct, frozen=True, kw_only=True):
    """A tool call the model made, as hooks see it. `args` is `{}` when its JSON was broken."""

    tool_name: str
    tool_call_id: str
    args: Any


ABSENT: Any = None
"""What does not apply in a hook is there all the same, as `None` (R-008)."""


class HookArgs(Generic[M]):
    """What every hook is told.

    An argument object is valid during the call it was made for: the engine fills it anew for the
    next one. What does not apply is `None`, so reading a documented attribute never fails (R-008).
    For tests of your own hooks, make one with what you need: `ProcessOutputStepArgs(text="")`.
    """

    message_list: MessageList = ABSENT
    """The one message list of the run (R-035)."""
    retry_count: int = 0
    """Attempts already rejected in this call of `generate` or `stream` (R-182)."""
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
    run_id: str = ABSENT
    """The run's id, as on every chunk."""
    processor_id: str | None = ABSENT
    """The id of the processor that is being called."""

    renew: Callable[[], object] | None = ABSENT
    """The engine's: what else is made anew for each processor."""

    shown: tuple[Sequence[Message], Sequence[SystemMessage]] = ((), ())
    """The engine's: messages and system messages when the hook was called; never changed."""
    only_response: ClassVar[bool] = False
    listed: list[Message] | None = None
    system_listed: list[SystemMessage] | None = None

    def __init__(self, **values: Any) -> None:
        for name, value in values.items():
            if name == "messages":
                self.listed = value
            elif name == "system_messages":
                self.system_listed = value
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
        if found is None:
            found = self.listed = sorted(self.shown[0], key=_created_at)
        return found

    @property
    def system_messages(self) -> list[SystemMessage]:
        """All system messages, untagged then tagged, in a list of its own (R-036)."""
        found = self.system_listed
        if found is None:
            found = self.system_listed = [dict(message) for message in self.shown[1]]
        return found

    def handed(self) -> Sequence[Message]:
        """The engine's: the messages the hook was shown, whatever it did to its own list (R-158)."""
        return self.shown[0]

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
        raise TripWire(
            reason or f"blocked by processor {self.processor_id!r}",
            retry=retry,
            metadata=metadata,
            processor_id=self.processor_id,
        )


def _created_at(message: Message) -> Any:
    return message.created_at


class ProcessInputArgs(HookArgs[M]):
    """Arguments of `process_input`, which runs once, before the loop (R-062)."""


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


class ProcessLLMRequestArgs(HookArgs[M]):
    """Arguments of `process_llm_request`, which sees the provider prompt (R-090)."""

    prompt: Prompt = ABSENT
    """A copy of the prompt, yours to change; only a returned prompt counts (R-093)."""
    model: LanguageModel = ABSENT
    """The model that is about to be asked."""
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


class ProcessAPIErrorArgs(HookArgs[M]):
    """Arguments of `process_api_error`, which runs when a model call failed (R-110)."""

    error: Exception = ABSENT
    """The original exception; an `APICallError` when a provider refused (R-236)."""
    step_number: int = 0
    """0-based."""
    steps: list[StepResult] = ABSENT
    """Accepted steps so far."""


class ProcessOutputStreamArgs(HookArgs[M]):
    """Arguments of `process_output_stream`, which sees every chunk (R-120)."""

    part: Chunk = ABSENT
    """The chunk; return it, changed or not, or another one, or `None` to drop it (R-122)."""
    stream_parts: Sequence[Chunk] = ABSENT
    """All chunks of this run so far as they entered the chain, this one included (R-121)."""


class ProcessOutputStepArgs(HookArgs[M]):
    """Arguments of `process_output_step`, which runs before a step's tools (R-134)."""

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
    steps: list[StepResult] = ABSENT
    """Accepted steps and, last, the current one (R-135)."""


class ProcessToolResultArgs(HookArgs[M]):
    """Arguments of `process_tool_result`, which sees each result before anyone else (R-143)."""

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

    only_response = True

    result: OutputResult = ABSENT
    """Text, usage, finish reason and steps of the whole run (R-153)."""


class InputResult(Struct, kw_only=True):
    """Two-part return of `process_input` and `process_output_step` (R-065, R-137)."""

    messages: Sequence[Any]
    system_messages: Sequence[SystemMessage] | None = None


class ProcessInputStepResult(Struct, kw_only=True):
    """Return of `process_input_step`: what is set replaces the value for this step (R-074)."""

    model: LanguageModel | str | UnsetType = UNSET
    tool_choice: ToolChoice | UnsetType = UNSET
    active_tools: Sequence[str] | UnsetType | None = UNSET
    tools: Mapping[str, Tool] | Sequence[Tool] | UnsetType = UNSET
    messages: Sequence[Any] | UnsetType = UNSET
    message_list: Any = UNSET
    system_messages: Sequence[SystemMessage] | UnsetType = UNSET
    provider_options: Mapping[str, Any] | UnsetType | None = UNSET
    model_settings: ModelSettings | UnsetType = UNSET
    structured_output: Any = UNSET


class CachedLLMStepChunk(Struct):
    """A chunk reduced to what a cache keeps."""

    type: str
    payload: dict[str, Any]


class CachedLLMStepResponse(Struct, kw_only=True):
    """A response that stands in for a model call (R-094).

    `chunks` are `{type, payload}` mappings, `CachedLLMStepChunk`s or `Chunk`s.
    """

    chunks: Sequence[Any]
    warnings: list[Any] | None = None
    request: dict[str, Any] | None = None
    raw_response: Any = None


class ProcessLLMRequestResult(Struct, kw_only=True):
    """Return of `process_llm_request`: another prompt, or a response instead of a call."""

    prompt: Prompt | UnsetType = UNSET
    response: CachedLLMStepResponse | Mapping[str, Any] | UnsetType = UNSET


class ProcessAPIErrorResult(Struct, kw_only=True):
    """Return of `process_api_error`: whether to call the model again (R-111)."""

    retry: bool = False


if TYPE_CHECKING:
    ProcessInputResult = list[Message] | MessageList | InputResult | Mapping[str, Any] | None
    ProcessorMessageResult = list[Message] | MessageList | None
    ProcessOutputStepResult = ProcessorMessageResult | InputResult | Mapping[str, Any]
    ProcessLLMResponseResult: TypeAlias = None
    StepReturn = ProcessInputStepResult | Mapping[str, Any] | list[Message] | MessageList | None
    RequestReturn = ProcessLLMRequestResult | Mapping[str, Any] | None
    ErrorReturn = ProcessAPIErrorResult | Mapping[str, bool] | None
else:
    # Names for annotations (R-230); at run time hooks' returns are checked where they arrive.
    ProcessInputResult = ProcessorMessageResult = ProcessOutputStepResult = Any
    ProcessLLMResponseResult = None


class Processor(Generic[M]):
    """A convenient base: the attributes of a processor, declared. It has no hooks of its own.

    The type parameter is the type of the metadata given to `abort` (R-231).
    """

    id: str
    """Names the processor in tripwires, violations, traces and state (R-001)."""
    name: str | None = None
    """For display; `id` is shown where it is missing (R-002)."""
    description: str | None = None
    """Free text."""
    processor_index: int | None = None
    """Position in the combined list; written by the engine (R-003)."""
    process_data_parts: bool = False
    """Whether `process_output_stream` gets `data-…` chunks too (R-004)."""
    on_violation: Callable[[ProcessorViolation], object] | None = None
    """Called for every abort of this processor; plain or async (R-005, R-184)."""


class _Named(Protocol):
    @property
    def id(self) -> str: ...


class HasProcessInput(_Named, Protocol[M]):
    """Has `process_input`."""

    def process_input(
        self, args: ProcessInputArgs[M], /
    ) -> ProcessInputResult | Awaitable[ProcessInputResult]: ...


class HasProcessInputStep(_Named, Protocol[M]):
    """Has `process_input_step`."""

    def process_input_step(
        self, args: ProcessInputStepArgs[M], /
    ) -> StepReturn | Awaitable[StepReturn]: ...


class HasProcessLLMRequest(_Named, Protocol[M]):
    """Has `process_llm_request`."""

    def process_llm_request(
        self, args: ProcessLLMRequestArgs[M], /
    ) -> RequestReturn | Awaitable[RequestReturn]: ...


class HasProcessLLMResponse(_Named, Protocol[M]):
    """Has `process_llm_response`."""

    def process_llm_response(
        self, args: ProcessLLMResponseArgs[M], /
    ) -> Awaitable[None] | None: ...


class HasProcessOutputStream(_Named, Protocol[M]):
    """Has `process_output_stream`."""

    def process_output_stream(
        self, args: ProcessOutputStreamArgs[M], /
    ) -> Chunk | Awaitable[Chunk | None] | None: ...


class HasProcessOutputStep(_Named, Protocol[M]):
    """Has `process_output_step`."""

    def process_output_step(
        self, args: ProcessOutputStepArgs[M], /
    ) -> ProcessOutputStepResult | Awaitable[ProcessOutputStepResult]: ...


class HasProcessToolResult(_Named, Protocol[M]):
    """Has `process_tool_result`."""

    def process_tool_result(
        self, args: ProcessToolResultArgs[M], /
    ) -> ProcessorMessageResult | Awaitable[ProcessorMessageResult]: ...


class HasProcessOutputResult(_Named, Protocol[M]):
    """Has `process_output_result`."""

    def process_output_result(
        self, args: ProcessOutputResultArgs[M], /
    ) -> ProcessorMessageResult | Awaitable[ProcessorMessageResult]: ...


class HasProcessAPIError(_Named, Protocol[M]):
    """Has `process_api_error`."""

    def process_api_error(
        self, args: ProcessAPIErrorArgs[M], /
    ) -> ErrorReturn | Awaitable[ErrorReturn]: ...


InputProcessor = (
    HasProcessInput[Any]
    | HasProcessInputStep[Any]
    | HasProcessLLMRequest[Any]
    | HasProcessLLMResponse[Any]
)
"""What may stand in `input_processors`: at least one input hook (R-009)."""

OutputProcessor = (
    HasProcessOutputStream[Any]
    | HasProcessOutputStep[Any]
    | HasProcessToolResult[Any]
    | HasProcessOutputResult[Any]
)
"""What may stand in `output_processors`: at least one output hook (R-009)."""

ErrorProcessor = HasProcessAPIError[Any]
"""What may stand in `error_processors` (R-009)."""


class FunctionProcessor:
    """A processor made of functions by `processor(...)`; hooks that were not given are absent."""

    id: str
    name: str | None = None
    process_data_parts: bool = False
    on_violation: Callable[[ProcessorViolation], object] | None = None
    processor_index: int | None = None

    def __init__(self, id: str, hooks: Mapping[str, Callable[..., Any]]) -> None:
        self.id = id
        if TYPE_CHECKING:  # declared here, for a checker takes those of a class for methods
            self.process_input: Callable[[ProcessInputArgs], Any]
            self.process_input_step: Callable[[ProcessInputStepArgs], Any]
            self.process_llm_request: Callable[[ProcessLLMRequestArgs], Any]
            self.process_llm_response: Callable[[ProcessLLMResponseArgs], Any]
            self.process_api_error: Callable[[ProcessAPIErrorArgs], Any]
            self.process_output_stream: Callable[[ProcessOutputStreamArgs], Any]
            self.process_output_step: Callable[[ProcessOutputStepArgs], Any]
            self.process_tool_result: Callable[[ProcessToolResultArgs], Any]
            self.process_output_result: Callable[[ProcessOutputResultArgs], Any]
        for hook, function in hooks.items():
            setattr(self, hook, function)


def processor(
    *,
    id: str | None = None,
    process_input: Callable[[ProcessInputArgs], Any] | None = None,
    process_input_step: Callable[[ProcessInputStepArgs], Any] | None = None,
    process_llm_request: Callable[[ProcessLLMRequestArgs], Any] | None = None,
    process_llm_response: Callable[[ProcessLLMResponseArgs], Any] | None = None,
    process_api_error: Callable[[ProcessAPIErrorArgs], Any] | None = None,
    process_output_stream: Callable[[ProcessOutputStreamArgs], Any] | None = None,
    process_output_step: Callable[[ProcessOutputStepArgs], Any] | None = None,
    process_tool_result: Callable[[ProcessToolResultArgs], Any] | None = None,
    process_output_result: Callable[[ProcessOutputResultArgs], Any] | None = None,
    process_data_parts: bool = False,
    on_violation: Callable[[ProcessorViolation], object] | None = None,
) -> FunctionProcessor:
    """A processor from one function (or several): `processor(process_output_stream=shout)`.

    `id` defaults to the name of the first function. Raises `ConfigurationError` when no hook is
    given, or when there is no name to take.
    """
    given = locals()
    hooks = {hook: given[hook] for hook in HOOKS if given[hook] is not None}
    if not hooks:
        raise ConfigurationError(f"processor(...) needs at least one hook: {', '.join(HOOKS)}")
    named = id or getattr(next(iter(hooks.values())), "__name__", "")
    if not named or named == "<lambda>":
        raise ConfigurationError("processor(...) needs id=… when its first function has no name")
    made = FunctionProcessor(named, hooks)
    made.process_data_parts = process_data_parts
    made.on_violation = on_violation
    return made


def _kind(value: object) -> str:
    return type(value).__name__


def check_processors(entries: Any, where: str) -> list[Any]:
    """The entries as a list; raises `ConfigurationError` for one that is no processor (R-011)."""
    if isinstance(entries, str | Mapping) or not isinstance(entries, Iterable):
        raise ConfigurationError(f"{where} must be a list of processors, not {_kind(entries)}")
    found: list[Any] = list(cast("Iterable[Any]", entries))
    for position, entry in enumerate(found):
        name = getattr(entry, "id", None)
        if isinstance(entry, type):
            problem = f"is the class {entry.__name__}: make an instance of it"
        elif not isinstance(name, str) or not name:
            problem = f"({_kind(entry)}) needs an id, a text that is not empty"
        elif not any(callable(getattr(entry, hook, None)) for hook in HOOKS):
            problem = f"({name!r}) has none of the hooks {', '.join(HOOKS)}"
        else:
            continue
        raise ConfigurationError(f"{where}[{position}] {problem}")
    return found
