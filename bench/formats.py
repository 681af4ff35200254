"""What the provider of W5 says, in each of the wire formats that are measured."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

Json = dict[str, Any]


class Format(NamedTuple):
    """A wire format: where calls go, what begins an answer, brings one text, and ends it."""

    path: str
    opening: bytes
    text: Callable[[str], bytes]
    ending: Callable[[int], bytes]


def data(value: Json) -> bytes:
    """An event that is data alone."""
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


def named(kind: str, **value: Any) -> bytes:
    """An event with a name, which its data repeats."""
    return b"event: " + kind.encode() + b"\n" + data({"type": kind, **value})


# ── OpenAI chat completions ────────────────────────────────────────────────────────────────────


def chat_event(delta: Json, reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return data({**CHAT, "choices": [choice]})


def chat_ending(count: int) -> bytes:
    usage = {"prompt_tokens": 1, "completion_tokens": count, "total_tokens": count + 1}
    last = data({**CHAT, "choices": [], "usage": usage})
    return chat_event({}, "stop") + last + b"data: [DONE]\n\n"


CHAT: Json = {"id": "r", "object": "chat.completion.chunk", "created": 1, "model": "bench"}


# ── OpenAI responses ───────────────────────────────────────────────────────────────────────────


def response(status: str, **values: Any) -> Json:
    return {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "status": status,
        "model": "bench",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        **values,
    }


def message(status: str, content: list[Json]) -> Json:
    return {
        "id": "m",
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": content,
    }


def responses_opening() -> bytes:
    part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    started = response("in_progress")
    added = message("in_progress", [])
    return b"".join(
        [
            named("response.created", sequence_number=0, response=started),
            named("response.in_progress", sequence_number=1, response=started),
            named("response.output_item.added", sequence_number=2, output_index=0, item=added),
            named("response.content_part.added", sequence_number=3, **PLACE, part=part),
        ]
    )


def responses_text(text: str) -> bytes:
    kind = "response.output_text.delta"
    return named(kind, sequence_number=4, **PLACE, delta=text, logprobs=[], obfuscation="0123456")


def responses_ending(count: int) -> bytes:
    item = message("completed", [])  # its text was said
    usage = {
        "input_tokens": 1,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": count,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": count + 1,
    }
    whole = response("completed", output=[item], usage=usage)
    return named("response.output_item.done", sequence_number=5, output_index=0, item=item) + named(
        "response.completed", sequence_number=6, response=whole
    )


PLACE: Json = {"item_id": "m", "output_index": 0, "content_index": 0}


# ── Anthropic messages ─────────────────────────────────────────────────────────────────────────


def anthropic_opening() -> bytes:
    started = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "bench",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    block = {"type": "text", "text": ""}
    begun = named("content_block_start", index=0, content_block=block)
    return named("message_start", message=started) + begun


def anthropic_text(text: str) -> bytes:
    return named("content_block_delta", index=0, delta={"type": "text_delta", "text": text})


def anthropic_ending(count: int) -> bytes:
    delta = {"stop_reason": "end_turn", "stop_sequence": None}
    return b"".join(
        [
            named("content_block_stop", index=0),
            named("message_delta", delta=delta, usage={"output_tokens": count}),
            named("message_stop"),
        ]
    )


# ── Google ─────────────────────────────────────────────────────────────────────────────────────


def google_event(text: str, count: int, **more: Any) -> bytes:
    candidate = {"content": {"parts": [{"text": text}], "role": "model"}, "index": 0, **more}
    usage = {
        "promptTokenCount": 1,
        "candidatesTokenCount": count,
        "totalTokenCount": count + 1,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 1}],
    }
    about = {"modelVersion": "bench", "responseId": "r"}
    # Its events end with CR LF, and each tells the usage so far.
    said = data({"candidates": [candidate], "usageMetadata": usage, **about})
    return said.replace(b"\n", b"\r\n")


FORMATS = {
    "chat": Format(
        "/chat/completions",
        chat_event({"role": "assistant", "content": ""}),
        lambda text: chat_event({"content": text}),
        chat_ending,
    ),
    "responses": Format("/responses", responses_opening(), responses_text, responses_ending),
    "anthropic": Format("/messages", anthropic_opening(), anthropic_text, anthropic_ending),
    "google": Format(
        ":streamGenerateContent",
        b"",
        lambda text: google_event(text, 1),
        lambda count: google_event("", count, finishReason="STOP"),
    ),
}


def format_of(target: bytes) -> Format:
    """The format that a request line asks for."""
    return next(found for found in FORMATS.values() if found.path.encode() in target)


def texts_of(body: Any) -> list[str]:
    """The text of each message of a request, in any of the formats."""
    given = next(body[name] for name in ("messages", "input", "contents") if name in body)
    return [given] if isinstance(given, str) else [said(message) for message in given]


def said(message: Json) -> str:
    content = message["parts"] if "parts" in message else message["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)
