"""The events of a Gemini answer, turned into chunks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import UNSET

from ..chunks import (
    Chunk,
    DeltaPayload,
    ErrorPayload,
    FinishPayload,
    StepOutcome,
    StepOutput,
)
from ..errors import ModelError
from .call_errors import streamed_error
from .chat_blocks import TextBlocks
from .google_parts import AnswerParts
from .google_sources import Sources
from .google_wire import (
    NO_USAGE,
    decode_event,
    decode_events,
    loose_events,
    metadata_of,
    usage_of,
)
from .half_characters import HalfCharacters

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .google_wire import Candidate, Event

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


class GoogleEvents:
    """One answer under way. It has no end mark: it is complete when it ends after a reason."""

    def __init__(self, *, include_raw: bool = False) -> None:
        self.failed = False
        self.finished = False
        self._include_raw = include_raw
        self._halves = HalfCharacters()
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
            if self._include_raw:
                out.append(Chunk(type="raw", payload=msgspec.json.decode(data)))
            self._event(out, event)
        return out

    def end(self, rest: Iterable[bytes] = ()) -> list[Chunk]:
        """What remains when the connection has ended; no finish if the answer was cut short.

        `rest` is an event whose end did not come. It counts unless it was cut itself.
        """
        out = self.feed([data for data in rest if _is_whole(data)])
        if self._reason is not None and not self.finished:
            self._blocks.close(out)
            self._finish(out)
        return out

    def _event(self, out: list[Chunk], event: Event) -> None:
        if event.error:
            # Inside a stream that began well. An open block stays open: it broke off.
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
        self.finished = True
        raw = self._reason
        reason = reason or ("content-filter" if self._blocked else _REASONS.get(raw or "", "other"))
        if reason == "stop" and self._parts.called:
            reason = "tool-calls"
        outcome = StepOutcome(reason=reason, raw_reason=raw if raw is not None else UNSET)
        payload = FinishPayload(
            step_result=outcome,
            output=StepOutput(usage=usage_of(self._usage)),
            metadata={"providerMetadata": {"google": self._about}},
        )
        out.append(Chunk(type="finish", payload=payload))

    def _fail(self, out: list[Chunk], error: ModelError) -> None:
        self.failed = True
        out.append(Chunk(type="error", payload=ErrorPayload(error=error)))
        self._finish(out, "error")

    def _odd(self, out: list[Chunk], data: bytes) -> None:
        """Data that is no clean event: events in an array, half a surrogate pair, or rubbish."""
        data = data.strip()
        if not data or data == b"[DONE]":  # a router's end mark
            return
        try:
            events = decode_events(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            try:
                events = loose_events(json.loads(data.decode("utf-8", "replace")))
            except (ValueError, RecursionError):
                # The data itself may be private: it is not part of the error.
                self._fail(out, ModelError("google sent an event that is no part of an answer"))
                return
        for event in events:
            if not self.failed:
                self._event(out, event)


def _is_whole(data: bytes) -> bool:
    if data.strip() == b"[DONE]":
        return True
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


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
