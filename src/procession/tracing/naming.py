"""What spans are called, and which hook belongs to which phase (O-021 to O-024)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

__all__ = ["HOOK_PHASES", "HookPhase", "described", "name_of_hook", "of_processor"]


class HookPhase(NamedTuple):
    """How spans of a hook are called."""

    words: str
    entity_type: str
    phase: str
    in_step: bool
    """Whether it stands below a step; else below the run."""


HOOK_PHASES = {
    "process_input": HookPhase("input processor", "input_processor", "input", False),
    "process_input_step": HookPhase(
        "input step processor", "input_step_processor", "inputStep", True
    ),
    "process_llm_request": HookPhase(
        "llm request processor", "input_processor", "llmRequest", True
    ),
    "process_llm_response": HookPhase(
        "llm response processor", "input_processor", "llmResponse", True
    ),
    "process_output_stream": HookPhase(
        "output stream processor", "output_processor", "outputStream", True
    ),
    "process_output_step": HookPhase(
        "output step processor", "output_step_processor", "outputStep", True
    ),
    "process_tool_result": HookPhase(
        "tool result processor", "tool_result_processor", "toolResult", True
    ),
    "process_output_result": HookPhase(
        "output processor", "output_processor", "outputResult", False
    ),
    "process_api_error": HookPhase(
        "request error processor", "output_step_processor", "requestError", True
    ),
    "run_ended": HookPhase("run end processor", "output_processor", "runEnded", False),
}


def name_of_hook(processor: Any, processor_id: str, hook: HookPhase) -> str:
    """The name of a span: the processor's own for that phase, if it has one (O-030)."""
    own = getattr(processor, "span_name", None)
    if callable(own):
        with suppress(Exception):
            own = own(hook.phase)
    return own if isinstance(own, str) and own else f"{hook.words}: {processor_id}"


def of_processor(processor: Any, hook: HookPhase, *, is_within: bool) -> dict[str, Any]:
    """What a processor's spans say of it."""
    found: dict[str, Any] = {
        "processor_phase": hook.phase,
        "processor_executor": "workflow" if is_within else "legacy",
    }
    index = getattr(processor, "processor_index", None)
    if isinstance(index, int):
        found["processor_index"] = index
    description = getattr(processor, "description", None)
    if isinstance(description, str) and description:
        found["processor_description"] = description
    own = getattr(processor, "span_attributes", None)
    return {**found, **own} if isinstance(own, dict) else found


def described(value: Any, otherwise: str) -> str:
    """The `name` of a processor or a tool, or else its id."""
    name = getattr(value, "name", None)
    return name if isinstance(name, str) and name else otherwise
