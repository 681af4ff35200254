"""The picture of an agent's pipeline in the terminal: who runs, hook by hook."""

from __future__ import annotations

import asyncio
import json
import sys
import textwrap
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

from rich.text import Text

from ..agent import Agent
from ..app import App
from ..errors import ConfigurationError
from ..pipeline_rows import HOOK_ORDER
from ..pipeline_view import pipeline_of
from .targets import load_target

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import Console

    from ..pipeline_rows import PipelineRow, PipelineView, PolicyView

__all__ = ["Request", "show_pipeline"]

_WHEN = {
    "process_input": "once, before the first step",
    "process_input_step": "each step: messages, model, tools",
    "process_llm_request": "each call: the provider's prompt",
    "process_output_stream": "each chunk on its way out",
    "process_llm_response": "each response, when it is complete",
    "process_api_error": "each call that failed for good",
    "process_output_step": "each response, before its tools run",
    "process_tool_result": "each result of a tool",
    "process_output_result": "once, when the loop is over",
    "run_ended": "once, when all is over",
}


class Request:
    """What a call would be given."""

    def __init__(
        self, thread: str | None, resource: str | None, context: Sequence[str] = ()
    ) -> None:
        ids = {"thread": thread, "resource": resource}
        self.memory = {name: value for name, value in ids.items() if value is not None} or None
        self.context = dict(map(_entry, context)) or None


def _entry(given: str) -> tuple[str, Any]:
    """`key=value`; the value is JSON where it is, else a text."""
    key, equals, value = given.partition("=")
    if not key or not equals:
        raise ConfigurationError(f"--context takes KEY=VALUE, not {given!r}")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def show_pipeline(
    target: str, *, agent: str | None, request: Request, as_json: bool, console: Console
) -> None:
    """Print the chains of an agent, or of all agents of an app.

    Raises `ConfigurationError` for what cannot be found or resolved.
    """
    with redirect_stdout(sys.stderr):  # what modules print is no part of the picture
        views = asyncio.run(_views(target, agent, request))
    if as_json:
        sys.stdout.write(json.dumps({"agents": [view.to_json() for view in views]}, indent=2))
        sys.stdout.write("\n")
        return
    for number, view in enumerate(views):
        if number:
            console.print()
        for line in _lines(view, console.width):
            console.print(line, soft_wrap=True)


async def _views(target: str, name: str | None, request: Request) -> list[PipelineView]:
    found = load_target(target)
    if isinstance(found, Agent):
        if name is not None:
            raise ConfigurationError(f"{target} is an agent; --agent is for apps")
        agents = [found]
        home: Any = found.app
        app = home if isinstance(home, App) else App(agents=agents)
    else:
        app = found
        agents = list(app.agents.values()) if name is None else [app.get_agent(name)]
    try:
        return [
            await pipeline_of(each, request_context=request.context, memory=request.memory)
            for each in agents
        ]
    finally:
        await app.stop()  # a look at a conversation has opened its store


# ── the picture ────────────────────────────────────────────────────────────────────────────────


def _lines(view: PipelineView, width: int) -> Iterator[Text]:
    title = (
        view.agent_id
        if view.agent_name == view.agent_id
        else (f"{view.agent_id} ({view.agent_name})")
    )
    yield Text(f"agent {title}", style="bold")
    yield Text(f"model {view.model or 'chosen for each request, or none'}", style="dim")
    named = max((len(row.processor_id) for row in view.rows), default=0)
    column = min(named, max(16, width - 40))
    for hook in HOOK_ORDER:
        rows = view.of(hook)
        if not rows:
            continue
        yield Text("")
        when = f"  {_WHEN[hook]}"
        room = len(hook) + len(when) <= width
        yield Text.assemble((hook, "bold cyan"), (when if room else "", "dim"))
        for row in rows:
            yield from _row(row, column, width)
    idle = [hook for hook in HOOK_ORDER if not view.of(hook)]
    yield Text("")
    yield from _wrapped("nobody runs in ", ", ".join(idle), width)
    yield from _foot(view, width)


def _row(row: PipelineRow, column: int, width: int) -> Iterator[Text]:
    kind, origin = "async" if row.is_async else "sync", _origin(row)
    place = f"  {row.position + 1:>2}  "
    line = f"{place}{row.processor_id:<{column}}  {kind:<5}  {origin}"
    if len(line) <= width:
        yield Text(line)
    else:
        yield from _wrapped(place, row.processor_id, width)
        yield from _wrapped("      ", f"{kind}, {origin}", width)
    for said in _details(row):
        yield from _wrapped("      ", said, width, style="dim")


def _origin(row: PipelineRow) -> str:
    if row.source == "memory":
        return "memory *" if row.needs_conversation else "memory"
    if row.source == "automatic":
        return "automatic"
    if row.source == "extension":
        return f"{row.origin} *" if row.needs_conversation else row.origin
    return row.origin if row.workflow_id is None else f"workflow {row.workflow_id}"


def _details(row: PipelineRow) -> Iterator[str]:
    """What else is to be said of a row, each on lines of its own."""
    if row.graph:
        yield "stages: " + "; ".join(map(_stage, row.graph))
    if row.policy is not None:
        yield "policy: " + _policy(row.policy)
    if row.watches:
        unit = f"; granularity {row.granularity}" if row.granularity else ""
        yield f"watches: {', '.join(row.watches)} in {', '.join(row.lanes)}{unit}"
    if row.sees_data_parts:
        yield "sees data-* chunks too"


def _stage(entry: Mapping[str, Any]) -> str:
    kind = str(entry.get("type", "stage"))
    if kind == "mapping":  # its id is made up
        return kind
    steps: Sequence[Any] = entry.get("steps") or [entry]
    ids = [_step_id(step) for step in steps]
    named = ", ".join(id for id in ids if id)
    return f"{kind}({named})" if named else kind


def _step_id(entry: Any) -> str:
    step: Any = entry.get("step", entry)
    return str(step.get("id", "")).removeprefix("processor:")


def _policy(policy: PolicyView) -> str:
    said = ["observed: it changes nothing"] if policy.observe else []
    said.append(f"on_error={policy.on_error}")
    if policy.fallback is not None:
        said.append(f"fallback={policy.fallback}")
    if policy.timeout is not None:
        said.append(f"timeout={policy.timeout:g} s")
    if policy.breaker_failures is not None:
        rest = f"{policy.breaker_seconds:g} s"
        said.append(f"breaker={policy.breaker_failures} failures, then {rest} of rest")
    return "; ".join(said)


def _foot(view: PipelineView, width: int) -> Iterator[Text]:
    if any(row.needs_conversation for row in view.rows):
        yield from _wrapped("* ", "only in calls that name a conversation (memory=…)", width)
    for what in view.per_request:
        told = f"{what} is a function of the request, so it is resolved per request"
        yield from _wrapped("! ", f"{told}: --thread, --resource, --context KEY=VALUE", width)
    for note in view.notes:
        yield from _wrapped("! ", note, width, style="red")


def _wrapped(mark: str, text: str, width: int, *, style: str = "") -> Iterator[Text]:
    """Lines no longer than `width`; those after the first are indented like its text."""
    lines = textwrap.wrap(text, max(20, width - len(mark)), break_on_hyphens=False) or [""]
    for number, line in enumerate(lines):
        yield Text((mark if number == 0 else " " * len(mark)) + line, style=style)
