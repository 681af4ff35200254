"""Compare traces with what they should be.

    python -m conformance.compare EXPECTED_DIR TRACES_DIR [NAME…]

Prints one line for each mismatch and exits with 1 when there is any. A trace that is missing is a
mismatch. An expected trace may hold wildcards, which stand for values that are free:

- `<any>`, `<number>`, `<unscripted text>`, `<unscripted text mentioning: A | B>`,
  `<processor feedback: REASON>`;
- `<id:N>`: any text; the same N always means the same text, another N another one;
- in lists `{"<optional>": X}`, `{"<unordered>": [X, Y]}` and, at the end, `"<rest>"`;
- in objects the key `"<rest>"`: further keys.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .matching import ABSENT, Bindings, differences

SECTIONS = (
    "log",
    "model_calls",
    "chunks",
    "result",
    "threw",
    "stream_threw",
    "persisted",
    "messages",
    "recalled_roles",
)
FORBIDDEN_UNLESS_EXPECTED = ("threw", "stream_threw")


class Mismatch(NamedTuple):
    """A place in a trace where something else was expected."""

    path: str
    expected: Any
    found: Any

    def __str__(self) -> str:
        return f"{self.path}  expected {_shown(self.expected)}  got {_shown(self.found)}"


def compare(expected: Mapping[str, Any], found: Any) -> list[Mismatch]:
    """Where a trace differs from the expected one."""
    return [Mismatch(*difference) for difference in _differences(expected, found)]


def _differences(expected: Mapping[str, Any], found: Any) -> Iterator[tuple[str, Any, Any]]:
    calls = found.get("calls") if isinstance(found, Mapping) else None
    if not isinstance(calls, list):
        yield "calls", "a list", calls
        return
    if len(calls) != len(expected["calls"]):
        yield "calls", f"{len(expected['calls'])} calls", f"{len(calls)} calls"
    joined = (expected.get("compare") or {}).get("text") == "joined"
    # What an id means holds for the whole trace.
    bindings = Bindings()
    for position, (want, have) in enumerate(zip(expected["calls"], calls, strict=False)):
        if not isinstance(have, dict):
            yield f"calls[{position}]", "an object", have
            continue
        for section in _compared(want, have):
            left, right = want.get(section, ABSENT), have.get(section, ABSENT)
            if joined and section in ("chunks", "log"):
                left, right = _joined(left), _joined(right)
            yield from differences(left, right, f"calls[{position}].{section}", bindings)


def _compared(want: Mapping[str, Any], have: Mapping[str, Any]) -> list[str]:
    """The sections that count: those expected, and exceptions that nobody expects."""
    return [
        section
        for section in SECTIONS
        if section in want
        or (section in FORBIDDEN_UNLESS_EXPECTED and have.get(section) is not None)
    ]


def _joined(items: Any) -> Any:
    """Neighbouring text deltas of a block as one, for scenarios where their borders are free."""
    if not isinstance(items, list):
        return items
    out: list[Any] = []
    for item in items:
        previous = _delta(out[-1]) if out else None
        delta = _delta(item)
        if delta is not None and previous is not None and delta[:2] == previous[:2]:
            out[-1] = _with_text(out[-1], previous[2] + delta[2])
        else:
            out.append(item)
    return out


def _delta(item: Any) -> tuple[Any, Any, str] | None:
    """Who saw it, block and text of a text delta, a chunk or an event that holds one."""
    if not isinstance(item, dict):
        return None
    part = (item.get("fields") or {}).get("part") if "event" in item else item
    payload = part.get("payload") if isinstance(part, dict) else None
    if not isinstance(payload, dict) or part.get("type") != "text-delta":
        return None
    text = payload.get("text")
    return (item.get("processor"), payload.get("id"), text) if isinstance(text, str) else None


def _with_text(item: dict[str, Any], text: str) -> dict[str, Any]:
    if "event" in item:
        fields = item["fields"]
        return {**item, "fields": {**fields, "part": _with_text(fields["part"], text)}}
    return {**item, "payload": {**item["payload"], "text": text}}


def _shown(value: Any) -> str:
    text = "nothing" if value is ABSENT else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 300 else f"{text[:297]}..."


def compare_directories(
    expected: Path, found: Path, names: Sequence[str] = ()
) -> dict[str, list[Mismatch]]:
    """The mismatches of each scenario; all of them when no names are given."""
    result: dict[str, list[Mismatch]] = {}
    for path in sorted(expected.glob("*.json")):
        if names and path.stem not in names:
            continue
        trace = found / path.name
        have = json.loads(trace.read_text(encoding="utf-8")) if trace.exists() else None
        result[path.stem] = compare(json.loads(path.read_text(encoding="utf-8")), have)
    return result


def main(arguments: list[str]) -> int:
    """Run the program; its exit status."""
    if len(arguments) < 2 or not all(Path(name).is_dir() for name in arguments[:2]):
        print(__doc__, file=sys.stderr)
        return 2
    result = compare_directories(Path(arguments[0]), Path(arguments[1]), arguments[2:])
    for name, mismatches in result.items():
        for mismatch in mismatches:
            print(f"{name}  {mismatch}")
    failed = sum(1 for mismatches in result.values() if mismatches)
    print(f"{len(result) - failed} passed, {failed} failed")
    return 1 if failed or not result else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
