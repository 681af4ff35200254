"""A workflow in the place of a processor: what of it stands in an agent's list (W-060).

Processor steps in a row are called by the pipeline itself, as if they stood in the list one by
one. Whatever runs side by side, by condition, or is a function of the user's is a segment, which is
carried out in each call of a hook.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..errors import ConfigurationError
from ..processor import HOOKS
from ..writing import may_use
from .phases import PHASE_OF, PHASES
from .segment import Segment
from .stages import Then

if TYPE_CHECKING:
    from .stages import Stage
    from .workflow import Workflow

__all__ = ["Standing"]

_log = logging.getLogger("procession.workflows")

_LOOKING_BACK = frozenset({"get_step_result", "get_init_data", "_execution"})
_ENDING = frozenset({"bail", "_execution"})


class Standing:
    """What stands in a list for a workflow, compiled once."""

    def __init__(self, workflow: Workflow) -> None:
        schema: Any = workflow.input
        self._phases = frozenset(getattr(schema, "phases", PHASES))
        if schema is not None and not hasattr(schema, "phases"):
            raise ConfigurationError(
                f"workflow {workflow.id!r} cannot stand among processors: it needs "
                f"input_schema=ProcessorStepSchema"
            )
        self._entries = [*_entries(workflow)]
        for processor in workflow.processors:
            for hook in HOOKS:
                if hook not in PHASE_OF and callable(getattr(processor, hook, None)):
                    _tell_not_called(workflow.id, processor.id, hook)
        self._processors = workflow.processors

    def of(self, hook: str) -> Sequence[Any]:
        """Those that are called for a hook, in order."""
        if hook == "run_ended":
            return self._processors
        phase = PHASE_OF.get(hook)
        if phase is None or phase.name not in self._phases:
            return ()
        return [each for entry in self._entries for each in entry(hook)]


@lru_cache(maxsize=256)  # told once, though lists may be compiled with every call
def _tell_not_called(workflow_id: str, processor_id: str, hook: str) -> None:
    """Say that a hook is not called within a workflow (W-041)."""
    _log.warning(
        "workflow %r: %s of processor %r is not called within a workflow: put the processor into "
        "the list itself if it is needed",
        *(workflow_id, hook, processor_id),
    )


Entry = Callable[[str], Sequence[Any]]


def _entries(workflow: Workflow) -> Iterator[Entry]:
    """The processors and segments of a workflow, each asked by hook."""
    stages = workflow.stages
    position = 0
    while position < len(stages):
        end = _segment_end(workflow, position)
        if end == position:
            yield _entry(stages[position])
            end += 1
        else:
            within = stages[position:end]
            looks_back = any(_may(stage, _LOOKING_BACK) for stage in within)
            segment = Segment(workflow, within, looks_back=looks_back)
            yield lambda _hook, segment=segment: (segment,)
        position = end


def _entry(stage: Stage) -> Entry:
    step = stage.steps[0]
    if step.kind == "workflow":
        return step.made_of.stands_for
    return lambda _hook: (step.made_of,)


def _segment_end(workflow: Workflow, start: int) -> int:
    """Where the segment ends that begins here; `start` if the stage stands for itself.

    A stage whose functions may look back, at the results of steps before or at the input, is in one
    segment with all before; one that may end the workflow, with all behind.
    """
    stages = workflow.stages
    last = max((n for n in range(start, len(stages)) if _may(stages[n], _LOOKING_BACK)), default=-1)
    if last < 0 and _is_plain(workflow, stages[start]):
        return start
    end = max(last + 1, start)
    while end < len(stages) and not _is_plain(workflow, stages[end]):
        end += 1
    return len(stages) if any(_may(stage, _ENDING) for stage in stages[start:end]) else end


def _is_plain(workflow: Workflow, stage: Stage) -> bool:
    """Whether a stage is what could stand in a list: a processor, or a workflow of such."""
    if not isinstance(stage, Then) or workflow.retries:
        return False
    step = stage.step
    return step.kind in ("processor", "workflow") and not step.retries


def _may(stage: Stage, names: frozenset[str]) -> bool:
    """Whether a function of the stage may use one of these of its context."""
    functions: list[Any] = list(stage.functions)
    for step in stage.steps:
        if step.kind in ("function", "mapping"):
            functions.append(step.execute)
    return any(may_use(function, names) for function in functions)
