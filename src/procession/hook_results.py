"""What hooks may return: a result object for each hook that has more to say than messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from .hook_args import SystemMessage
from .model import LanguageModel, ModelSettings, Prompt, ToolChoice
from .tools import Tool

if TYPE_CHECKING:
    from .chunks import Chunk
    from .message_list import MessageList
    from .messages import Message

__all__ = [
    "CachedLLMStepResponse",
    "ErrorReturn",
    "InputResult",
    "ProcessAPIErrorResult",
    "ProcessInputResult",
    "ProcessInputStepResult",
    "ProcessLLMRequestResult",
    "ProcessLLMResponseResult",
    "ProcessOutputStepResult",
    "ProcessOutputStreamResult",
    "ProcessorMessageResult",
    "RequestReturn",
    "StepReturn",
]


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


class CachedLLMStepResponse(Struct, kw_only=True):
    """A response that stands in for a model call (R-094).

    `chunks` are `{type, payload}` mappings, `CachedLLMStepChunk`s or `Chunk`s.

    `tool_results` are results of calls in it, by call id: a tool whose result is known is not run
    (R-218), nor is anybody asked to approve it. The result goes the way of any other, through
    `process_tool_result` into the message and the stream.
    """

    chunks: Sequence[Any]
    tool_results: Mapping[str, Any] | None = None
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
    ProcessOutputStreamResult = Chunk | Sequence[Chunk] | None
    ProcessOutputStepResult = ProcessorMessageResult | InputResult | Mapping[str, Any]
    ProcessLLMResponseResult: TypeAlias = None
    StepReturn = ProcessInputStepResult | Mapping[str, Any] | list[Message] | MessageList | None
    RequestReturn = ProcessLLMRequestResult | Mapping[str, Any] | None
    ErrorReturn = ProcessAPIErrorResult | Mapping[str, bool] | None
else:
    # Names for annotations (R-230); at run time hooks' returns are checked where they arrive.
    ProcessInputResult = ProcessorMessageResult = ProcessOutputStepResult = Any
    ProcessOutputStreamResult = Any
    ProcessLLMResponseResult = None
