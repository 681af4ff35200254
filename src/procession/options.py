"""What a call of `generate` or `stream` may be given, and the checks at that boundary."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict, cast

from .errors import ConfigurationError
from .hook_functions import near_name
from .keywords import check_keywords
from .model import ModelSettings
from .records import clean_text
from .request_context import RequestContext
from .structured.options import asked_for

if TYPE_CHECKING:
    from .abort_signal import AbortSignal
    from .chunks import Chunk
    from .model import ToolChoice
    from .output import FullOutput
    from .processor import (
        ErrorProcessor,
        InputProcessor,
        OutputProcessor,
        ProcessInputStepArgs,
        ToolCallInfo,
    )
    from .recording import Recorder
    from .results import StepResult
    from .spans import Observer
    from .structured.options import StructuredOutputOptions
    from .tracing_context import TracingContext

__all__ = [
    "ID",
    "CallOptions",
    "ContinueOptions",
    "Dynamic",
    "RequestScope",
    "check_option",
    "check_options",
    "count",
    "is_id",
]


class RequestScope:
    """What a function of the request is given: an object with `request_context` (R-016)."""

    __slots__ = ("request_context",)

    def __init__(self, request_context: RequestContext) -> None:
        self.request_context = request_context


Dynamic = Callable[[RequestScope], Any]
"""A function of the request, plain or async; it is called once per request."""


class TracingOptions(TypedDict, total=False):
    """How one run is traced (O-056); it says nothing where nobody traces.

    `metadata` and `tags` stand on the root span, `root_span_name` is its name.
    `request_context_keys` names entries of the request context that are recorded. `trace_id` (32
    hexadecimal digits) and `parent_span_id` (16) make the run part of a trace that somebody else
    has begun.
    """

    metadata: Mapping[str, Any]
    request_context_keys: Sequence[str]
    trace_id: str
    parent_span_id: str
    tags: Sequence[str]
    root_span_name: str


class OtherOptions(TypedDict, total=False):
    """The options of one call but for `structured_output`; see `CallOptions`."""

    max_steps: int
    stop_when: (
        Callable[[list[StepResult]], bool | Awaitable[bool]]
        | Sequence[Callable[[list[StepResult]], bool | Awaitable[bool]]]
    )
    tool_choice: ToolChoice
    active_tools: Sequence[str] | None
    model_settings: ModelSettings
    provider_options: Mapping[str, Any] | None
    instructions: Any
    system: Any
    context: Any
    memory: Mapping[str, Any] | None
    request_context: RequestContext | Mapping[str, Any] | None
    abort_signal: AbortSignal | None
    input_processors: Sequence[InputProcessor] | Dynamic
    output_processors: Sequence[OutputProcessor] | Dynamic
    error_processors: Sequence[ErrorProcessor] | Dynamic
    max_processor_retries: int | None
    max_retries: int
    prepare_step: Callable[[ProcessInputStepArgs], Any] | None
    on_step_finish: Callable[[StepResult], object]
    on_finish: Callable[[FullOutput], object]
    on_chunk: Callable[[Chunk], object]
    on_error: Callable[[dict[str, Any]], object]
    on_abort: Callable[[dict[str, Any]], object]
    hide_signals: bool | Sequence[str]
    include_raw_chunks: bool
    require_tool_approval: bool | Callable[[ToolCallInfo], bool | Awaitable[bool]]
    observer: Observer | None
    record: Recorder | None
    tracing_context: TracingContext | None
    tracing_options: TracingOptions | None
    run_id: str


class CallOptions(OtherOptions, total=False):
    """Options of one call; whatever is absent is the agent's own.

    `max_steps` limits accepted steps (default 5). `stop_when` is a condition, or several, on the
    steps so far. The processor lists replace the agent's for this call (R-017).
    `max_processor_retries` is the budget for all retries of the call (R-173). `memory` is
    `{"thread": id or {"id": …}, "resource": id}`. `system` and `context` add system text and
    messages to the agent's. `prepare_step` has the arguments and returns of `process_input_step`
    (R-210). `require_tool_approval` makes every tool call wait until it is approved, or those of
    which a function of their `ToolCallInfo` says so (R-570). `tracing_context`, from a hook,
    makes the run part of that one's trace (O-007). `structured_output={"schema": …}` asks
    for an object of that schema (`StructuredOutputOptions`).

    `record` is what writes the run down (`procession.recording.Recorder`); `None`: nothing does.

    Callbacks may be plain or async (R-554). What one raises fails the run like what a hook raises:
    the last chunk is `error`, `generate` raises it, and nothing is stored. It takes the place of an
    error or a stop that it was told of. A `TripWire` blocks the run: in `on_step_finish` the step
    that was just accepted, in `on_finish` the whole answer; it leads to no other attempt.
    """

    structured_output: StructuredOutputOptions[Any] | None


class ContinueOptions(TypedDict, total=False):
    """What may be chosen anew when a run that waited goes on; the rest stays as it was.

    The abort signal, too: give another one, if that of the first request has fired with its end.
    Entries of `request_context` are set over those the run has; whose conversation it is cannot be
    changed.
    """

    request_context: RequestContext | Mapping[str, Any] | None
    abort_signal: AbortSignal | None
    max_steps: int
    stop_when: (
        Callable[[list[StepResult]], bool | Awaitable[bool]]
        | Sequence[Callable[[list[StepResult]], bool | Awaitable[bool]]]
    )
    require_tool_approval: bool | Callable[[ToolCallInfo], bool | Awaitable[bool]]
    on_step_finish: Callable[[StepResult], object]
    on_finish: Callable[[FullOutput], object]
    on_chunk: Callable[[Chunk], object]
    on_error: Callable[[dict[str, Any]], object]
    on_abort: Callable[[dict[str, Any]], object]
    observer: Observer | None
    record: Recorder | None


CALLBACKS = ("on_step_finish", "on_finish", "on_chunk", "on_error", "on_abort")


_CONVERSATION = ("thread", "resource", "threadid", "resourceid")


def check_options(options: Mapping[str, Any], *, known: type[Any] = CallOptions) -> None:
    """Refuse options that do not exist, with the nearest that does, and those of a wrong kind."""
    for name, value in options.items():
        if name not in known.__annotations__:
            import difflib  # only where a mistake is explained

            near = difflib.get_close_matches(name, known.__annotations__, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            if name in ModelSettings.__annotations__:
                shown = value if isinstance(value, int | float) else "…"
                hint = f"; it is a setting of the model: model_settings={{{name!r}: {shown}}}"
            elif name.lower().replace("_", "") in _CONVERSATION:
                hint = '; a conversation is named with memory={"thread": …, "resource": …}'
            raise ConfigurationError(f"unknown option {name!r}{hint}")
        check_option(name, value)


def check_option(name: str, value: Any) -> None:
    """Refuse a value of the wrong kind by the option's name; the value itself is not shown.

    Raises `ConfigurationError`.
    """
    check = _CHECKS.get(name)
    if check is not None:
        check(name, value)


def count(name: str, value: Any, *, least: int = 0) -> int:
    """A finite whole number of at least `least`; raises `ConfigurationError` (R-214, G6)."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        given = value if isinstance(value, int | float) else type(value).__name__
        raise ConfigurationError(f"{name} must be a whole number, {least} or more; got {given}")
    return value


def is_id(value: Any) -> bool:
    """Whether a value can name an agent, a tool, a run, a thread: a text that every store takes."""
    return isinstance(value, str) and bool(value) and clean_text(value) is value


ID = "a text that is not empty, without NUL or lone surrogates"
"""What `is_id` asks for, in words."""


def _wrong(name: str, kinds: str, value: Any) -> NoReturn:
    raise ConfigurationError(f"{name} must be {kinds}, not {type(value).__name__}")


Check = Callable[[str, Any], object]
"""Raises `ConfigurationError` for a value that the option of that name cannot have."""


def _kind(kinds: str, fits: Callable[[Any], bool], *, optional: bool = True) -> Check:
    """A check that `fits`, worded; an optional value may be `None`."""
    words = f"{kinds}, or None" if optional else kinds

    def check(name: str, value: Any) -> None:
        if not (value is None and optional) and not fits(value):
            _wrong(name, words, value)

    return check


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _are_names(value: Any) -> bool:
    """A collection of texts; a single text is none, though it is a collection of letters."""
    if isinstance(value, str | Mapping) or not isinstance(value, Collection):
        return False
    return all(isinstance(entry, str) for entry in cast("Collection[Any]", value))


def _are_conditions(value: Any) -> bool:
    if callable(value):
        return True
    return isinstance(value, list | tuple) and all(map(callable, cast("Sequence[Any]", value)))


def _are_processors(value: Any) -> bool:
    """A list, or a function of the request; its entries are checked when it is compiled."""
    if isinstance(value, str | Mapping):
        return False
    return callable(value) or isinstance(value, Iterable)


def _check_tool_choice(_name: str, choice: Any) -> None:
    """Refuse a tool choice that no provider knows (R-085, R-528)."""
    if isinstance(choice, str) and choice in ("auto", "none", "required"):
        return
    if isinstance(choice, Mapping):
        named = cast("Mapping[str, Any]", choice)
        if named.get("type") == "tool" and isinstance(named.get("toolName"), str):
            return
    given = repr(choice) if isinstance(choice, str) else f"a {type(cast('Any', choice)).__name__}"
    raise ConfigurationError(
        f"tool_choice cannot be {given[:40]}: use 'auto', 'none', 'required', or "
        f"{{'type': 'tool', 'toolName': name}} for one tool"
    )


def _check_memory(name: str, memory: Any) -> None:
    """The ids in it are checked with those of the request context, which go before them."""
    if memory is None:
        return
    if not isinstance(memory, Mapping):
        _wrong(name, "a mapping with 'thread' and 'resource', or None", memory)


_SETTINGS = frozenset(ModelSettings.__annotations__)
"""Settings by other names are let through: a model of one's own may know them."""


def _check_settings(name: str, settings: Any) -> None:
    if settings is None:
        return
    if not isinstance(settings, Mapping):
        _wrong(name, "a mapping, or None", settings)
    given = cast("Mapping[str, Any]", settings)
    for key in given:
        near = near_name(key, _SETTINGS)
        if near is not None:
            raise ConfigurationError(f"{name}: no setting {key!r}; did you mean {near!r}?")
    if "max_retries" in given:
        count(f"{name}: max_retries", given["max_retries"])


_TRACE_IDS = {"trace_id": 32, "parent_span_id": 16}


def _check_tracing(name: str, asked: Any) -> None:
    if asked is None:
        return
    if not isinstance(asked, Mapping):
        _wrong(name, "a mapping, or None", asked)
    given = cast("Mapping[str, Any]", asked)
    check_keywords(name, given, TracingOptions.__annotations__)
    for key, digits in _TRACE_IDS.items():
        value = given.get(key)
        if value is not None and not (isinstance(value, str) and _is_hex(value, digits)):
            raise ConfigurationError(f"{name}: {key} must be {digits} hexadecimal digits")
    for key in ("tags", "request_context_keys"):
        if given.get(key) is not None and not _are_names(given[key]):
            _wrong(f"{name}: {key}", "a list of texts", given[key])


def _is_hex(value: str, digits: int) -> bool:
    return len(value) == digits and not value.strip("0123456789abcdef") and bool(value.strip("0"))


def _check_structured(_name: str, asked: Any) -> None:
    asked_for(asked)


def _check_steps(name: str, value: Any) -> None:
    count(name, value, least=1)


def _check_budget(name: str, value: Any) -> None:
    if value is not None:
        count(name, value)


_FUNCTION = _kind("a function", callable)
_MAPPING = _kind("a mapping", _is_mapping)
_PROCESSORS = _kind("a list of processors, or a function that gives one", _are_processors)
_CHECKS: dict[str, Check] = {
    "max_steps": _check_steps,
    "max_retries": count,
    "max_processor_retries": _check_budget,
    "stop_when": _kind("a function of the steps, or a list of these", _are_conditions),
    "tool_choice": _check_tool_choice,
    "active_tools": _kind("a list of tool names", _are_names),
    "model_settings": _check_settings,
    "provider_options": _MAPPING,
    "structured_output": _check_structured,
    "memory": _check_memory,
    "request_context": _kind(
        "a RequestContext or a mapping",
        lambda value: isinstance(value, RequestContext | Iterable) and not isinstance(value, str),
    ),
    "abort_signal": _kind(
        "the signal of an AbortController", lambda value: hasattr(value, "add_callback")
    ),
    "input_processors": _PROCESSORS,
    "output_processors": _PROCESSORS,
    "error_processors": _PROCESSORS,
    "prepare_step": _FUNCTION,
    **dict.fromkeys(CALLBACKS, _FUNCTION),
    "hide_signals": _kind(
        "True, False or a list of signal types",
        lambda value: isinstance(value, bool) or _are_names(value),
        optional=False,
    ),
    "include_raw_chunks": _kind(
        "True or False", lambda value: isinstance(value, bool), optional=False
    ),
    "require_tool_approval": _kind(
        "True, False or a function of a tool call",
        lambda value: isinstance(value, bool) or callable(value),
        optional=False,
    ),
    "observer": _kind(
        "an object with a method span(span)",
        lambda value: callable(getattr(value, "span", None)),
    ),
    "record": _kind("a Recorder", lambda value: callable(getattr(value, "begin", None))),
    "tracing_context": _kind(
        "the tracing_context of a hook", lambda value: hasattr(value, "current_span")
    ),
    "tracing_options": _check_tracing,
    "run_id": _kind(ID, is_id),
}
"""The options whose kind is checked at the boundary; the others are messages, read as such."""
