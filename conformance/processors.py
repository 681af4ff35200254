"""Processors, and lists of processors, from their description."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from procession.processor import ProcessorViolation
from procession.records import plain

from .builtin import build_builtin
from .names import snake
from .ops import Op, play
from .transforms import known
from .turn import Turn
from .workflow import build_workflow
from .world import World

_KEYS = frozenset(
    "id name process_data_parts on_violation hooks ref builtin options cost workflow".split()
)

ProcList = Sequence[Mapping[str, Any]] | Mapping[str, Any]


class ScriptedProcessor:
    """A processor with just the hooks its description lists, each of them a list of operations."""

    def __init__(self, world: World, processor: Mapping[str, Any]) -> None:
        self.id: str = processor["id"]
        if "name" in processor:
            self.name: str = processor["name"]
        if processor.get("process_data_parts"):
            self.process_data_parts = True
        for hook, ops in processor["hooks"].items():
            setattr(self, snake(hook), scripted_hook(world, self.id, hook, ops, id(self)))


def scripted_hook(
    world: World, processor: str, hook: str, ops: Sequence[Op], instance: int
) -> Callable[[Any], Any]:
    """A hook that plays operations and counts its runs."""

    async def run(args: Any) -> Any:
        world.runs[instance, hook] += 1
        turn = Turn(world, processor, hook, args, world.runs[instance, hook])
        return await play(ops, turn)

    return run


def build_list(world: World, processors: ProcList) -> Any:
    """A list, or a function of the request that chooses one; its choices are built only once."""
    if not isinstance(processors, Mapping):
        return [build_processor(world, processor) for processor in processors]
    rule = processors["from_request_context"]
    key: str = rule["key"]
    choices = {value: build_list(world, chosen) for value, chosen in rule["choices"].items()}
    default = build_list(world, rule.get("default", ()))

    def choose(args: Any) -> list[Any]:
        value = args.request_context.get(key)
        event = {"event": "processors_fn", "key": key, "value": plain(value)}
        if event not in world.log.events:
            world.log.events.append(event)
        return choices.get(value, default)

    return choose


def build_processor(world: World, processor: Mapping[str, Any]) -> Any:
    """One processor of any kind; a `ref` always yields the same object."""
    known(processor, _KEYS, "key of a processor")
    if "ref" in processor:
        ref: str = processor["ref"]
        if ref not in world.shared:
            world.shared[ref] = build_processor(world, world.scenario["processors"][ref])
        return world.shared[ref]
    if "workflow" in processor:
        return build_workflow(world, processor["workflow"], build_processor)
    built = (
        build_builtin(world, processor)
        if "builtin" in processor
        else ScriptedProcessor(world, processor)
    )
    if "on_violation" in processor:
        built.on_violation = _listener(world, built.id, processor["on_violation"])
    return built


def _listener(world: World, processor: str, reaction: str) -> Callable[[Any], None]:
    def on_violation(violation: ProcessorViolation) -> None:
        world.event(
            "violation",
            processor=processor,
            message=violation.message,
            detail=plain(violation.detail),
        )
        if reaction == "throw":
            raise RuntimeError("on_violation was told to raise")

    return on_violation
