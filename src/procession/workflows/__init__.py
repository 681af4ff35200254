"""Workflows: steps in order, side by side, by condition; on their own, or among processors."""

from .context import StepContext
from .create import clone_step, clone_workflow, create_step, create_workflow
from .endings import StepRecord, WorkflowError, WorkflowResult
from .events import WorkflowEvent, WorkflowStream
from .phases import (
    ProcessorInputPhaseSchema,
    ProcessorInputStepPhaseSchema,
    ProcessorOutputResultPhaseSchema,
    ProcessorOutputStepPhaseSchema,
    ProcessorOutputStreamPhaseSchema,
    ProcessorStepInputSchema,
    ProcessorStepOutputSchema,
    ProcessorStepSchema,
    ProcessorToolResultPhaseSchema,
)
from .run import WorkflowRun
from .steps import Step
from .workflow import Workflow

__all__ = [
    "ProcessorInputPhaseSchema",
    "ProcessorInputStepPhaseSchema",
    "ProcessorOutputResultPhaseSchema",
    "ProcessorOutputStepPhaseSchema",
    "ProcessorOutputStreamPhaseSchema",
    "ProcessorStepInputSchema",
    "ProcessorStepOutputSchema",
    "ProcessorStepSchema",
    "ProcessorToolResultPhaseSchema",
    "Step",
    "StepContext",
    "StepRecord",
    "Workflow",
    "WorkflowError",
    "WorkflowEvent",
    "WorkflowResult",
    "WorkflowRun",
    "WorkflowStream",
    "clone_step",
    "clone_workflow",
    "create_step",
    "create_workflow",
]
