"""What some servers add to a chat completion: signed thoughts, sources, files, tools of their own.

And what they say of the answer as a whole, kept under the provider's name as it came.
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, Any, cast

from msgspec import UNSET, UnsetType

from ..chunks import Chunk, FilePayload, SourcePayload, ToolCallPayload, ToolResultPayload
from ..tools import parse_tool_input
from .json_values import new_call_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .chat_wire import Delta

__all__ = ["Extras"]

Json = dict[str, Any]


class Extras:
    """The additions to one answer."""

    __slots__ = ("_executed", "_metadata", "_provider", "_sources", "_thoughts")

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._thoughts: list[Any] = []
        self._metadata: Json = {}
        self._sources: set[str] = set()
        self._executed: dict[Any, str] = {}

    # ── thoughts in records: the server wants exactly these back ───────────────────────────────

    def think(self, details: Any) -> None:
        """Keep records of what is thought; pieces of one text become one."""
        for detail in _records(details):
            last: Json = self._thoughts[-1] if self._thoughts else {}
            field = next((name for name in ("text", "summary") if name in detail), "")
            if field and field in last and _same(last, detail):
                joined: str = (last[field] or "") + (detail[field] or "")
                given = {name: value for name, value in detail.items() if value is not None}
                self._thoughts[-1] = {**last, **given, field: joined}
            else:
                self._thoughts.append(detail)

    def thoughts(self) -> Json | UnsetType:
        """The records so far, as metadata of the thought that they belong to; given once."""
        if not self._thoughts:
            return UNSET
        details, self._thoughts = self._thoughts, []
        return {self._provider: {"reasoning_details": details}}

    # ── sources, files, tools that the server executed ─────────────────────────────────────────

    def put(self, out: list[Chunk], delta: Delta) -> None:
        """The chunks of a delta's additions."""
        for note in _records(delta.annotations):
            self.put_sources(out, [note.get("url_citation")])
        for image in _records(delta.images):
            file = _file(image.get("image_url"))
            if file is not None:
                out.append(Chunk(type="file", payload=file))
        for record in _records(delta.executed_tools):
            self._execute(out, record)

    def put_sources(self, out: list[Chunk], given: Any) -> None:
        """Where the answer comes from: addresses, or records with one; each is told once."""
        for entry in cast("list[Any]", given if isinstance(given, list) else []):
            record = cast("Json", entry) if isinstance(entry, dict) else {"url": entry}
            url = record.get("url")
            if isinstance(url, str) and url and url not in self._sources:
                self._sources.add(url)
                title = record.get("title")
                source = SourcePayload(
                    id=f"source-{secrets.token_hex(6)}",
                    source_type="url",
                    url=url,
                    title=title if isinstance(title, str) else UNSET,
                )
                out.append(Chunk(type="source", payload=source))

    def _execute(self, out: list[Chunk], record: Json) -> None:
        index, name = record.get("index"), str(record.get("type") or "tool")
        known = self._executed.get(index)
        call_id = known or new_call_id()
        if known is None:
            self._executed[index] = call_id
            call = ToolCallPayload(
                tool_call_id=call_id,
                tool_name=name,
                args=parse_tool_input(str(record.get("arguments") or "{}")),
                provider_executed=True,
            )
            out.append(Chunk(type="tool-call", payload=call))
        if record.get("output") is not None:
            told = ("index", "type", "arguments", "name")
            result = ToolResultPayload(
                tool_call_id=call_id,
                tool_name=name,
                result={key: value for key, value in record.items() if key not in told},
                provider_executed=True,
            )
            out.append(Chunk(type="tool-result", payload=result))

    # ── the answer as a whole ──────────────────────────────────────────────────────────────────

    def weigh(self, logprobs: Any) -> None:
        """More of the probabilities of the answer's tokens."""
        found = cast("Json", logprobs).get("content") if isinstance(logprobs, dict) else None
        if isinstance(found, list):
            self._metadata.setdefault("logprobs", []).extend(cast("list[Any]", found))

    def keep(self, event: Json) -> None:
        """What an event says beside the answer; later words replace earlier ones."""
        self._keep(event, _EVENT)
        for choice in _records(event.get("choices")):
            self._keep(choice, _CHOICE)

    def _keep(self, record: Json, known: set[str]) -> None:
        for key, value in record.items():
            if key not in known and value is not None:
                self._metadata[_camel(key)] = value

    def metadata(self) -> Json:
        """What has been kept."""
        return self._metadata


_EVENT = {"id", "object", "created", "model", "choices", "usage", "error"}
_CHOICE = {"index", "delta", "message", "finish_reason", "logprobs", "usage", "text"}


def _records(value: Any) -> Iterator[Json]:
    entries = cast("list[Any]", value if isinstance(value, list) else [])
    return (cast("Json", entry) for entry in entries if isinstance(entry, dict))


def _same(one: Json, other: Json) -> bool:
    """Whether two records are pieces of one thought."""
    return all(one.get(key) == other.get(key) for key in ("type", "index", "id"))


def _file(image: Any) -> FilePayload | None:
    """An image that came in the answer itself."""
    url = cast("Json", image).get("url") if isinstance(image, dict) else None
    found = re.match(r"data:([^;,]+);base64,", url) if isinstance(url, str) else None
    if found is None:
        return None
    data = cast("str", url)[found.end() :]
    return FilePayload(data=data, base64=data, mime_type=found[1])


def _camel(name: str) -> str:
    return re.sub("_([a-z])", lambda found: found[1].upper(), name)
