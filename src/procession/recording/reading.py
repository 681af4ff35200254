"""From lines to a run. A recording is written line by line, so that a crash leaves what was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .recorded_run import VERSION, RecordedPart, RecordedRun, RunSummary, check_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["run_of_lines", "summary_of_lines"]

_OWN = ("line", "part", "version", "runId", "agentId")


def run_of_lines(lines: Iterable[Mapping[str, Any]], place: str) -> RecordedRun:
    """The run that lines tell of, in the order of its parts.

    Lines of a kind that this version does not know are kept in the part's `extra`, as `lines`.
    """
    forms, first = _forms(lines, place)
    parts = [RecordedPart.from_json(_part(form)) for form in forms.values()]
    return RecordedRun(
        run_id=first["runId"],
        agent_id=first["agentId"],
        version=VERSION,
        parts=sorted(parts, key=lambda part: part.started_at),
    )


def summary_of_lines(lines: Iterable[Mapping[str, Any]], place: str) -> RunSummary:
    """As `RecordedRun.summary`; the lines that begin and end a part are enough."""
    return run_of_lines(lines, place).summary


def _forms(
    lines: Iterable[Mapping[str, Any]], place: str
) -> tuple[dict[str, list[Mapping[str, Any]]], Mapping[str, Any]]:
    forms: dict[str, list[Mapping[str, Any]]] = {}
    first: Mapping[str, Any] | None = None
    for line in lines:
        part = line.get("part")
        if line.get("line") == "begin" and isinstance(part, str):
            check_version(line.get("version"), place)
            first = first or line
            forms[part] = []
        if part in forms:
            forms[part].append(line)
    if first is None or not {"runId", "agentId"} <= first.keys():
        raise InputError(f"no recorded run at {place}: it has no line that begins one")
    return forms, first


def _part(lines: list[Mapping[str, Any]]) -> dict[str, Any]:
    form: dict[str, Any] = {"events": [], "calls": []}
    events: list[dict[str, Any]] = form["events"]
    for line in lines:
        kind = line["line"] if "line" in line else None
        said = {key: value for key, value in line.items() if key not in _OWN}
        if kind == "begin":
            form.update(said, id=line["part"])
        elif kind == "end":
            form.update(said)
        elif kind == "event":
            events.append(said)
        elif kind == "call":
            form["calls"].append(said)
        elif kind == "more" and 0 <= line.get("of", -1) < len(events):
            events[line["of"]] |= {key: value for key, value in said.items() if key != "of"}
        else:
            form.setdefault("lines", []).append(dict(line))
    form["calls"] = _with_whole_prompts(form["calls"])
    events.sort(key=lambda event: event.get("atMs", 0.0))  # streams are told when they are over
    return form


def _with_whole_prompts(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A prompt is written as what it adds to the one before it."""
    before: list[Any] = []
    found: list[dict[str, Any]] = []
    for call in calls:
        same, said = call.get("samePrompt", 0), call.get("prompt", [])
        before = [*before[:same], *said]
        found.append({k: v for k, v in call.items() if k != "samePrompt"} | {"prompt": before})
    return found
