"""O-057: traces are saved in batches, found by id and by filters, and deleted; in every store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from procession import InputError
from procession.trace_store import ExportedSpan
from procession.tracing import tree_of

if TYPE_CHECKING:
    from procession.trace_store import ObservabilityStore

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def traces(store: Any) -> ObservabilityStore:
    """Its traces."""
    return store.get_store("observability")


def span(number: int, trace: int = 1, parent: int | None = None, **more: Any) -> ExportedSpan:
    """A span that begins `number` seconds after noon."""
    options: dict[str, Any] = {"name": f"span {number}", "type": "generic", **more}
    return ExportedSpan(
        id=f"{number:016x}",
        trace_id=f"{trace:032x}",
        parent_span_id=None if parent is None else f"{parent:016x}",
        start_time=AT + timedelta(seconds=number),
        end_time=AT + timedelta(seconds=number + 1, microseconds=7),
        **options,
    )


def root(number: int, trace: int, **more: Any) -> ExportedSpan:
    """The root of a trace."""
    kind: dict[str, Any] = {"type": "agent_run", "entity_type": "agent", "entity_id": "desk"}
    return span(number, trace, **{**kind, **more})


async def test_spans_come_back_as_they_were(traces: ObservabilityStore) -> None:
    odd = {"a": "Ünï \0 \ud800 猫", "b": [1, None, {"c": 0.5}]}
    given = [
        span(3, parent=1, input=odd, output="x", error_info={"name": "ValueError"}),
        span(2, parent=1, attributes=odd, is_event=True, run_id="r"),
        root(1, 1, tags=["a"], metadata={"m": 1}, request_context={"t": "x"}, status="tripwire"),
    ]
    await traces.save_spans(given)
    assert await traces.get_trace(given[0].trace_id) == sorted(given, key=lambda s: s.id)
    assert await traces.get_trace("f" * 32) == []
    assert [node.span.id for node in tree_of(given)[0].walk()] == [s.id for s in given[::-1]]
    await traces.save_spans([])


async def test_a_batch_again_changes_nothing_and_a_changed_span_is_written(
    traces: ObservabilityStore,
) -> None:
    given = [root(1, 1), span(2, parent=1)]
    await traces.save_spans(given)
    await traces.save_spans(given)
    await traces.save_spans([span(2, parent=1, name="other")])
    assert [s.name for s in await traces.get_trace(given[0].trace_id)] == ["span 1", "other"]
    (found,) = (await traces.list_traces()).traces
    assert (found.span_count, found.start_time, found.end_time) == (
        2,
        given[0].start_time,
        given[0].end_time,
    )


async def test_a_page_of_traces(traces: ObservabilityStore) -> None:
    await traces.save_spans(
        [root(n, n, attributes={"usage": {"inputTokens": n}}) for n in range(7)]
    )
    await traces.save_spans([span(50, 50, parent=49)])  # its root has not come yet
    page = await traces.list_traces(page=1, per_page=3)
    assert [int(t.trace_id, 16) for t in page.traces] == [3, 2, 1]
    assert (page.total, page.has_more) == (7, True)
    assert page.traces[0].usage == {"inputTokens": 3}
    assert page.traces[0].duration_ms == pytest.approx(1000.007)
    assert len((await traces.list_traces(per_page=False)).traces) == 7
    assert (await traces.list_traces(page=9)).traces == []


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        ({"entity_id": "desk"}, [1, 2]),
        ({"entity_name": "Dësk"}, [2]),
        ({"entity_type": "workflow"}, [3]),
        ({"status": "error"}, [2]),
        ({"run_id": "run-3"}, [3]),
        ({"tags": ["a"]}, [1, 2]),
        ({"tags": ["a", "b\n"]}, [2]),
        ({"metadata": {"plan": "free"}}, [1, 3]),
        ({"metadata": {"plan": "free", "n": 1}}, [3]),
        ({"metadata": {"tag": "a"}}, []),
        ({"start": AT + timedelta(seconds=2)}, [2, 3]),
        ({"end": AT + timedelta(seconds=2)}, [1, 2]),
        ({"start": AT + timedelta(seconds=2), "end": AT + timedelta(seconds=2)}, [2]),
        ({}, [1, 2, 3]),
        (None, [1, 2, 3]),
    ],
)
async def test_filters(traces: ObservabilityStore, filter: Any, expected: list[int]) -> None:
    await traces.save_spans(
        [
            root(1, 1, tags=["a"], metadata={"plan": "free"}),
            root(2, 2, tags=["a", "b\n"], entity_name="Dësk", status="error"),
            root(
                3,
                3,
                entity_type="workflow",
                entity_id="flow",
                run_id="run-3",
                metadata={"plan": "free", "n": 1},
            ),
        ]
    )
    page = await traces.list_traces(filter=filter)
    assert sorted(int(trace.trace_id, 16) for trace in page.traces) == expected
    assert page.total == len(expected)


async def test_a_run_that_goes_on_brings_its_trace_up_to_date(traces: ObservabilityStore) -> None:
    first = root(1, 1, status="suspended")
    second = root(5, 1, parent=1, attributes={"continues": first.id})
    for batch in ([first], [second], [first]):
        await traces.save_spans(batch)
        (found,) = (await traces.list_traces()).traces
        assert found.start_time == first.start_time
    assert (found.status, found.end_time) == ("ok", second.end_time)


async def test_deleting(traces: ObservabilityStore) -> None:
    await traces.save_spans([root(n, n) for n in (1, 2, 3)])
    await traces.delete_traces([f"{n:032x}" for n in (1, 3, 9)])
    assert [int(t.trace_id, 16) for t in (await traces.list_traces()).traces] == [2]
    assert await traces.get_trace(f"{1:032x}") == []


async def test_wrong_arguments(traces: ObservabilityStore) -> None:
    wrong: Any
    for wrong in ({"entity": "x"}, {"status": 1}, {"tags": "a"}, {"start": "today"}, 7):
        with pytest.raises(InputError):
            await traces.list_traces(filter=wrong)
    for wrong in ([{"id": "x"}], [None]):
        with pytest.raises(InputError):
            await traces.save_spans(wrong)
    with pytest.raises(InputError):
        await traces.list_traces(per_page=-1)
