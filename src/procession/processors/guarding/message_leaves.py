"""Every text of a message that reaches a model, and a copy of the message with other texts.

Texts stand in text parts, but in reasoning, in the arguments and results of tool calls and in the
names of files as well. They are walked leaf by leaf, so that the shape stays what it is.
"""

from __future__ import annotations

import json
from copy import copy
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...messages import Message, Part

    Change = Callable[[str], str]

__all__ = ["Leaf", "changed_value", "leaves_of", "with_leaves"]


class Leaf(Struct):
    """One text of a message. `part_index` counts in `content.parts`; `None`: the flat text."""

    text: str
    part_index: int | None
    is_said: bool
    """Whether it is what the message says (B-011), not what was thought or what tools are told."""


def leaves_of(message: Message, *, results: bool = True) -> list[Leaf]:
    """The texts of a message in order; the flat text only where there is no text part (B-011).

    `results`: also what tools have given, and the names of files.
    """
    found: list[Leaf] = []
    has_text = False
    for index, part in enumerate(message.content.parts):
        said = part.type == "text"
        has_text = has_text or said

        def note(text: str, index: int = index, said: bool = said) -> str:
            found.append(Leaf(text, index, said))
            return text

        _changed_part(part, note, results)
    if not has_text and message.content.content:
        found.append(Leaf(message.content.content, None, True))
    return found


def with_leaves(
    message: Message, texts: Iterator[str], change_flat: Change, *, results: bool = True
) -> Message:
    """The message with `texts` in place of its leaves, in the order of `leaves_of` (B-012).

    A copy when something changed, else the message itself. Where there are text parts, the flat
    text beside them is put through `change_flat`.
    """

    def change(_text: str) -> str:
        return next(texts)

    parts = [_changed_part(part, change, results) for part in message.content.parts]
    flat = message.content.content
    if flat:
        has_text = any(part.type == "text" for part in parts)
        flat = change_flat(flat) if has_text else next(texts)
    same = all(new is old for new, old in zip(parts, message.content.parts, strict=True))
    if same and flat == message.content.content:
        return message
    made = copy(message)
    made.content = content = copy(message.content)
    content.parts, content.content = parts, flat
    return made


def _changed_part(part: Part, change: Change, results: bool) -> Part:
    """The part with its texts changed: a copy, unless they stay what they are."""
    made: Any = part
    if part.type == "text":
        text = change(part.text)
        if text != part.text:
            made = copy(part)
            made.text = text
    elif part.type == "reasoning":
        made = _changed_reasoning(part, change)
    elif part.type == "tool-invocation":
        made = _changed_call(part, change, results)
    elif results and part.type == "file" and part.filename:
        name = change(part.filename)
        if name != part.filename:
            made = copy(part)
            made.filename = name
    return made


def _changed_reasoning(part: Any, change: Change) -> Any:
    """A signature vouches for the words it was given for: it does not outlast them."""
    reasoning = change(part.reasoning) if part.reasoning else part.reasoning
    details: list[dict[str, Any]] = []
    for detail in part.details:
        text = detail.get("text")
        new = text
        if isinstance(text, str) and text:  # mostly the same text once more
            new = reasoning if text == part.reasoning else change(text)
        if new != text:
            detail = {k: v for k, v in detail.items() if k != "signature"} | {"text": new}
        details.append(detail)
    if reasoning == part.reasoning and details == part.details:
        return part
    made = copy(part)
    made.reasoning, made.details, made.provider_metadata = reasoning, details, None
    return made


def _changed_call(part: Any, change: Change, results: bool) -> Any:
    call = part.tool_invocation
    edited = copy(call)
    edited.args = changed_value(call.args, change)
    edited.raw_input = changed_value(call.raw_input, change)
    metadata = part.provider_metadata
    if results:
        edited.result = changed_value(call.result, change)
        edited.error_text = changed_value(call.error_text, change)
        metadata = _changed_output(metadata, change)
    fields = ("args", "raw_input", "result", "error_text")
    same = all(getattr(edited, name) is getattr(call, name) for name in fields)
    if same and metadata is part.provider_metadata:
        return part
    made = copy(part)
    made.tool_invocation, made.provider_metadata = edited, metadata
    return made


def _changed_output(metadata: Any, change: Change) -> Any:
    """What a tool has made of its result for the model (R-374); files within it stay."""
    own = _member(metadata, "mastra")
    shaped = _member(own, "modelOutput")
    value = _member(shaped, "value")
    if value is None:
        return metadata
    if shaped.get("type") == "content" and isinstance(value, list):
        entries = cast("list[Any]", value)
        made: Any = [_changed_content(entry, change) for entry in entries]
        made = entries if made == entries else made
    else:
        made = changed_value(value, change)
    if made is value:
        return metadata
    return {**metadata, "mastra": {**own, "modelOutput": {**shaped, "value": made}}}


def _member(value: Any, key: str) -> Any:
    return cast("dict[str, Any]", value).get(key) if isinstance(value, dict) else None


def _changed_content(entry: Any, change: Change) -> Any:
    if not isinstance(entry, dict):
        return entry
    shaped = cast("dict[str, Any]", entry)
    text = shaped.get("text")
    return {**shaped, "text": change(text)} if isinstance(text, str) and text else shaped


def changed_value(value: Any, change: Change) -> Any:
    """JSON data with its texts, keys and numbers changed; a changed number becomes a text.

    What stays the same comes back as the object it was.
    """
    kind = value.__class__
    if kind is str:
        return _same(value, change(value)) if value else value
    if kind is int or kind is float:
        text = json.dumps(value)
        changed = change(text)
        return value if changed == text else changed
    if kind is dict:
        made: Any = {
            _same(key, change(key)) if isinstance(key, str) and key else key: changed_value(
                entry, change
            )
            for key, entry in value.items()
        }
        same = all(
            new is old and entry is was
            for (new, entry), (old, was) in zip(made.items(), value.items(), strict=False)
        )
        return value if same and len(made) == len(value) else made
    if kind is list:
        made = [changed_value(entry, change) for entry in value]
        same = all(new is old for new, old in zip(made, value, strict=True))
        return value if same else made
    return value


def _same(old: str, new: str) -> str:
    return old if new == old else new
