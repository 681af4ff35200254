"""What counts in messages, prompts and tools (B-257, B-262)."""

import asyncio
import base64
import logging
import sys
from typing import Any

import pytest

from procession import Tool
from procession.errors import ConfigurationError
from procession.messages import (
    FilePart,
    Message,
    MessageContent,
    ReasoningPart,
    TextPart,
    ToolInvocation,
    ToolInvocationPart,
    text_message,
)
from procession.processors import TokenLimiter
from procession.processors.tokens.token_counting import IMAGE, Tokens, as_message
from procession.processors.tokens.token_texts import (
    ESTIMATE,
    ChosenCounter,
    encoding_of,
    text_counter,
)
from procession.testing import ScriptedModel

O200K = text_counter("o200k_base")
PNG = base64.b64encode(b"\x89PNG" + bytes(3000)).decode()


def tokens() -> Tokens:
    return Tokens(O200K)


def said(*parts: Any, role: str = "user") -> Message:
    message = text_message("", role=role)
    message.content = MessageContent(parts=list(parts))
    return message


# ── which encoding ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("model_id", "encoding"),
    [
        ("gpt-4o-mini", "o200k_base"),
        ("gpt-4.1", "o200k_base"),
        ("gpt-5.6-sol", "o200k_base"),
        ("openai/gpt-5", "o200k_base"),
        ("o3-mini", "o200k_base"),
        ("gpt-oss-20b", "o200k_base"),
        ("chatgpt-4o-latest", "o200k_base"),
        ("gpt-4", "cl100k_base"),
        ("gpt-4-turbo", "cl100k_base"),
        ("gpt-3.5-turbo", "cl100k_base"),
        ("claude-sonnet-4-5", None),
        ("gemini-2.5-flash", None),
        ("omni", None),
        ("mock-1", None),
        ("", None),
    ],
)
def test_models_whose_encoding_is_known(model_id: str, encoding: str | None) -> None:
    """B-257."""
    assert encoding_of(ScriptedModel(["ok"], model_id=model_id)) == encoding


async def test_the_model_decides_unless_the_application_does() -> None:
    known = ScriptedModel(["ok"], model_id="gpt-5")
    assert await ChosenCounter().for_model(known) is text_counter("o200k_base")
    assert await ChosenCounter().for_model(ScriptedModel(["ok"])) is ESTIMATE
    assert await ChosenCounter().for_model(None) is ESTIMATE
    assert await ChosenCounter("o200k_base").for_model(None) is text_counter("o200k_base")
    assert await ChosenCounter("unheard-of").for_model(None) is ESTIMATE
    assert ChosenCounter("cl100k_base").without_model is text_counter("cl100k_base")


class Words:
    def encode(self, text: str) -> list[str]:
        return text.split()


async def test_an_object_with_encode_counts() -> None:
    """B-257: `encoding`."""
    texts = await ChosenCounter(Words()).for_model(ScriptedModel(["ok"], model_id="gpt-5"))
    assert texts.count("one two three") == 3


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("nope", "encoding 'nope' is not known (there are o200k_base"),
        (object(), "an object of type object has no encode(text)"),
        ("o200k_base", ""),
        (Words(), ""),
        (None, ""),
    ],
)
def test_an_encoding_that_is_not_to_be_had_is_told(
    encoding: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Anything is accepted; nobody should think that it counts."""
    with caplog.at_level(logging.WARNING):
        TokenLimiter(100, encoding=encoding)
    assert said in caplog.text and bool(said) == bool(caplog.text)


def test_an_encoding_that_is_not_installed_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    text_counter.cache_clear()
    monkeypatch.setitem(sys.modules, "bpe_openai", None)
    try:
        with caplog.at_level(logging.WARNING):
            assert ChosenCounter("cl100k_base").without_model is ESTIMATE
    finally:
        text_counter.cache_clear()
    assert "'cl100k_base' needs the extra 'tokens'" in caplog.text


def test_without_the_extra_there_is_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    text_counter.cache_clear()
    monkeypatch.setitem(sys.modules, "bpe_openai", None)
    try:
        assert text_counter("o200k_base") is ESTIMATE
    finally:
        text_counter.cache_clear()


def test_a_text_that_the_encoder_would_refuse_is_counted_in_pieces() -> None:
    text = "the word " * 150_000  # 1.35 million characters
    assert O200K.count(text) == pytest.approx(300_000, rel=0.001)
    assert O200K.count("\ud800") >= 1


def test_loading_an_encoding_does_not_hold_up_others() -> None:
    """It takes half a second, the first time."""
    text_counter.cache_clear()

    async def beside() -> int:
        turns = 0
        loading = asyncio.ensure_future(
            ChosenCounter().for_model(ScriptedModel(["ok"], model_id="gpt-4"))
        )
        while not loading.done():
            await asyncio.sleep(0)
            turns += 1
        assert (await loading).most_per_byte == 1
        return turns

    assert asyncio.run(beside()) >= 1


# ── messages ───────────────────────────────────────────────────────────────────────────────────


def test_text_and_a_little_for_each_message() -> None:
    short, long = (tokens().message(text_message(text)) for text in ("hi", "hi " * 100))
    assert 1 < short <= 8
    assert long - short == pytest.approx(99, abs=3)


def test_more_text_never_counts_less() -> None:
    """B-257."""
    counts = [tokens().message(text_message("word " * n)) for n in range(0, 200, 7)]
    assert counts == sorted(counts)


def test_images_count_flat_and_base64_never_as_text() -> None:
    """B-257."""
    image = FilePart(mime_type="image/png", data=PNG)
    assert tokens().message(said(image)) == IMAGE + 4
    twice = base64.b64encode(bytes(6000)).decode()
    assert tokens().message(said(FilePart(mime_type="image/png", data=twice))) == IMAGE + 4


def test_files_count_by_their_decoded_size() -> None:
    """B-257."""
    for size in (0, 4000, 40_000):
        raw = bytes(size)
        encoded = base64.b64encode(raw).decode()
        for data in (encoded, f"data:application/pdf;base64,{encoded}", raw):
            counted = tokens().message(said(FilePart(mime_type="application/pdf", data=data)))
            assert counted == pytest.approx(max(1, size / 4) + 4, abs=2)


def test_text_files_count_as_what_they_say() -> None:
    text = "The library opens at nine. " * 40
    data = base64.b64encode(text.encode()).decode()
    counted = tokens().message(said(FilePart(mime_type="text/plain", data=data)))
    assert counted == pytest.approx(O200K.count(text) + 4, abs=1)


@pytest.mark.parametrize("data", ["https://example.com/a.pdf", "file-abc_123"])
def test_addresses_and_ids_of_files_count_flat(data: str) -> None:
    """B-257."""
    entry = {
        "role": "user",
        "content": [{"type": "file", "mediaType": "application/pdf", "data": data}],
    }
    assert tokens().entry(entry) == IMAGE + 4


def test_a_call_counts_with_its_result() -> None:
    def part(**more: Any) -> ToolInvocationPart:
        call = ToolInvocation(tool_call_id="c1", tool_name="search", **more)
        return ToolInvocationPart(tool_invocation=call)

    arguments = {"query": "word " * 50}
    open_call = tokens().message(said(part(args=arguments), role="assistant"))
    over = part(args=arguments, state="result", result={"found": "word " * 200})
    assert open_call == 0  # it is not sent
    assert tokens().message(said(over, role="assistant")) == pytest.approx(50 + 200 + 40, abs=20)


def test_what_is_not_sent_counts_nothing() -> None:
    assert tokens().message(said(role="assistant")) == 0
    thought = said(ReasoningPart(reasoning="word " * 30), role="assistant")
    assert tokens().message(thought) == pytest.approx(34, abs=4)


def test_results_with_files_count_those_as_files() -> None:
    output = {
        "type": "content",
        "value": [
            {"type": "text", "text": "seen"},
            {"type": "media", "data": PNG, "mediaType": "image/png"},
        ],
    }
    part = {"type": "tool-result", "toolCallId": "c", "toolName": "shot", "output": output}
    counted = tokens().entry({"role": "tool", "content": [part]})
    assert counted == pytest.approx(IMAGE + 4 + 8 + 2, abs=2)


def test_a_message_counts_as_its_entries_do() -> None:
    parts = [TextPart(text="look at this"), FilePart(mime_type="image/png", data=PNG)]
    entry = {
        "role": "user",
        "content": [
            {"type": "text", "text": "look at this"},
            {"type": "file", "mediaType": "image/png", "data": PNG},
        ],
    }
    assert tokens().message(said(*parts)) == tokens().entry(entry)


def test_tools_count_with_their_schemas() -> None:
    properties = {f"field_{n}": {"type": "string", "description": "x"} for n in range(20)}
    small = Tool(name="small", description="Small.")
    large = Tool(
        name="large",
        description="Large.",
        input_schema={"type": "object", "properties": properties},
    )
    counter = tokens()
    assert counter.tools({}) == 0
    assert counter.tools({"large": large}) > counter.tools({"small": small}) + 100
    both = counter.tools({"small": small, "large": large})
    assert both == pytest.approx(
        counter.tools({"small": small}) + counter.tools({"large": large}), abs=1
    )


def test_texts_that_come_again_are_not_counted_again() -> None:
    """Law 7: a step costs what is new in it."""
    counted: list[str] = []

    class Counting:
        most_per_byte = 1.0

        def count(self, text: str, /) -> float:
            counted.append(text)
            return len(text)

    counter = Tokens(Counting())
    entries = [
        {"role": "user", "content": [{"type": "text", "text": f"a long question, number {n}"}]}
        for n in range(20)
    ]
    for step in range(1, 20):
        counter.entries([dict(entry) for entry in entries[:step]])
    assert len(counted) == 19


# ── the application's own counter ──────────────────────────────────────────────────────────────


class Letters:
    def __init__(self) -> None:
        self.roles: list[str] = []

    def count_message(self, message: Message) -> int:
        self.roles.append(message.role)
        return len(message.text)


def test_the_applications_counter_is_asked_and_nothing_is_added() -> None:
    given = Letters()
    counter = Tokens(ESTIMATE, given)
    assert counter.message(text_message("four")) == 4
    assert counter.entry({"role": "system", "content": "five."}) == 5
    assert counter.tools({"t": Tool(name="t")}) == 0
    assert counter.per_conversation == 0
    assert given.roles == ["user", "system"]


def test_entries_are_shown_to_it_as_messages() -> None:
    call = {"type": "tool-call", "toolCallId": "c1", "toolName": "search", "input": {"q": 1}}
    output = {"type": "json", "value": [1, 2]}
    outcome = {"type": "tool-result", "toolCallId": "c1", "toolName": "search", "output": output}
    asks = as_message({"role": "assistant", "content": [{"type": "text", "text": "hm"}, call]})
    gives = as_message({"role": "tool", "content": [outcome]})
    assert asks.text == "hm"
    assert asks.parts[1].tool_invocation.args == {"q": 1}
    assert (gives.role, gives.parts[0].tool_invocation.result) == ("assistant", [1, 2])


@pytest.mark.parametrize("wrong", [None, "7", -1, float("nan"), True])
def test_a_counter_that_gives_no_number_is_told(wrong: Any) -> None:
    class Wrong:
        def count_message(self, message: Message) -> Any:
            return wrong

    with pytest.raises(ConfigurationError, match="count_message must return a number"):
        Tokens(ESTIMATE, Wrong()).message(text_message("x"))
