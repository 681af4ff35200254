"""What the messages of a run said at one moment, and in what they differ from another one.

Texts are strings, which nobody can change: a snapshot holds on to them and copies nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Struct

from ..records import clean_json, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ..message_list import MessageList
    from ..messages import Message

__all__ = [
    "Changed",
    "Item",
    "as_json",
    "changes_between",
    "encoded",
    "items_of_list",
    "items_of_message",
    "items_of_prompt",
]


class Item(Struct, frozen=True):
    """A text that stands somewhere: `key` is where, `kind` the type of the part that holds it."""

    key: tuple[Any, ...]
    role: str
    kind: str
    text: str


class Changed(Struct, frozen=True):
    """A text that has become another one; `None` where there was, or is, none."""

    role: str
    kind: str
    before: str | None
    after: str | None


def items_of_list(messages: MessageList) -> list[Item]:
    """What a message list says, system messages first.

    Calls of tools count with their arguments and results, but for those that memory brought.
    """
    shown, system = messages.shown()
    remembered = {message.id for message in messages.get.remembered.db()}
    found = [
        Item(("system", number), "system", "text", _text_of(entry.get("content")))
        for number, entry in enumerate(system)
    ]
    for message in shown:
        found.extend(items_of_message(message, calls=message.id not in remembered))
    return found


def items_of_message(message: Message, *, calls: bool = True) -> Iterator[Item]:
    """What one message says, part by part."""
    for number, part in enumerate(message.content.parts):
        held: Any = part
        if part.type == "text":
            text = held.text
        elif part.type == "reasoning":
            text = held.reasoning
        elif part.type == "tool-invocation" and calls:
            text = call_text(held.tool_invocation)
        else:
            text = ""
        yield Item((message.id, number), message.role, part.type, text)


def call_text(call: Any) -> str:
    """A call of a tool in one line, with its result."""
    said = f"{call.tool_name}({as_json(call.args)})"
    return f"{said} = {as_json(call.result)}" if call.state == "result" else said


def items_of_prompt(prompt: Sequence[Mapping[str, Any]]) -> list[Item]:
    """What a prompt says, entry by entry."""
    found: list[Item] = []
    for number, entry in enumerate(prompt):
        role, content = str(entry.get("role")), entry.get("content")
        if isinstance(content, str):
            found.append(Item((number, 0), role, "text", content))
            continue
        for place, part in enumerate(cast("Iterable[Any]", content or ())):
            if isinstance(part, dict):
                said = cast("dict[str, Any]", part)
                kind = str(said.get("type"))
                found.append(Item((number, place), role, kind, _part_text(kind, said)))
    return found


def _part_text(kind: str, part: dict[str, Any]) -> str:
    if kind in ("text", "reasoning"):
        return str(part.get("text") or "")
    if kind == "tool-call":
        return f"{part.get('toolName')}({as_json(part.get('input', part.get('args')))})"
    if kind == "tool-result":
        return f"{part.get('toolName')} = {as_json(part.get('output', part.get('result')))}"
    return ""


def _text_of(content: Any) -> str:
    return content if isinstance(content, str) else as_json(content)


def as_json(value: Any) -> str:
    """A value as JSON text."""
    return encoded(plain(value)).decode()


def encoded(value: Any) -> bytes:
    """JSON data as bytes; half characters, which a hook may have written, are none any more."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(clean_json(value))


def changes_between(before: Sequence[Item], after: Sequence[Item]) -> list[Changed]:
    """The texts that are new, gone or different; those that have only moved are neither."""
    start, limit = 0, min(len(before), len(after))
    while start < limit and _same(before[start], after[start]):
        start += 1
    end = 0
    while end < limit - start and _same(before[-1 - end], after[-1 - end]):
        end += 1
    left = before[start : len(before) - end]
    right = after[start : len(after) - end]
    if not left and not right:
        return []
    return list(_paired(left, right))


def _same(one: Item, other: Item) -> bool:
    return one.text == other.text and one.kind == other.kind and one.role == other.role


def _paired(left: Sequence[Item], right: Sequence[Item]) -> Iterator[Changed]:
    known = {item.key: item for item in left}
    gone = dict(known)
    for item in right:
        was = known.get(item.key)
        if was is not None and (was.role != item.role or was.kind != item.kind):
            was = None
        if was is not None:
            gone.pop(item.key, None)
            if was.text != item.text:
                yield Changed(item.role, item.kind, was.text, item.text)
        else:
            yield Changed(item.role, item.kind, None, item.text)
    for item in gone.values():
        yield Changed(item.role, item.kind, item.text, None)
