"""Guards that redact what they watch for, texts full of it, and what must come of both."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from procession import processor
from procession.hold import Literals, Pattern, Unit
from tests.laws.kit import METADATA, PlayedModel, agent_with, call, end, said

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from procession.chunks import Chunk

ALL_LANES = ("text", "reasoning", "tool-arguments")
MARK = "#"
RULES: dict[str, list[Any]] = {
    "literals": [Literals("secret", "sec-ret", "token")],
    "any case": [Literals("Secret", ignore_case=True)],
    "bounded": [Pattern(r"\b\d{4}-\d{2}\b")],
    "unbounded": [Pattern(r"[a-z.]+@[a-z]+\.com")],
    "several": [Literals("secret"), Pattern(r"\d{3,5}"), Pattern(r"ret\d")],
    "to the end": [Pattern(r"(?m)x\w*$|^secret")],
    "wide": [Pattern("é+漢|😀.")],
    "sentences": [Unit("sentence"), Literals("secret. And", "token")],
    "parts": [Unit("part"), Pattern(r"\d+")],
    "steps": [Unit("step"), Pattern(r"\d+")],
    "deltas": [Unit("delta"), Literals("secret")],
}
WORDS = [
    "secret", "sec", "ret", "sec-ret", "SECRET", "token", "secre", "1234-56", "1234", "5", "-56",
    "bob@home.com", "bob@", "home.com", " ", ". ", "\n", "x1", "ret7", "é漢", "😀!", "é", "And",
    "secret. And", '"', "\\", "\t",
]  # fmt: skip
"""What matches, what nearly does, and what JSON writes in its own way."""


def finders(watches: Iterable[Any]) -> list[Any]:
    return [watch for watch in watches if hasattr(watch, "finditer")]


def redacted(text: str, watches: Iterable[Any], mark: str = MARK, start: int = 0) -> str:
    """The text from `start` on, each character of a match replaced; what stands before is seen."""
    hidden = {
        index
        for watch in finders(watches)
        for match in watch.finditer(text, start)
        for index in range(*match.span())
    }
    kept = [mark if i in hidden else c for i, c in enumerate(text)]
    return "".join(kept[start:])


def redact(args: Any, watches: Iterable[Any], mark: str = MARK) -> Any:
    piece = args.piece
    if piece is None:
        return args.part
    return args.with_text(redacted(piece.before + piece.text, watches, mark, len(piece.before)))


def guard(watches: Any, *, awaits: bool = False, mark: str = MARK, id: str = "guard") -> Any:
    """A processor that redacts what it watches for in all lanes."""

    async def awaited(args: Any) -> Any:
        return redact(args, watches, mark)

    def plain(args: Any) -> Any:
        return redact(args, watches, mark)

    hook = awaited if awaits else plain
    return processor(id=id, process_output_stream=hook, watches=watches, lanes=ALL_LANES)


def all_cuts(text: str) -> list[list[str]]:
    """One piece, single characters, halves at every place, and every place left out once."""
    cuts = [[text], list(text)]
    for place in range(1, len(text)):
        cuts.append([text[:place], text[place:]])
        cuts.append([*text[: place - 1], text[place - 1 : place + 1], *text[place + 1 :]])
    return cuts


def pieces_at(text: str, places: Iterable[int]) -> list[str]:
    borders = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[a:b] for a, b in pairwise(borders)]


def argument_deltas(pieces: Iterable[str], id: str = "c1") -> list[dict[str, Any]]:
    return [
        {"type": "tool-input-start", "id": id, "toolName": "echo"},
        *({"type": "tool-input-delta", "id": id, "delta": piece} for piece in pieces),
        {"type": "tool-input-end", "id": id},
    ]


def woven(lanes: Sequence[Sequence[Any]], seed: int) -> list[Any]:
    chance, left, found = random.Random(seed), [list(lane) for lane in lanes], []
    while any(left):
        found.append(chance.choice([lane for lane in left if lane]).pop(0))
    return found


def lane_texts(chunks: Iterable[Chunk]) -> dict[str, str]:
    """What was delivered, lane by lane."""
    found: dict[str, str] = {}
    for chunk in chunks:
        kind, payload = chunk.type, chunk.payload
        if kind in ("text-start", "reasoning-start"):
            found.setdefault(f"{kind.removesuffix('start')}delta:{payload.id}", "")
        elif kind in ("text-delta", "reasoning-delta"):
            key = f"{kind}:{payload.id}"
            found[key] = found.get(key, "") + payload.text
        elif kind == "tool-call-delta":
            key = f"args:{payload.tool_call_id}"
            found[key] = found.get(key, "") + payload.args_text_delta
        elif kind == "tool-call":
            found[f"call:{payload.tool_call_id}"] = json.dumps(payload.args, ensure_ascii=False)
    return found


async def chunks_of(parts: Sequence[Any], *guards: Any, size: int = 1) -> list[Chunk]:
    """What a run delivers for one answer; its text is checked to be that of the deltas."""
    model = PlayedModel([[METADATA, *parts, end()]], (size,))
    run = await agent_with(model, input_processors=[], output_processors=guards).stream(
        "go", max_steps=1
    )
    chunks = [chunk async for chunk in run]
    texts = lane_texts(chunks)
    assert await run.text == "".join(v for k, v in texts.items() if k.startswith("text-delta"))
    return chunks


async def delivered(pieces: Iterable[str], *guards: Any) -> str:
    """The text that a run delivers for one block of text."""
    found = lane_texts(await chunks_of(said(*pieces), *guards))
    return found.get("text-delta:t1", "")


def called(args: Any, id: str = "c1") -> dict[str, Any]:
    return call("echo", json.dumps(args), id)
