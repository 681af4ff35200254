"""A workflow of processors one after the other does exactly what the list of them does (W-060)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conformance import calls, processors, run
from conformance.compare import compare
from conformance.run import run_scenario
from procession.processor import HOOKS
from procession.workflows import ProcessorStepSchema, create_step, create_workflow
from procession.workflows.phases import PHASE_OF
from tests.conformance.test_scenarios import MANIFEST, load, runnable

OUTSIDE = [hook for hook in HOOKS if hook not in PHASE_OF]
PLAIN = [name for name in MANIFEST if runnable(name) and "workflows" not in MANIFEST[name]["needs"]]


def may_enter(processor: Any, known: set[str]) -> bool:
    """Whether nothing of a processor is lost in a workflow, which has each id once."""
    if any(callable(getattr(processor, hook, None)) for hook in OUTSIDE) or processor.id in known:
        return False
    return any(callable(getattr(processor, hook, None)) for hook in PHASE_OF)


def in_workflows(entries: list[Any]) -> list[Any]:
    """The same processors, those that can be in workflows, each workflow in another one."""
    made: list[Any] = []
    group: list[Any] = []
    for entry in [*entries, None]:
        if entry is not None and may_enter(entry, {each.id for each in group}):
            group.append(entry)
            continue
        if group:
            made.append(workflow_of(group, f"flow-{len(made)}"))
        group = []
        if entry is not None:
            made.append(entry)
    return made


def workflow_of(group: list[Any], id: str) -> Any:
    """The first processor as a step, the others in a workflow within."""
    schema = ProcessorStepSchema
    outer = create_workflow(id=id, input_schema=schema, output_schema=schema)
    outer.then(create_step(group[0]))
    if len(group) > 1:
        inner = create_workflow(id=f"{id}-inner", input_schema=schema, output_schema=schema)
        for processor in group[1:]:
            inner.then(create_step(processor))
        outer.then(inner.commit())
    return outer.commit()


@pytest.mark.parametrize("name", PLAIN)
async def test_a_sequence_is_the_list(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each scenario gives its trace with its lists put into workflows."""
    build = processors.build_list

    def put_in(world: Any, described: Any) -> Any:
        built: Any = build(world, described)
        if callable(built):
            choose: Any = built
            return lambda args: in_workflows(choose(args))
        return in_workflows(built)

    for module in (calls, run, processors):
        if hasattr(module, "build_list"):
            monkeypatch.setattr(module, "build_list", put_in)
    trace = await run_scenario(load("scenarios", name))
    mismatches = compare(load("expected", name), json.loads(json.dumps(trace)))
    assert not mismatches, "\n".join(map(str, mismatches[:20]))


def test_most_processors_of_the_scenarios_enter_a_workflow() -> None:
    """What is compared are workflows."""
    told = [json.dumps(load("scenarios", name)["agent"]) for name in PLAIN]
    assert sum("processOutput" in each or "processInput" in each for each in told) > 50
