"""O-052: exporters may be slow, broken or full: runs go on, and nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import io
import logging
import multiprocessing
import subprocess
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from procession import Agent, OptionError
from procession.stores import CompositeStore, InMemoryStore, SQLiteStore
from procession.testing import ScriptedModel, answer
from procession.tracing import (
    ConsoleExporter,
    InMemoryExporter,
    JsonlExporter,
    Observability,
    SensitiveDataFilter,
    StoreExporter,
    Tracing,
    tree_of,
)
from procession.tracing.exporters.jsonl import read_spans
from tests.tracing.kit import traced

if TYPE_CHECKING:
    from pathlib import Path


class Gated:
    """Takes nothing until it is let go; notes what is called, and where."""

    name = "gated"

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.spans: list[Any] = []
        self.called: list[str] = []
        self.threads: set[int] = set()

    def export(self, spans: Any) -> None:
        self.gate.wait(30)
        self.threads.add(threading.get_ident())
        self.spans.extend(spans)

    def flush(self) -> None:
        self.called.append("flush")

    def shutdown(self) -> None:
        self.called.append("shutdown")


class Broken(Gated):
    """Fails with everything."""

    name = "broken"

    def export(self, spans: Any) -> None:
        raise ValueError("sk-123")

    flush = shutdown = export  # type: ignore[assignment]


class Later:
    """Is async."""

    name = "later"

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.closed = False

    async def export(self, spans: Any) -> None:
        await asyncio.sleep(0)
        self.spans.extend(spans)

    async def flush(self) -> None:
        await asyncio.sleep(0)

    async def shutdown(self) -> None:
        self.closed = True


def agent_of(tracing: Any, runs: int = 1) -> Agent:
    return Agent(id="desk", model=ScriptedModel([answer("Ok.")] * runs), observer=tracing)


def threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("procession-traces")]


async def test_a_slow_exporter_holds_nobody_up() -> None:
    """The run ends, others get their spans, and what waits is bounded and counted."""
    slow, kept = Gated(), InMemoryExporter()
    tracing = Tracing([slow, kept], queue_size=7)
    agent = agent_of(tracing, 10)
    for _ in range(10):
        await agent.generate("go")
    assert len(kept.spans) == 30
    assert not slow.spans
    assert not await tracing.flush(within=0.01)
    slow.gate.set()
    assert await tracing.shutdown()
    counts = tracing.counts["gated"]
    assert counts.exported == len(slow.spans)
    assert counts.exported + counts.dropped == 30
    assert counts.dropped >= 18
    assert slow.called == ["flush", "shutdown"]
    assert slow.threads != {threading.get_ident()}
    assert not threads()


async def test_a_broken_exporter_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """It is told once, by kind; other exporters get everything."""
    later = Later()
    async with Tracing([Broken(), later]) as tracing:
        agent = agent_of(tracing, 3)
        for _ in range(3):
            assert (await agent.generate("go")).text == "Ok."
        assert await tracing.flush()
        assert len(later.spans) == 9
        assert tracing.counts["broken"].failed == 9
    assert later.closed
    told = [r for r in caplog.records if r.name == "procession.tracing"]
    assert len(told) == 1
    assert "ValueError" in told[0].getMessage()
    assert "sk-123" not in caplog.text
    assert not threads()


async def test_an_async_exporter_that_hangs_is_cut_short(caplog: pytest.LogCaptureFixture) -> None:
    """`export_timeout`."""

    class Hanging(Later):
        async def export(self, spans: Any) -> None:
            await asyncio.Event().wait()

    async with Tracing([Hanging()], export_timeout=0.01) as tracing:
        await agent_of(tracing).generate("go")
        assert await tracing.flush()
        assert tracing.counts["later"].failed == 3
    assert not threads()


async def test_what_comes_after_the_end_is_dropped() -> None:
    """Twice is once, and no thread comes back."""
    kept, later = InMemoryExporter(), Later()
    tracing = Tracing([kept, later])
    agent = agent_of(tracing, 2)
    await agent.generate("go")
    assert await tracing.shutdown()
    assert await tracing.shutdown()
    await agent.generate("go")
    assert len(kept.spans) == len(later.spans) == 3
    assert not threads()


async def test_nobody_needs_to_shut_it_down() -> None:
    """Who is forgotten lets go of its thread, and what was on its way arrives."""
    later = Later()
    tracing = Tracing([later])
    await agent_of(tracing).generate("go")
    forgotten = weakref.ref(tracing)
    del tracing
    gc.collect()
    assert forgotten() is None
    for thread in threading.enumerate():
        if thread.name.startswith("procession-traces"):
            await asyncio.to_thread(thread.join, 30)
    assert not threads()
    assert len(later.spans) == 3


PROGRAM = """
import asyncio
from procession import Agent
from procession.testing import ScriptedModel
from procession.tracing import JsonlExporter, Tracing
agent = Agent(id="a", model=ScriptedModel(["Ok."]), observer=Tracing([JsonlExporter({path!r})]))
asyncio.run(agent.generate("go"))
"""


def test_a_program_that_ends_brings_its_spans_home(tmp_path: Path) -> None:
    """Without flush or shutdown, and in silence."""
    path = str(tmp_path / "spans.jsonl")
    program = [sys.executable, "-W", "error", "-c", PROGRAM.format(path=path)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(list(read_spans(path))) == 3


def _in_child(tracing: Tracing, path: str) -> None:
    async def go() -> None:
        await agent_of(tracing).generate("go")
        await tracing.flush()

    asyncio.run(go())


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
async def test_a_child_that_was_forked_off_has_a_thread_of_its_own(tmp_path: Path) -> None:
    """Its ids are its own as well."""
    path = str(tmp_path / "spans.jsonl")
    tracing = Tracing([JsonlExporter(path)])
    await agent_of(tracing).generate("go")
    assert await tracing.flush()
    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=_in_child, args=(tracing, path)) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        await asyncio.to_thread(child.join, 30)
        assert child.exitcode == 0
    assert await tracing.shutdown()
    spans = list(read_spans(path))
    assert len(spans) == len({span.id for span in spans}) == 9
    assert len({span.trace_id for span in spans}) == 3


async def test_jsonl(tmp_path: Path) -> None:
    """A line for each span, which is read back as it was; a broken line is passed over."""
    path = tmp_path / "spans.jsonl"
    kept = InMemoryExporter()
    async with Tracing([kept, JsonlExporter(path)]) as tracing:
        await agent_of(tracing).generate("Ünï\ud800\0")
    assert (path.stat().st_mode & 0o077) == 0
    assert sys.platform != "linux" or path.read_text().isascii()
    with path.open("a") as file:
        file.write('{"half": ')
    found = list(read_spans(path))
    assert sorted(found, key=lambda s: s.id) == sorted(kept.spans, key=lambda s: s.id)


async def test_console() -> None:
    """Names, outcomes and tokens; not a word of the content."""
    stream = io.StringIO()
    async with Tracing([ConsoleExporter(stream)]) as tracing:
        result = await agent_of(tracing).generate("go")
    lines = stream.getvalue().splitlines()
    assert lines[0] == f"trace {result.trace_id}"
    assert lines[1].startswith("agent run: 'desk' ")
    assert lines[3].startswith("    llm: 'mock-1' ")
    assert lines[3].endswith("3+1 tokens")
    assert "Ok." not in stream.getvalue()


@pytest.mark.parametrize("kind", ["in memory", "SQLite", "composite"])
async def test_a_store(kind: str, tmp_path: Path) -> None:
    """O-055, O-057: the trace is found there, the store stays open for its owner."""
    sqlite = SQLiteStore(tmp_path / "app.db")
    stores: dict[str, Any] = {
        "in memory": InMemoryStore(),
        "SQLite": sqlite,
        "composite": CompositeStore(InMemoryStore(), domains={"observability": sqlite}),
    }
    store = stores[kind]
    kept = InMemoryExporter()
    async with Tracing([kept, StoreExporter(store)]) as tracing:
        result = await agent_of(tracing).generate("go", tracing_options={"tags": ["x"]})
    traces = store.get_store("observability")
    assert result.trace_id is not None
    found = await traces.get_trace(result.trace_id)
    assert [n.span for n in tree_of(found)[0].walk()] == [n.span for n in kept.tree()[0].walk()]
    page = await traces.list_traces(filter={"tags": ["x"], "entity_id": "desk"})
    assert [trace.run_id for trace in page.traces] == [result.run_id]
    await store.close()
    await sqlite.close()


async def test_several_ways_of_tracing() -> None:
    """O-050: each run takes one, whatever the selector does."""
    here, there = InMemoryExporter(), InMemoryExporter()

    def select(run: Any) -> str:
        return {"a": "there", "b": "nowhere"}[run.request_context.get("tenant")]

    observability = Observability(
        {"here": {"exporters": [here]}, "there": Tracing([there])}, config_selector=select
    )
    agent = agent_of(observability, 3)
    for tenant, expected in (("a", (0, 3)), ("b", (3, 0)), ("c", (3, 0))):
        await agent.generate("go", request_context={"tenant": tenant})
        assert (len(here.spans), len(there.spans)) == expected
        here.clear()
        there.clear()
    assert await observability.flush()
    assert await observability.shutdown()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"exporters": [object()]}, "exporters"),
        ({"sampling": 1.5}, "sampling"),
        ({"sampling": "sometimes"}, "sampling"),
        ({"content": "all"}, "content"),
        ({"mask": "pii"}, "mask"),
        ({"sensitive_data_filter": "yes"}, "sensitive_data_filter"),
        ({"span_output_processors": [1]}, "span_output_processors"),
        ({"span_filter": 1}, "span_filter"),
        ({"exclude_span_types": "tool_call"}, "exclude_span_types"),
        ({"include_internal_spans": 1}, "include_internal_spans"),
        ({"request_context_keys": "tenant"}, "request_context_keys"),
        ({"serialization_options": {"max_size": 1}}, "max_size"),
        ({"serialization_options": {"max_depth": 0}}, "max_depth"),
        ({"queue_size": 0}, "queue_size"),
        ({"export_timeout": -1}, "export_timeout"),
        ({"exporter": []}, "exporters"),
    ],
)
def test_wrong_options_are_told_by_name(options: dict[str, Any], told: str) -> None:
    with pytest.raises(OptionError, match=told):
        Tracing(**options)


def test_wrong_options_of_the_others() -> None:
    for make, told in (
        (lambda: JsonlExporter(""), "path"),
        (lambda: InMemoryExporter(0), "most"),
        (lambda: StoreExporter(object()), "observability"),  # type: ignore[arg-type]
        (lambda: Observability({}), "configs"),
        (lambda: Observability({"a": {"sample": 1}}), "sampling"),
        (lambda: Observability({"a": 1}), "configs"),  # type: ignore[dict-item]
        (lambda: SensitiveDataFilter("password"), "keys"),
    ):
        with pytest.raises(OptionError, match=told):
            make()


@pytest.mark.parametrize(
    "options",
    [
        {"trace_id": "12"},
        {"trace_id": "0" * 32},
        {"parent_span_id": 7},
        {"tags": "a"},
        {"tag": ["a"]},
    ],
)
async def test_wrong_options_of_a_call(options: Any) -> None:
    from procession import ConfigurationError

    agent, _ = traced()
    with pytest.raises(ConfigurationError, match="tracing_options"):
        await agent.generate("go", tracing_options=options)


async def test_values_are_cut() -> None:
    """O-054: texts, depth, entries; bytes are replaced by their size."""
    from procession import processor

    deep: Any = "end"
    for _ in range(12):
        deep = {"d": deep}
    given = {"text": "x" * 200_000, "deep": deep, "many": list(range(60)), "bytes": b"12345"}

    def tell(args: Any) -> None:
        given["object"] = object()
        args.tracing_context.current_span.create_child_span(name="x", input=given).end()

    agent, kept = traced(input_processors=[processor(id="p", process_input=tell)])
    await agent.generate("go")
    found = next(s for s in kept.spans if s.name == "x").input
    assert found["text"].startswith("x" * 131_072 + "…[68928 more")
    assert found["many"][-1] == "[10 more entries]"
    assert found["bytes"] == "[5 bytes]"
    assert found["object"] == "[object]"
    depth = 0
    value = found["deep"]
    while isinstance(value, dict):
        value, depth = value["d"], depth + 1
    assert (depth, value) == (7, "[1 entries]")


async def test_what_fails_within_tracing_harms_no_run(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is logged, and the run goes on."""

    def broken(*_: Any, **__: Any) -> None:
        raise ValueError("sk-123")

    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr("procession.tracing.live.Trace.begin", broken)
    agent, _ = traced()
    assert (await agent.generate("go")).text == "It is sunny."
    monkeypatch.undo()
    monkeypatch.setattr("procession.tracing.run_trace.Shape.of", broken)
    assert await agent.generate("go", observer=agent.observer)
    monkeypatch.undo()
    monkeypatch.setattr("procession.tracing.outcome.input_of", broken)
    agent, _ = traced()
    assert (await agent.generate("go")).text == "It is sunny."
    assert "sk-123" not in caplog.text
