"""What a workflow of processors costs in a stream: `python -m bench.workflows`.

An answer of 2,000 chunks, one a read, passes 3 and 10 stream processors that do nothing, plain and
async: as a list, as a workflow of them one after the other, in parallel with a mapping, and behind
a branch. A figure is microseconds of CPU a chunk over the same run without processors (W-072).
Nothing is timed before the text was checked.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from typing import TYPE_CHECKING, Any

from procession import Agent, processor
from procession.testing import ScriptedModel, answer
from procession.workflows import ProcessorStepSchema, create_step, create_workflow

from . import machine
from .verify import CheckFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CHUNKS = 2000
COUNTS = (3, 10)
TEXT = [f"word{number} " for number in range(CHUNKS)]


def passing(number: int, *, awaits: bool) -> Any:
    """A stream processor that lets everything pass."""

    def hook(args: Any) -> Any:
        return args.part

    async def waited(args: Any) -> Any:
        return args.part

    return processor(id=f"p{number}", process_output_stream=waited if awaits else hook)


def in_list(processors: Sequence[Any]) -> list[Any]:
    """The processors themselves."""
    return list(processors)


def _flow() -> Any:
    return create_workflow(
        id="flow", input_schema=ProcessorStepSchema, output_schema=ProcessorStepSchema
    )


def in_sequence(processors: Sequence[Any]) -> list[Any]:
    """One step after the other."""
    made = _flow()
    for each in processors:
        made.then(create_step(each))
    return [made.commit()]


def in_parallel(processors: Sequence[Any]) -> list[Any]:
    """All at the same time; the first one is chosen."""
    made = _flow().parallel([create_step(each) for each in processors])
    return [made.map(lambda context: context.input_data["processor:p0"]).commit()]


def in_branch(processors: Sequence[Any]) -> list[Any]:
    """A condition, then one step after the other."""
    inner = create_workflow(id="inner", input_schema=ProcessorStepSchema)
    for each in processors:
        inner.then(create_step(each))
    arms: Any = [(lambda context: True, inner.commit())]
    return [_flow().branch(arms).map(lambda context: context.input_data["inner"]).commit()]


SHAPES: dict[str, Callable[[Sequence[Any]], list[Any]]] = {
    "list": in_list,
    "sequence": in_sequence,
    "parallel": in_parallel,
    "branch": in_branch,
}


async def once(outputs: list[Any]) -> float:
    """Microseconds of CPU for one run."""
    agent = Agent(id="a", model=ScriptedModel([answer(*TEXT)]), output_processors=outputs)
    gc.collect()
    texts: list[str] = []
    started = time.process_time()
    async for chunk in await agent.stream("go"):
        if chunk.type == "text-delta":
            texts.append(chunk.payload.text)
    spent = time.process_time() - started
    if texts != TEXT:
        raise CheckFailed("the text is not what the model has said")
    return spent * 1e6


async def table(repeats: int) -> None:
    """Print a row for each shape. All take turns; of each the least counts, for neighbours on a
    machine only ever add, and the first round warms up.
    """
    kinds = [(count, awaits) for count in COUNTS for awaits in (False, True)]
    outputs: dict[Any, list[Any]] = {None: []}
    for count, awaits in kinds:
        processors = [passing(number, awaits=awaits) for number in range(count)]
        for name, shape in SHAPES.items():
            outputs[name, count, awaits] = shape(processors)
    spent: dict[Any, list[float]] = {key: [] for key in outputs}
    for _ in range(repeats + 1):
        for key, each in outputs.items():
            spent[key].append(await once(each))
    least = {key: min(times[1:]) for key, times in spent.items()}
    heads = [f"{count} {'async' if awaits else 'plain'}" for count, awaits in kinds]
    print(f"| us a chunk | {' | '.join(heads)} |\n|---|{'---:|' * len(heads)}")
    for name in SHAPES:
        own = [(least[name, *kind] - least[None]) / CHUNKS for kind in kinds]
        print(f"| {name} | {' | '.join(f'{each:.2f}' for each in own)} |")


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.workflows",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    machine.pin()
    print(f"{machine.description()}, load {machine.load()}")
    asyncio.run(table(options.repeats))


if __name__ == "__main__":
    main()
