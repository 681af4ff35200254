"""Changing texts, and choosing messages."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from procession.messages import Message

Transform = Mapping[str, Any]
Selection = str | Mapping[str, Any] | None

_TRANSFORMS = frozenset(("lowercase", "uppercase", "replace", "prefix", "append", "set"))
_SELECTIONS = frozenset(
    ("role", "not_role", "index", "first", "last", "text_contains", "not_text_contains")
)


def known(keys: Mapping[str, Any], names: frozenset[str], what: str) -> None:
    """Raise for a key that is not among `names`: what is not understood must not pass unseen."""
    unknown = set(keys) - names
    if unknown:
        raise ValueError(f"unknown {what}: {', '.join(sorted(unknown))}")


def transformed(text: str, transform: Transform) -> str:
    """`text` after the steps of a transform, always in the same order."""
    known(transform, _TRANSFORMS, "transform")
    if transform.get("lowercase"):
        text = text.lower()
    if transform.get("uppercase"):
        text = text.upper()
    if "replace" in transform:
        old, new = transform["replace"]
        text = text.replace(old, new)
    text = transform.get("prefix", "") + text + transform.get("append", "")
    return transform.get("set", text)


def selected(messages: Sequence[Message], selection: Selection) -> list[Message]:
    """The messages a selection means: first what they are, then where they stand."""
    found = list(messages)
    if selection in (None, "all"):
        return found
    assert isinstance(selection, Mapping), f"unknown selection: {selection}"
    known(selection, _SELECTIONS, "selection")
    found = [message for message in found if _fits(message, selection)]
    if "index" in selection:
        index: int = selection["index"]
        found = found[index : index + 1 or None]
    if "first" in selection:
        found = found[: selection["first"]]
    if "last" in selection:
        found = found[max(0, len(found) - selection["last"]) :]
    return found


def _fits(message: Message, selection: Mapping[str, Any]) -> bool:
    if message.role != selection.get("role", message.role):
        return False
    if "not_role" in selection and message.role == selection["not_role"]:
        return False
    if selection.get("text_contains", "") not in text_of(message):
        return False
    unwanted = selection.get("not_text_contains")
    return unwanted is None or unwanted not in text_of(message)


def text_of(message: Message) -> str:
    """The texts of a message's text parts."""
    return "".join(part.text for part in message.content.parts if part.type == "text")


def edit_text(messages: Sequence[Message], transform: Transform) -> None:
    """Transform every text part in place."""
    for message in messages:
        for part in message.content.parts:
            if part.type == "text":
                part.text = transformed(part.text, transform)  # pyright: ignore[reportAttributeAccessIssue]


def merge_metadata(messages: Sequence[Message], metadata: Mapping[str, Any]) -> None:
    """Add entries to the metadata of every message, in place."""
    for message in messages:
        merged = {**(message.content.metadata or {}), **copy.deepcopy(dict(metadata))}
        message.content.metadata = merged
