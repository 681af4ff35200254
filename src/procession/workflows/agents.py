"""Steps made of agents, tools and classifiers (W-025)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ..errors import InputError, KindError, TripWire
from ..ids import new_id
from ..tools import Tool, ToolContext, suspension_in
from .endings import Suspended
from .steps import Step

if TYPE_CHECKING:
    from ..agent import Agent
    from .context import StepContext

__all__ = ["agent_step", "classifier_step", "tool_step"]

_OF_STEPS = frozenset(
    "description input_schema output_schema resume_schema suspend_schema state_schema "
    "request_context_schema retries metadata scorers".split()
)
_PROMPT: dict[str, Any] = {"type": "object", "properties": {"prompt": {}}, "required": ["prompt"]}
_TEXT: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
}


def _apart(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of a step, and the others."""
    own = {name: value for name, value in options.items() if name in _OF_STEPS}
    return own, {name: value for name, value in options.items() if name not in _OF_STEPS}


def agent_step(agent: Agent, options: dict[str, Any]) -> Step:
    """An agent as a step: a verdict of its processors is one of the run (W-132)."""
    id = options.pop("id", agent.id)
    own, call = _apart(options)
    wants_object = "structured_output" in call

    async def execute(context: StepContext) -> Any:
        given = {"request_context": context.request_context, **call}
        if context.abort_signal is not None:
            given["abort_signal"] = context.abort_signal
        run = await agent.stream(_prompt(id, context.input_data), **cast("Any", given))
        writer = context.writer
        async with run:
            async for chunk in run.full_stream:
                if hasattr(writer, "pass_on"):
                    await writer.pass_on(chunk)
        done = await run.get_full_output()
        if hasattr(writer, "count_usage"):
            writer.count_usage(done.usage)
        if done.status == "suspended":
            raise InputError(
                f"step {id!r}: a tool call of the agent waits for an approval or for data, which "
                f"cannot be given here: use another agent, or a tool as a step"
            )
        wire = done.tripwire
        if wire is not None:
            raise TripWire(
                wire.reason,
                retry=wire.retry,
                metadata=wire.metadata,
                processor_id=wire.processor_id,
            )
        return done.object if wants_object else {"text": done.text}

    own = {"description": agent.name, "input_schema": _PROMPT, **own}
    if not wants_object:
        own = {"output_schema": _TEXT, **own}
    return Step(id, "agent", execute, agent, **own)


def _prompt(id: str, given: Any) -> Any:
    if isinstance(given, dict) and "prompt" in given:
        return cast("dict[str, Any]", given)["prompt"]
    raise InputError(f"step {id!r} is an agent: its input is {{'prompt': …}}")


def tool_step(tool: Tool, options: dict[str, Any]) -> Step:
    """A tool as a step: its input is checked as a model's arguments are."""
    id = options.pop("id", tool.name)
    own, others = _apart(options)
    if others:
        raise KindError(f"create_step({id!r}): a tool has no option {sorted(others)[0]!r}")

    async def execute(context: StepContext) -> Any:
        told = ToolContext(
            tool_call_id=new_id(),
            run_id=context.run_id,
            request_context=context.request_context,
            writer=context.writer,
            abort_signal=context.abort_signal,
            resumed=context.resume_data is not None,
            resume_data=context.resume_data,
        )
        try:
            return await tool.run(tool.validate(context.input_data), told)
        except BaseException as error:
            suspension = suspension_in(error)
            if suspension is None:
                raise
        raise Suspended(suspension.payload)

    return Step(id, "tool", execute, tool, **{"description": tool.description, **own})


def classifier_step(classifier: Any, options: dict[str, Any]) -> Step:
    """A classifier as a step: takes a state, gives the answers by name."""
    id = options.pop("id", classifier.id)
    own, call = _apart(options)

    async def execute(context: StepContext) -> Any:
        signal = context.abort_signal
        result = await classifier.evaluate(context.input_data, abort_signal=signal, **call)
        return {"answers": dict(result.answers)}

    return Step(id, "function", execute, classifier, **own)
