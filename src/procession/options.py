"""What a call of `generate` or `stream` may be given, and the checks at that boundary."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from .errors import ConfigurationError

if TYPE_CHECKING:
    from .abort_signal import AbortSignal
    from .chunks import Chunk
    from .model import ModelSettings, ToolChoice
    from .output import FullOutput
    from .processor import ErrorProcessor, InputProcessor, OutputProcessor, ProcessInputStepArgs
    from .request_context import RequestContext
    from .results import StepResult
    from .spans import Observer

__all__ = ["CallOptions", "Dynamic", "RequestScope", "check_options", "count"]


class RequestScope:
    """What a function of the request is given: an object with `request_context` (R-016)."""

    __slots__ = ("request_context",)

    def __init__(self, request_context: RequestContext) -> None:
        self.request_context = request_context


Dynamic = Callable[[RequestScope], Any]
"""A function of the request, plain or async; it is called once per request."""


class CallOptions(TypedDict, total=False):
    """Options of one call; whatever is absent is the agent's own.

    `max_steps` limits accepted steps (default 5). `stop_when` is a condition, or several, on the
    steps so far. The processor lists replace the agent's for this call (R-017).
    `max_processor_retries` is the budget for all retries of the call (R-173). `memory` is
    `{"thread": id or {"id": …}, "resource": id}`. `system` and `context` add system text and
    messages to the agent's. `prepare_step` has the arguments and returns of `process_input_step`
    (R-210). `structured_output={"schema": …}` asks the model for JSON of that schema. Callbacks may
    be plain or async (R-554).
    """

    max_steps: int
    stop_when: (
        Callable[[list[StepResult]], bool | Awaitable[bool]]
        | Sequence[Callable[[list[StepResult]], bool | Awaitable[bool]]]
    )
    tool_choice: ToolChoice
    active_tools: Sequence[str] | None
    model_settings: ModelSettings
    provider_options: Mapping[str, Any] | None
    structured_output: Any
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
    observer: Observer | None
    run_id: str


CALLBACKS = ("on_step_finish", "on_finish", "on_chunk", "on_error", "on_abort")


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse options that do not exist, with the nearest that does."""
    for name in options:
        if name not in CallOptions.__annotations__:
            import difflib  # only where a mistake is explained

            near = difflib.get_close_matches(name, CallOptions.__annotations__, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigurationError(f"unknown option {name!r}{hint}")
    check_tool_choice(options.get("tool_choice", "auto"))


def check_tool_choice(choice: Any) -> None:
    """Refuse a tool choice that no provider knows (R-085, R-528)."""
    if isinstance(choice, str) and choice in ("auto", "none", "required"):
        return
    if isinstance(choice, Mapping) and "type" in choice:
        return
    raise ConfigurationError(
        f"tool_choice {choice!r}: use 'auto', 'none', 'required', or "
        f"{{'type': 'tool', 'toolName': name}} for one tool"
    )


def count(name: str, value: Any, *, least: int = 0) -> int:
    """A finite whole number of at least `least`; raises `ConfigurationError` (R-214, G6)."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigurationError(f"{name} must be a whole number, {least} or more; got {value!r}")
    return value
