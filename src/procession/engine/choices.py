"""What a step asks the model for: from the run's values through the hooks to a `ModelRequest`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..model import ModelRequest
from ..processor import ProcessInputStepArgs
from ..structured.options import asked_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .run_state import RunState
    from .step import Step

__all__ = ["chosen_by_hooks", "copied", "model_request", "response_format", "step_args"]


def step_args(run: RunState, step: Step) -> ProcessInputStepArgs[Any]:
    """The arguments of `process_input_step`; overrides are collected in them (R-079)."""
    args = run.args(ProcessInputStepArgs)
    args.step_number = step.number
    args.steps = list(run.steps)
    args.model = step.model
    args.tools = dict(step.tools)
    args.tool_choice = step.tool_choice
    args.active_tools = step.active_tools
    args.provider_options = step.provider_options
    args.model_settings = step.model_settings
    args.structured_output = step.structured_output
    args.on_model_call = step.listeners.append
    args.on_processor_call = run.on_processor_call
    return args


def chosen_by_hooks(step: Step) -> None:
    """Take over what the hooks chose, for this step only (R-080)."""
    chosen, step.choices = step.choices, None
    assert chosen is not None
    step.model = chosen.model
    step.tools = chosen.tools
    step.tool_choice = chosen.tool_choice
    step.active_tools = chosen.active_tools
    step.provider_options = chosen.provider_options
    step.model_settings = chosen.model_settings
    step.structured_output = chosen.structured_output


def model_request(run: RunState, step: Step) -> ModelRequest:
    """The call as the model gets it."""
    tools = step.usable_tools()
    settings = step.model_settings or {}
    return ModelRequest(
        prompt=step.prompt,
        tools=[tool.definition() for tool in tools.values()] if tools else (),
        tool_choice=step.tool_choice if tools or step.tool_choice == "none" else "auto",
        settings=settings,
        max_retries=settings.get("max_retries", run.max_retries),
        provider_options=step.provider_options,
        response_format=response_format(step.structured_output),
        streaming=run.streaming,
        include_raw_chunks=run.include_raw_chunks,
        abort_signal=run.abort_signal,
        run_id=run.run_id,
    )


def response_format(asked: Any) -> Mapping[str, Any] | None:
    """A JSON answer of a schema, as the model is told, unless another one makes it (R-568)."""
    found = asked_for(asked)
    return None if found is None or found.model is not None else found.response_format()


def copied(value: Any) -> Any:
    """A copy of plain data that shares no list or dict with the original (R-093)."""
    if value.__class__ is dict:
        return {k: copied(v) for k, v in value.items()}
    if value.__class__ is list:
        return [copied(v) for v in value]
    return value
