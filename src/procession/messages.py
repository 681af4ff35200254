"""Messages and their parts: what a conversation is made of, in the form it is stored in.

The JSON form is the one the reference's clients read and write (R-300, R-301). Parts may be edited
in place by processors, their `type` included (R-033, R-394); a part of an unknown type is a plain
`Part` whose fields stand in `extra`, and survives a round trip (R-304).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, Self

from msgspec import field

from .errors import InputError
from .ids import new_id
from .memo import UNSEEN
from .records import Record, format_time, parse_time, plain

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "OPEN_CALLS",
    "DataPart",
    "ErrorPart",
    "FilePart",
    "ImagePart",
    "MastraDBMessage",
    "Message",
    "MessageContent",
    "Part",
    "ReasoningPart",
    "SourceDocumentPart",
    "SourcePart",
    "StepStartPart",
    "TextPart",
    "ToolInvocation",
    "ToolInvocationPart",
    "text_message",
]

Role = Literal["user", "assistant", "system", "signal"]


class Part(Record, kw_only=True):
    """A piece of a message. This class itself stands for part types this version does not know.

    `provider_metadata` is keyed by provider; `created_at` is epoch milliseconds.
    """

    type: str
    provider_metadata: dict[str, Any] | None = None
    created_at: int | None = None

    def __getattr__(self, name: str) -> Any:
        # Only reached for names that are no fields: what an unknown part carries.
        extra = self.extra
        if extra is not None and name in extra:
            return extra[name]
        raise AttributeError(f"a part of type {self.type!r} has no {name!r}")


class TextPart(Part, kw_only=True):
    """Text, `type: "text"`."""

    text: str
    type: str = "text"


class ReasoningPart(Part, kw_only=True):
    """What the model thought, `type: "reasoning"`.

    `reasoning` is the joined text; `details` holds `{type: "text", text, signature?}` and
    `{type: "redacted", data}`. Provider signatures live in `provider_metadata` (R-311).
    """

    reasoning: str = ""
    details: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    type: str = "reasoning"


OPEN_CALLS = frozenset({"call", "approval-requested", "approval-responded"})
"""The states of a complete call without an outcome."""


class ToolInvocation(Record, kw_only=True):
    """A tool call and its outcome (R-308, R-309).

    `state` is `partial-call`, `call`, `result` or `output-error`, and for approvals
    `approval-requested`, `approval-responded` or `output-denied`. `result` counts only in state
    `result`, where `None` is a value like any other.
    """

    tool_call_id: str
    tool_name: str
    state: str = "call"
    args: Any = field(default_factory=dict[str, Any])
    result: Any = None
    is_error: bool | None = None
    error_text: str | None = None
    raw_input: Any = None
    approval: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """The JSON form; `args` always, `result` always in state `result`."""
        out = super().to_json()
        out["args"] = plain(self.args)
        if self.state == "result":
            out["result"] = plain(self.result)
        return out


class ToolInvocationPart(Part, kw_only=True):
    """A tool call within a message, `type: "tool-invocation"`; one call is one part (R-309)."""

    tool_invocation: ToolInvocation
    provider_executed: bool | None = None
    title: str | None = None
    preliminary: bool | None = None
    type: str = "tool-invocation"


class FilePart(Part, kw_only=True):
    """A file or image, `type: "file"`. `data` is base64, a data URL or an http(s) URL."""

    mime_type: str
    data: Any
    filename: str | None = None
    type: str = "file"


class ImagePart(Part, kw_only=True):
    """An image as old messages hold it, `type: "image"`."""

    image: Any
    mime_type: str | None = None
    type: str = "image"


class SourcePart(Part, kw_only=True):
    """A web page the answer drew on, `type: "source"`: `{sourceType, id, url, title?}`."""

    source: dict[str, Any]
    type: str = "source"


class SourceDocumentPart(Part, kw_only=True):
    """A document the answer drew on, `type: "source-document"`."""

    source_id: str
    media_type: str
    title: str
    filename: str | None = None
    type: str = "source-document"


class StepStartPart(Part, kw_only=True):
    """The boundary between two steps of one answer, `type: "step-start"` (R-314)."""

    model: str | None = None
    type: str = "step-start"


class DataPart(Part, kw_only=True):
    """What a `data-…` chunk left in the message (R-200). `data` is the writer's own value."""

    type: str
    data: Any = None
    id: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The JSON form; `data` is always there."""
        return {**super().to_json(), "data": plain(self.data)}


class ErrorPart(Part, kw_only=True):
    """Why a run failed, `type: "error"`: `{name, message}`. Never sent to a model (R-209)."""

    error: dict[str, Any]
    type: str = "error"


_PART_TYPES: dict[str, type[Part]] = {
    "text": TextPart,
    "reasoning": ReasoningPart,
    "tool-invocation": ToolInvocationPart,
    "file": FilePart,
    "image": ImagePart,
    "source": SourcePart,
    "source-document": SourceDocumentPart,
    "step-start": StepStartPart,
    "error": ErrorPart,
}


def part_from_json(data: dict[str, Any]) -> Part:
    """A part from its JSON form (R-307). Without a `type` it is refused."""
    kind = data.get("type")
    if not isinstance(kind, str):
        raise InputError(f"a message part needs a type; keys given: {sorted(map(str, data))}")
    cls = _PART_TYPES.get(kind)
    if cls is None:
        cls = DataPart if kind.startswith("data-") else Part
    if cls is ToolInvocationPart:
        call = data.get("toolInvocation")
        if not isinstance(call, dict):
            raise InputError("a tool-invocation part needs an object toolInvocation")
        data = {**data, "toolInvocation": ToolInvocation.from_json(call)}  # pyright: ignore[reportUnknownArgumentType]
    return cls.from_json(data)


class MessageContent(Record, kw_only=True):
    """What a message says: `parts`, always a list (R-392), and a few older fields.

    `content` is flat text kept for old data (R-302, R-303); `metadata` belongs to the user.
    """

    format: int = 2
    parts: list[Part] = field(default_factory=list[Part])
    content: str | None = None
    metadata: dict[str, Any] | None = None
    provider_metadata: dict[str, Any] | None = None
    experimental_attachments: list[dict[str, Any]] | None = field(
        default=None, name="experimental_attachments"
    )
    tool_invocations: list[Any] | None = None
    reasoning: Any = None
    annotations: list[Any] | None = None

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """From the JSON form; missing or null `parts` become an empty list."""
        parts: list[Any] = data.get("parts") or []
        return super().from_json({**data, "parts": [part_from_json(part) for part in parts]})


class Message(Record, kw_only=True):
    """One message, in the form it is stored in (the reference's `MastraDBMessage`, R-300).

    `created_at` is an aware `datetime`; views of a `MessageList` are ordered by it (R-323). It and
    the parts may be edited in place: later hooks, the prompt and storage follow (R-033, R-397).

    `prompt_memo` is the library's own: what the message was turned into for a provider, with what
    it takes to notice an edit. It is no part of the JSON form and makes no two messages unequal.
    """

    id: str
    role: str
    content: MessageContent
    created_at: datetime
    thread_id: str | None = None
    resource_id: str | None = None
    type: str | None = None
    prompt_memo: Any = UNSEEN

    @property
    def parts(self) -> list[Part]:
        """The live list `content.parts`."""
        return self.content.parts

    @property
    def text(self) -> str:
        """The texts of all text parts joined, else the flat text, else `""` (R-302)."""
        found = "".join(part.text for part in self.content.parts if part.type == "text")
        return found or self.content.content or ""

    def to_json(self) -> dict[str, Any]:
        """The JSON form; `createdAt` as ISO 8601 text."""
        return {**super().to_json(), "createdAt": format_time(self.created_at)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """From the JSON form. A missing `id` or `createdAt` is made up."""
        content = data.get("content")
        if not isinstance(content, dict):
            raise InputError("a stored message needs an object content with parts")
        made = {
            "id": data.get("id") or new_id(),
            "createdAt": parse_time(data.get("createdAt") or datetime.now(UTC)),
            "content": MessageContent.from_json(content),  # pyright: ignore[reportUnknownArgumentType]
        }
        return super().from_json({**data, **made})


MastraDBMessage = Message


def text_message(
    text: str, *, role: str = "user", id: str | None = None, created_at: datetime | None = None
) -> Message:
    """A message of one text part, ready for any hook or list."""
    return Message(
        id=id or new_id(),
        role=role,
        content=MessageContent(parts=[TextPart(text=text)]),
        created_at=created_at or datetime.now(UTC),
    )


def joined_text(messages: Iterable[Message]) -> str:
    """The texts of the messages' text parts, joined byte-exactly."""
    return "".join(
        part.text for message in messages for part in message.content.parts if part.type == "text"
    )
