"""Spans as a tree, and the tree as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from ..trace_store import ExportedSpan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Node", "render", "tree_of"]


class Node(Struct):
    """A span with those below it, by the time they began."""

    span: ExportedSpan
    children: list[Node] = field(default_factory=list["Node"])

    def walk(self) -> Iterator[Node]:
        """This one and all below it."""
        waiting: list[Node] = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))

    def to_json(self) -> dict[str, Any]:
        """The JSON form: that of the span, with `children`."""
        return {**self.span.to_json(), "children": [child.to_json() for child in self.children]}


def tree_of(spans: Iterable[ExportedSpan]) -> list[Node]:
    """The roots. A span whose parent is not among them is one, too."""
    ordered = sorted(spans, key=lambda span: span.start_time)
    nodes = {(span.trace_id, span.id): Node(span) for span in ordered}
    roots: list[Node] = []
    for node in nodes.values():
        span = node.span
        above = nodes.get((span.trace_id, span.parent_span_id or ""))
        (roots if above is None or above is node else above.children).append(node)
    return roots


def render(roots: Iterable[Node], *, times: bool = True) -> str:
    """A tree as lines of text: name, status if it is not `ok`, milliseconds, tokens."""
    return "\n".join(line for root in roots for line in _lines(root, 0, times))


def _lines(root: Node, depth: int, times: bool) -> Iterator[str]:
    waiting = [(root, depth)]
    while waiting:
        node, depth = waiting.pop()
        yield "  " * depth + _line(node.span, times)
        waiting.extend((child, depth + 1) for child in reversed(node.children))


def _line(span: ExportedSpan, times: bool) -> str:
    said = [span.name]
    outcome = span.attributes.get("outcome")
    if span.status != "ok":
        said.append(f"[{span.status}]")
    elif outcome not in (None, "ok", "result"):
        said.append(f"[{outcome}]")
    if times and not span.is_event:
        said.append(f"{span.duration_ms:.1f} ms")
    usage: Any = span.attributes.get("usage")
    if span.type == "model_generation" and usage:
        said.append(f"{usage.get('inputTokens', '?')}+{usage.get('outputTokens', '?')} tokens")
    return " ".join(said)
