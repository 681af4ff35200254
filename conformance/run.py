"""Running scenarios, one or a directory of them."""

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from . import features
from .transforms import known
from .world import World

TIMEOUT = 60.0
"""Seconds after which a scenario counts as hanging."""

_SCENARIO = frozenset(("name", "topics", "description", "models", "processors", "agent", "calls"))
_AGENT = frozenset(
    "id name instructions model tools memory input_processors output_processors error_processors "
    "max_processor_retries model_max_retries".split()
)
_LISTS = ("input_processors", "output_processors", "error_processors")


class Outcome(NamedTuple):
    """What became of a scenario: `ran`, `not yet` or `failed`; `detail` says why."""

    name: str
    verdict: str
    detail: str = ""
    groups: tuple[str, ...] = ()


async def run_scenario(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Run a scenario whose needs the library meets; its trace."""
    # The library is loaded here, so that what a scenario needs can be told without an engine.
    from .calls import run_call

    known(scenario, _SCENARIO, "key of a scenario")
    world = World(dict(scenario))
    agent = build_agent(world)
    calls = [await run_call(world, agent, call) for call in scenario["calls"]]
    return {"scenario": scenario["name"], "calls": calls}


def build_agent(world: World) -> Any:
    """The agent of a scenario, with its models and processors."""
    from procession import Agent

    from .models import build_model
    from .processors import build_list
    from .storage import build_memory
    from .tools import build_tools

    described: Mapping[str, Any] = world.scenario["agent"]
    known(described, _AGENT, "key of an agent")
    for name, model in world.scenario["models"].items():
        world.models[name] = build_model(world, name, model)
    given: dict[str, Any] = {
        "id": described.get("id", "agent"),
        "instructions": described.get("instructions", "Be helpful."),
        "model": world.model(described.get("model", "main")),
        "tools": build_tools(world, described.get("tools") or {}),
        "max_retries": described.get("model_max_retries", 0),
    }
    for key in ("name", "max_processor_retries"):
        if key in described:
            given[key] = described[key]
    for key in _LISTS:
        if key in described:
            given[key] = build_list(world, described[key])
    if described.get("memory") is not None:
        given["memory"] = build_memory(world, described["memory"])
    return Agent(**given)


def run_file(path: Path, out: Path) -> Outcome:
    """Run the scenario of a file and write its trace into the directory `out`."""
    try:
        scenario = json.loads(path.read_text(encoding="utf-8"))
        absent = features.missing(scenario)
    except (ValueError, KeyError, OSError) as error:
        return Outcome(path.stem, "failed", f"not a scenario: {error!r}")
    if absent:
        groups = tuple(dict.fromkeys(need.group for need in absent))
        return Outcome(path.stem, "not yet", features.described(absent), groups)
    try:
        trace = asyncio.run(asyncio.wait_for(run_scenario(scenario), TIMEOUT))
        text = json.dumps(trace, ensure_ascii=False, indent=1)
    except Exception as error:
        return Outcome(path.stem, "failed", f"{type(error).__name__}: {error}")
    (out / f"{path.stem}.json").write_text(text + "\n", encoding="utf-8")
    return Outcome(path.stem, "ran")


def run_directory(scenarios: Path, out: Path) -> list[Outcome]:
    """Run every scenario of a directory, in order of their names."""
    out.mkdir(parents=True, exist_ok=True)
    return [run_file(path, out) for path in sorted(scenarios.glob("*.json"))]


def summary(outcomes: list[Outcome]) -> str:
    """How many ran, how many cannot yet, by missing feature group."""
    verdicts = Counter(outcome.verdict for outcome in outcomes)
    groups = Counter(group for outcome in outcomes for group in outcome.groups)
    lines = [
        f"{verdicts['ran']} ran, {verdicts['not yet']} not yet, {verdicts['failed']} failed, "
        f"of {len(outcomes)}"
    ]
    lines += [f"  not yet for want of {group}: {count}" for group, count in groups.most_common()]
    return "\n".join(lines)
