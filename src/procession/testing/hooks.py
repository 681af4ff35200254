"""What a hook needs to be called alone: an argument object with everything in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ..chunks import Usage
from ..engine.outbox import data_chunk, object_chunk
from ..message_list import MessageList
from ..messages import joined_text
from ..processor import (
    HookArgs,
    ProcessInputArgs,
    ProcessLLMRequestArgs,
    ProcessOutputResultArgs,
    ProcessOutputStepArgs,
    ProcessOutputStreamArgs,
    ProcessToolResultArgs,
)
from ..request_context import RequestContext
from ..results import OutputResult

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..chunks import Chunk
    from ..signals import Signal

__all__ = ["RecordingWriter", "hook_args"]

A = TypeVar("A", bound=HookArgs[Any])


class RecordingWriter:
    """A writer without a client: keeps what a hook writes, in order."""

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []

    async def custom(
        self, chunk: Chunk | Mapping[str, Any], options: Mapping[str, Any] | None = None
    ) -> None:
        """Keep a `data-…` chunk; another type raises `InputError`, as in a run."""
        self.chunks.append(data_chunk(chunk))

    async def object(
        self, value: Any, *, final: bool = False, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Keep an `object` chunk, or with `final` an `object-result`."""
        self.chunks.append(object_chunk(value, final, metadata))


_EMPTY: Mapping[str, Callable[[], Any]] = {
    "state": dict,
    "steps": list,
    "tools": dict,
    "tool_choice": lambda: "auto",
    "model_settings": dict,
    "on_model_call": lambda: _asked_in_vain,
    "on_tool_result": lambda: _asked_in_vain,
    "chunks": list,
    "warnings": list,
    "finish_reason": lambda: "stop",
    "tool_calls": list,
    "usage": Usage,
    "args": dict,
    "set_timer": lambda: _heard_by_nobody,
    "on_processor_call": lambda: _listened_in_vain,
}
"""What an argument is in a run of which nothing is known, by name."""


_AFTER_THE_ANSWER = (
    ProcessOutputStreamArgs,
    ProcessOutputStepArgs,
    ProcessToolResultArgs,
    ProcessOutputResultArgs,
)


def hook_args(kind: type[A], /, **values: Any) -> A:
    """An argument object for a hook that is called alone, as in a run that has just begun.

    What is not given is there, and empty: `state`, `request_context`, `message_list`, a
    `RecordingWriter` (none for `process_input`), the lists. `messages` is anything that a run takes
    as input; in output hooks those of the assistant are the answer's. `request_context` may be a
    mapping. What does not apply without a run stays `None`: `model`, `abort_signal`. Raises
    `ConfigurationError` for a name that the hook has no argument of.
    """
    messages = values.pop("message_list", None) or MessageList()
    _fill(messages, kind, values.pop("messages", None), values.pop("system_messages", None))
    context = values.pop("request_context", None)
    if not isinstance(context, RequestContext):
        context = RequestContext(context)
    found: dict[str, Any] = {
        "message_list": messages,
        "request_context": context,
        "run_id": "run",
        "processor_id": "processor",
        "writer": None if issubclass(kind, ProcessInputArgs) else RecordingWriter(),
        "send_signal": _sender(messages),
        "count_usage": _counted_nowhere,
        "note_failure": _noted_nowhere,
    }
    found |= {name: make() for name, make in _EMPTY.items() if hasattr(kind, name)}
    found |= _derived(kind, messages, values)
    args = kind(**{**found, **values})
    shown, system = messages.shown()
    if issubclass(kind, ProcessOutputResultArgs):
        shown = messages.response_messages()
    args.shown = shown, system
    return args


def _fill(messages: MessageList, kind: type[HookArgs[Any]], given: Any, system: Any) -> None:
    entered = MessageList().add(given, "input")
    for message in entered.get.all.db():
        answered = message.role == "assistant" and issubclass(kind, _AFTER_THE_ANSWER)
        messages.add(message, "response" if answered else "input")
    messages.add_system(entered.get_all_system_messages())
    messages.add_system(system)


def _derived(
    kind: type[HookArgs[Any]], messages: MessageList, given: Mapping[str, Any]
) -> dict[str, Any]:
    """What follows from the rest."""
    if issubclass(kind, ProcessLLMRequestArgs):
        return {"prompt": messages.provider_prompt()}
    if issubclass(kind, ProcessOutputStreamArgs) and "part" in given:
        return {"stream_parts": [given["part"]]}
    if issubclass(kind, ProcessOutputResultArgs):
        text = joined_text(messages.response_messages())
        result = OutputResult(text=text, usage=Usage(), finish_reason="stop", steps=[])
        return {"result": result}
    return {}


def _asked_in_vain(_tell: Callable[[Any], object]) -> None:
    """No model and no tool is called."""


def _listened_in_vain(_key: Any, _tell: Callable[[Any], object]) -> None:
    """No model is called."""


def _counted_nowhere(_usage: Usage, *, model: Any = None) -> None:
    """Nobody adds up what one hook spends."""


def _noted_nowhere(_processor_id: str, _hook: str, _action: str, _error: str) -> None:
    """There is no run whose events could be read."""


def _heard_by_nobody(_seconds: float) -> None:
    """No time passes for a hook that is called alone."""


def _sender(messages: MessageList) -> Callable[..., Any]:
    async def send_signal(signal: Any) -> Signal:
        return messages.add_signal(signal, "input")

    return send_signal
