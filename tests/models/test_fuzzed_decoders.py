"""Whatever a provider sends: chunks come of it, or an error of ours; nothing else is raised."""

from __future__ import annotations

import asyncio
import copy
from typing import TYPE_CHECKING, Any

import httpx2
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procession import Agent
from procession.errors import ModelError
from procession.models.sse import EventReader
from procession.models.whole import WholeBlocks

from .formats import FORMATS, KEY, Format, written

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from procession.chunks import Chunk

STREAMS = {name: form.streams() for name, form in FORMATS.items()}


def names_in(value: Any) -> set[str]:
    """All keys, and all short texts, of a JSON value."""
    if isinstance(value, dict):
        return set(value).union(*map(names_in, value.values()))
    if isinstance(value, list):
        return set[str]().union(*map(names_in, value))
    return {value} if isinstance(value, str) and len(value) < 40 else set()


WORDS = {name: sorted(names_in(streams)) for name, streams in STREAMS.items()}
ODD = st.sampled_from(
    [
        *(None, True, False, 0, -1, 10**30, 1e308, 0.5, "", "x", "\ud800", "[DONE]", "\u2028\x00"),
        *([], {}, [[]], [{}], [None], {"": None}, {"type": 1}),
    ]
)


def values(name: str) -> st.SearchStrategy[Any]:
    """Any JSON made of words that mean something to the format."""
    word = st.sampled_from(WORDS[name])
    return st.recursive(
        ODD | word | st.integers() | st.text(max_size=4),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(word | st.text(max_size=3), inner, max_size=5)
        ),
        max_leaves=12,
    )


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to everything within a JSON value."""
    found = [way] if way else []
    if isinstance(value, dict):
        inner = list(value.items())
    else:
        inner = list(enumerate(value)) if isinstance(value, list) else []
    for key, entry in inner:
        found += places(entry, (*way, key))
    return found


def mutated(draw: st.DrawFn, name: str, event: Any) -> Any:
    """The event with something in it replaced, left out or said twice."""
    ways = places(event)
    if not ways:
        return draw(values(name))
    event = copy.deepcopy(event)
    *way, last = draw(st.sampled_from(ways))
    inside = event
    for key in way:
        inside = inside[key]
    match draw(st.integers(0, 5)):
        case 0:
            del inside[last]
        case 1 if isinstance(inside, list):
            inside.append(inside[last])
        case 2:
            inside[last] = [inside[last]]
        case 3:
            inside[last] = draw(ODD)
        case _:
            inside[last] = draw(values(name))
    return event


@st.composite
def mutated_streams(draw: st.DrawFn, name: str) -> bytes:
    """A recorded stream in which events are changed, missing, doubled, or from another stream."""
    events: list[Any] = []
    for event in draw(st.sampled_from(STREAMS[name])):
        match draw(st.integers(0, 9)):
            case 0:
                continue
            case 1 | 2:
                event = mutated(draw, name, event)
            case 3:
                events.append(event)
            case 4:
                events.append(draw(st.sampled_from(draw(st.sampled_from(STREAMS[name])))))
            case _:
                pass
        events.append(event)
    return written(events)


@st.composite
def torn_streams(draw: st.DrawFn, name: str) -> bytes:
    """A recorded stream with wrong bytes in it."""
    text = bytearray(written(draw(st.sampled_from(STREAMS[name]))))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(text) - 1))
        text[place : place + draw(st.integers(0, 3))] = draw(st.binary(max_size=4))
    return bytes(text)


def bodies(name: str) -> st.SearchStrategy[bytes]:
    """Everything that may come."""
    anything = st.lists(values(name), max_size=5).map(written)
    rubbish = st.lists(st.binary(max_size=30), max_size=5).map(
        lambda parts: b"".join(b"data: " + part + b"\n\n" for part in parts)
    )
    return mutated_streams(name) | torn_streams(name) | anything | rubbish | st.binary(max_size=50)


def decoded(form: Format, body: bytes, *, whole: bool, raw: bool = False) -> list[Chunk]:
    """The chunks of a body, in one read."""
    reader, decoder = EventReader(), form.decoder(include_raw=raw)
    chunks = decoder.feed(reader.feed(body))
    if not decoder.finished:
        chunks += decoder.end(reader.finish())
    if whole:
        blocks = WholeBlocks()
        return blocks.feed(chunks) + blocks.end()
    return chunks


class Body(httpx2.AsyncByteStream):
    def __init__(self, body: bytes) -> None:
        self.body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.body


class Provider(httpx2.AsyncBaseTransport):
    """Answers every call with the same body."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=headers, stream=Body(self.body))


async def outcome(form: Format, body: bytes) -> None:
    """A whole run over such an answer; whatever it stores is clean JSON."""
    http = httpx2.AsyncClient(transport=Provider(body))
    async with http:
        model = form.model(client=form.client(http), provider="example", **form.keys)
        agent = Agent(id="guide", model=model, max_retries=0)
        run = await agent.stream("Hi", max_steps=1)
        async for chunk in run.full_stream:
            msgspec.json.encode(chunk.to_json())
        if run.error is not None:
            assert isinstance(run.error, ModelError), run.error
            assert KEY not in str(run.error)


@pytest.mark.parametrize("name", FORMATS)
def test_any_stream_is_decoded(name: str) -> None:
    @given(bodies(name), st.booleans(), st.booleans())
    @settings(max_examples=150, deadline=None)
    def check(body: bytes, whole: bool, raw: bool) -> None:
        for chunk in decoded(FORMATS[name], body, whole=whole, raw=raw):
            msgspec.json.encode(chunk.to_json())
            if chunk.type == "error":
                assert isinstance(chunk.payload.error, ModelError)

    check()


@pytest.mark.parametrize("name", FORMATS)
def test_a_run_over_any_stream_ends_well_or_with_an_error_of_ours(name: str) -> None:
    @given(bodies(name))
    @settings(max_examples=40, deadline=None)
    def check(body: bytes) -> None:
        asyncio.run(outcome(FORMATS[name], body))

    check()


@pytest.mark.parametrize("opening", ["[", '{"a":', '{"choices":', '{"candidates":[', '{"delta":'])
@pytest.mark.parametrize("name", FORMATS)
def test_what_is_nested_too_deeply_is_an_error(name: str, opening: str) -> None:
    body = b"data: " + opening.encode() * 200_000 + b"\n\n"
    chunks = decoded(FORMATS[name], body, whole=False)
    assert [chunk.type for chunk in chunks if chunk.type == "error"] == ["error"]
    asyncio.run(outcome(FORMATS[name], body))


@pytest.mark.parametrize("name", FORMATS)
def test_values_that_are_nested_deeply_within_an_event(name: str) -> None:
    deep: Any = "x"
    for _ in range(900):
        deep = [deep]
    for stream in STREAMS[name]:
        for number, event in enumerate(stream):
            for way in places(event):
                if len(way) <= 3:
                    body = written([*stream[:number], replaced(event, way, deep)])
                    decoded(FORMATS[name], body + written(stream[number + 1 :]), whole=False)


def replaced(event: Any, way: tuple[Any, ...], value: Any) -> Any:
    """A copy of the event with another value at the end of the way."""
    if not way:
        return value
    event = copy.copy(event)
    event[way[0]] = replaced(event[way[0]], way[1:], value)
    return event


ITEM: dict[str, Any] = {"output_index": 0, "item": {"type": "function_call", "name": "f"}}
STRANGE = {
    "the answer's time is none of this world": ("chat", [{"id": "r", "created": 10**30}]),
    "it is no number that a clock has": ("chat", [{"id": "r", "created": 1e308}]),
    "a call changes its kind": (
        "responses",
        [
            {"type": "response.output_item.added", **ITEM},
            {"type": "response.output_item.done", "output_index": 0, "item": {"type": "other"}},
        ],
    ),
    "half a character in a time": ("google", [{"createTime": "\ud800"}]),
    "half a character in what is kept": (
        "google",
        [{"candidates": [{"finishReason": "STOP", "groundingMetadata": {"x\ud800": "\udc00"}}]}],
    ),
    "half a character in what a call is given": (
        "google",
        [{"candidates": [{"content": {"parts": [{"functionCall": {"args": {"a": "\ud800"}}}]}}]}],
    ),
}


@pytest.mark.parametrize("case", STRANGE)
def test_strange_events_that_once_were_too_much(case: str) -> None:
    name, events = STRANGE[case]
    for chunk in decoded(FORMATS[name], written(events), whole=False):
        msgspec.json.encode(chunk.to_json())
