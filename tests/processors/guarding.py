"""Guarantee G-A as functions: each plays a text, cut in some way, past a guard, and raises
AssertionError where the guarantee is broken.

Called by the tests of the guards, and by those that break guards on purpose.
"""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from procession import Agent, tool
from procession.detection import LocalDetector
from procession.hold import Unit
from tests.laws.kit import METADATA, PlayedModel, call, end, said

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from procession.chunks import Chunk

LANES = ("text", "reasoning", "tool-arguments")


class Seen(NamedTuple):
    """What came of a text in one lane."""

    delivered: list[str]
    """The pieces that were delivered, of arguments as JSON."""
    whole: str | None
    """The arguments in the chunk of the complete call."""
    stored: str
    tripwire: Any
    told: list[Any]
    ran: list[str]
    """What the tool was called with."""

    @property
    def text(self) -> str:
        """What was delivered."""
        return "".join(self.delivered)


def cut_at(text: str, points: Iterable[int]) -> list[str]:
    """The text in pieces."""
    borders = [0, *sorted(points), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(borders)]


def every_cutting(text: str) -> Iterator[list[str]]:
    """All ways to cut a text."""
    places = range(1, len(text))
    for count in range(len(text)):
        for points in itertools.combinations(places, count):
            yield cut_at(text, points)


def worst_cuttings(text: str, every: int = 1) -> Iterator[list[str]]:
    """Character by character, in two at each place (or at some), and whole."""
    yield list(text)
    for point in range(0, len(text) + every, every):
        yield cut_at(text, [point])


def as_json(text: str) -> str:
    """The arguments that hold a text, the way they are written again."""
    return json.dumps({"value": text}, ensure_ascii=False, separators=(",", ":"))


def written(text: str, lane: str) -> str:
    """What a provider sends for a text, and what is delivered of it."""
    return as_json(text) if lane == "tool-arguments" else text


def _answers(lane: str, pieces: Sequence[str], text: str) -> list[list[dict[str, Any]]]:
    if lane != "tool-arguments":
        kind = [] if lane == "text" else said("fine")
        return [[METADATA, *said(*pieces, kind=lane), *kind, end()]]
    started = {"type": "tool-input-start", "id": "c1", "toolName": "echo"}
    deltas = ({"type": "tool-input-delta", "id": "c1", "delta": piece} for piece in pieces)
    made = call("echo", as_json(text))
    ended = {"type": "tool-input-end", "id": "c1"}
    return [[METADATA, started, *deltas, ended, made, end("tool-calls")], [*said("fine"), end()]]


async def play(guards: Any, lane: str, pieces: Sequence[str], text: str, **more: Any) -> Seen:
    """Stream `text` in `pieces` past the guards; `told` is what the last one has reported."""
    guards = guards if isinstance(guards, list) else [guards]
    told: list[Any] = []
    guards[-1].on_violation = told.append
    ran: list[str] = []

    @tool
    async def echo(value: str) -> str:
        """Say it again."""
        ran.append(value)
        return "done"

    model = PlayedModel(_answers(lane, pieces, text))
    agent = Agent(id="a", model=model, tools=[echo], output_processors=guards, **more)
    run = await agent.stream("go")
    chunks = [chunk async for chunk in run.full_stream]
    assert run.error is None
    messages = run.message_list.get.response.db()
    return Seen(
        delivered=_delivered(chunks, lane),
        whole=_whole(chunks),
        stored="".join(_stored(messages, lane)),
        tripwire=run.tripwire,
        told=told,
        ran=ran,
    )


def _delivered(chunks: Iterable[Chunk], lane: str) -> list[str]:
    if lane == "tool-arguments":
        return [c.payload.args_text_delta for c in chunks if c.type == "tool-call-delta"]
    kind = f"{lane}-delta"
    return [c.payload.text for c in chunks if c.type == kind and c.payload.id == "t1"]


def _whole(chunks: Iterable[Chunk]) -> str | None:
    calls = [chunk for chunk in chunks if chunk.type == "tool-call"]
    return calls[0].payload.args["value"] if calls else None


def _stored(messages: Iterable[Any], lane: str) -> Iterator[str]:
    for part in (part for message in messages for part in message.parts):
        if lane == "text" and part.type == "text":
            yield part.text
        elif lane == "reasoning" and part.type == "reasoning":
            yield part.reasoning
        elif lane == "tool-arguments" and part.type == "tool-invocation":
            yield part.tool_invocation.args["value"]


# ── the checks ─────────────────────────────────────────────────────────────────────────────────


async def check_redacted(
    make: Callable[[], Any], lane: str, text: str, cuttings: Iterable[Sequence[str]]
) -> None:
    """However it is cut: what is delivered is the redaction of the whole (so that no beginning of
    it shows a character of a match), and so is what is stored; the reports are the same too.
    """
    guard = make()
    expected = guard.redacted_text(text)
    reports: Any = None
    for pieces in cuttings:
        seen = await play(make(), lane, pieces, text)
        assert seen.tripwire is None
        assert seen.text == written(expected, lane), pieces
        assert seen.stored == expected, pieces
        if lane == "tool-arguments":
            assert seen.whole == expected, pieces
            assert seen.ran == [text], pieces
        found = reported(seen)
        assert reports is None or found == reports, pieces
        reports = found
    assert len(reports) == len(guard.regions(text)), "each region is reported once"


def reported(seen: Seen) -> list[Any]:
    """What was reported of the stream, whatever pieces it was found in."""
    entries: list[Any] = []
    for violation in seen.told:
        detail = violation.detail
        if detail.get("phase") == "process_output_result":
            continue  # what was missed before
        counted = ["?"] * detail.get("count", 0)
        entries += detail.get("redactions") or detail.get("matches") or counted
    return entries


async def check_blocked(
    make: Callable[[], Any], lane: str, text: str, cuttings: Iterable[Sequence[str]]
) -> None:
    """What stands before the first match is delivered and nothing else, no tool runs, nothing is
    stored.
    """
    first = make().regions(text)
    for pieces in cuttings:
        seen = await play(make(), lane, pieces, text)
        if not first:
            assert seen.tripwire is None
            assert seen.text == written(text, lane), pieces
            continue
        assert seen.tripwire is not None, pieces
        assert len(seen.told) == 1, pieces
        before = written(text[: first[0].start], lane)
        before = before[:-2] if lane == "tool-arguments" else before
        assert seen.text == before, pieces
        assert seen.whole is None, pieces
        assert seen.ran == [], pieces
        assert seen.stored == "", pieces


async def check_warned(
    make: Callable[[], Any], lane: str, text: str, cuttings: Iterable[Sequence[str]]
) -> None:
    """Everything is delivered as it came, and every match is reported once."""
    count = len([hit for region in make().regions(text) for hit in region.found])
    for pieces in cuttings:
        seen = await play(make(), lane, pieces, text)
        assert seen.tripwire is None
        assert seen.text == written(text, lane), pieces
        assert seen.stored == text, pieces
        assert len(reported(seen)) == count, pieces


async def check_filtered(
    make: Callable[[], Any], lane: str, text: str, cuttings: Iterable[Sequence[str]]
) -> None:
    """The sentences that hold something are gone, whole, and the others are there, whole."""
    guard = make()
    regions = guard.regions(text)
    # A line that ends in digits is one sentence with the next where a number may go on in it.
    detectors = [watch for watch in guard.watches if isinstance(watch, LocalDetector)]
    ends = [
        end
        for end in Unit("sentence").split(text, 0, len(text))
        if not any(region.start < end < region.end for region in regions)
        and all(detector.release(text, 0, end) == end for detector in detectors)
    ]
    expected = "".join(
        text[a:b]
        for a, b in itertools.pairwise([0, *ends, len(text)])
        if not any(region.start < b and a < region.end for region in regions)
    )
    for pieces in cuttings:
        seen = await play(make(), lane, pieces, text)
        assert seen.tripwire is None
        assert seen.text == written(expected, lane), pieces
        assert seen.stored == expected, pieces
        assert len(reported(seen)) == len(regions), pieces
