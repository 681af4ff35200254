"""Law 3 on the wire: wherever an answer's bytes are cut, and its text, the same comes of it.

Reads end within a character, an escape or a line end; deltas end within a surrogate pair. There is
no socket here: it would join what was cut.
"""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx2
import openai
from hypothesis import given, settings
from hypothesis import strategies as st

from procession import Agent, tool
from procession.models.openai import OpenAIChatModel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TEXT = st.text(st.sampled_from('ab 1\n\r"\\{}é漢😀👩\u2028'), max_size=8)


class Answer(NamedTuple):
    """What a provider says, and its bytes as they are read."""

    texts: list[str]
    thoughts: list[str]
    arguments: list[str]
    reads: list[bytes]


def cut(draw: st.DrawFn, whole: Any, most: int = 3) -> list[Any]:
    """A text, or bytes, in pieces."""
    places = draw(st.lists(st.integers(0, len(whole)), max_size=most).map(sorted))
    return [whole[start:end] for start, end in pairwise([0, *places, len(whole)])]


def in_halves(text: str) -> str:
    """Each character beyond the first plane as the two surrogates that JSON escapes it with."""
    units = text.encode("utf-16-be")
    pairs = (units[i : i + 2] for i in range(0, len(units), 2))
    return "".join(pair.decode("utf-16-be", "surrogatepass") for pair in pairs)


def deltas_of(draw: st.DrawFn, answer: Answer, *, escaped: bool) -> list[dict[str, Any]]:
    """The answer in deltas: thoughts, texts, then calls that grow side by side."""

    def pieces(text: str) -> list[str]:
        return cut(draw, in_halves(text) if escaped else text)

    deltas: list[dict[str, Any]] = []
    for thought in answer.thoughts:
        deltas += [{"reasoning_content": piece} for piece in pieces(thought)]
    for text in answer.texts:
        deltas += [{"content": piece} for piece in pieces(text)]
    growing: dict[int, list[dict[str, Any]]] = {}
    for index, text in enumerate(answer.arguments):
        function = {"name": "keep", "arguments": ""}
        deltas.append({"tool_calls": [{"index": index, "id": f"c{index}", "function": function}]})
        arguments = json.dumps({"value": text}, ensure_ascii=False)
        growing[index] = [{"arguments": piece} for piece in pieces(arguments)]
    turns = draw(st.permutations([index for index, own in growing.items() for _ in own]))
    for index in turns:
        call = {"index": index, "function": growing[index].pop(0)}
        deltas.append({"tool_calls": [call]})
    return deltas


def written(draw: st.DrawFn, deltas: list[dict[str, Any]], *, escaped: bool) -> bytes:
    """The events, with the line ends of one server or another."""
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    before = draw(st.sampled_from(["", f": on{end}{end}", f"event: message{end}"]))
    choices = [{"delta": delta} for delta in deltas] + [{"delta": {}, "finish_reason": "stop"}]
    events = [json.dumps({"id": "r", "choices": [c]}, ensure_ascii=escaped) for c in choices]
    return "".join(f"{before}data: {data}{end}{end}" for data in [*events, "[DONE]"]).encode()


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    """Answers of any shape, cut anywhere."""
    several = st.lists(TEXT, max_size=2)
    answer = Answer(draw(several), draw(several), draw(st.lists(TEXT, max_size=3)), [])
    escaped = draw(st.booleans())
    body = written(draw, deltas_of(draw, answer, escaped=escaped), escaped=escaped)
    if draw(st.integers(0, 4)) == 0:
        return answer._replace(reads=[body[i : i + 1] for i in range(len(body))])
    return answer._replace(reads=cut(draw, body, most=12))


class Reads(httpx2.AsyncByteStream):
    """A body that is read as it was cut."""

    def __init__(self, reads: list[bytes]) -> None:
        self.reads = reads

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for read in self.reads:
            yield read


class Provider(httpx2.AsyncBaseTransport):
    """Plays one answer; later calls get a short one."""

    def __init__(self, reads: list[bytes]) -> None:
        self.answers = [reads]

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        last = [b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n']
        reads = self.answers.pop() if self.answers else last
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=headers, stream=Reads(reads))


class Hears:
    """A processor that keeps what it is offered."""

    id = "hears"

    def __init__(self) -> None:
        self.text = self.thoughts = ""
        self.arguments: dict[str, str] = {}

    def process_output_stream(self, args: Any) -> Any:
        payload = args.part.payload
        if args.part.type == "text-delta":
            self.text += payload.text
        elif args.part.type == "reasoning-delta":
            self.thoughts += payload.text
        elif args.part.type == "tool-call-delta":
            before = self.arguments.get(payload.tool_call_id, "")
            self.arguments[payload.tool_call_id] = before + payload.args_text_delta
        return args.part


async def check(answer: Answer) -> None:
    kept: list[str] = []

    @tool
    def keep(value: str) -> str:
        """Keep a text."""
        kept.append(value)
        return "kept"

    hears = Hears()
    transport = httpx2.AsyncClient(transport=Provider(answer.reads))
    async with openai.AsyncOpenAI(api_key="example", http_client=transport) as client:
        model = OpenAIChatModel("example-1", client=client)
        agent = Agent(id="guide", model=model, tools=[keep], output_processors=[hears])
        result = await agent.generate("Hi")
    text, thoughts = "".join(answer.texts), "".join(answer.thoughts)
    assert result.text == hears.text == text
    assert (result.reasoning_text or "") == hears.thoughts == thoughts
    assert sorted(kept) == sorted(answer.arguments)
    assert [json.loads(hears.arguments[f"c{i}"]) for i in range(len(answer.arguments))] == [
        {"value": value} for value in answer.arguments
    ]


@given(answers())
@settings(max_examples=80, deadline=None)
def test_any_cutting_of_the_wire(answer: Answer) -> None:
    """G-A: what processors hear, the result, and the arguments of tools."""
    asyncio.run(check(answer))
