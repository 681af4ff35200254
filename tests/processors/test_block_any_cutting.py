"""What is delivered before a verdict does not depend on how the answer was cut (G-A, law 3)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procession import Agent, Policy, processor
from procession.engine.gate import Gate
from procession.hold import Literals, Unit
from procession.processors import PIIDetector, RegexFilterProcessor, RegexRule
from procession.testing import ScriptedModel, answer
from tests.laws.kit import METADATA, PlayedModel, call, end, run_async
from tests.processors.guarding import (
    LANES,
    cut_at,
    every_cutting,
    play,
    worst_cuttings,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

in_every_lane = pytest.mark.parametrize("lane", LANES)


def stopper(word: str, *, awaits: bool = False, watches: Any = None, **more: Any) -> Any:
    """A hook of a user's that blocks at a word."""

    def plain(args: Any) -> Any:
        piece = args.piece
        text = "" if piece is None else piece.text
        if word in text:
            args.abort("no", passing=args.with_text(text[: text.index(word)]))
        return args.part

    async def awaited(args: Any) -> Any:
        return plain(args)

    made = processor(
        id=f"no-{word}",
        process_output_stream=awaited if awaits else plain,
        watches=watches or Literals(word),
        lanes=LANES,
        **more,
    )
    return made


def before(text: str, at: int, lane: str) -> str:
    """What is delivered of a text of which the rest is not."""
    found = written(text[:at], lane)
    return found[:-2] if lane == "tool-arguments" else found


async def check(
    make: Callable[[], list[Any]],
    lane: str,
    text: str,
    expected: str,
    cuttings: Iterable[Sequence[str]],
    *,
    by: str,
) -> None:
    """The same is delivered, and the same guard blocks, and tells once."""
    for pieces in cuttings:
        told: list[Any] = []
        guards = make()
        for one in guards:
            one.on_violation = told.append
        seen = await play(
            [*guards, processor(id="z", process_input=lambda args: None)], lane, pieces, text
        )
        assert seen.tripwire is not None, pieces
        assert seen.tripwire.processor_id == by, pieces
        assert seen.text == expected, pieces
        blocked = [one.processor_id for one in told if not one.detail]
        assert blocked == [by], pieces
        assert (seen.stored, seen.ran, seen.whole) == ("", [], None), pieces


@in_every_lane
@pytest.mark.parametrize("awaits", [False, True])
async def test_a_users_hook(lane: str, awaits: bool) -> None:
    """R-025: what it lets pass goes first."""
    text = "ab cd no ef"
    expected = before(text, 6, lane)
    make = lambda: [stopper("no", awaits=awaits)]  # noqa: E731
    await check(make, lane, text, expected, worst_cuttings(written(text, lane)), by="no-no")
    if lane == "text":
        await check(make, lane, "a no", "a ", every_cutting("a no"), by="no-no")


@in_every_lane
@pytest.mark.parametrize("awaits", [(False, False), (False, True), (True, False), (True, True)])
async def test_the_first_match_counts_whoever_finds_it(lane: str, awaits: Any) -> None:
    """The guard behind finds what stands before, so its verdict is given and no other is told."""
    text = "ab two cd one"
    make = lambda: [stopper("one", awaits=awaits[0]), stopper("two", awaits=awaits[1])]  # noqa: E731
    cuttings = list(worst_cuttings(written(text, lane)))
    await check(make, lane, text, before(text, 3, lane), cuttings, by="no-two")
    turned = lambda: make()[::-1]  # noqa: E731
    await check(turned, lane, text, before(text, 3, lane), cuttings, by="no-two")


@in_every_lane
async def test_what_the_next_one_redacts(lane: str) -> None:
    """What is let pass is looked at by those behind, who keep what may still become a match."""
    text = "to joe@example.com or jo stop"
    make = lambda: [  # noqa: E731
        stopper("stop"),
        PIIDetector(redaction_method="placeholder", model=False),
    ]
    expected = before("to [EMAIL] or jo ", 17, lane)
    await check(make, lane, text, expected, worst_cuttings(written(text, lane)), by="no-stop")


async def test_what_may_become_a_match_stays() -> None:
    """A tail that the next guard holds back is not let go by a verdict."""
    make = lambda: [stopper("stop"), stopper("secret")]  # noqa: E731
    await check(make, "text", "a secstop", "a ", worst_cuttings("a secstop"), by="no-stop")


@pytest.mark.parametrize("policy", [Policy(timeout=5), Policy(on_error="allow")])
async def test_under_a_policy(policy: Policy) -> None:
    """A policy changes nothing about a verdict."""
    make = lambda: [stopper("no", policy=policy)]  # noqa: E731
    await check(make, "text", "ab no", "ab ", worst_cuttings("ab no"), by="no-no")


async def test_sentences_before_the_verdict() -> None:
    """Pieces of one chunk that the hook has let go leave, though it blocks at a later one."""
    text = "One. Two. A bad one. "
    make = lambda: [stopper("bad", watches=[Unit("sentence"), Literals("bad")])]  # noqa: E731
    await check(make, "text", text, "One. Two. A ", worst_cuttings(text), by="no-bad")


async def test_sentences_before_an_error() -> None:
    """The same where the hook fails."""

    def fail(args: Any) -> Any:
        if args.piece is not None and "bad" in args.piece.text:
            raise ValueError
        return args.part

    for pieces in worst_cuttings("One. Two. A bad one. "):
        guard = processor(id="g", process_output_stream=fail, watches=Unit("sentence"))
        model = ScriptedModel([answer(*filter(None, pieces))])
        run = await Agent(id="a", model=model, output_processors=[guard]).stream("go")
        chunks = [chunk async for chunk in run.full_stream]
        assert isinstance(run.error, ValueError)
        assert "".join(c.payload.text for c in chunks if c.type == "text-delta") == "One. Two. "


async def test_without_watches() -> None:
    """A hook of single chunks may let something pass as well; what nobody lets pass does not."""

    def stop(args: Any) -> Any:
        if args.part.type == "text-delta" and "no" in args.part.payload.text:
            args.abort("no", passing=args.with_text("<"))
        return args.part

    guard = processor(id="g", process_output_stream=stop)
    run = await Agent(
        id="a", model=ScriptedModel([answer("ab", "no", "cd")]), output_processors=[guard]
    ).stream("go")
    assert [c.payload.text async for c in run.full_stream if c.type == "text-delta"] == ["ab", "<"]
    assert run.tripwire is not None
    assert await run.text == ""


async def test_an_observed_hook_lets_nothing_pass_by_itself() -> None:
    """Under `observe` every chunk goes on as it came."""
    guard = stopper("no", policy=Policy(observe=True))
    run = await Agent(
        id="a", model=ScriptedModel([answer("ab no", " cd")]), output_processors=[guard]
    ).stream("go")
    deltas = [c.payload.text async for c in run.full_stream if c.type == "text-delta"]
    assert "".join(deltas) == "ab no cd"
    assert run.tripwire is None


async def test_a_number_among_arguments() -> None:
    """What stands before a match in a number is delivered as a text."""
    json = '{"n":120045}'
    for pieces in worst_cuttings(json):
        deltas = [{"type": "tool-input-delta", "id": "c1", "delta": piece} for piece in pieces]
        started = {"type": "tool-input-start", "id": "c1", "toolName": "echo"}
        model = PlayedModel([[METADATA, started, *deltas, call("echo", json), end("tool-calls")]])
        agent = Agent(id="a", model=model, output_processors=[stopper("00")])
        run = await agent.stream("go")
        chunks = [chunk async for chunk in run.full_stream]
        deltas = [c.payload.args_text_delta for c in chunks if c.type == "tool-call-delta"]
        assert "".join(deltas) == '{"n":"12'


WORDS = [
    "joe@example.com",
    "4111 1111 1111 1111",
    "s123",
    "k=v",
    "hello ",
    "a",
    " ",
    ". ",
    "\n",
    "s1",
    "jo",
    "1",
]


@settings(max_examples=60, deadline=None)
@given(
    words=st.lists(st.sampled_from(WORDS), min_size=2, max_size=8),
    points=st.sets(st.integers(1, 60), max_size=6),
    lane=st.sampled_from(LANES),
    order=st.sampled_from(list(itertools.permutations(range(3)))),
)
def test_any_guards_any_cutting(
    words: list[str], points: set[int], lane: str, order: tuple[int, ...]
) -> None:
    """Several guards in a row, some of which block: any cutting does as the whole does."""
    text = "".join(words)

    def make() -> list[Any]:
        rules = [RegexRule("s", "s[0-9]{3}"), RegexRule("k", r"k=\w{1,4}")]
        guards = [
            RegexFilterProcessor(rules=rules[:1], strategy="block"),
            PIIDetector(model=False, strategy="block", detection_types=["email"]),
            RegexFilterProcessor(rules=rules[1:], strategy="redact"),
        ]
        return [guards[number] for number in order]

    given_text = written(text, lane)
    cut = cut_at(given_text, [point for point in points if point < len(given_text)])

    async def both() -> None:
        found = []
        for pieces in ([given_text], cut, list(given_text)):
            seen = await play(make(), lane, pieces, text)
            by = seen.tripwire and seen.tripwire.processor_id
            found.append((seen.text, seen.stored, seen.whole, by, seen.ran))
        assert found[0] == found[1] == found[2]

    run_async(both())


async def test_a_gate_that_lets_nothing_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken on purpose: what was let through of the chunk at which a guard blocks is dropped."""

    async def drop(self: Any, post: Any, error: BaseException) -> None:
        return None

    monkeypatch.setattr(Gate, "_let_pass", drop)
    with pytest.raises(AssertionError):
        await test_a_users_hook("text", False)


@pytest.mark.parametrize(
    "text", [". 1. s123", "a 1. s123", "@ 12 s123", "k=v 7, s123", "x@y 1 s123"]
)
async def test_a_number_waits_for_its_word_whatever_stands_before(text: str) -> None:
    """G-A: what leaves before the verdict of the guard before does not depend on the cutting."""

    def make() -> list[Any]:
        return [
            RegexFilterProcessor(rules=[RegexRule("s", "s[0-9]{3}")], strategy="block"),
            PIIDetector(model=False, strategy="block", detection_types=["email"]),
        ]

    seen = {(await play(make(), "text", cut, text)).text for cut in worst_cuttings(text)}
    assert len(seen) == 1
