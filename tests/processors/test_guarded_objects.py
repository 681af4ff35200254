"""Guards are as safe for answers that are to be objects as for prose (G-A, laws 2 and 3)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procession.hold import Pattern
from procession.processors import PIIDetector, RegexFilterProcessor, RegexRule
from tests.laws.kit import run_async
from tests.processors.guarding import cut_at, worst_cuttings
from tests.processors.objects import (
    Shown,
    as_text,
    changed,
    is_beginning,
    leaves,
    show,
    show_second,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

ways = pytest.mark.parametrize("play", [show, show_second], ids=["answer", "second model"])


def pii(strategy: Any = "redact", **more: Any) -> Any:
    return PIIDetector(strategy=strategy, **more)


def placeholder(strategy: Any = "redact") -> Any:
    return PIIDetector(strategy=strategy, redaction_method="placeholder")


def presets(strategy: Any = "redact") -> Any:
    return RegexFilterProcessor(presets=["pii"], strategy=strategy)


def rule(strategy: Any = "redact", replacement: str = "#") -> Any:
    made = RegexRule(name="word", pattern=r"secret\d{0,3}", replacement=replacement)
    return RegexFilterProcessor(rules=[made], strategy=strategy)


guards = pytest.mark.parametrize("make", [pii, placeholder, presets, rule])

TEXTS = st.lists(
    st.sampled_from(
        [
            "joe@example.com", "4111 1111 1111 1111", "secret12", "secret", "Ann", " ", "joe@",
            "se", "cret", "41", "😀", "é", '"', "\\", "\n", "```", "{", "[",
        ]
    ),
    max_size=4,
).map("".join)  # fmt: skip
NUMBERS = st.sampled_from([4111111111111111, 41, -1.5, 0, 1e300])


def members(entries: Any) -> dict[str, Any]:
    """Keys stay different from each other, whatever is taken out of them."""
    return {f"{at} {key}": value for at, (key, value) in enumerate(entries)}


VALUES = st.recursive(
    st.one_of(TEXTS, NUMBERS, st.booleans(), st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(st.tuples(TEXTS, inner), max_size=3).map(members),
    ),
    max_leaves=5,
)
OBJECTS = st.lists(st.tuples(TEXTS, VALUES), min_size=1, max_size=3).map(members)
WRITING = st.tuples(st.integers(0, 3), st.sampled_from(["", " ", "\n\t"]))


def some_cuttings(text: str, points: Iterable[int]) -> list[list[str]]:
    places = sorted({point % (len(text) + 1) for point in points})
    return [[text], list(text), cut_at(text, places)]


# ── what must come of it ───────────────────────────────────────────────────────────────────────


def counted(shown: Shown) -> int:
    """How many regions were reported."""
    found = 0
    for violation in shown.told:
        detail = violation.detail
        assert detail["phase"] == "process_output_stream", "nothing was left for the end"
        found += detail.get("count") or len(detail.get("redactions") or detail["matches"])
    return found


async def check_changed(
    make: Callable[[], Any],
    play: Any,
    value: Any,
    cuttings: Iterable[Sequence[str]],
    around: tuple[str, str] = ("", ""),
) -> None:
    """All that shows is the object with its leaves as the guard would leave them one by one, at the
    end and on the way; and each region is reported once.
    """
    guard = make()
    expected = value if guard.strategy == "warn" else changed(value, guard.redacted_text)
    regions = [
        region for text in [*around, *map(as_text, leaves(value))] for region in guard.regions(text)
    ]
    each_hit = guard.strategy == "warn" and isinstance(guard, RegexFilterProcessor)
    count = sum(len(region.found) if each_hit else 1 for region in regions)
    delivered: set[str] = set()
    for pieces in cuttings:
        shown = await play(make(), pieces)
        assert shown.tripwire is None
        assert shown.error is None
        assert shown.object == expected, pieces
        assert shown.elsewhere == [expected] * 4, pieces
        assert all(is_beginning(part, expected) for part in shown.partials), pieces
        assert counted(shown) == count, pieces
        assert shown.text == shown.stored_text == shown.delivered, pieces
        delivered.add(shown.delivered)
    assert len(delivered) == 1
    if play is show:
        whole = delivered.pop()
        before, after = around if guard.strategy == "warn" else map(guard.redacted_text, around)
        assert whole.startswith(before)
        assert whole.endswith(after)
        assert json.loads(whole[len(before) : len(whole) - len(after)]) == expected


async def check_blocked(
    make: Callable[[], Any], play: Any, value: Any, space: str, cuttings: Iterable[Sequence[str]]
) -> None:
    """What stands before the first match shows, in the text and in the object on its way; nothing
    else does anywhere.
    """
    guard = make()
    expected = before_the_first(guard, value, space)
    texts = [as_text(leaf) for leaf in leaves(value)]
    found = {text[r.start : r.end] for text in texts for r in guard.regions(text)}
    hidden = {text for text in found if text not in expected}
    last: Any = ...
    for pieces in cuttings:
        shown = await play(make(), pieces)
        assert shown.tripwire is not None, pieces
        assert len(shown.told) == 1, pieces
        assert shown.object is None, pieces
        assert shown.elsewhere == [], pieces
        assert all(is_beginning(part, value) for part in shown.partials), pieces
        assert last in (..., shown.partials[-1:]), pieces
        last = shown.partials[-1:]
        if play is show:
            assert shown.delivered == expected, pieces
        assert shown.stored_text == "", pieces
        assert not any(text in shown.everything for text in hidden), pieces


def before_the_first(guard: Any, value: Any, space: str) -> str:
    """The text up to the first match."""
    found: list[bool] = []

    def cut(text: str) -> str:
        regions = guard.regions(text)
        if found or not regions:
            return text
        found.append(True)
        return text[: regions[0].start] + "\0"

    stopped = written(changed(value, cut), 0, space)
    text = stopped[: stopped.index("\\u0000")]
    first = next(leaf for leaf in leaves(value) if guard.regions(as_text(leaf)))
    # Of a number that is all of it a match, not even a quote is written.
    return text if isinstance(first, str) else text.removesuffix('"')


# ── the laws ───────────────────────────────────────────────────────────────────────────────────


@ways
@guards
@given(value=OBJECTS, writing=WRITING, points=st.lists(st.integers(0, 400), max_size=8))
@settings(max_examples=20, deadline=None)
def test_all_that_shows_is_redacted_however_it_is_cut(
    make: Any, play: Any, value: Any, writing: tuple[int, str], points: list[int]
) -> None:
    """G-A for objects: strings, keys and numbers, with escapes and without."""
    cuttings = some_cuttings(written(value, *writing), points)
    run_async(check_changed(make, play, value, cuttings))


@given(
    before=st.sampled_from(["", "Here, joe@example.com:\n", "`a` [see secret1] {x} "]),
    after=st.sampled_from(["", "\nBut secret2.", "\n``` and joe@example.com"]),
    value=OBJECTS,
    writing=WRITING,
    points=st.lists(st.integers(0, 400), max_size=8),
)
@settings(max_examples=25, deadline=None)
@guards
def test_so_it_is_within_a_fence_and_words(
    make: Any, before: str, after: str, value: Any, writing: tuple[int, str], points: list[int]
) -> None:
    """G-A: the words around are looked at as words."""
    around = (f"{before}```json\n", f"\n```{after}")
    cuttings = some_cuttings(around[0] + written(value, *writing) + around[1], points)
    run_async(check_changed(make, show, value, cuttings, around))


@ways
@guards
@given(value=OBJECTS, writing=WRITING, points=st.lists(st.integers(0, 400), max_size=8))
@settings(max_examples=15, deadline=None)
def test_a_guard_that_warns_reports_each_match_once(
    make: Any, play: Any, value: Any, writing: tuple[int, str], points: list[int]
) -> None:
    """B-033: not when it has come by, and once more at the end."""
    cuttings = some_cuttings(written(value, *writing), points)
    run_async(check_changed(lambda: make("warn"), play, value, cuttings))


@ways
@guards
@given(value=OBJECTS, writing=WRITING, points=st.lists(st.integers(0, 400), max_size=8))
@settings(max_examples=20, deadline=None)
def test_a_block_comes_before_anything_of_the_match(
    make: Any, play: Any, value: Any, writing: tuple[int, str], points: list[int]
) -> None:
    """G-A: neither text nor objects show a character of it, and nothing is stored."""
    if not any(make().regions(as_text(leaf)) for leaf in leaves(value)):
        value = {"0": "Ann", **value, "z": "joe@example.com secret1"}
    cuttings = some_cuttings(written(value, *writing), points)
    run_async(check_blocked(lambda: make("block"), play, value, writing[1], cuttings))


FRAGMENTS = st.lists(
    st.sampled_from(
        [
            "{", "}", "[", "]", '"', ":", ",", "`", "```", "```json\n", "\\u0073ecret", "secret",
            "\\", " ", "1", "x", "\n", '{"a":"', '"}', "\\u007", "true",
            '["', '",', "\\`", "\xa0",
        ]
    ),
    max_size=14,
).map("".join)  # fmt: skip


@ways
@pytest.mark.parametrize("replacement", ["#", "", "```"])
@given(text=FRAGMENTS, points=st.lists(st.integers(0, 100), max_size=8))
@settings(max_examples=60, deadline=None)
def test_no_text_whatever_gets_it_past(
    replacement: str, play: Any, text: str, points: list[int]
) -> None:
    """Broken JSON, fences in strings, strings in fences: what is read as an object is clean."""

    async def check() -> None:
        known: Any = None
        for pieces in some_cuttings(text, points):
            shown = await play(rule(replacement=replacement), pieces)
            for value in [*shown.partials, shown.object, *shown.elsewhere]:
                assert not any("secret" in as_text(leaf) for leaf in leaves(value)), pieces
            assert "secret" not in shown.delivered, pieces
            found = (shown.delivered, shown.object, shown.elsewhere)
            assert known in (None, found), pieces
            known = found

    run_async(check())


# ── guards that are broken ─────────────────────────────────────────────────────────────────────


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A guard that lets go of one character too early."""
    release = Pattern.release

    def early(self: Pattern, text: str, start: int, limit: int) -> int:
        return min(limit, release(self, text, start, limit) + 1)

    monkeypatch.setattr(Pattern, "release", early)


@ways
@pytest.mark.usefixtures("hasty")
async def test_one_character_too_early_is_noticed(play: Any) -> None:
    """These laws fail for a guard that is broken."""
    value = {"a": "my secret1"}
    cuttings = list(worst_cuttings(written(value, 1)))
    with pytest.raises(AssertionError):
        await check_changed(rule, play, value, cuttings)
    with pytest.raises(AssertionError):
        await check_blocked(lambda: rule("block"), play, value, "", cuttings)
