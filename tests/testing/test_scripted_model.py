"""The scripted model and its helpers (R-506, R-518, R-531, R-549)."""

from typing import Any

import pytest
from msgspec import UNSET

from procession.chunks import Chunk, DeltaPayload, Usage
from procession.errors import APICallError, ConfigurationError, InputError
from procession.model import LanguageModel, ModelRequest, ToolDefinition
from procession.testing import Answer, ScriptedModel, answer, collect, text, tool_call


def request(*, streaming: bool = True, **values: Any) -> ModelRequest:
    prompt = [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
    return ModelRequest(**{"prompt": prompt, "settings": {}, "streaming": streaming, **values})


async def play(model: ScriptedModel, *, streaming: bool = True) -> list[Chunk]:
    """The chunks of one call, each list flattened."""
    lists: list[Any] = await collect(model.stream(request(streaming=streaming)))
    return [chunk for chunks in lists for chunk in chunks]


async def scripted(*parts: Any, streaming: bool = True) -> list[Chunk]:
    """The chunks made of `parts`, without what comes before every answer."""
    return (await play(ScriptedModel([list(parts)]), streaming=streaming))[2:]


def test_is_a_language_model() -> None:
    model = ScriptedModel(["hi"], provider="acme", model_id="small")
    assert isinstance(model, LanguageModel)
    assert (model.provider, model.model_id) == ("acme", "small")


async def test_begins_with_start_and_response_metadata() -> None:
    model = ScriptedModel([Answer(parts=text("a"), warnings=["old"])], name="main")
    start, metadata, *_ = await play(model)
    assert (start.type, start.payload.warnings) == ("stream-start", ["old"])
    assert metadata.payload.id == "resp-main-0"
    assert metadata.payload.model_id == "mock-1"


async def test_plays_answers_in_order_and_repeats_the_last() -> None:
    model = ScriptedModel(["one", "two"])
    answers = [await play(model) for _ in range(3)]
    assert [chunks[3].payload.text for chunks in answers] == ["one", "two", "two"]
    assert answers[2][1].payload.id == "resp-mock-1-2"


async def test_whole_answer() -> None:
    model = ScriptedModel([answer("Hel", "lo", tool_calls=[tool_call("look", {"q": 1}, id="c1")])])
    chunks = (await play(model))[2:]
    assert [chunk.type for chunk in chunks] == [
        "text-start",
        "text-delta",
        "text-delta",
        "text-end",
        "tool-call",
        "finish",
    ]
    assert chunks[4].payload.args == {"q": 1}
    assert chunks[5].payload.step_result.reason == "tool-calls"
    assert chunks[5].payload.output.usage == Usage(input_tokens=3, output_tokens=3)


async def test_without_streaming_each_block_is_one_delta() -> None:
    parts = [
        {"type": "text-start", "id": "a"},
        {"type": "text-delta", "id": "a", "delta": "1"},
        {"type": "reasoning-delta", "id": "r", "delta": "x"},
        Chunk(type="text-delta", payload=DeltaPayload(id="b", text="3")),
        {"type": "text-delta", "id": "a", "delta": "2"},
        Chunk(type="text-delta", payload=DeltaPayload(id="b", text="4")),
    ]
    chunks = await scripted(*parts, streaming=False)
    texts = [(c.type, c.payload.id, c.payload.text) for c in chunks if "delta" in c.type]
    assert texts == [
        ("text-delta", "a", "12"),
        ("reasoning-delta", "r", "x"),
        ("text-delta", "b", "34"),
    ]


async def test_nothing_is_moved_over_an_error() -> None:
    delta = {"type": "text-delta", "id": "a", "delta": "1"}
    error = {"type": "error", "error": {"message": "broke"}}
    chunks = await scripted(delta, error, delta, streaming=False)
    assert [chunk.type for chunk in chunks] == ["text-delta", "error", "text-delta"]
    assert chunks[0].payload.text == "1"


@pytest.mark.parametrize(
    ("part", "kind", "payload"),
    [
        (
            {"type": "reasoning-end", "id": "r", "providerMetadata": {"p": {"s": 1}}},
            "reasoning-end",
            {"id": "r", "providerMetadata": {"p": {"s": 1}}},
        ),
        (
            {"type": "source", "sourceType": "document", "id": "s", "mediaType": "text/plain"},
            "source",
            {"id": "s", "sourceType": "document", "mimeType": "text/plain"},
        ),
        (
            {"type": "file", "mediaType": "image/png", "data": "AAAA"},
            "file",
            {"data": "AAAA", "base64": "AAAA", "mimeType": "image/png"},
        ),
        (
            {"type": "tool-input-start", "id": "c", "toolName": "t"},
            "tool-call-input-streaming-start",
            {"toolCallId": "c", "toolName": "t"},
        ),
        (
            {"type": "tool-input-delta", "id": "c", "delta": "{}"},
            "tool-call-delta",
            {"toolCallId": "c", "argsTextDelta": "{}"},
        ),
        (
            {"type": "tool-input-end", "id": "c"},
            "tool-call-input-streaming-end",
            {"toolCallId": "c"},
        ),
        (
            {"type": "tool-call", "toolCallId": "c", "toolName": "t", "input": '{"a":'},
            "tool-call",
            {"toolCallId": "c", "toolName": "t"},
        ),
        (
            {
                "type": "tool-result",
                "toolCallId": "c",
                "toolName": "t",
                "result": None,
                "providerExecuted": True,
            },
            "tool-result",
            {"toolCallId": "c", "toolName": "t", "result": None, "providerExecuted": True},
        ),
        ({"type": "mystery", "deep": {"er": 1}}, "mystery", {"deep": {"er": 1}}),
    ],
)
async def test_provider_form(part: dict[str, Any], kind: str, payload: dict[str, Any]) -> None:
    [chunk] = await scripted(part)
    assert chunk.type == kind
    assert chunk.payload.to_json() == payload


async def test_finish_keeps_metadata_and_names_unknown_other() -> None:
    [chunk] = await scripted(
        {"type": "finish", "finishReason": "unknown", "providerMetadata": {"p": {"x": 1}}}
    )
    assert chunk.payload.step_result.reason == "other"
    assert chunk.payload.step_result.raw_reason == "unknown"
    assert chunk.payload.metadata == {"providerMetadata": {"p": {"x": 1}}}
    assert chunk.payload.output.usage == Usage()
    assert chunk.payload.message_id is UNSET


async def test_what_is_played_twice_shares_nothing() -> None:
    chunk = Chunk(type="text-delta", payload=DeltaPayload(id="a", text="x"))
    model = ScriptedModel([[chunk, tool_call("t", {"a": [1]})]])
    first, second = await play(model), await play(model)
    first[2].payload.text = "changed"
    assert second[2].payload.text == chunk.payload.text == "x"
    assert first[3].payload.args is not second[3].payload.args


async def test_errors_are_raised_when_the_call_is_made() -> None:
    error = APICallError("no such model", status_code=404)
    model = ScriptedModel([error])
    for _ in range(2):
        with pytest.raises(APICallError) as raised:
            await play(model)
        assert raised.value is error
    assert len(model.calls) == 2
    assert model.closed == []


async def test_error_part_holds_an_api_error() -> None:
    [chunk] = await scripted({"type": "error", "error": {"status": 529, "message": "overloaded"}})
    assert isinstance(chunk.payload.error, APICallError)
    assert chunk.payload.error.status_code == 529


async def test_calls_are_snapshots() -> None:
    seen: list[int] = []
    model = ScriptedModel(["hi"], on_call=lambda call: seen.append(call.number))
    look = ToolDefinition(name="look", description="", input_schema={})
    asked = request(tools=[look], tool_choice="required", response_format={"type": "json"})
    await collect(model.stream(asked))
    asked.prompt[0]["content"][0]["text"] = "changed"
    call = model.calls[0]
    assert call.text == "Hi"
    assert call.tool_names == ["look"]
    assert (call.tool_choice, call.response_format) == ("required", {"type": "json"})
    assert seen == [0]


async def test_leaving_early_is_noted() -> None:
    model = ScriptedModel(["hi"])
    await play(model)
    stream = model.stream(request())
    await anext(stream)
    await stream.aclose()
    assert model.closed == [1]


@pytest.mark.parametrize(("batch", "sizes"), [(1, [1, 1, 1, 1]), (3, [3, 1]), (9, [4])])
async def test_batches(batch: int, sizes: list[int]) -> None:
    model = ScriptedModel(["hi"], batch=batch)
    lists: list[Any] = await collect(model.stream(request()))
    assert [len(chunks) for chunks in lists[2:]] == sizes


async def test_a_wait_parts_a_batch() -> None:
    parts = [text("a"), {"type": "$delay", "ms": 1}, text("b", id="t2")]
    model = ScriptedModel([parts], batch=9)
    lists: list[Any] = await collect(model.stream(request()))
    assert [len(chunks) for chunks in lists[2:]] == [3, 3]


@pytest.mark.parametrize(("script", "error"), [(7, ConfigurationError), ([{"a": 1}], InputError)])
def test_what_is_no_answer_is_refused(script: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        ScriptedModel([script])


def test_a_script_is_not_empty() -> None:
    with pytest.raises(ConfigurationError):
        ScriptedModel([])
