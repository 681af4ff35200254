"""The events of a Gemini answer, turned into chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec

from ..chunks import (
    Chunk,
    DeltaPayload,
)
from .answer_events import AnswerEvents
from .call_errors import streamed_error
from .chat_blocks import TextBlocks
from .google_parts import AnswerParts
from .google_sources import Sources
from .google_wire import (
    NO_USAGE,
    Event,
    decode_event,
    loose_events,
    metadata_of,
    usage_of,
)

if TYPE_CHECKING:
    from .google_wire import Candidate

__all__ = ["GoogleEvents"]

_FILTERED = (
    "SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII MODEL_ARMOR JAILBREAK "
    "IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT IMAGE_RECITATION"
)
_FAILED = (
    "MALFORMED_FUNCTION_CALL MALFORMED_RESPONSE UNEXPECTED_TOOL_CALL TOO_MANY_TOOL_CALLS "
    "MISSING_THOUGHT_SIGNATURE"
)
_REASONS = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    **dict.fromkeys(_FILTERED.split(), "content-filter"),
    **dict.fromkeys(_FAILED.split(), "error"),
}


class GoogleEvents(AnswerEvents[Event]):
    """One answer under way. It has no end mark: it is complete when it ends after a reason."""

    part_name = "part of an answer"

    def __init__(self, *, include_raw: bool = False) -> None:
        super().__init__("google", include_raw=include_raw)
        self._blocks = TextBlocks("google", self._halves)
        self._parts = AnswerParts(self._blocks)
        self._sources = Sources()
        self._reason: str | None = None
        self._blocked = False
        self._about: dict[str, Any] = {}
        self._usage = NO_USAGE
        self._described = False
        self._plain = False

    def feed(self, events: list[bytes]) -> list[Chunk]:
        """The chunks that these events stand for."""
        out: list[Chunk] = []
        for data in events:
            if self.failed:
                break
            try:
                event = decode_event(data)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self._odd(out, data)
                continue
            if self._plain:
                # By far the commonest event, on a path of its own: more of the open text block.
                text = _only_text(event)
                if text is not None:
                    self._usage = event.usage_metadata or self._usage
                    payload = DeltaPayload(id=self._blocks.id, text=text)
                    out.append(Chunk(type="text-delta", payload=payload))
                    continue
            self._take(out, event, data)
        return out

    def _cut(self, out: list[Chunk]) -> None:
        if self._reason is not None:
            self._blocks.close(out)
            self._finish(out)

    def _event(self, out: list[Chunk], event: Event, data: bytes) -> None:
        if event.error:
            return self._fail(out, streamed_error(event.error))
        if not self._described:
            self._described = True
            out.append(Chunk(type="response-metadata", payload=metadata_of(event)))
        # The last one counts, they are never added (G-P2).
        self._usage = event.usage_metadata or self._usage
        for candidate in event.candidates or ():
            if not candidate.index:  # only the first of several answers is asked for
                self._candidate(out, candidate)
        self._feedback(event.prompt_feedback)
        self._plain = self._blocks.kind == "text" and not (self._halves or self._include_raw)

    def _candidate(self, out: list[Chunk], candidate: Candidate) -> None:
        content = candidate.content
        for part in (content.parts if content is not None else None) or ():
            self._parts.add(out, part)
        if candidate.grounding_metadata or candidate.citation_metadata:
            self._sources.add(out, candidate)
        for name, value in (
            ("groundingMetadata", candidate.grounding_metadata),
            ("citationMetadata", candidate.citation_metadata),
            ("urlContextMetadata", candidate.url_context_metadata),
            ("safetyRatings", candidate.safety_ratings),
            ("finishMessage", candidate.finish_message),
        ):
            if value:
                self._about[name] = value
        if candidate.finish_reason and not self._blocked:
            self._reason = str(candidate.finish_reason)

    def _feedback(self, feedback: Any) -> None:
        """What was thought of the prompt; where it was blocked, there is no answer."""
        if not isinstance(feedback, dict):
            return
        self._about["promptFeedback"] = feedback
        reason = cast("dict[str, Any]", feedback).get("blockReason")
        if reason:
            self._reason, self._blocked = str(reason), True

    def _finish(self, out: list[Chunk], reason: str | None = None) -> None:
        raw = self._reason
        reason = reason or ("content-filter" if self._blocked else _REASONS.get(raw or "", "other"))
        if reason == "stop" and self._parts.called:
            reason = "tool-calls"
        self._put_finish(out, reason, raw, usage_of(self._usage), self._about)

    def _loose(self, value: Any) -> list[Event]:
        # Events in an array come from routers that nobody asked for server-sent events.
        return loose_events(value)


def _only_text(event: Event) -> str | None:
    """The text of an event that brings text and nothing else."""
    candidates = event.candidates
    if candidates is None or len(candidates) != 1 or event.error or event.prompt_feedback:
        return None
    candidate = candidates[0]
    content = candidate.content
    if (
        content is None
        or candidate.finish_reason is not None
        or candidate.index
        or candidate.grounding_metadata
        or candidate.citation_metadata
        or candidate.url_context_metadata
        or candidate.safety_ratings
    ):
        return None
    parts = content.parts
    if parts is None or len(parts) != 1:
        return None
    part = parts[0]
    if part.thought or part.thought_signature is not None:
        return None
    return part.text or None
