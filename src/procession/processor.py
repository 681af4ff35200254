"""The processor contract: nine hooks, what each is told, what each may return.

A processor is any object with an `id` and at least one hook (R-001, R-006). No base class is
needed; `Processor` is there for those who like their attributes declared, and `processor(...)`
makes one from functions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Never,
    Protocol,
    cast,
)

from msgspec import Struct

from .errors import ConfigurationError, KindError
from .hook_args import (
    ABSENT,
    CachedLLMStepChunk,
    HookArgs,
    M,
    ProcessAPIErrorArgs,
    ProcessInputArgs,
    ProcessInputStepArgs,
    ProcessLLMRequestArgs,
    ProcessLLMResponseArgs,
    ProcessorStreamWriter,
    ProcessOutputResultArgs,
    ProcessOutputStepArgs,
    ProcessOutputStreamArgs,
    ProcessToolResultArgs,
    SystemMessage,
    ToolCallInfo,
)
from .hook_functions import check_names, near_name, takes_one
from .hook_results import (
    CachedLLMStepResponse,
    InputResult,
    ProcessAPIErrorResult,
    ProcessInputResult,
    ProcessInputStepResult,
    ProcessLLMRequestResult,
    ProcessLLMResponseResult,
    ProcessorMessageResult,
    ProcessOutputStepResult,
    ProcessOutputStreamResult,
)
from .policy import Policy, policy_of

if TYPE_CHECKING:
    from .ending import RunEnded
    from .hold.piece import LaneKind, Watch
    from .hook_results import ErrorReturn, RequestReturn, StepReturn

__all__ = [
    "ABSENT",
    "CachedLLMStepChunk",
    "CachedLLMStepResponse",
    "HookArgs",
    "InputResult",
    "M",
    "ProcessAPIErrorArgs",
    "ProcessAPIErrorResult",
    "ProcessInputArgs",
    "ProcessInputResult",
    "ProcessInputStepArgs",
    "ProcessInputStepResult",
    "ProcessLLMRequestArgs",
    "ProcessLLMRequestResult",
    "ProcessLLMResponseArgs",
    "ProcessLLMResponseResult",
    "ProcessOutputResultArgs",
    "ProcessOutputStepArgs",
    "ProcessOutputStepResult",
    "ProcessOutputStreamArgs",
    "ProcessOutputStreamResult",
    "ProcessToolResultArgs",
    "ProcessorMessageResult",
    "ProcessorStreamWriter",
    "SystemMessage",
    "ToolCallInfo",
]

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
_NAMES = frozenset(
    {
        *HOOKS,
        *("on_violation", "policy", "process_data_parts", "watches", "lanes", "only_matches"),
        *("flush", "run_ended", "concurrency", "stands_for"),
    }
)
"""What the engine looks for on a processor, and what a misspelt attribute is compared with."""


class ProcessorViolation(Struct, frozen=True, kw_only=True):
    """What `on_violation` is told: who decided, the reason, and the metadata (R-005, R-184)."""

    processor_id: str
    message: str
    detail: Any = None


class Processor(Generic[M]):
    """A convenient base: the attributes of a processor, declared. It has no hooks of its own.

    A method `run_ended(ending)`, plain or async, is told of the end of each run the processor took
    part in, once, whatever that end is. It is not a hook: see `procession.ending`.

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
    policy: Policy | None = None
    """What failures and delays of this processor mean; see `Policy`."""
    watches: Watch | Sequence[Watch] = ()
    """What `process_output_stream` looks for: it is handed pieces that cut none of it apart, as
    `args.piece` (B-132 to B-135). See `procession.hold`."""
    lanes: Sequence[LaneKind] = ("text",)
    """Where it is looked for: `text`, `reasoning`, `tool-arguments`."""
    only_matches: bool = False
    """Whether `process_output_stream` does nothing with a piece in which its watches find nothing.
    Then it need not be called for each; see `procession.hold`."""
    concurrency: int = 1
    """For how many pieces `process_output_stream` is called at a time, where it has watches and no
    `flush`, and looks at text and reasoning alone; see `args.turn`. What leaves keeps its order."""
    own_retries: int = 0
    """Retries that this error processor brings along, for itself alone, in each call.

    They are granted beyond `max_processor_retries`, unless that was set to 0 (R-214, R-220).
    """


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
    ) -> ProcessOutputStreamResult | Awaitable[ProcessOutputStreamResult]: ...


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


class HasRunEnded(_Named, Protocol):
    """Has `run_ended`."""

    def run_ended(self, ending: RunEnded, /) -> object: ...


class StandsFor(_Named, Protocol):
    """Is no processor itself, but takes the place of several, as a workflow does (R-024).

    `stands_for(hook)` gives those that are called in its place, in order; `hook` is the name of one
    of the nine, or `run_ended`. It is asked when a list is compiled.
    """

    def stands_for(self, hook: str, /) -> Sequence[Any]: ...


InputProcessor = (
    HasProcessInput[Any]
    | HasProcessInputStep[Any]
    | HasProcessLLMRequest[Any]
    | HasProcessLLMResponse[Any]
    | HasRunEnded
    | StandsFor
)
"""What may stand in `input_processors`: at least one input hook (R-009), or `run_ended`; or what
stands for processors."""

OutputProcessor = (
    HasProcessOutputStream[Any]
    | HasProcessOutputStep[Any]
    | HasProcessToolResult[Any]
    | HasProcessOutputResult[Any]
    | HasRunEnded
    | StandsFor
)
"""What may stand in `output_processors`: at least one output hook (R-009), or `run_ended`; or what
stands for processors."""

ErrorProcessor = HasProcessAPIError[Any]
"""What may stand in `error_processors` (R-009)."""


class FunctionProcessor:
    """A processor made of functions by `processor(...)`; hooks that were not given are absent."""

    id: str
    name: str | None = None
    process_data_parts: bool = False
    on_violation: Callable[[ProcessorViolation], object] | None = None
    policy: Policy | None = None
    processor_index: int | None = None
    watches: Watch | Sequence[Watch] = ()
    lanes: Sequence[LaneKind] = ("text",)
    run_ended: Callable[[RunEnded], object] | None = None

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
            self.flush: Callable[[dict[str, Any]], Any]
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
    watches: Watch | Sequence[Watch] = (),
    lanes: Sequence[LaneKind] = ("text",),
    flush: Callable[[dict[str, Any]], Any] | None = None,
    run_ended: Callable[[RunEnded], object] | None = None,
    policy: Policy | None = None,
    **unknown: Never,
) -> FunctionProcessor:
    """A processor from one function (or several): `processor(process_output_stream=shout)`.

    `watches` and `lanes` are those of `Processor`. `flush` is for a stream hook that holds chunks
    back on its own: it is called with the processor's state when the model's stream has ended, and
    the chunk that it returns, if any, goes on from there (B-364). `run_ended` is told of the end of
    each run (`procession.ending`).

    `id` defaults to the name of the first function. Raises `ConfigurationError` when no hook is
    given, when there is no name to take, and for a keyword that is none of these.
    """
    given = locals()
    for name in unknown:
        raise ConfigurationError(f"processor(...) takes no {name!r}{_meant(name)}")
    hooks = {hook: given[hook] for hook in HOOKS if given[hook] is not None}
    if not hooks:
        raise ConfigurationError(f"processor(...) needs at least one hook: {', '.join(HOOKS)}")
    named = id or getattr(next(iter(hooks.values())), "__name__", "")
    if not named or named == "<lambda>":
        raise ConfigurationError("processor(...) needs id=… when its first function has no name")
    made = FunctionProcessor(named, hooks)
    made.process_data_parts = process_data_parts
    made.on_violation = on_violation
    if watches:
        made.watches = watches
    if lanes != FunctionProcessor.lanes:
        made.lanes = lanes
    made.policy = policy
    policy_of(made)
    if flush is not None:
        made.flush = flush
    if run_ended is not None:
        made.run_ended = run_ended
    return made


def _meant(name: str) -> str:
    near = near_name(name, _NAMES)
    return f"; did you mean {near!r}?" if near else f": it takes id, {', '.join(sorted(_NAMES))}"


def _kind(value: Any) -> str:
    return type(value).__name__


def check_processors(entries: Any, where: str) -> list[Any]:
    """The entries as a list; raises `ConfigurationError` for one that is no processor (R-011).

    In `error_processors` nothing stands for others: that is a `KindError` (W-007).
    """
    if isinstance(entries, str | Mapping) or not isinstance(entries, Iterable):
        raise ConfigurationError(f"{where} must be a list of processors, not {_kind(entries)}")
    found: list[Any] = list(cast("Iterable[Any]", entries))
    for position, entry in enumerate(found):
        problem = _why_none(entry)
        if problem is not None:
            raise ConfigurationError(f"{where}[{position}] {problem}")
        if where == "error_processors" and hasattr(entry, "stands_for"):
            raise KindError(
                f"{where}[{position}] ({entry.id!r}) is a {_kind(entry)}: only plain processors "
                f"can stand there. Put processors with process_api_error into the list themselves"
            )
    return found


def in_place(processors: Iterable[Any], hook: str) -> Iterator[tuple[Any, bool]]:
    """The processors that are called for `hook`, in order; with each whether another one stands in
    the list for it.
    """
    for entry in processors:
        standing = getattr(entry, "stands_for", None)
        if standing is None:
            yield entry, False
        else:
            for inner in standing(hook):
                yield inner, True


def _why_none(entry: Any) -> str | None:
    """Why an entry is no processor; raises `ConfigurationError` itself for a misspelt hook."""
    if isinstance(entry, type):
        return f"is the class {entry.__name__}: make an instance of it"
    name = getattr(entry, "id", None)
    if not isinstance(name, str) or not name:
        return f"({_kind(entry)}) needs an id, a text that is not empty"
    check_names(entry, _NAMES)
    if callable(getattr(entry, "stands_for", None)):
        return None
    closer: Any = getattr(entry, "run_ended", None)
    if closer is not None and not (callable(closer) and takes_one(closer)):
        return f"({name!r}) has a run_ended that cannot be called with what it is told of the end"
    if closer is None and not any(callable(getattr(entry, hook, None)) for hook in HOOKS):
        return f"({name!r}) has none of the hooks {', '.join(HOOKS)}"
    own: Any = getattr(entry, "own_retries", 0)
    if type(own) is not int or own < 0:
        return f"({name!r}) has own_retries={own!r:.40}: it must be a whole number, 0 or more"
    many: Any = getattr(entry, "concurrency", 1)
    if getattr(entry, "watches", None) and (type(many) is not int or many < 1):
        return f"({name!r}) has concurrency={many!r:.40}: it must be a whole number, 1 or more"
    problem = _why_not_held(entry)
    return None if problem is None else f"({name!r}) {problem}"


def watches_of(processor: Any) -> tuple[Watch, ...]:
    """What a processor's stream hook looks for; empty for most."""
    watches: Any = getattr(processor, "watches", None)
    if not watches:
        return ()
    return (watches,) if hasattr(watches, "release") else tuple(watches)


def _why_not_held(entry: Any) -> str | None:
    """What is wrong with `watches`, `lanes` or `flush`, if anything is."""
    watches: Any = getattr(entry, "watches", None)
    if not watches and _says(entry, "lanes") and not _says(entry, "watches"):
        return "has lanes but no watches, so nothing is looked for in them: give watches, too"
    if watches:
        if not callable(getattr(entry, "process_output_stream", None)):
            return (
                "has watches but no process_output_stream, the hook that is handed what they hold "
                "back: nothing would look at it"
            )
        if not hasattr(watches, "release") and not isinstance(watches, list | tuple):
            return f"has watches of type {_kind(watches)}: give a watch, or a list of them"
        for watch in watches_of(entry):
            looks = getattr(watch, "look_behind", None)
            if not callable(getattr(watch, "release", None)) or not isinstance(looks, int):
                return (
                    f"has {_kind(watch)} among its watches, which is none: use Literals, Pattern "
                    "or Unit of procession.hold, or an object with look_behind and release"
                )
        lanes: Any = getattr(entry, "lanes", ("text",))
        if not isinstance(lanes, list | tuple) or not lanes or not _LANES.issuperset(lanes):  # pyright: ignore[reportUnknownArgumentType]
            return f"has lanes={lanes!r:.60}: give a list of {', '.join(sorted(_LANES))}"
    flush: Any = getattr(entry, "flush", None)
    if callable(getattr(entry, "process_output_stream", None)) and flush is not None:
        if not callable(flush) or not takes_one(flush):
            return (
                "has a flush that is not the engine's to call: flush(state) returns what "
                "process_output_stream has held back; give another method another name"
            )
    return None


def _says(entry: Any, name: str) -> bool:
    """Whether a processor says something itself, beyond what its base has."""
    own = (kind for kind in type(entry).__mro__ if kind not in (Processor, FunctionProcessor))
    return name in getattr(entry, "__dict__", ()) or any(name in vars(kind) for kind in own)


_LANES = frozenset({"text", "reasoning", "tool-arguments"})
