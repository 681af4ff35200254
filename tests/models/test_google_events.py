"""What Gemini streams mean, in every cutting. The data follow the public API reference."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procession.chunks import Chunk, Usage
from procession.errors import APICallError, ModelError
from procession.models.google_events import GoogleEvents
from procession.models.sse import EventReader

SIGNATURE = "EqADCp0DAQw51sct+/aTt62vj=="
OTHER_SIGNATURE = "CiQBDDnWx+meFE0lq4hrGQ=="


def written(*events: Any, end: str = "\r\n") -> bytes:
    """Events as Google writes them: not escaped, and with the line ends of HTTP."""
    return "".join(
        f"data: {json.dumps(event, ensure_ascii=False)}{end}{end}" for event in events
    ).encode()


def says(*parts: dict[str, Any], **candidate: Any) -> dict[str, Any]:
    content = {"parts": list(parts), "role": "model"} if parts else {"role": "model"}
    return {"candidates": [{"content": content, "index": 0, **candidate}], "responseId": "r1"}


STOP = {"candidates": [{"content": {}, "finishReason": "STOP"}]}

RICH = written(
    {
        **says({"text": "Let me see…", "thought": True}),
        "modelVersion": "gemini-example",
        "createTime": "2026-03-01T12:00:00Z",
    },
    says({"text": " 漢字", "thought": True, "thoughtSignature": SIGNATURE}),
    says({"text": "The märchen"}),
    says({"text": " of 😀 "}),
    says({"text": "frogs."}, {"text": "", "thoughtSignature": OTHER_SIGNATURE}),
    says(
        {
            "functionCall": {"name": "weather", "args": {"city": "Łódź"}, "id": "f1"},
            "thoughtSignature": SIGNATURE,
        },
        {"functionCall": {"name": "weather", "args": {"city": "Lyon"}}},
    ),
    {**STOP, "usageMetadata": {"promptTokenCount": 5, "totalTokenCount": 5}},
)

NAMES = (
    "candidates content parts text functionCall toolCall executableCode codeExecutionResult "
    "groundingMetadata groundingChunks web retrievedContext inlineData usageMetadata "
    "promptFeedback error args name finishReason"
).split()
ANYTHING = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=12,
)


def chunks_of(pieces: list[bytes], *, raw: bool = False) -> list[Chunk]:
    reader, events = EventReader(), GoogleEvents(include_raw=raw)
    found: list[Chunk] = []
    for piece in pieces:
        found += events.feed(reader.feed(piece))
    return found + events.end(reader.finish())


def whole(*events: Any) -> list[Chunk]:
    return chunks_of([written(*events)])


def meaning(chunks: list[Chunk]) -> list[tuple[str, Any]]:
    """The chunks, generated ids numbered."""
    ids: dict[str, int] = {}
    out: list[tuple[str, Any]] = []
    for chunk in chunks:
        entry = chunk.to_json().get("payload") or {}
        for key in ("id", "toolCallId"):
            if key in entry:
                entry[key] = ids.setdefault(entry[key], len(ids))
        out.append((chunk.type, entry))
    return out


def kinds(chunks: list[Chunk]) -> list[str]:
    return [chunk.type for chunk in chunks]


def only(chunks: list[Chunk], kind: str) -> list[Any]:
    return [chunk.payload for chunk in chunks if chunk.type == kind]


def text(chunks: list[Chunk], kind: str = "text-delta") -> str:
    return "".join(payload.text for payload in only(chunks, kind))


def outcome(chunks: list[Chunk]) -> tuple[Any, Any]:
    result = chunks[-1].payload.step_result
    return result.reason, result.get("rawReason")


def usage(record: dict[str, Any]) -> Usage:
    return whole(says({"text": "Hi"}), {**STOP, "usageMetadata": record})[-1].payload.output.usage


def test_an_answer_in_chunks() -> None:
    chunks = chunks_of([RICH])
    assert kinds(chunks) == [
        "response-metadata",
        *["reasoning-start", "reasoning-delta", "reasoning-delta", "reasoning-end"],
        *["text-start", "text-delta", "text-delta", "text-delta", "text-end"],
        *["tool-call-input-streaming-start", "tool-call-delta"],
        *["tool-call-input-streaming-end", "tool-call"],
        *["tool-call-input-streaming-start", "tool-call-delta"],
        *["tool-call-input-streaming-end", "tool-call"],
        "finish",
    ]
    about = chunks[0].payload
    assert (about.id, about.model_id) == ("r1", "gemini-example")
    assert about.timestamp == datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert text(chunks, "reasoning-delta") == "Let me see… 漢字"
    assert text(chunks) == "The märchen of 😀 frogs."
    first, second = only(chunks, "tool-call")
    assert (first.tool_call_id, first.tool_name, first.args) == ("f1", "weather", {"city": "Łódź"})
    assert second.tool_call_id.startswith("call_")
    assert outcome(chunks) == ("tool-calls", "STOP")


def test_each_signature_stays_with_its_part() -> None:
    chunks = chunks_of([RICH])
    (thought,) = only(chunks, "reasoning-end")
    assert thought.provider_metadata == {"google": {"thoughtSignature": SIGNATURE}}
    (said,) = only(chunks, "text-end")
    assert said.provider_metadata == {
        "google": {"thoughtSignature": OTHER_SIGNATURE, "signedApart": True}
    }
    signed, unsigned = only(chunks, "tool-call")
    assert signed.provider_metadata == {"google": {"thoughtSignature": SIGNATURE}}
    assert not unsigned.provider_metadata


def test_text_behind_a_signed_text_is_a_block_of_its_own() -> None:
    chunks = whole(says({"text": "a", "thoughtSignature": SIGNATURE}), says({"text": "b"}), STOP)
    first, second = only(chunks, "text-end")
    assert first.provider_metadata == {"google": {"thoughtSignature": SIGNATURE}}
    assert not second.provider_metadata
    assert first.id != second.id


def test_a_signature_without_a_text_is_kept() -> None:
    chunks = whole(says({"thoughtSignature": SIGNATURE}), says({"text": "b"}), STOP)
    (held,) = only(chunks, "reasoning-end")
    assert held.provider_metadata == {"google": {"thoughtSignature": SIGNATURE, "thought": False}}
    assert text(chunks) == "b"


@pytest.mark.parametrize("end", ["\r\n", "\n"])
def test_single_bytes_mean_the_same(end: str) -> None:
    body = RICH.replace(b"\r\n", end.encode())
    expected = meaning(chunks_of([body]))
    assert meaning(chunks_of([body[i : i + 1] for i in range(len(body))])) == expected


@settings(max_examples=60)
@given(st.lists(st.integers(0, len(RICH)), max_size=6))
def test_every_cutting_means_the_same(places: list[int]) -> None:
    borders = [0, *sorted(places), len(RICH)]
    pieces = [RICH[a:b] for a, b in pairwise(borders)]
    assert meaning(chunks_of(pieces)) == meaning(chunks_of([RICH]))


@settings(max_examples=60)
@given(st.integers(0, len(RICH) - 1), st.binary(max_size=4))
def test_damaged_answers_end_without_a_crash(place: int, rubbish: bytes) -> None:
    chunks_of([RICH[:place] + rubbish + RICH[place + 1 :]])


@settings(max_examples=60)
@given(ANYTHING)
def test_events_of_any_form_end_without_a_crash(event: Any) -> None:
    chunks_of([written(says({"text": "a"}), event, STOP)])


def test_halves_of_a_character_are_joined() -> None:
    halves = [says({"text": "a\ud83d"}), says({"text": "\ude00b"}), STOP]
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in halves).encode()
    assert text(chunks_of([body])) == "a😀b"


# ── the end ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content-filter"),
        ("RECITATION", "content-filter"),
        ("PROHIBITED_CONTENT", "content-filter"),
        ("IMAGE_SAFETY", "content-filter"),
        ("MALFORMED_FUNCTION_CALL", "error"),
        ("LANGUAGE", "other"),
        ("SOMETHING_NEW", "other"),
    ],
)
def test_finish_reasons(word: str, reason: str) -> None:
    """R-518."""
    assert outcome(whole(says({"text": "a"}, finishReason=word))) == (reason, word)


def test_what_ended_the_answer_is_told_in_words() -> None:
    chunks = whole(says(finishReason="MALFORMED_FUNCTION_CALL", finishMessage="no such name"))
    assert chunks[-1].payload.metadata == {
        "providerMetadata": {"google": {"finishMessage": "no such name"}}
    }


def test_a_reason_that_comes_with_every_event_ends_nothing() -> None:
    chunks = whole(
        says({"text": "a"}, finishReason="STOP"), says({"text": "b"}, finishReason="STOP")
    )
    assert kinds(chunks)[1:] == ["text-start", "text-delta", "text-delta", "text-end", "finish"]


def test_a_blocked_prompt() -> None:
    feedback = {"blockReason": "PROHIBITED_CONTENT", "safetyRatings": []}
    chunks = whole({"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 3}})
    assert outcome(chunks) == ("content-filter", "PROHIBITED_CONTENT")
    assert chunks[-1].payload.metadata["providerMetadata"]["google"]["promptFeedback"] == feedback
    assert chunks[-1].payload.output.usage.input_tokens == 3


def test_an_answer_that_was_cut_short_has_no_finish() -> None:
    body = written(says({"text": "a"}), says({"text": "b"}, finishReason="STOP"))
    chunks = chunks_of([body[:-9]])
    assert kinds(chunks) == ["response-metadata", "text-start", "text-delta"]


def test_a_last_event_without_its_end_counts() -> None:
    chunks = chunks_of([written(says({"text": "a"}), STOP).rstrip()])
    assert kinds(chunks)[-2:] == ["text-end", "finish"]


def test_usage_is_the_last_record_and_all_of_it() -> None:
    """G-P2: never added up. What Gemini counts apart is of input and of output."""
    records = [
        {"promptTokenCount": 5, "candidatesTokenCount": 1, "totalTokenCount": 6},
        {
            "promptTokenCount": 7,
            "cachedContentTokenCount": 4,
            "toolUsePromptTokenCount": 100,
            "candidatesTokenCount": 20,
            "thoughtsTokenCount": 300,
            "totalTokenCount": 427,
        },
    ]
    chunks = whole(*({**says({"text": "a"}), "usageMetadata": each} for each in records), STOP)
    assert chunks[-1].payload.output.usage == Usage(
        input_tokens=107,
        output_tokens=320,
        total_tokens=427,
        reasoning_tokens=300,
        cached_input_tokens=4,
        raw=records[-1],
    )


def test_counts_that_are_missing_are_unknown() -> None:
    """G-P3."""
    assert usage({"promptTokenCount": 5}).output_tokens is None
    assert usage({"promptTokenCount": 5, "candidatesTokenCount": 2}).total_tokens == 7
    assert usage({"promptTokenCount": "5"}).input_tokens is None
    assert whole(says({"text": "a"}), STOP)[-1].payload.output.usage == Usage()


# ── what is no text ────────────────────────────────────────────────────────────────────────────


def test_code_that_google_runs() -> None:
    code = {"language": "PYTHON", "code": "print(1)", "id": "e1"}
    result = {"outcome": "OUTCOME_OK", "output": "1\n", "id": "e1"}
    chunks = whole(
        says({"executableCode": code, "thoughtSignature": SIGNATURE}),
        says({"codeExecutionResult": result, "thoughtSignature": OTHER_SIGNATURE}),
        says({"text": "One."}),
        STOP,
    )
    (call,) = only(chunks, "tool-call")
    assert (call.tool_name, call.args) == (
        "code_execution",
        {"language": "PYTHON", "code": "print(1)"},
    )
    assert call.provider_executed is True
    assert call.provider_metadata == {
        "google": {"toolType": "CODE_EXECUTION", "id": "e1", "thoughtSignature": SIGNATURE}
    }
    (found,) = only(chunks, "tool-result")
    assert (found.tool_call_id, found.provider_executed) == ("e1", True)
    assert found.result == {"outcome": "OUTCOME_OK", "output": "1\n"}
    assert found.provider_metadata == {"google": {"resultThoughtSignature": OTHER_SIGNATURE}}
    assert outcome(chunks) == ("stop", "STOP")  # no tool of ours was called


def test_code_without_an_id_that_failed() -> None:
    chunks = whole(
        says(
            {"executableCode": {"language": "PYTHON", "code": "1/0"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "division"}},
        ),
        STOP,
    )
    (call,), (result,) = only(chunks, "tool-call"), only(chunks, "tool-result")
    assert call.tool_call_id == result.tool_call_id
    assert result.is_error is True


def test_tools_that_google_executes() -> None:
    chunks = whole(
        says({"toolCall": {"toolType": "FILE_SEARCH", "id": "s1", "args": {"query": "frogs"}}}),
        says({"toolResponse": {"toolType": "FILE_SEARCH", "id": "s1"}}),
        STOP,
    )
    (call,), (result,) = only(chunks, "tool-call"), only(chunks, "tool-result")
    assert (call.tool_name, call.args) == ("file_search", {"query": "frogs"})
    assert (result.tool_call_id, result.result) == ("s1", {})


def test_ids_are_not_used_twice() -> None:
    """R-534."""
    call = {"functionCall": {"name": "a", "args": {}, "id": "same"}}
    ids = [payload.tool_call_id for payload in only(whole(says(call, call), STOP), "tool-call")]
    assert len(set(ids)) == 2


def test_calls_without_arguments_and_with_odd_ones() -> None:
    """R-531."""
    names = [{"name": "a"}, {"name": "b", "args": '{"x": 1}'}, {"name": "c", "args": [1]}]
    calls = only(whole(says(*({"functionCall": name} for name in names)), STOP), "tool-call")
    assert [call.get("args", "none") for call in calls] == [{}, {"x": 1}, "none"]


def test_generated_files() -> None:
    picture = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
    chunks = whole(
        says({**picture, "thought": True}),
        says({"text": "Here:"}, {**picture, "thoughtSignature": SIGNATURE}),
        says({"fileData": {"mimeType": "video/mp4", "fileUri": "https://example.com/f.mp4"}}),
        STOP,
    )
    file, named = only(chunks, "file")
    assert (file.mime_type, file.data) == ("image/png", "iVBORw0KGgo=")
    assert file.provider_metadata == {"google": {"thoughtSignature": SIGNATURE}}
    assert named.data == "https://example.com/f.mp4"
    assert "reasoning-file" in kinds(chunks)  # a draft is no file of the answer


def test_sources() -> None:
    page = {"web": {"uri": "https://example.com/frogs", "title": "Frogs"}}
    place = {"maps": {"uri": "https://maps.example.com/1", "title": "Pond"}}
    stored = {"retrievedContext": {"text": "Frogs leap.", "fileSearchStore": "stores/pond-1"}}
    grounding = {"groundingChunks": [page, stored, place]}
    cited = {"citationSources": [{"startIndex": 1, "uri": "https://example.com/quoted"}]}
    chunks = whole(
        says({"text": "Frogs"}, groundingMetadata={"groundingChunks": [page]}),
        says(
            {"text": " leap."},
            groundingMetadata=grounding,
            citationMetadata=cited,
            urlContextMetadata={"urlMetadata": []},
            safetyRatings=[{"category": "HARM_CATEGORY_HARASSMENT"}],
        ),
        STOP,
    )
    found = [
        (source.source_type, source.get("url"), source.get("title"), source.get("filename"))
        for source in only(chunks, "source")
    ]
    assert found == [
        ("url", "https://example.com/frogs", "Frogs", None),
        ("document", None, "stores/pond-1", "pond-1"),
        ("url", "https://maps.example.com/1", "Pond", None),
        ("url", "https://example.com/quoted", None, None),
    ]
    assert len({source.id for source in only(chunks, "source")}) == 4
    assert chunks[-1].payload.metadata["providerMetadata"]["google"] == {
        "groundingMetadata": grounding,
        "citationMetadata": cited,
        "urlContextMetadata": {"urlMetadata": []},
        "safetyRatings": [{"category": "HARM_CATEGORY_HARASSMENT"}],
    }
    assert text(chunks) == "Frogs leap."


# ── what goes wrong ────────────────────────────────────────────────────────────────────────────


def test_an_error_inside_the_stream() -> None:
    error = {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}
    chunks = whole(says({"text": "a"}), {"error": error}, says({"text": "b"}))
    assert kinds(chunks)[-2:] == ["error", "finish"]
    failure = chunks[-2].payload.error
    assert isinstance(failure, APICallError)
    assert (failure.status_code, failure.is_retryable) == (503, True)
    assert str(failure) == "The model is overloaded."
    assert outcome(chunks) == ("error", None)


@pytest.mark.parametrize("data", ["{", "17", '"secret"', "[1]", '{"candidates": 5}', "[" * 5000])
def test_rubbish_is_a_typed_error_without_the_data(data: str) -> None:
    chunks = chunks_of([f"data: {data}\n\n".encode()])
    assert kinds(chunks) == ["error", "finish"]
    assert isinstance(chunks[0].payload.error, ModelError)
    assert "secret" not in str(chunks[0].payload.error)


def test_unknown_events_and_parts_are_passed_over() -> None:
    chunks = whole({"news": 1}, says({"hologram": {"x": 1}}, {"text": "a"}), STOP)
    assert text(chunks) == "a"
    assert chunks[-1].type == "finish"


def test_an_array_of_events_is_read_as_well() -> None:
    body = json.dumps([says({"text": "a"}), says({"text": "b"}), STOP]).encode()
    events = GoogleEvents()
    chunks = events.feed([body]) + events.end()
    assert (text(chunks), outcome(chunks)) == ("ab", ("stop", "STOP"))


def test_other_candidates_are_left_out() -> None:
    event = says({"text": "a"})
    event["candidates"].append({"index": 1, "content": {"parts": [{"text": "b"}]}})
    assert text(whole(event, STOP)) == "a"


def test_raw_chunks() -> None:
    chunks = chunks_of([RICH], raw=True)
    assert len(only(chunks, "raw")) == 7
    assert text(chunks) == "The märchen of 😀 frogs."


def test_a_very_large_event() -> None:
    data = "A" * 10_000_000
    chunks = whole(says({"inlineData": {"mimeType": "image/png", "data": data}}), STOP)
    assert len(only(chunks, "file")[0].data) == 10_000_000
