"""Workflows: steps in order, side by side, by condition; on their own, or among processors."""

from .context import StepContext
from .create import clone_step, clone_workflow, create_step, create_workflow
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
    "Workflow",
    "clone_step",
    "clone_workflow",
    "create_step",
    "create_workflow",
]
