"""What a step of a processor workflow takes and gives: one form for each phase (W-040 to W-043)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct

from ..errors import InputError
from ..hook_args import (
    HookArgs,
    ProcessInputArgs,
    ProcessInputStepArgs,
    ProcessOutputResultArgs,
    ProcessOutputStepArgs,
    ProcessOutputStreamArgs,
    ProcessToolResultArgs,
)
from ..records import plain

__all__ = [
    "INPUT",
    "INPUT_STEP",
    "OUTPUT_RESULT",
    "OUTPUT_STEP",
    "OUTPUT_STREAM",
    "PHASES",
    "PHASE_OF",
    "SETTINGS",
    "TOOL_RESULT",
    "Phase",
    "PhaseSchema",
    "ProcessorInputPhaseSchema",
    "ProcessorInputStepPhaseSchema",
    "ProcessorOutputResultPhaseSchema",
    "ProcessorOutputStepPhaseSchema",
    "ProcessorOutputStreamPhaseSchema",
    "ProcessorStepInputSchema",
    "ProcessorStepOutputSchema",
    "ProcessorStepSchema",
    "ProcessorToolResultPhaseSchema",
    "shown",
]

INPUT: Final = "input"
INPUT_STEP: Final = "inputStep"
OUTPUT_STREAM: Final = "outputStream"
OUTPUT_STEP: Final = "outputStep"
TOOL_RESULT: Final = "toolResult"
OUTPUT_RESULT: Final = "outputResult"

SETTINGS = (
    "model",
    "tools",
    "tool_choice",
    "active_tools",
    "provider_options",
    "model_settings",
    "structured_output",
)
"""What `process_input_step` may choose (W-062)."""


class Phase(Struct, frozen=True):
    """One phase: the hook that is called in it, its arguments, and what the step's value holds."""

    name: str
    hook: str
    args: type[HookArgs[Any]]
    fields: tuple[str, ...]
    """What is handed on besides `phase`, `messages`, `system_messages` and `message_list`."""
    messages: bool = True
    """Whether `messages` and `system_messages` are part of it."""


_STEP = ("step_number", "steps")
PHASES = {
    phase.name: phase
    for phase in (
        Phase(INPUT, "process_input", ProcessInputArgs, ("retry_count",)),
        Phase(
            INPUT_STEP,
            "process_input_step",
            ProcessInputStepArgs,
            ("retry_count", "run_id", *_STEP, *SETTINGS),
        ),
        Phase(
            OUTPUT_STREAM,
            "process_output_stream",
            ProcessOutputStreamArgs,
            ("part", "stream_parts", "state", "retry_count"),
            messages=False,
        ),
        Phase(
            OUTPUT_STEP,
            "process_output_step",
            ProcessOutputStepArgs,
            (
                *("retry_count", "step_number", "finish_reason", "provider_metadata"),
                *("tool_calls", "text", "usage"),
            ),
        ),
        Phase(
            TOOL_RESULT,
            "process_tool_result",
            ProcessToolResultArgs,
            (
                *("retry_count", *_STEP, "tool_name", "tool_call_id", "args", "result"),
                "provider_executed",
            ),
        ),
        Phase(
            OUTPUT_RESULT,
            "process_output_result",
            ProcessOutputResultArgs,
            ("retry_count", "result"),
        ),
    )
}
"""All phases by name."""
PHASE_OF = {phase.hook: phase for phase in PHASES.values()}

_OPAQUE = frozenset(
    {"message_list", "model", "tools", "state", "stream_parts", "structured_output"}
)
"""What is neither checked nor shown: lists with methods, functions, models (W-043)."""


class PhaseSchema:
    """The form of a processor step's value; unknown keys pass through."""

    def __init__(self, *phases: str) -> None:
        self.phases = phases

    def check(self, value: Any, owner: str) -> Any:
        """The value itself; raises `InputError` for what no processor step can take."""
        if not isinstance(value, Mapping):
            kind = type(value).__name__
            raise InputError(f"{owner} must be the value of a processor step, not {kind}")
        given = cast("Mapping[str, Any]", value)
        phase: Any = given.get("phase")
        if phase not in self.phases:
            held = ", ".join(map(str, list(given)[:5]))
            raise InputError(
                f"{owner} must be the value of a processor step: its 'phase' is one of "
                f"{', '.join(self.phases)}. It is a mapping with the keys {held or '(none)'}"
            )
        messages: Any = given.get("messages")
        if messages is not None and (isinstance(messages, str) or not _is_list(messages)):
            raise InputError(f"{owner}: 'messages' must be a list, not {type(messages).__name__}")
        return cast("Any", value)

    def json_schema(self) -> Mapping[str, Any]:
        """The schema as JSON Schema."""
        forms = [_json_form(PHASES[phase]) for phase in self.phases]
        form = forms[0] if len(forms) == 1 else {"type": "object", "oneOf": forms}
        return {**form, "x-phases": list(self.phases)}


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence)


def _json_form(phase: Phase) -> dict[str, Any]:
    names = [*(("messages", "system_messages") if phase.messages else ()), *phase.fields]
    shape: dict[str, Any] = {name: {} for name in names if name not in _OPAQUE}
    return {
        "type": "object",
        "properties": {"phase": {"const": phase.name}, **shape},
        "required": ["phase"],
    }


ProcessorInputPhaseSchema = PhaseSchema(INPUT)
ProcessorInputStepPhaseSchema = PhaseSchema(INPUT_STEP)
ProcessorOutputStreamPhaseSchema = PhaseSchema(OUTPUT_STREAM)
ProcessorOutputStepPhaseSchema = PhaseSchema(OUTPUT_STEP)
ProcessorToolResultPhaseSchema = PhaseSchema(TOOL_RESULT)
ProcessorOutputResultPhaseSchema = PhaseSchema(OUTPUT_RESULT)
ProcessorStepSchema = PhaseSchema(*PHASES)
ProcessorStepInputSchema = ProcessorStepSchema
ProcessorStepOutputSchema = ProcessorStepSchema


def shown(value: Any) -> Any:
    """A value as it is stored and shown: JSON data, without what is opaque (W-043)."""
    if isinstance(value, Mapping) and "phase" in value:
        given = cast("Mapping[str, Any]", value)
        return plain({k: v for k, v in given.items() if k not in _OPAQUE})
    if isinstance(value, Mapping):
        return {str(k): shown(v) for k, v in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [shown(entry) for entry in cast("Sequence[Any]", value)]
    return plain(value)
