"""What is loaded, per thread: B-325."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procession.processors.tools import loaded_tools
from procession.processors.tools.loaded_tools import LoadedTools


class Clock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now + 5_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(loaded_tools, "time", clock)
    return clock


def test_threads_do_not_see_each_other() -> None:
    held = LoadedTools(60)
    held.add("a", ["x", "y", "x"])
    held.add("b", ["z"])
    assert (held.of("a"), held.of("b"), held.of("c")) == (["x", "y"], ["z"], [])
    held.clear("a")
    assert (held.of("a"), held.of("b")) == ([], ["z"])
    held.clear()
    assert held.stats() == {"thread_count": 0, "oldest_access_time": None}


def test_a_thread_is_its_resources_own() -> None:
    """B-325: cleared are all that are called so."""
    held = LoadedTools(60)
    held.add("t", ["x"], "ann")
    held.add("t", ["y"], "bob")
    held.add("u", ["z"], "ann")
    assert (held.of("t", "ann"), held.of("t", "bob"), held.of("t")) == (["x"], ["y"], [])
    held.clear("t")
    assert (held.of("t", "ann"), held.of("t", "bob"), held.of("u", "ann")) == ([], [], ["z"])


def test_what_is_not_used_is_dropped(clock: Clock) -> None:
    """B-325: use starts the time again, and the state goes by itself."""
    held = LoadedTools(60)
    held.add("a", ["x"])
    clock.now += 30
    held.add("b", ["x"])
    assert held.stats() == {"thread_count": 2, "oldest_access_time": 6_000_000}
    clock.now += 20
    assert held.of("a") == ["x"]
    assert held.stats()["oldest_access_time"] == 6_030_000
    clock.now += 41
    assert held.stats()["thread_count"] == 1
    assert (held.of("b"), held.of("a")) == ([], ["x"])
    clock.now += 61
    assert (held.clean_up(), held.clean_up()) == (1, 0)


def test_zero_is_for_ever(clock: Clock) -> None:
    """B-325."""
    held = LoadedTools(0)
    held.add("a", ["x"])
    clock.now += 1e9
    assert (held.clean_up(), held.of("a")) == (0, ["x"])


def test_the_state_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """B-325: by threads and by names, also with `ttl=0`; what is used stays."""
    monkeypatch.setattr(loaded_tools, "MOST_THREADS", 3)
    monkeypatch.setattr(loaded_tools, "MOST_NAMES", 2)
    held = LoadedTools(0)
    for thread in "abcd":
        held.of("a")
        held.add(thread, ["x", "y", "z"])
    assert [held.of(thread) for thread in "abcd"] == [["y", "z"], [], ["y", "z"], ["y", "z"]]
    held.of("unknown")
    assert held.stats()["thread_count"] == 3


def test_several_event_loops_may_share_it() -> None:
    held = LoadedTools(1e-9)

    def work(name: str) -> None:
        for n in range(2_000):
            held.add(f"{name}{n % 7}", [str(n)])
            held.of(f"{name}{n % 5}")
            held.clean_up()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, "abcd"))  # which raises what one of them has raised
    assert held.clean_up() <= 28


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "of", "clear", "wait"]), st.sampled_from("abc")),
        max_size=30,
    )
)
def test_it_remembers_like_a_table_with_times(actions: list[tuple[str, str]]) -> None:
    """B-325: a model of it that looks at everything each time says the same."""
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loaded_tools, "time", clock)
        held = LoadedTools(10)
        table: dict[str, tuple[float, list[str]]] = {}
        for number, (action, thread) in enumerate(actions):
            table = {k: v for k, v in table.items() if clock.now - v[0] <= 10}
            if action == "add":
                held.add(thread, [str(number)])
                table[thread] = clock.now, [*table.get(thread, (0, []))[1], str(number)]
            elif action == "clear":
                held.clear(thread)
                table.pop(thread, None)
            elif action == "wait":
                clock.now += 4
            else:
                if thread in table:
                    table[thread] = clock.now, table[thread][1]
                assert held.of(thread) == table.get(thread, (0, []))[1]
        table = {k: v for k, v in table.items() if clock.now - v[0] <= 10}
        assert held.stats()["thread_count"] == len(table)
