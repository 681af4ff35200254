"""How a recorded run looks in a terminal: a line of time, and under each change what it was."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import msgspec
from rich.text import Text

from ..recording.snapshots import items_of_prompt

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from ..recording import RecordedModelCall, RecordedPart, RecordedRun, RunEvent, RunSummary

__all__ = ["print_list", "print_run"]

_SHORT = 13
_MOST_TEXT = 600
_STYLES = {
    "success": "green",
    "changed": "yellow",
    "dropped": "yellow",
    "suspended": "cyan",
    "retry": "magenta",
    "tripped": "bold red",
    "blocked": "bold red",
    "tripwire": "bold red",
    "failed": "bold red",
}
_SAID = {"tripped": "BLOCKED", "retry": "RETRY", "failed": "FAILED", "tripwire": "blocked"}
_WAITS = {
    "approval": "somebody has to allow it",
    "suspended": "the tool waits for data",
    "client": "the client answers it",
}
_PIECES = {"-": ("[-", "-]", "red"), "+": ("{+", "+}", "green"), "=": ("", "", "")}


def print_list(console: Console, found: Sequence[RunSummary], limit: int, place: str) -> None:
    """The runs, one in a line."""
    if not found:
        console.print(f"no recorded runs in {place}")
        return
    ids = {each.run_id for each in found}
    is_short = len({id[:_SHORT] for id in ids}) == len(ids)
    width = max(len(id[:_SHORT] if is_short else id) for id in ids)
    for each in found[:limit]:
        line = Text(no_wrap=True, overflow="ellipsis")
        line.append(f"{each.run_id[:_SHORT] if is_short else each.run_id:<{width}}  ")
        line.append(f"{each.started_at:%Y-%m-%d %H:%M:%S}  ")
        line.append(f"{_SAID.get(each.status, each.status):<10}", _STYLES.get(each.status, ""))
        line.append(f"{_time(each.duration_ms):>9}  {each.agent_id}")
        if each.tripwire is not None:
            line.append(f"  by {each.tripwire['processorId']}")
        console.print(line)
    if len(found) > limit:
        console.print(f"… {len(found) - limit} more (--limit)")
    console.print("\nprocession runs show RUN_ID [PLACE] shows one.", style="dim")


def print_run(console: Console, run: RecordedRun) -> None:
    """All that is known of a run."""
    console.print(Text(f"run {run.run_id}", "bold"))
    status = Text(_SAID.get(run.status, run.status), _STYLES.get(run.status, ""))
    milliseconds = sum(part.duration_ms for part in run.parts)
    status.append(f"   agent {run.agent_id}   {run.started_at:%Y-%m-%d %H:%M:%S} UTC", "default")
    status.append(f"   {_time(milliseconds)}", "default")
    console.print(status)
    for line in _verdict(run):
        _print(console, line, 0)
    for number, part in enumerate(run.parts):
        if number:
            console.print(Text("\nand on, after it had waited", "bold"))
        _print_part(console, part, is_first=number == 0)


def _verdict(run: RecordedRun) -> Iterator[Text]:
    """Who has stopped the run, and why."""
    if run.tripwire is not None:
        line = Text("blocked by ", "bold red")
        line.append(f"{run.tripwire['processorId']!r}: ", "bold")
        line.append(str(run.tripwire["reason"]))
        yield line
    if run.error is not None:
        said = run.error.get("message")
        text = f"failed with {run.error.get('name')}"
        yield Text(f"{text}: {said}" if said else text, "bold red")
    if run.status == "unfinished":
        yield Text("the process ended before the run did, or the run is still going on", "yellow")


def _print_part(console: Console, part: RecordedPart, *, is_first: bool) -> None:
    asked = _asked(part)
    if is_first and asked:
        _labelled(console, "asked", asked)
    results = _results(part)
    for place, entries in groupby(_in_time(part), key=lambda entry: entry[1]):
        console.print()
        console.print(Text(place, "bold"))
        for _, _, entry in entries:
            if hasattr(entry, "model_id"):
                _print_call(console, entry)
            else:
                _print_event(console, entry, results)
    if part.text:
        console.print()
        _labelled(console, "answer", part.text)
    if part.cut:
        console.print(Text("there was more than the recorder keeps", "yellow"))


def _asked(part: RecordedPart) -> str:
    """What the model was asked last by its user, as it was sent."""
    if not part.calls:
        return ""
    users = [entry for entry in part.calls[0].prompt if entry.get("role") == "user"]
    if not users:
        return ""
    if "withheld" in users[-1]:
        return f"({users[-1]['withheld']} characters withheld)"
    return "\n".join(item.text for item in items_of_prompt(users[-1:]) if item.text)


def _in_time(part: RecordedPart) -> list[tuple[float, str, Any]]:
    """Calls and events by time, with the heading that they stand under."""
    entries: list[tuple[float, Any]] = [(call.at_ms, call) for call in part.calls]
    entries += [(event.at_ms, event) for event in part.events]
    entries.sort(key=lambda entry: entry[0])
    found: list[tuple[float, str, Any]] = []
    begun = False
    for at, entry in entries:
        begun = begun or entry.step_number is not None
        found.append((at, _heading(entry, begun=begun), entry))
    return found


def _heading(entry: RunEvent | RecordedModelCall, *, begun: bool) -> str:
    if entry.step_number is None:
        return "after the last step" if begun else "before the first step"
    if entry.attempt:
        return f"step {entry.step_number}, attempt {entry.attempt + 1}"
    return f"step {entry.step_number}"


def _print_call(console: Console, call: RecordedModelCall) -> None:
    line = Text(f"{_time(call.duration_ms):>9}  model {call.provider}/{call.model_id}")
    if call.from_cache:
        line.append("  answered from a cache", "cyan")
    tokens = call.usage.get("inputTokens"), call.usage.get("outputTokens")
    if any(count is not None for count in tokens):
        line.append(f"  {tokens[0] or 0} tokens in, {tokens[1] or 0} out", "dim")
    _print(console, line, 0)
    if call.error is not None:
        said = call.error.get("message")
        name = str(call.error.get("name"))
        _print(
            console, Text(f"FAILED {name}: {said}" if said else f"FAILED {name}", "bold red"), 11
        )


def _print_event(console: Console, event: RunEvent, results: dict[str, str]) -> None:
    line = Text(f"{_time(event.duration_ms):>9}  ")
    detail = event.detail or {}
    if event.type == "tool":
        line.append("tool ")
        line.append(results.get(str(detail.get("toolCallId")), event.name), "bold")
    else:
        line.append(f"{event.processor_id or ''}", "bold")
        line.append(f"  {event.name}", "dim")
    if event.type == "policy":
        line.append("  policy", "dim")
    if event.outcome != "ok" or event.type != "tool":
        said = _SAID.get(event.outcome, event.outcome)
        line.append(f"  {said}", _STYLES.get(event.outcome, "dim"))
    if event.type == "stream":
        line.append(f"  {_counted(event)}", "dim")
    _print(console, line, 0)
    for said in _details(event.type, detail):
        _print(console, Text(said), 11)
    for change in event.changes:
        text = Text(f"{change.role} {change.kind}: ", "dim")
        for mark, piece in change.diff:
            _append(text, str(mark), piece)
        _print(console, text, 13)


def _counted(event: RunEvent) -> str:
    said = [f"{event.count} chunks"]
    said += [f"{event.changed} changed"] if event.changed else []
    said += [f"{event.dropped} dropped"] if event.dropped else []
    return ", ".join(said)


def _details(kind: str, detail: dict[str, Any]) -> Iterator[str]:
    if "reason" in detail:
        yield f"because: {detail['reason']}"
    if kind == "tool" and detail.get("kind") in _WAITS:
        yield f"waits: {_WAITS[detail['kind']]}"
    if "set" in detail:
        yield f"set {', '.join(detail['set'])}"
    if kind == "policy":
        yield ", ".join(f"{key} {value}" for key, value in detail.items())
    elif "error" in detail:
        yield f"raised {detail['error']}"


def _append(text: Text, mark: str, piece: Any) -> None:
    """One piece of a difference; what is not told is a number of characters."""
    if mark == ".":
        text.append(f"({piece} characters withheld)", "dim")
        return
    before, behind, style = _PIECES.get(mark, _PIECES["="])
    said = f"{piece} characters" if isinstance(piece, int) else str(piece)
    text.append(f"{before}{said}{behind}", style or "default")


def _results(part: RecordedPart) -> dict[str, str]:
    """Calls of tools as they are shown, by id."""
    found: dict[str, str] = {}
    for message in part.messages:
        for said in message.get("parts", ()):
            call = said.get("toolInvocation")
            if call is not None:
                asked = _json(call["args"]) if "args" in call else "…"
                text = f"{call['toolName']}({asked})"
                if "result" in call:
                    text += f" = {_json(call['result'])}"
                found[call["toolCallId"]] = text
    return found


def _json(value: Any) -> str:
    return _shortened(msgspec.json.encode(value).decode(), 200)


def _labelled(console: Console, label: str, said: str) -> None:
    text = Text(f"{label:<9}  ", "bold")
    text.append(_shortened(said, _MOST_TEXT), "default")
    _print(console, text, 0)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} characters more)"


def _print(console: Console, line: Text, indent: int) -> None:
    for wrapped in line.wrap(console, max(console.width - indent, 20)):
        wrapped.rstrip()
        console.print(Text(" " * indent) + wrapped)


def _time(milliseconds: float) -> str:
    if milliseconds >= 1000:
        return f"{milliseconds / 1000:.2f} s"
    return f"{milliseconds:.1f} ms" if milliseconds >= 0.1 else f"{milliseconds * 1000:.0f} µs"
