"""The store of costs in memory: by scope, in windows of time, bounded (B-271, B-279)."""

import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procession.chunks import Usage
from procession.processors import CostQuery, InMemoryCostStore
from procession.results import ModelCall
from tests.processors.test_costs import call

MILLION = Usage(input_tokens=1_000_000)
DOLLAR = {"input": 1, "output": 1}
START = datetime(2026, 7, 1, 12, 0, 30, tzinfo=UTC).timestamp()


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


def store(**options: Any) -> tuple[InMemoryCostStore, Clock]:
    clock = Clock()
    prices = {"small": DOLLAR, "large": {"input": 5, "output": 5}}
    return InMemoryCostStore(prices=prices, clock=clock, **options), clock


_ids = iter(range(10**9))


def paid(model_id: str = "small", **values: Any) -> ModelCall:
    return call(id=str(next(_ids)), model_id=model_id, usage=MILLION, **values)


def spent(held: InMemoryCostStore, scope: str, id: str, window: timedelta | None = None) -> float:
    since = None if window is None else held.now() - window
    query = CostQuery(scope=scope, scope_id=id, since=since)
    return held.get_metric_aggregate(query).estimated_cost


def test_each_scope_has_its_own_sum() -> None:
    held, _ = store()
    held.record(paid(), {"run": "r1", "resource": "u1", "thread": "t1"})
    held.record(paid("large"), {"run": "r2", "resource": "u1", "thread": "t2"})
    assert spent(held, "resource", "u1") == 6
    assert spent(held, "thread", "t1") == 1
    assert spent(held, "run", "r2") == 5
    assert spent(held, "resource", "u2") == 0
    assert spent(held, "user", "u1") == 0


def test_a_call_that_is_told_twice_counts_once() -> None:
    """Two guards of one run have one store."""
    held, _ = store()
    once = paid()
    held.record(once, {"resource": "u1"})
    held.record(once, {"resource": "u1"})
    assert spent(held, "resource", "u1") == 1


def test_replayed_and_refused_calls_are_free() -> None:
    held, _ = store()
    held.record(paid(from_cache=True), {"resource": "u1"})
    held.record(paid(answered=False), {"resource": "u1"})
    assert spent(held, "resource", "u1") == 0


def test_windows_pass() -> None:
    held, clock = store()
    held.record(paid(), {"resource": "u1"})
    for hours, window, expected in (
        (0.9, timedelta(hours=1), 1),
        (0.2, timedelta(hours=1), 0),
        (0, timedelta(hours=6), 1),
        (24, timedelta(hours=24), 0),
        (0, timedelta(days=7), 1),
        (24 * 8, timedelta(days=7), 0),
        (0, timedelta(days=30), 1),
        (24 * 300, timedelta(days=365), 1),
        (24 * 100, timedelta(days=365), 0),
    ):
        clock.now += hours * 3600
        assert spent(held, "resource", "u1", window) == expected


@given(st.lists(st.tuples(st.floats(0, 40 * 86400), st.integers(1, 9)), max_size=30))
def test_a_window_never_forgets_what_is_in_it(gaps: list[tuple[float, int]]) -> None:
    """And takes in no more than a span that it begins within."""
    held, clock = store()
    calls: list[tuple[float, int]] = []
    for gap, times in gaps:
        clock.now += gap
        for _ in range(times):
            held.record(paid(), {"user": "u"})
        calls.append((clock.now, times))
    for window in (timedelta(hours=1), timedelta(days=7), timedelta(days=365)):
        begins = clock.now - window.total_seconds()
        within = sum(times for at, times in calls if at >= begins)
        nearly = sum(times for at, times in calls if at >= begins - 86_400)
        assert within <= spent(held, "user", "u", window) <= nearly


def test_old_minutes_become_hours_and_days() -> None:
    """Bounded memory: a call each minute for two months."""
    held, clock = store()
    for _ in range(60 * 24 * 60 // 7):
        clock.now += 7 * 60
        held.record(paid(), {"user": "u"})
    assert held._count < 2500
    total = 60 * 24 * 60 // 7
    assert spent(held, "user", "u", timedelta(days=365)) == total
    assert spent(held, "user", "u", timedelta(days=30)) == pytest.approx(total / 2, rel=0.02)
    assert spent(held, "user", "u", timedelta(hours=1)) == pytest.approx(60 / 7, abs=1)


def test_only_so_much_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    """Bounded memory; runs never push out others."""
    held, _ = store(max_entries=10)
    with caplog.at_level(logging.WARNING):
        for n in range(10):
            held.record(paid(), {"user": f"u{n}"})
        for n in range(100):
            held.record(paid(), {"run": f"r{n}"})
        assert spent(held, "user", "u0") == 1
        assert not caplog.records
        held.record(paid(), {"user": "u10"})
        held.record(paid(), {"user": "u11"})
    assert [spent(held, "user", f"u{n}") for n in (0, 1, 2, 11)] == [0, 0, 1, 1]
    assert spent(held, "run", "r0") == 0
    assert spent(held, "run", "r99") == 1
    assert len(caplog.records) == 1
    assert "max_entries" in caplog.text


def test_the_breakdown_names_models_the_dearest_first() -> None:
    """B-277."""
    held, _ = store()
    for model in ("small", "large", "small"):
        held.record(paid(model), {"user": "u"})
    shares = held.get_metric_breakdown(CostQuery(scope="user", scope_id="u"))
    found = [(share.provider, share.model, share.estimated_cost) for share in shares]
    assert found == [("acme", "large", 5), ("acme", "small", 2)]


def test_small_costs_add_up_exactly() -> None:
    held, _ = store()
    for _ in range(1000):
        usage = Usage(input_tokens=100)  # a ten-thousandth of a dollar
        held.record(call(id=str(next(_ids)), usage=usage), {"user": "u"})
    assert spent(held, "user", "u") == 0.1


def test_threads_may_record_at_once() -> None:
    held, _ = store()

    def record(_: int) -> None:
        for _ in range(200):
            held.record(paid(), {"user": "u"})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(record, range(4)))
    assert spent(held, "user", "u") == 800


def test_wrong_options_fail_at_once() -> None:
    with pytest.raises(ValueError, match="max_entries"):
        InMemoryCostStore(max_entries=0)
