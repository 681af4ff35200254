"""Answers of any shape, cut and interleaved in any way."""

from __future__ import annotations

import json
import random
from typing import Any, NamedTuple

from hypothesis import strategies as st

from tests.laws.kit import METADATA, call, end

TEXT = st.text(
    st.one_of(
        st.sampled_from("abc 12\n"),
        st.sampled_from("é漢😀👩\u0000\ud83d\udc00"),
    ),
    max_size=12,
)
CLEAN_TEXT = st.text(st.sampled_from("abcXYZ 12\né漢😀👩"), max_size=12)


class Block(NamedTuple):
    """A piece of an answer: `text`, `reasoning`, `source`, or a `tool` call."""

    kind: str
    id: str
    content: str


@st.composite
def answers(
    draw: st.DrawFn, *, calls: bool = False, text: st.SearchStrategy[str] = TEXT
) -> list[Block]:
    """The blocks of one answer; with `calls` there is at least one tool call."""
    kinds = draw(st.lists(st.sampled_from(["text", "text", "reasoning", "source"]), max_size=4))
    if calls:
        kinds += ["tool"] * draw(st.integers(1, 3))
        kinds = draw(st.permutations(kinds))
    return [Block(kind, f"{kind}-{i}", draw(text)) for i, kind in enumerate(kinds)]


@st.composite
def conversations(draw: st.DrawFn, *, text: st.SearchStrategy[str] = TEXT) -> list[list[Block]]:
    """The answers of one run: up to two that call tools, and a last one that does not."""
    steps = draw(st.lists(answers(calls=True, text=text), max_size=2))
    return [*steps, draw(answers(text=text))]


seeds = st.integers(0, 2**32 - 1)
sizes = st.lists(st.integers(0, 7), min_size=1, max_size=4).filter(any)


def played(
    steps: list[list[Block]], seed: int, *, whole: bool = False, mixed: bool = True
) -> list[list[dict[str, Any]]]:
    """The answers as provider parts: cut at random, or `whole`; blocks `mixed`, or one by one."""
    chance = random.Random(seed)
    return [_parts(blocks, number, chance, whole, mixed) for number, blocks in enumerate(steps)]


def _parts(
    blocks: list[Block], number: int, chance: random.Random, whole: bool, mixed: bool
) -> list[dict[str, Any]]:
    lanes = [_lane(block, number, chance, whole) for block in blocks]
    parts = [METADATA]
    parts += _mixed(lanes, chance) if mixed else [part for lane in lanes for part in lane]
    reason = "tool-calls" if any(block.kind == "tool" for block in blocks) else "stop"
    return [*parts, end(reason)]


def _lane(block: Block, number: int, chance: random.Random, whole: bool) -> list[dict[str, Any]]:
    pieces = [block.content] if whole else cut(block.content, chance)
    if block.kind == "tool":
        return _tool_lane(block, f"call-{number}-{block.id}", chance, whole)
    if block.kind == "source":
        url = "https://docs.example.com/page"
        return [{"type": "source", "id": block.id, "sourceType": "url", "url": url}]
    return [
        {"type": f"{block.kind}-start", "id": block.id},
        *({"type": f"{block.kind}-delta", "id": block.id, "delta": piece} for piece in pieces),
        {"type": f"{block.kind}-end", "id": block.id},
    ]


def _tool_lane(block: Block, id: str, chance: random.Random, whole: bool) -> list[dict[str, Any]]:
    args = json.dumps({"value": block.content})
    pieces = [args] if whole else cut(args, chance)
    return [
        {"type": "tool-input-start", "id": id, "toolName": "echo"},
        *({"type": "tool-input-delta", "id": id, "delta": piece} for piece in pieces),
        {"type": "tool-input-end", "id": id},
        call("echo", args, id),
    ]


def cut(text: str, chance: random.Random) -> list[str]:
    """The text in pieces, sometimes empty ones, sometimes cut inside a character's two halves."""
    halves = "".join(
        text[i : i + 1] if text[i] < "\U00010000" or chance.random() < 0.5 else _halves(text[i])
        for i in range(len(text))
    )
    points = sorted(chance.randrange(len(halves) + 1) for _ in range(chance.randrange(5)))
    return [halves[a:b] for a, b in zip([0, *points], [*points, len(halves)], strict=True)]


def _halves(character: str) -> str:
    units = character.encode("utf-16-le")
    return "".join(chr(int.from_bytes(units[i : i + 2], "little")) for i in (0, 2))


def _is_key(part: dict[str, Any]) -> bool:
    """Whether the part fixes where its block stands in the message."""
    return part["type"] in ("text-start", "reasoning-start", "source", "tool-call")


def _mixed(lanes: list[list[dict[str, Any]]], chance: random.Random) -> list[dict[str, Any]]:
    """The lanes woven into one another; the places of the blocks in the message stay."""
    left = [list(lane) for lane in lanes]
    placed = [False] * len(left)
    woven: list[dict[str, Any]] = []
    while any(left):
        able = [i for i, lane in enumerate(left) if lane and _may_come(lane[0], i, placed)]
        chosen = chance.choice(able)
        part = left[chosen].pop(0)
        placed[chosen] = placed[chosen] or _is_key(part)
        woven.append(part)
    return woven


def _may_come(part: dict[str, Any], lane: int, placed: list[bool]) -> bool:
    return not _is_key(part) or all(placed[:lane])
