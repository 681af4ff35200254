"""The texts in which prompt injection is looked for, and what takes their place."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, cast

from ...detection.injection import ENOUGH, Finding, find_injections, without_sentences

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from ...messages import Message

__all__ = ["GONE", "Looked", "has_words", "texts_in", "with_text_only", "with_texts_in"]

GONE = "[removed: prompt injection]"
"""Stands where something was taken out that cannot be left empty."""


class Looked:
    """What the local rules have found in one text of the types that count."""

    __slots__ = ("_findings", "text")

    def __init__(self, text: str, types: Collection[str]) -> None:
        self.text = text
        self._findings: list[Finding] = [
            found for found in find_injections(text) if found.type in types
        ]

    def scores(self) -> dict[str, float]:
        """The highest score of each type."""
        scores: dict[str, float] = {}
        for found in self._findings:
            scores[found.type] = max(scores.get(found.type, 0.0), found.score)
        return scores

    def without(self, threshold: float) -> str:
        """The text without the sentences that count; nothing, when they are too many to tell."""
        spans = [(found.start, found.end) for found in self._findings if found.score >= threshold]
        if not spans:
            return self.text
        return "" if len(self._findings) > ENOUGH else without_sentences(self.text, spans)


def with_text_only(message: Message, text: str) -> Message:
    """The message with `text` as its one text, and all else that it holds (B-152); a copy."""
    parts: list[Any] = []
    done = False
    for part in message.content.parts:
        if part.type != "text":
            parts.append(part)
        elif not done:
            edited: Any = copy(part)
            edited.text = text
            parts.append(edited)
            done = True
    made = copy(message)
    made.content = content = copy(message.content)
    content.parts = parts
    if content.content or not done:
        content.content = text
    return made


def has_words(message: Message) -> bool:
    """Whether anything is left of a message: a text, or something that is none."""
    if any(part.type not in ("text", "step-start") for part in message.content.parts):
        return True
    texts = [part.text for part in message.content.parts if part.type == "text"]
    return any(text.strip() for text in (*texts, message.content.content or ""))


def texts_in(value: Any) -> Iterator[str]:
    """The texts of JSON data, keys too, in order, whatever the depth."""
    left: list[Any] = [value]
    while left:
        at = left.pop()
        if isinstance(at, str):
            if at:
                yield at
        elif isinstance(at, dict):
            for key, entry in reversed(cast("dict[Any, Any]", at).items()):
                left += (entry, key)
        elif isinstance(at, list | tuple):
            left += reversed(cast("list[Any]", at))


def with_texts_in(value: Any, change: Callable[[str], str]) -> Any:
    """JSON data with its texts changed; keys that would change go, with what they hold."""
    if isinstance(value, str):
        return change(value) if value else value
    if isinstance(value, dict):
        entries = cast("Mapping[Any, Any]", value)
        return {
            key: with_texts_in(entry, change)
            for key, entry in entries.items()
            if not isinstance(key, str) or not key or change(key) == key
        }
    if isinstance(value, list | tuple):
        return [with_texts_in(entry, change) for entry in cast("list[Any]", value)]
    return value
