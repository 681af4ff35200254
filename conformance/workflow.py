"""Workflows that stand in for a processor."""

from collections.abc import Callable, Mapping
from typing import Any

from .features import find
from .transforms import text_of
from .world import World

Build = Callable[[World, Mapping[str, Any]], Any]


def build_workflow(world: World, workflow: Mapping[str, Any], build: Build) -> Any:
    """A committed workflow; `build` makes the processors of its steps."""
    create_workflow, create_step = find("create_workflow"), find("create_step")
    schema = find("ProcessorStepSchema")
    made = create_workflow(id=workflow["id"], input_schema=schema, output_schema=schema)

    def step(processor: Mapping[str, Any]) -> Any:
        return create_step(build(world, processor))

    for stage in workflow["steps"]:
        if "step" in stage:
            made = made.then(step(stage["step"]))
        elif "parallel" in stage:
            made = made.parallel([step(processor) for processor in stage["parallel"]])
        elif "branch" in stage:
            branches = [(_condition(arm["when"]), step(arm["step"])) for arm in stage["branch"]]
            made = made.branch(branches)
        else:
            made = made.map(_mapping(stage))
    return made.commit()


def _mapping(stage: Mapping[str, Any]) -> Callable[[Any], Any]:
    if stage.get("map_first"):
        return lambda context: next(iter(context.input_data.values()))
    name: str = stage["map"]
    return lambda context: context.input_data[name]


def _condition(when: Mapping[str, Any]) -> Callable[[Any], bool]:
    def met(context: Any) -> bool:
        data = context.input_data
        if "phase" in when and data["phase"] != when["phase"]:
            return False
        wanted = when.get("text_contains")
        return wanted is None or any(wanted in text_of(m) for m in data.get("messages") or ())

    return met
