"""What Responses streams mean, in every cutting. The data follow the public API reference."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procession.chunks import Chunk, Usage
from procession.errors import APICallError, ModelError
from procession.model import ToolDefinition
from procession.models.responses_events import ResponsesEvents
from procession.models.sse import EventReader
from procession.models.whole import WholeBlocks

DATA = Path(__file__).parent.parent / "data" / "openai_responses"
NAMES = sorted(path.stem for path in DATA.glob("*.txt"))


def recorded(name: str) -> bytes:
    return (DATA / f"{name}.txt").read_bytes()


def chunks_of(pieces: list[bytes], *, whole: bool = False, **options: Any) -> list[Chunk]:
    reader, events = EventReader(), ResponsesEvents("example", **options)
    blocks = WholeBlocks() if whole else None
    found: list[Chunk] = []
    for piece in [*pieces, None]:
        if piece is None:
            chunks = events.end(reader.finish())
        else:
            chunks = events.feed(reader.feed(piece))
        found += chunks if blocks is None else blocks.feed(chunks)
    return found + (blocks.end() if blocks is not None else [])


def lines(*events: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def meaning(chunks: list[Chunk]) -> list[tuple[Any, ...]]:
    """The chunks with neighbouring deltas joined and our own ids numbered."""
    ids: dict[str, int] = {}
    out: list[tuple[Any, ...]] = []
    for chunk in chunks:
        entry = chunk.to_json()["payload"]
        if str(entry.get("id", "")).startswith(("text-", "reasoning-", "source-")):
            entry["id"] = ids.setdefault(entry["id"], len(ids))
        field = "argsTextDelta" if chunk.type == "tool-call-delta" else "text"
        if chunk.type.endswith("-delta") and out and out[-1][0] == chunk.type:
            before = out[-1][1]
            if {**before, field: ""} == {**entry, field: ""}:
                before[field] += entry[field]
                continue
        out.append((chunk.type, entry))
    return out


def whole(name: str) -> list[Chunk]:
    return chunks_of([recorded(name)])


def kinds(chunks: list[Chunk]) -> list[str]:
    return [chunk.type for chunk in chunks]


def only(chunks: list[Chunk], kind: str) -> list[Any]:
    return [chunk.payload for chunk in chunks if chunk.type == kind]


def text(chunks: list[Chunk], kind: str = "text-delta") -> str:
    return "".join(payload.text for payload in only(chunks, kind))


def calls(chunks: list[Chunk]) -> list[tuple[str, Any]]:
    return [(call.tool_name, call.args) for call in only(chunks, "tool-call")]


def outcome(chunks: list[Chunk]) -> tuple[Any, Any]:
    result = chunks[-1].payload.step_result
    return result.reason, result.get("rawReason")


@pytest.mark.parametrize("name", NAMES)
def test_every_cutting_means_the_same(name: str) -> None:
    body = recorded(name)
    expected = meaning(chunks_of([body]))
    assert expected[-1][0] == "finish"
    assert meaning(chunks_of([body[i : i + 1] for i in range(len(body))])) == expected
    rng = random.Random(name)
    for _ in range(8):
        places = sorted(rng.sample(range(1, len(body)), rng.randint(1, 40)))
        borders = zip([0, *places], [*places, len(body)], strict=True)
        assert meaning(chunks_of([body[a:b] for a, b in borders])) == expected


@pytest.mark.parametrize("name", NAMES)
def test_line_ends_do_not_matter(name: str) -> None:
    body = recorded(name).replace(b"\r\n", b"\n")
    expected = meaning(chunks_of([body]))
    for end in (b"\r\n", b"\r"):
        other = body.replace(b"\n", end)
        assert meaning(chunks_of([other[i : i + 3] for i in range(0, len(other), 3)])) == expected


@pytest.mark.parametrize("name", NAMES)
def test_whole_blocks_say_the_same_in_one_delta_a_block(name: str) -> None:
    chunks = chunks_of([recorded(name)], whole=True)
    deltas = [c for c in chunks if c.type.endswith("-delta")]
    owners = [c.payload.get("id") or c.payload.get("toolCallId") for c in deltas]
    assert len(owners) == len(set(owners))
    assert text(chunks) == text(whole(name))
    assert calls(chunks) == calls(whole(name))


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_that_was_cut_has_no_finish(name: str) -> None:
    body = recorded(name)
    last = body.rindex(b"data: {")
    assert "finish" not in kinds(chunks_of([body[: last + 20]]))


def test_text_reasoning_sources_and_usage() -> None:
    chunks = whole("text")
    assert text(chunks) == "Bonjour, le märchen 😀 你好"
    metadata = chunks[0].payload
    assert (metadata.id, metadata.model_id) == ("resp_0001", "example-1-reasoner")
    assert metadata.timestamp == datetime.fromtimestamp(1_790_000_000, UTC)
    assert outcome(chunks) == ("stop", "completed")
    usage: Usage = chunks[-1].payload.output.usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (31, 12, 43)
    assert (usage.cached_input_tokens, usage.cache_creation_input_tokens) == (16, 8)
    assert usage.reasoning_tokens == 4
    own = chunks[-1].payload.metadata["providerMetadata"]["example"]
    assert own == {"responseId": "resp_0001", "serviceTier": "default"}
    page, file = only(chunks, "source")
    assert (page.source_type, page.url, page.title) == (
        "url",
        "https://example.com/bonjour",
        "Greetings",
    )
    assert page.provider_metadata["example"]["endIndex"] == 7
    assert (file.source_type, file.filename) == ("document", "greetings.txt")
    assert file.provider_metadata["example"]["fileId"] == "file-01"


def test_each_part_of_a_summary_is_a_block_and_the_last_has_what_is_encrypted() -> None:
    """K4: the complete item's, byte for byte, not that of the item that began."""
    chunks = whole("text")
    assert text(chunks, "reasoning-delta") == "**Greeting**\n\nSay it in é languages.Then stop."
    first, last = (end.provider_metadata["example"] for end in only(chunks, "reasoning-end"))
    assert first == {"itemId": "rs_01"}
    assert last == {"itemId": "rs_01", "reasoningEncryptedContent": "ZW5jcnlwdGVk+/=="}
    (message,) = only(chunks, "text-start")
    assert message.provider_metadata["example"] == {
        "itemId": "msg_01",
        "afterReasoning": "rs_01",
        "phase": "final_answer",
    }


def test_interleaved_calls() -> None:
    chunks = whole("tools_interleaved")
    assert calls(chunks) == [("get_weather", {"city": "Lyon"}), ("add", {"a": 1, "b": 2})]
    assert [call.tool_call_id for call in only(chunks, "tool-call")] == ["call_a", "call_b"]
    assert kinds(chunks)[3:9] == [
        "tool-call-input-streaming-start",
        "tool-call-delta",
        "tool-call-input-streaming-start",
        *["tool-call-delta"] * 3,
    ]
    own = [call.provider_metadata["example"] for call in only(chunks, "tool-call")]
    assert own == [
        {"itemId": "fc_a", "afterReasoning": "rs_02"},
        {"itemId": "fc_b", "item": {"namespace": "sums"}},
    ]
    assert outcome(chunks) == ("tool-calls", "completed")


def test_what_the_provider_runs_comes_with_its_results() -> None:
    chunks = whole("hosted")
    made = only(chunks, "tool-call")
    assert [call.tool_name for call in made] == [
        "web_search",
        "file_search",
        "code_interpreter",
        "docs",
        "docs.ask",
        "image_generation",
        "new_kind",
    ]
    assert all(call.provider_executed is True for call in made)
    results = {result.tool_call_id: result.result for result in only(chunks, "tool-result")}
    assert list(results) == [call.tool_call_id for call in made]
    assert results["fs_01"]["results"][0]["text"] == "Sunny."
    assert results["mcp_01"] == {"status": "completed", "error": None, "output": "Because."}
    assert results["nw_01"] == {"status": "completed", "answer": 42}
    assert made[4].args == {"question": "Why?"}
    assert only(chunks, "file")[0].data == "aW1hZ2U="
    assert "result" not in results["ig_01"]
    assert outcome(chunks) == ("stop", "completed")


def test_code_that_grows_is_json_in_pieces() -> None:
    pieces = [p for p in only(whole("hosted"), "tool-call-delta") if p.tool_call_id == "ci_01"]
    joined = json.loads("".join(piece.args_text_delta for piece in pieces))
    assert joined == {"code": 'print("é\\n", 1 + 1)\n', "container_id": "cntr_01"}


def test_provider_run_tools_have_the_names_their_caller_gave() -> None:
    tools = [
        ToolDefinition(name=name, description="", input_schema={}, provider_options=options)
        for name, options in {
            "look": {"openai": {"type": "web_search"}},
            "other": {"openai": {"type": "mcp", "serverLabel": "other"}},
            "wiki": {"example": {"type": "mcp", "serverLabel": "docs"}},
        }.items()
    ]
    names = [name for name, _ in calls(chunks_of([recorded("hosted")], tools=tools))]
    assert names[0] == "look"
    assert names[3:5] == ["wiki", "wiki.ask"]


def test_a_failed_tool_of_the_provider_is_an_error() -> None:
    item = {"type": "mcp_call", "id": "m", "name": "ask", "arguments": "{}", "server_label": "docs"}
    error = {"type": "http_error", "message": "gone"}
    done = {"type": "response.output_item.done", "item": {**item, "error": error}}
    (result,) = only(chunks_of([lines(done)]), "tool-result")
    assert result.is_error is True
    assert result.result["error"]["message"] == "gone"


def test_what_the_caller_answers_is_a_call_like_any_other() -> None:
    chunks = whole("client_tools")
    computer, custom, approval = only(chunks, "tool-call")
    assert all(call.get("providerExecuted") is None for call in (computer, custom, approval))
    assert computer.args == {"action": {"type": "click", "button": "left", "x": 1, "y": 2}}
    assert custom.args == {"input": 'say "hi"\n'}
    pieces = [p for p in only(chunks, "tool-call-delta") if p.tool_call_id == "call_d"]
    assert json.loads("".join(piece.args_text_delta for piece in pieces)) == custom.args
    assert approval.tool_call_id == "mcpr_01"
    assert approval.args["arguments"] == {"question": "Why?"}
    assert outcome(chunks)[0] == "tool-calls"


def test_refusals_are_marked() -> None:
    chunks = whole("refusal")
    assert text(chunks) == "I cannot do that."
    (start,) = only(chunks, "text-start")
    assert start.provider_metadata["example"]["refusal"] is True
    assert chunks[-1].payload.output.usage == Usage()


@pytest.mark.parametrize(
    ("name", "message", "retryable"),
    [
        ("failed", "The server had an error", True),
        ("error_inside", "Slow down", True),
        ("error_flat", "Not allowed", False),
    ],
)
def test_errors_inside_a_stream(name: str, message: str, retryable: bool) -> None:
    chunks = whole(name)
    assert kinds(chunks)[-3:] == ["text-delta", "error", "finish"]  # its block broke off
    error = chunks[-2].payload.error
    assert isinstance(error, APICallError)
    assert (error.message, error.is_retryable) == (message, retryable)
    assert outcome(chunks)[0] == "error"


@pytest.mark.parametrize(
    ("why", "reason"),
    [("max_output_tokens", "length"), ("content_filter", "content-filter"), ("odd", "other")],
)
def test_an_incomplete_answer_says_why(why: str, reason: str) -> None:
    chunks = chunks_of([recorded("incomplete").replace(b"max_output_tokens", why.encode())])
    assert outcome(chunks) == (reason, "incomplete")
    own = chunks[-1].payload.metadata["providerMetadata"]["example"]
    assert own["incompleteReason"] == why
    assert chunks[-1].payload.output.usage.total_tokens == 43


def test_a_provider_tool_without_outcome_leaves_no_call() -> None:
    """E7: an orphan call could never be sent back."""
    added = {"type": "web_search_call", "id": "ws", "status": "in_progress"}
    chunks = chunks_of(
        [
            lines(
                {"type": "response.output_item.added", "output_index": 0, "item": added},
                {
                    "type": "response.incomplete",
                    "response": {"incomplete_details": {"reason": "max_output_tokens"}},
                },
            )
        ]
    )
    assert only(chunks, "tool-call") == []
    assert outcome(chunks)[0] == "length"


def test_halves_of_characters_are_joined() -> None:
    chunks = whole("surrogates")
    assert text(chunks) == "a 😀 b \ufffd"
    assert calls(chunks) == [("keep", {"value": "😀"})]


def test_a_server_without_indexes_whose_reasoning_ends_late() -> None:
    chunks = whole("other_server")
    assert text(chunks) == "4"
    assert text(chunks, "reasoning-delta") == "Easy: four."
    (end,) = only(chunks, "reasoning-end")
    assert end.provider_metadata["example"] == {"itemId": "rs_07", "reasoningText": True}
    assert only(chunks, "response-metadata")[-1].model_id == "example-2"


@pytest.mark.parametrize("name", ["only_done", "only_completed"])
def test_what_no_delta_brought_is_taken_from_the_complete_items(name: str) -> None:
    chunks = whole(name)
    assert text(chunks) == "All at once"
    assert text(chunks, "reasoning-delta") == "One.Two."
    assert [source.url for source in only(chunks, "source")] == ["https://example.com/bonjour"]
    assert calls(chunks) == [("get_weather", {"city": "Lyon"})]
    assert outcome(chunks) == ("tool-calls", "completed")


def test_ids_that_change_with_every_event_do_not_matter() -> None:
    body = recorded("tools_interleaved")
    count = iter(range(1000))
    changed = b"".join(
        line.replace(b'"item_id":"fc_', b'"item_id":"%d_' % next(count)) + b"\n"
        for line in body.split(b"\n")
    )
    assert calls(chunks_of([changed])) == calls(chunks_of([body]))


def test_token_probabilities_are_kept() -> None:
    delta = {"type": "response.output_text.delta", "item_id": "m", "delta": "x"}
    end = {"type": "response.completed", "response": {"status": "completed"}}
    some = [{**delta, "logprobs": [{"token": "x", "logprob": -n}]} for n in range(3)]
    chunks = chunks_of([lines(*some, end)])
    own = chunks[-1].payload.metadata["providerMetadata"]["example"]
    assert [entry["logprob"] for entry in own["logprobs"]] == [0, -1, -2]
    assert text(chunks) == "xxx"


def test_an_end_mark_without_a_last_event() -> None:
    delta = {"type": "response.output_text.delta", "item_id": "m", "delta": "x"}
    chunks = chunks_of([lines(delta) + b"data: [DONE]\n\n"])
    assert kinds(chunks)[-2:] == ["text-end", "finish"]


def test_unknown_events_are_passed_over() -> None:
    odd = lines({"type": "response.new.kind", "value": {"a": [1]}}, {}, {"type": "keepalive"})
    body = recorded("text").split(b"event: response.output_item.added", 1)
    joined = body[0] + odd + b"event: response.output_item.added" + body[1]
    assert meaning(chunks_of([joined])) == meaning(whole("text"))


@pytest.mark.parametrize("bad", [b"data: {no json\n\n", b'data: {"type": 5}\n\n', b"data: [1]\n\n"])
def test_a_malformed_event_is_a_typed_error(bad: bytes) -> None:
    chunks = chunks_of([recorded("text")[:2000].rpartition(b"\n\n")[0] + b"\n\n" + bad])
    error = only(chunks, "error")[0].error
    assert isinstance(error, ModelError)
    assert "no json" not in str(error)
    assert outcome(chunks)[0] == "error"


def test_raw_events_on_request() -> None:
    chunks = chunks_of([recorded("text")], include_raw=True)
    assert kinds(chunks).count("raw") == recorded("text").count(b"data: ")
    assert text(chunks) == "Bonjour, le märchen 😀 你好"


SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3)
KEYS = st.sampled_from(
    "type item_id output_index content_index summary_index delta item response annotation error "
    "id status arguments name content text output summary usage call_id refusal annotations "
    "incomplete_details logprobs object action message code".split()
)
TYPES = st.sampled_from(
    sorted(ResponsesEvents._takers)
    + "message reasoning function_call mcp_call web_search_call custom_tool_call completed".split()
)
VALUES = st.recursive(
    SCALARS | TYPES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=12,
)


@given(
    st.lists(
        st.builds(
            lambda kind, more: {**more, "type": kind},
            TYPES,
            VALUES.filter(lambda v: isinstance(v, dict)),
        ),
        max_size=6,
    )
)
@settings(max_examples=60, deadline=None)
def test_no_event_is_too_odd(events: list[Any]) -> None:
    """Whatever comes, the decoder ends, and a text block that begins has an id."""
    chunks = chunks_of([lines(*events)])
    assert all(isinstance(payload.text, str) for payload in only(chunks, "text-delta"))
    assert kinds(chunks).count("finish") <= 1
