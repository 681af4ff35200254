"""Counting tokens of what is sent to a model: texts, files, prompt entries, messages, tools.

Texts are counted exactly where the model's encoding is known and the extra `tokens` is installed,
and else estimated, rather more than less (B-257).
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from math import ceil
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from ...conversation.prompt_entries import entries_of
from ...conversation.prompt_parts import is_url
from ...errors import ConfigurationError
from ...messages import (
    FilePart,
    Message,
    MessageContent,
    ReasoningPart,
    TextPart,
    ToolInvocation,
    ToolInvocationPart,
    text_message,
)
from ...records import clean_text, plain

if TYPE_CHECKING:
    from ...messages import Part
    from ...tools import Tool
    from .token_texts import TextCounter

__all__ = ["TokenCounter", "Tokens"]

PER_CONVERSATION = 3
PER_MESSAGE = 4
PER_CALL = 8
"""What marks a tool call or its result beside name and content, and each tool that is offered."""
IMAGE = 1600
"""An image, and a file that is only named by its address or its provider's id."""
BYTES_PER_TOKEN = 4
"""Of a file that is no text."""

_REMEMBERED = 24
"""Texts shorter than this are counted again rather than looked up."""
_OWN_ID = 256
"""Data shorter than this that is no base64 is the id of a file."""


class TokenCounter(Protocol):
    """What an application counts with instead: `token_counter` of `TokenLimiter`."""

    def count_message(self, message: Message, /) -> int:
        """The tokens of a message, all it costs included.

        An entry of a prompt is shown as a message of its role, `system` included; results of tools
        as a message of role `assistant` with the calls in state `result`.
        """
        ...


class Tokens:
    """Counts prompt entries, messages and tools; texts that come again are not counted again.

    One is made for each run, so that what it remembers ends with it.
    """

    def __init__(self, texts: TextCounter, given: TokenCounter | None = None) -> None:
        self.texts = texts
        self.given = given
        self._known: dict[str | bytes, float] = {}
        self._tools: dict[int, tuple[Tool, float]] = {}
        self._entries: dict[int, tuple[Mapping[str, Any], int]] = {}

    @property
    def per_conversation(self) -> int:
        """What a prompt costs beside its messages; nothing when the application counts."""
        return PER_CONVERSATION if self.given is None else 0

    @property
    def most_per_byte(self) -> float:
        """No text has more tokens than this for each byte; infinite where that is unknown."""
        return self.texts.most_per_byte if self.given is None else float("inf")

    def said(self, text: str) -> float:
        """A piece of an answer."""
        if self.given is None:
            return self.texts.count(text)
        return _checked(self.given.count_message(text_message(text, role="assistant")))

    # ── texts and values ───────────────────────────────────────────────────────────────────────

    def text(self, text: str) -> float:
        """A text."""
        if len(text) < _REMEMBERED:
            return self.texts.count(text)
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = self.texts.count(text)
        return found

    def value(self, value: Any) -> float:
        """A value, as the JSON text that is sent."""
        if isinstance(value, str):
            return self.text(value)
        try:
            form = msgspec.json.encode(value)
        except (TypeError, ValueError, RecursionError, OverflowError):
            form = msgspec.json.encode(plain(value))
        found = self._known.get(form)
        if found is None:
            found = self._known[form] = self.texts.count(form.decode())
        return found

    def file(self, data: Any, media_type: str) -> float:
        """A file: an image flat, a text by what it says, any other by its size (B-257)."""
        if media_type.startswith("image/") or is_url(data):
            return IMAGE
        if isinstance(data, str) and data.startswith("data:"):
            data = data.partition(",")[2]
        size = len(data) if isinstance(data, bytes | bytearray | str) else 0
        if isinstance(data, str):
            if size < _OWN_ID and not _is_base64(data):
                return IMAGE
            size = size * 3 // 4
        if media_type.startswith("text/") or media_type.endswith("json"):
            said = _decoded(data)
            if said is not None:
                return self.text(said)
        return max(1, ceil(size / BYTES_PER_TOKEN))

    # ── messages ───────────────────────────────────────────────────────────────────────────────

    def entry(self, entry: Mapping[str, Any]) -> int:
        """An entry of a prompt."""
        if self.given is not None:
            return _checked(self.given.count_message(as_message(entry)))
        content: Any = entry.get("content")
        if isinstance(content, list):
            tokens = sum(map(self._part, cast("list[Any]", content)))
        else:
            tokens = self.text(str(content or ""))
        return ceil(PER_MESSAGE + tokens)

    def entries(self, entries: Iterable[Mapping[str, Any]]) -> int:
        """Several entries."""
        return sum(map(self.entry, entries))

    def shared_entries(self, entries: Iterable[Mapping[str, Any]]) -> int:
        """Several entries that nobody changes, such as those of a message list: each is counted
        once."""
        tokens = 0
        for entry in entries:
            known = self._entries.get(id(entry))
            if known is None or known[0] is not entry:
                known = self._entries[id(entry)] = entry, self.entry(entry)
            tokens += known[1]
        return tokens

    def message(self, message: Message) -> int:
        """A message as it would stand in a prompt; 0 for one that does not."""
        if self.given is not None:
            return _checked(self.given.count_message(message))
        if message.role == "system":
            return self.entry({"content": message.text})
        return self.entries(entries_of(message, message.content.parts, keep_pending=False))

    def tools(self, tools: Mapping[str, Tool]) -> int:
        """The tools that are offered, with their schemas."""
        if self.given is not None:
            return 0
        return ceil(sum(self._tool(tool) for tool in tools.values()))

    def _tool(self, tool: Tool) -> float:
        known = self._tools.get(id(tool))
        if known is None or known[0] is not tool:
            tokens = self.text(tool.name) + self.text(tool.description)
            known = tool, PER_CALL + tokens + self.value(tool.input_schema)
            self._tools[id(tool)] = known
        return known[1]

    def _part(self, part: Any) -> float:
        kind = part.get("type")
        if kind in ("text", "reasoning"):
            return self.text(str(part.get("text") or ""))
        if kind == "file":
            return self.file(part.get("data"), str(part.get("mediaType") or ""))
        if kind == "tool-call":
            name = self.text(str(part.get("toolName")))
            return PER_CALL + name + self.value(part.get("input"))
        if kind == "tool-result":
            name = self.text(str(part.get("toolName")))
            return PER_CALL + name + self._output(part.get("output"))
        return self.value({key: part[key] for key in part if key != "providerOptions"})

    def _output(self, output: Any) -> float:
        """What a tool gave; it may hold files."""
        if not isinstance(output, Mapping):
            return self.value(output)
        found = cast("Mapping[str, Any]", output)
        value: Any = found.get("value")
        if found.get("type") != "content" or not isinstance(value, list):
            return self.value(value)
        tokens = 0.0
        for piece in cast("list[Any]", value):
            if isinstance(piece, Mapping) and "data" in piece:
                shown = cast("Mapping[str, Any]", piece)
                media_type = shown.get("mediaType") or "image/png"
                tokens += self.file(shown["data"], str(media_type))
            elif isinstance(piece, Mapping) and "text" in piece:
                tokens += self.text(str(cast("Mapping[str, Any]", piece)["text"]))
            else:
                tokens += self.value(piece)
        return tokens


def _checked(tokens: Any) -> int:
    if isinstance(tokens, bool) or not isinstance(tokens, int | float) or not tokens >= 0:
        raise ConfigurationError(
            f"token_counter: count_message must return a number from 0 on, not {tokens!r}"[:200]
        )
    return ceil(tokens)


def _is_base64(data: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9+/\s]*={0,2}\s*", data) is not None and len(data) % 4 == 0


def _decoded(data: Any) -> str | None:
    try:
        raw = b64decode(data) if isinstance(data, str) else bytes(data)
        return raw.decode("utf-8")
    except (ValueError, TypeError):
        return None


def as_message(entry: Mapping[str, Any]) -> Message:
    """An entry of a prompt as a message, for the counter of an application."""
    role = str(entry.get("role"))
    content: Any = entry.get("content")
    if not isinstance(content, list):
        parts: list[Part] = [TextPart(text=clean_text(str(content or "")))]
    else:
        shown = (_as_part(part) for part in cast("list[Any]", content))
        parts = [part for part in shown if part is not None]
    return Message(
        id="",
        role="assistant" if role == "tool" else role,
        content=MessageContent(parts=parts),
        created_at=_NEVER,
    )


_NEVER = datetime.fromtimestamp(0, UTC)


def _as_part(part: Mapping[str, Any]) -> Part | None:
    kind = part.get("type")
    output: Any = part.get("output") or {}
    if kind == "text":
        return TextPart(text=part["text"])
    if kind == "reasoning":
        return ReasoningPart(reasoning=part["text"])
    if kind == "file":
        return FilePart(mime_type=part.get("mediaType") or "", data=part.get("data"))
    if kind not in ("tool-call", "tool-result"):
        return None
    call = ToolInvocation(
        tool_call_id=part["toolCallId"],
        tool_name=part["toolName"],
        args=part.get("input", {}),
        state="call" if kind == "tool-call" else "result",
        result=output.get("value"),
    )
    return ToolInvocationPart(tool_invocation=call)
