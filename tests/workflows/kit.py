"""What the tests of workflows have in common: short ways to workflows, agents and their streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from procession import Agent, processor
from procession.testing import ScriptedModel, answer
from procession.workflows import ProcessorStepSchema, Workflow, create_step, create_workflow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from procession import Run


def flow(id: str = "flow", **options: Any) -> Workflow:
    """A workflow of processor steps, not yet committed."""
    schema = ProcessorStepSchema
    return create_workflow(id=id, input_schema=schema, output_schema=schema, **options)


def side_by_side(*processors: Any, choose: str, id: str = "flow") -> Workflow:
    """Processors in parallel, of which one is chosen by its id."""
    steps = [create_step(each) for each in processors]
    name = f"processor:{choose}"
    return flow(id).parallel(steps).map(lambda context: context.input_data[name]).commit()


def rewriting(id: str, change: Callable[[str], str], hook: str = "process_input") -> Any:
    """A processor that changes the text of messages in place."""

    async def work(args: Any) -> None:
        for message in args.messages:
            for part in message.parts:
                if part.type == "text":
                    part.text = change(part.text)

    return processor(id=id, **{hook: work})


def speaking(*pieces: str) -> ScriptedModel:
    """A model that answers in these pieces, again and again."""
    return ScriptedModel([answer(*pieces)])


def cut(text: str, size: int) -> list[str]:
    """A text in pieces of so many characters."""
    return [text[at : at + size] for at in range(0, len(text), size)]


def speaker(model: Any, *outputs: Any, inputs: Sequence[Any] = (), **more: Any) -> Agent:
    """An agent with these output processors."""
    return Agent(
        id="agent", model=model, output_processors=outputs, input_processors=inputs, **more
    )


async def said(run: Run) -> str:
    """The text of a run's deltas, joined."""
    texts = [c.payload.text async for c in run.full_stream if c.type == "text-delta"]
    return "".join(texts)
