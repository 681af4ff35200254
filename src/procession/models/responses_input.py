"""The provider prompt as items of OpenAI Responses.

What the provider itself has said goes back as the items it came in, with their ids, encrypted
reasoning and phases. The API refuses reasoning without the item that followed it, and that item
without the reasoning: after a history was cut, or a hook has dropped one of the two, the other one
goes without it.
"""

from __future__ import annotations

import base64
from mimetypes import guess_extension
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ..errors import InputError
from .chat_prompt import output_text
from .json_values import mapping, mappings, word
from .responses_tools import answer_item, call_item, hosted_item

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .responses_wire import Item

__all__ = ["responses_input"]


def responses_input(
    prompt: Sequence[Item], provider: str, warnings: list[Item], *, stored: bool = False
) -> list[Item]:
    """The items; `stored` says that the provider keeps its own.

    Raises `InputError` for a part that this wire format has no place for.
    """
    items = _Items(provider, stored=stored)
    for entry in prompt:
        role, content = entry["role"], entry["content"]
        if role == "user":
            items.add({"role": "user", "content": _user_content(content)})
        elif role == "assistant":
            items.add_assistant(content)
        elif role == "tool":
            for part in content:
                own = items.own(part)
                items.add(answer_item(part, own, _output(part["output"])))
        elif role == "system":
            items.add({"role": "system", "content": content})
        else:
            raise InputError(f"a prompt entry has the unknown role {role!r}")
    made = items.finished()
    warnings += [{"type": "other", "message": words} for words in items.left_out]
    return made


class _Placed(NamedTuple):
    """An item, and the reasoning that came right before it when the model gave it."""

    item: Item
    after: str = ""


class _Items:
    """Items under construction."""

    def __init__(self, provider: str, *, stored: bool) -> None:
        self._provider = provider
        self._stored = stored
        self._placed: list[_Placed] = []
        self._entry = 0  # where the items of the entry at hand begin
        self.left_out: dict[str, None] = {}
        """What was not sent, in words, each once."""

    def add(self, item: Item, after: Any = "") -> None:
        """Append an item."""
        self._placed.append(_Placed(item, word(after)))

    def own(self, part: Item) -> Item:
        """What this provider has said of a part."""
        return mapping(mapping(part.get("providerOptions")).get(self._provider))

    def add_assistant(self, content: Any) -> None:
        """Append what an answer, or a part of one, consists of."""
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        self._entry = len(self._placed)
        parts = mappings(content)
        results = {part["toolCallId"]: part for part in parts if part["type"] == "tool-result"}
        images: dict[Any, str] = {}
        for part in parts:
            kind, own = part["type"], self.own(part)
            if kind == "text":
                self._text(part["text"], own)
            elif kind == "reasoning":
                self._reasoning(part["text"], own)
            elif kind == "file":
                self._file(part, own, images)
            elif kind == "tool-call" and not part.get("providerExecuted"):
                self.add(call_item(part, own), own.get("afterReasoning"))
            elif kind == "tool-call":
                self._hosted(part, own, results, images)

    def _text(self, text: str, own: Item) -> None:
        refused = own.get("refusal") is True
        piece: Item = {"type": "refusal", "refusal": text}
        if not refused:
            piece = {"type": "output_text", "text": text, "annotations": []}
        known = own.get("itemId")
        last = self._last()
        if last.get("role") == "assistant" and last.get("id") == known:
            last["content"].append(piece)
            return
        item: Item = {"type": "message", "role": "assistant", "content": [piece]}
        if known:
            item |= {"id": known, "status": "completed"}
        if own.get("phase"):
            item["phase"] = own["phase"]
        self.add(item, own.get("afterReasoning"))

    def _reasoning(self, text: str, own: Item) -> None:
        known, encrypted = own.get("itemId"), own.get("reasoningEncryptedContent")
        if own.get("itemType") == "compaction":
            return self.add({"type": "compaction", "id": known, "encrypted_content": encrypted})
        item = self._last()
        if not known or item.get("type") != "reasoning" or item.get("id") != known:
            item = cast("Item", {"type": "reasoning", "summary": []})
            if known:
                item["id"] = known
            self.add(item)
        if own.get("reasoningText"):
            item.setdefault("content", []).append({"type": "reasoning_text", "text": text})
        elif text and own:
            item["summary"].append({"type": "summary_text", "text": text})
        if encrypted:
            item["encrypted_content"] = encrypted

    def _last(self) -> Item:
        """The item before, if it belongs to the same answer."""
        return self._placed[-1].item if len(self._placed) > self._entry else {}

    def _file(self, part: Item, own: Item, images: dict[Any, str]) -> None:
        if own.get("itemId"):
            images[own["itemId"]] = _base64(part["data"])
        else:
            self.left_out["files of the assistant are not sent"] = None

    def _hosted(
        self, part: Item, own: Item, results: dict[str, Item], images: dict[Any, str]
    ) -> None:
        result = results.get(part["toolCallId"])
        if not own or result is None:
            return  # another provider has run it, or it came to no end
        item = hosted_item(part, own, result["output"], images.get(own.get("itemId")))
        if item is None:
            self.left_out[f"the outcome of {part['toolName']} is not sent: it is incomplete"] = None
        else:
            self.add(item, own.get("afterReasoning"))

    def finished(self) -> list[Item]:
        """The items, with reasoning only where the item that followed it is there too."""
        made: list[Item] = []
        thoughts: list[Item] = []
        for item, after in [*self._placed, _Placed({})]:
            if item.get("type") == "reasoning":
                if self._can_be_read(item):
                    thoughts.append(item)
                else:
                    self.left_out["reasoning that this provider cannot read is not sent"] = None
                continue
            last = word(thoughts[-1].get("id")) if thoughts else ""
            if thoughts and _belongs(item, after, last):
                made += thoughts
            elif after:
                item = _without_id(item)
            thoughts.clear()
            if item:
                made.append(item)
        return made

    def _can_be_read(self, item: Item) -> bool:
        return bool(
            item.get("encrypted_content")
            or item.get("content")
            or (self._stored and item.get("id"))
        )


def _belongs(item: Item, after: str, last: str) -> bool:
    """Whether `item` is what followed the reasoning `last`."""
    if not item or item.get("role") in ("user", "system"):
        return False
    return after == last or (not after and (not last or bool(item.get("id"))))


def _without_id(item: Item) -> Item:
    """An item that the provider does not look up; where that needs an id, as it is."""
    if item["type"] not in ("message", "function_call"):
        return item
    return {name: value for name, value in item.items() if name not in ("id", "status")}


# ── users and tools ────────────────────────────────────────────────────────────────────────────


def _user_content(parts: Any) -> Any:
    if isinstance(parts, str):
        return parts
    if len(parts) == 1 and parts[0]["type"] == "text":
        return parts[0]["text"]
    return [_user_part(part) for part in parts]


def _user_part(part: Item) -> Item:
    kind = part["type"]
    if kind == "text":
        return {"type": "input_text", "text": part["text"]}
    if kind == "file":
        own = mapping(mapping(part.get("providerOptions")).get("openai"))
        return _file(part["mediaType"], part["data"], part.get("filename"), own)
    raise InputError(f"a user message has a part of type {kind!r}: only text and file can be sent")


def _file(media: str, data: Any, filename: Any, own: Item) -> Item:
    image = media.startswith("image/")
    if media.startswith(("audio/", "video/")) or media in _ARCHIVES:
        raise InputError(
            f"a file of type {media!r} cannot be sent over OpenAI Responses: it takes images, PDF "
            f"and other documents"
        )
    form: Item = {"type": "input_image" if image else "input_file"}
    if own.get("imageDetail") and image:
        form["detail"] = own["imageDetail"]
    if own.get("fileId"):
        return form | {"file_id": own["fileId"]}
    address = _address(data, "image/jpeg" if media == "image/*" else media)
    if image:
        return form | {"image_url": address}
    if not address.startswith("data:"):
        return form | {"file_url": address}
    ending = guess_extension(media) or ".txt"
    return form | {"filename": filename or f"document{ending}", "file_data": address}


_ARCHIVES = frozenset(
    f"application/{name}"
    for name in "gzip java-archive vnd.rar x-7z-compressed x-bzip2 x-tar zip".split()
)


def _base64(data: Any) -> str:
    # Bytes: from a processor that put them there.
    return data if isinstance(data, str) else base64.b64encode(data).decode("ascii")


def _address(data: Any, media: str) -> str:
    text = _base64(data)
    if text.startswith(("data:", "http://", "https://")):
        return text
    return f"data:{media};base64,{text}"


def _output(output: Any) -> Any:
    """A tool's outcome: text, or parts where it has images or files."""
    form = mapping(output)
    if form.get("type") != "content" or not isinstance(form.get("value"), list):
        return output_text(output)
    parts = mappings(form["value"])
    if all(part.get("type") == "text" for part in parts):
        return output_text(output)
    return [_output_part(part) for part in parts]


def _output_part(part: Item) -> Item:
    if part.get("type") == "text":
        return {"type": "input_text", "text": word(part.get("text"))}
    data, media = part.get("data", part.get("url")), word(part.get("mediaType"))
    if data is None:
        return {"type": "input_text", "text": output_text(part)}
    if not media:
        media = "image/*" if word(part.get("type")).startswith("image") else "application/pdf"
    return _file(media, data, part.get("filename"), {})
