"""The system messages of a conversation: untagged, tagged, and feedback of retries (section 5).

A system message is plain data, `{"role": "system", "content": str, "providerOptions"?}` (R-351).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self, cast

from ..errors import InputError
from ..records import clean_kept, clean_text
from .input import NotAMessageError, SystemEntry, read_messages

__all__ = ["SavedSystem", "SystemMessages", "WithSystemMessages", "system_message"]

SystemMessage = dict[str, Any]
SavedSystem = tuple[list[SystemMessage], dict[str, list[SystemMessage]]]


def system_message(value: Any) -> SystemMessage:
    """One system message from a text or any form of one; another role raises `InputError`."""
    if isinstance(value, str):
        return {"role": "system", "content": clean_text(value)}
    role: Any = value.get("role") if isinstance(value, Mapping) else getattr(value, "role", None)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if role != "system":
        raise InputError(f"a system message has role 'system', not {role!r}: use add(…) for others")
    if isinstance(value, Mapping) and _is_plain(cast("Mapping[str, Any]", value)):
        return clean_kept(dict(cast("Mapping[str, Any]", value)))
    entry = read_messages(value)[0]
    assert isinstance(entry, SystemEntry)
    return entry.message


def _is_plain(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("content"), str) and "id" not in value


def _all_of(value: Any) -> list[SystemMessage]:
    if value is None:
        return []
    if isinstance(value, str | Mapping) or hasattr(value, "role"):
        return [system_message(value)]
    if not isinstance(value, Iterable):
        raise NotAMessageError(
            f"{type(value).__name__} is no system message: give a text, a mapping or a list"
        )
    return [system_message(item) for item in cast("Iterable[Any]", value) if item is not None]


class SystemMessages:
    """Buckets of system messages; each bucket holds a content once."""

    __slots__ = ("feedback", "latest", "tagged", "untagged")

    def __init__(self) -> None:
        self.untagged: list[SystemMessage] = []
        self.tagged: dict[str, list[SystemMessage]] = {}
        self.feedback: list[SystemMessage] = []
        self.latest: list[SystemMessage] | None = None

    def add(self, value: Any, tag: str | None = None) -> None:
        """Add what `value` says, but for contents the bucket has already (R-346)."""
        found = _all_of(value)
        if not found:
            return
        self.latest = None
        bucket = self.untagged if tag is None else self.tagged.setdefault(tag, [])
        for message in found:
            _add_once(bucket, message)

    def add_feedback(self, text: str) -> None:
        """Tell the model why its last attempt was rejected; it stays for the run (R-176, R-177)."""
        _add_once(self.feedback, {"role": "system", "content": clean_text(text)})

    def bucket(self, tag: str | None = None) -> list[SystemMessage]:
        """A fresh list of the bucket."""
        return list(self.untagged if tag is None else self.tagged.get(tag, ()))

    def shown(self) -> list[SystemMessage]:
        """Untagged, then tagged by order of tag creation; no feedback (R-347).

        The list is shared, and never changed once handed out.
        """
        found = self.latest
        if found is None:
            tagged = (m for bucket in self.tagged.values() for m in bucket)
            found = self.latest = [*self.untagged, *tagged]
        return found

    def for_prompt(self) -> list[SystemMessage]:
        """What the model is told: as `shown`, with feedback behind the untagged ones."""
        if not self.tagged and not self.feedback:
            return self.untagged
        tagged = (m for bucket in self.tagged.values() for m in bucket)
        return [*self.untagged, *self.feedback, *tagged]

    def clear(self, tag: str | None = None) -> None:
        """Empty a bucket (R-348)."""
        self.latest = None
        if tag is None:
            self.untagged = []
        else:
            self.tagged.pop(tag, None)

    def replace_untagged(self, value: Any) -> None:
        """Replace the untagged bucket; tagged ones stay (R-349)."""
        found = _all_of(value)
        self.latest = None
        self.untagged = []
        for message in found:
            _add_once(self.untagged, message)

    def replace_all(self, value: Any) -> None:
        """Replace every bucket but feedback; equal entries keep their tag (R-087)."""
        found = _all_of(value)
        self.latest = None
        tags = {
            (m["role"], m["content"]): tag for tag, bucket in self.tagged.items() for m in bucket
        }
        untagged = {m["content"] for m in self.untagged}
        order = list(self.tagged)
        self.untagged, self.tagged = [], {}
        kept: dict[str, list[SystemMessage]] = {tag: [] for tag in order}
        for message in found:
            content = message["content"]
            tag = tags.get((message["role"], content))
            if content in untagged or tag is None:
                untagged.discard(content)  # once: a tagged equal may follow
                _add_once(self.untagged, message)
            else:
                _add_once(kept[tag], message)
        self.tagged = {tag: bucket for tag, bucket in kept.items() if bucket}

    def save(self) -> SavedSystem:
        """What `restore` needs; feedback is no part of it (R-086)."""
        return list(self.untagged), {tag: list(bucket) for tag, bucket in self.tagged.items()}

    def restore(self, saved: SavedSystem) -> None:
        """Put every bucket back to what it was."""
        self.latest = None
        self.untagged = list(saved[0])
        self.tagged = {tag: list(bucket) for tag, bucket in saved[1].items()}

    def serialize(self) -> dict[str, Any]:
        """Every bucket, as JSON data."""
        return {
            "systemMessages": list(self.untagged),
            "taggedSystemMessages": {tag: list(bucket) for tag, bucket in self.tagged.items()},
            "feedback": list(self.feedback),
        }

    def deserialize(self, state: Mapping[str, Any]) -> None:
        """Take over what `serialize` gave."""
        self.latest = None
        self.untagged = list(state.get("systemMessages", ()))
        tagged: Mapping[str, Any] = state.get("taggedSystemMessages", {})
        self.tagged = {tag: list(bucket) for tag, bucket in tagged.items()}
        self.feedback = list(state.get("feedback", ()))


class WithSystemMessages:
    """The part of `MessageList` that is about system messages."""

    def __init__(self) -> None:
        self._system = SystemMessages()

    def add_system(self, messages: Any, tag: str | None = None) -> Self:
        """Add a text, a system message or a list of these to a bucket, each content once (R-346).

        Raises `InputError` for another role.
        """
        self._system.add(messages, tag)
        return self

    def get_system_messages(self, tag: str | None = None) -> list[dict[str, Any]]:
        """Copies of the bucket's messages; the untagged ones without a tag (R-347)."""
        return [dict(message) for message in self._system.bucket(tag)]

    def system_view(self) -> Sequence[dict[str, Any]]:
        """All system messages, in a list that is shared: it is never changed once handed out."""
        return self._system.shown()

    def get_all_system_messages(self) -> list[dict[str, Any]]:
        """Copies of the untagged messages, then of the tagged by order of tag creation (R-347)."""
        return [dict(message) for message in self._system.shown()]

    def clear_system_messages(self, tag: str | None = None) -> Self:
        """Empty a bucket (R-348)."""
        self._system.clear(tag)
        return self

    def replace_all_system_messages(self, messages: Any) -> Self:
        """Replace the untagged messages; tagged ones stay (R-349)."""
        self._system.replace_untagged(messages)
        return self

    def replace_system(self, messages: Any) -> None:
        """Replace all system messages; those equal to a tagged one keep their tag (R-087)."""
        self._system.replace_all(messages)

    def save_system(self) -> SavedSystem:
        """All buckets as they are, for `restore_system` (R-086)."""
        return self._system.save()

    def restore_system(self, saved: SavedSystem) -> None:
        """Put all buckets back; feedback stays (R-086)."""
        self._system.restore(saved)

    def add_feedback(self, text: str) -> None:
        """Add retry feedback, which only prompts show, behind the untagged messages (R-176)."""
        self._system.add_feedback(text)


def _add_once(bucket: list[SystemMessage], message: SystemMessage) -> None:
    if all(known["content"] != message["content"] for known in bucket):
        bucket.append(message)
