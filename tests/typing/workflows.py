"""Workflows stand where processors stand, and their runs are typed."""

from typing import assert_type

from procession import Agent
from procession.processor import ErrorProcessor, InputProcessor, OutputProcessor
from procession.workflows import (
    ProcessorStepSchema,
    Step,
    StepContext,
    Workflow,
    WorkflowResult,
    WorkflowRun,
    create_step,
    create_workflow,
)


def choose(context: StepContext) -> object:
    assert_type(context.run_id, str)
    return context.input_data["processor:a"]


step = create_step(id="a", execute=choose, retries=2)
assert_type(step, Step)
made = create_workflow(id="w", input_schema=ProcessorStepSchema).then(step).map(choose).commit()
assert_type(made, Workflow)
as_input: InputProcessor = made
as_output: OutputProcessor = made
as_error: ErrorProcessor = made  # type: ignore[assignment] # W-007
agent = Agent(id="x", input_processors=[made], output_processors=[made])
made.foreach(step, concurrency="2")  # type: ignore[arg-type] # a number


async def run() -> None:
    run = await made.create_run()
    assert_type(run, WorkflowRun)
    result = await run.start(input_data={})
    assert_type(result, WorkflowResult)
    assert_type(result.path, list[str])
    async for event in run.stream(input_data={}):
        assert_type(event.type, str)
