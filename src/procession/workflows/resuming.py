"""Which step of a run that waits is meant (W-124)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ..errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .journal import Journal, Key
    from .run import WorkflowRun
    from .steps import Step
    from .workflow import Workflow

__all__ = ["step_at", "waiting_keys"]


def waiting_keys(run: WorkflowRun, journal: Journal, step: Any, number: int | None) -> list[Key]:
    """The keys of the steps to go on with; raises `InputError` when that is not clear."""
    if run.status != "suspended":
        raise InputError(f"run {run.run_id!r} is not suspended: its status is {run.status!r}")
    path = _path_of(step)
    found = journal.select(path, number)
    places = {tuple(part.rpartition("#")[0] or part for part in key) for key in found}
    if len(places) == 1:
        return found
    waiting = ", ".join(".".join(path) for path in journal.innermost())
    if not path or len(places) > 1:
        raise InputError(f"run {run.run_id!r}: name one of the steps that wait: {waiting}")
    named = ".".join(path)
    raise InputError(f"run {run.run_id!r}: no step {named!r} waits; those that do: {waiting}")


def _path_of(step: Any) -> Sequence[str]:
    if step is None:
        return ()
    if isinstance(step, list | tuple):
        return [each if isinstance(each, str) else each.id for each in cast("Sequence[Any]", step)]
    return [step if isinstance(step, str) else step.id]


def step_at(workflow: Workflow, key: Key) -> Step:
    """The step that a key stands for."""
    for part in key[:-1]:
        workflow = _named(workflow, part).made_of
    return _named(workflow, key[-1])


def _named(workflow: Workflow, part: str) -> Step:
    steps = workflow.steps
    found = steps.get(part) or steps.get(part.rpartition("#")[0])
    if found is None:
        raise InputError(f"workflow {workflow.id!r} has no step {part!r} any more")
    return found
