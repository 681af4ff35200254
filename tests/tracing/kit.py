"""What the tests of tracing have in common: a traced agent, and trees as names."""

from __future__ import annotations

from typing import Any

from procession import Agent, tool
from procession.testing import ScriptedModel, answer, tool_call
from procession.tracing import InMemoryExporter, Node, Tracing


@tool
def look(city: str) -> str:
    """Tell the weather."""
    return f"sunny in {city}"


def weather() -> list[Any]:
    """The answers of a run with one call of `look`."""
    call = tool_call("look", {"city": "Oslo"}, id="c1")
    return [answer(tool_calls=[call]), answer("It is ", "sunny.")]


def traced(*, script: Any = None, **options: Any) -> tuple[Agent, InMemoryExporter]:
    """An agent whose spans are kept, and where."""
    exporter = InMemoryExporter()
    own = {name: options.pop(name) for name in list(options) if name in TRACING}
    options.setdefault("tools", [look])
    agent = Agent(
        id="desk",
        model=ScriptedModel(weather() if script is None else script),
        observer=Tracing([exporter], **own),
        **options,
    )
    return agent, exporter


TRACING = ("content", "mask", "sampling", "span_output_processors", "request_context_keys")


def names(node: Node) -> Any:
    """A tree as nested lists of names; a leaf is its name."""
    below = [names(child) for child in node.children]
    return [node.span.name, *below] if below else node.span.name


def check_balanced(exporter: InMemoryExporter) -> None:
    """Every span has ended, and stands below another one of its trace, but for the roots."""
    ids = {span.id for span in exporter.spans}
    assert len(ids) == len(exporter.spans)
    for span in exporter.spans:
        assert span.end_time >= span.start_time
        if span.parent_span_id is None:
            assert span.type in ("agent_run", "generic"), span
        else:
            assert span.parent_span_id in ids, span
            above = next(s for s in exporter.spans if s.id == span.parent_span_id)
            assert above.trace_id == span.trace_id
            if "continues" not in span.attributes:
                assert above.start_time <= span.start_time, (above.name, span.name)
                if span.type != "generic":
                    assert span.end_time <= above.end_time, (above.name, span.name)
