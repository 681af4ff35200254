"""G-A, law 3, B-132 to B-135, B-236, B-237: hooks with watches, under every way of cutting."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procession.hold import Literals, Pattern, Unit
from procession.hold.lane import Lane
from procession.processors import RegexFilterProcessor
from tests.hold.kit import (
    RULES,
    WORDS,
    all_cuts,
    argument_deltas,
    called,
    chunks_of,
    delivered,
    guard,
    lane_texts,
    pieces_at,
    redacted,
    woven,
)
from tests.laws.kit import METADATA, PlayedModel, agent_with, end, run_async, said

texts = st.lists(st.sampled_from(WORDS), max_size=7).map("".join)
places = st.lists(st.integers(0, 60), max_size=12)


async def check_every_cutting(text: str, watches: Any, *, awaits: bool = False) -> None:
    """What is delivered is the redaction of the whole, however the text is cut."""
    expected = redacted(text, watches)
    for pieces in all_cuts(text):
        assert await delivered(pieces, guard(watches, awaits=awaits)) == expected, pieces


@pytest.mark.parametrize("awaits", [False, True])
@pytest.mark.parametrize("rule", RULES)
async def test_worst_cuts(rule: str, awaits: bool) -> None:
    """Single characters, and each border within a match."""
    for text in ("my secret. And 1234-56 is", "a.b@home.com é漢 😀! x1\nsecret"):
        await check_every_cutting(text, RULES[rule], awaits=awaits)


@pytest.mark.parametrize("rule", RULES)
@given(text=texts, places=places, awaits=st.booleans())
@settings(max_examples=20, deadline=None)
def test_any_text(rule: str, text: str, places: list[int], awaits: bool) -> None:
    """B-133, for texts made of matches and of what nearly is one."""
    found = run_async(delivered(pieces_at(text, places), guard(RULES[rule], awaits=awaits)))
    assert found == redacted(text, RULES[rule])


@pytest.mark.parametrize("rule", RULES)
@given(texts, texts, texts, places, st.integers(0, 2**20))
@settings(max_examples=12, deadline=None)
def test_woven_lanes(
    rule: str, one: str, two: str, value: str, places: list[int], seed: int
) -> None:
    """Lanes know nothing of each other, whatever comes between their chunks (B-132)."""
    watches = RULES[rule]
    args = {"value": value, "more": [one, {two: 12345}]}
    lanes = [
        said(*pieces_at(one, places), id="t1"),
        said(*pieces_at(two, places), id="t2"),
        said(*pieces_at(one + two, places), id="r1", kind="reasoning"),
        [*argument_deltas(pieces_at(json.dumps(args), places)), called(args)],
    ]
    found = lane_texts(run_async(chunks_of(woven(lanes, seed), guard(watches))))
    assert found.get("text-delta:t1", "") == redacted(one, watches)
    assert found.get("text-delta:t2", "") == redacted(two, watches)
    assert found.get("reasoning-delta:r1", "") == redacted(one + two, watches)
    expected = _redacted_value(args, watches)
    assert json.loads(found["args:c1"]) == expected
    assert json.loads(found["call:c1"]) == expected


def _redacted_value(value: Any, watches: Any) -> Any:
    if isinstance(value, dict):
        return {redacted(k, watches): _redacted_value(v, watches) for k, v in value.items()}
    if isinstance(value, list):
        return [_redacted_value(entry, watches) for entry in value]
    if isinstance(value, int):
        text = redacted(str(value), watches)
        return value if text == str(value) else text
    return redacted(value, watches)


GROWING = [
    (r"k=\S+", "a k=" + "v" * 200 + " and k=" + "é" * 150 + " b"),
    (r"[a-z]+@[a-z]+(?:\.[a-z]+)*", "to bob@" + "home." * 60 + "com or x"),
]


@pytest.mark.parametrize(("source", "text"), GROWING)
@given(places=st.lists(st.integers(0, 400), max_size=40))
@settings(max_examples=15, deadline=None)
def test_matches_longer_than_the_carryover(source: str, text: str, places: list[int]) -> None:
    """B-236, law 3: what is a match, and grows, is one match for every cutting."""
    watches = [Pattern(source)]
    for pieces in (list(text), pieces_at(text, places)):
        assert run_async(delivered(pieces, guard(watches))) == redacted(text, watches)


@pytest.mark.parametrize("preset", ["secrets", "urls"])
@pytest.mark.parametrize("size", [1, 4, 50])
async def test_long_secrets_and_addresses(preset: Any, size: int) -> None:
    """The presets' own: nothing of a long one is out, whatever the pieces are."""
    secrets = ["Bearer eyJhbGciOiJIUzI1NiJ9." + "A1b2" * 50, "sk-proj-" + "a1B2" * 60]
    texts = secrets if preset == "secrets" else ["https://a.example/" + "a" * 130 + "?token=abc"]
    for text in texts:
        hide = RegexFilterProcessor(presets=[preset], strategy="redact")
        found = await delivered([text[i : i + size] for i in range(0, len(text), size)], hide)
        assert found == {"B": "[BEARER_TOKEN]", "s": "[API_KEY]", "h": "[URL]"}[text[0]]


ODD: list[Any] = [
    ("text-start", ""), ("text-end", ""), ("text-delta", "sec"), ("text-delta", "ret"),
    ("text-delta", "x secret"), ("finish", ""),
]  # fmt: skip


@given(st.lists(st.sampled_from(ODD), max_size=9), st.sampled_from(["literals", "steps", "parts"]))
@settings(max_examples=150, deadline=None)
def test_lanes_are_the_blocks_that_are_stored(parts: list[Any], rule: str) -> None:
    """R-310: ids used again, blocks that begin twice, text behind an end or behind `finish`."""
    watches = [Literals("secret"), *([] if rule == "literals" else RULES[rule][:1])]
    sent = [
        end() if kind == "finish" else {"type": kind, "id": "t1", **({"delta": t} if t else {})}
        for kind, t in parts
    ]
    model = PlayedModel([[METADATA, *sent]], (1,))

    async def played() -> tuple[str, list[str], str]:
        agent = agent_with(model, input_processors=[], output_processors=[guard(watches)])
        run = await agent.stream("go", max_steps=1)
        shown = lane_texts([chunk async for chunk in run])
        stored = [
            part.text
            for message in run.message_list.response_messages()
            for part in message.content.parts
            if part.type == "text"
        ]
        return shown.get("text-delta:t1", ""), stored, await run.text

    shown, stored, text = run_async(played())
    assert shown == "".join(stored) == text
    assert not any("secret" in block for block in stored)


CHAINS = [
    ([Literals("ab")], [Literals("##")], [Literals("!!")]),
    ([Pattern(r"\d+")], [Literals("#x#")], [Pattern("!+y?")]),
    ([Unit("sentence"), Literals("a. b")], [Pattern("#+ ?")], [Literals("! !")]),
    ([Literals("b")], [Unit("part"), Literals("a#")], [Literals("!c")]),
]


@pytest.mark.parametrize("chain", CHAINS, ids=str)
@given(st.text(st.sampled_from("ab1 x.cy"), max_size=12), places, st.booleans())
@settings(max_examples=25, deadline=None)
def test_guards_in_a_row(chain: Any, text: str, places: list[int], awaits: bool) -> None:
    """What one makes, the next one finds; text goes out when the slowest has let it go (G-A7)."""
    expected, guards = text, []
    for number, (watches, mark) in enumerate(zip(chain, "#!?", strict=True)):
        expected = redacted(expected, watches, mark)
        guards.append(guard(watches, mark=mark, id=f"g{number}", awaits=awaits and number == 1))
    assert run_async(delivered(pieces_at(text, places), *guards)) == expected


# ── each kind of watch, broken on purpose ──────────────────────────────────────────────────────

MUTANTS: list[tuple[Any, list[Any], str]] = [
    (Literals, [Literals("secret")], "a secret b"),
    (Pattern, [Pattern(r"\d{4}")], "a 1234 b"),
    (Pattern, [Pattern(r"[a-z]+@[a-z]+")], "a bob@home b"),
    (Unit, [Unit("sentence"), Literals("is. It")], "So it is. It was. "),
    (Literals, [Literals("ab", "abab")], "xabab"),
]


@pytest.mark.parametrize(("kind", "watches", "text"), MUTANTS)
async def test_a_character_that_leaves_early(
    kind: Any, watches: list[Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch that lets one character go too soon is found out."""
    await check_every_cutting(text, watches)
    release = kind.release

    def early(self: Any, text: str, start: int, limit: int) -> int:
        return min(release(self, text, start, limit) + 1, limit)

    monkeypatch.setattr(kind, "release", early)
    if kind is Unit:
        with pytest.raises(AssertionError):
            await check_sentences(text)
    else:
        with pytest.raises(AssertionError):
            await check_every_cutting(text, watches)


async def test_a_part_that_leaves_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for whole parts: a lane that lets its first character go."""
    take = Lane.take

    def early(self: Lane, text: str) -> str:
        return take(self, text) or self.rest()[:1]

    monkeypatch.setattr(Lane, "take", early)
    with pytest.raises(AssertionError):
        await check_every_cutting("12 is 34", [Unit("part"), Pattern(r"\d+")])


async def check_sentences(text: str) -> None:
    """However the text is cut, the hook gets the same sentences."""
    from procession import processor

    found: list[list[str]] = []
    for pieces in all_cuts(text):
        seen: list[str] = []

        def note(args: Any, seen: list[str] = seen) -> Any:
            if args.piece is not None:
                seen.append(args.piece.text)
            return args.part

        hook = processor(process_output_stream=note, watches=Unit("sentence"))
        assert await delivered(pieces, hook) == text
        found.append(seen)
    assert all(seen == found[0] for seen in found)


async def test_sentences_do_not_depend_on_the_cutting() -> None:
    """G-A7, G-A8: a hook that judges sentences is called with the same ones."""
    await check_sentences("It is 3.14, e.g. here. Or not? “No!” he said.\n- 吧。好 1. x")
