"""What reading an answer's events has in common, whatever their format."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import UNSET

from ..chunks import (
    Chunk,
    ErrorPayload,
    FinishPayload,
    ResponseMetadataPayload,
    StepOutcome,
    StepOutput,
)
from ..errors import InputError, ModelError
from ..records import clean_json
from .half_characters import HalfCharacters
from .json_values import moment, word

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..chunks import Usage

__all__ = ["AnswerEvents", "response_metadata", "value_of"]

_END_MARK = b"[DONE]"

E = TypeVar("E")


class AnswerEvents(ABC, Generic[E]):
    """One answer under way. `failed` and `finished` say that nothing more is to be expected.

    `E` is a format's event, of which only the fields that are used are decoded.
    """

    part_name: str
    """What an event of the format is called, in errors."""

    def __init__(self, provider: str, *, include_raw: bool = False) -> None:
        self.failed = False
        self.finished = False
        self._provider = provider
        self._include_raw = include_raw
        self._halves = HalfCharacters()

    @abstractmethod
    def feed(self, events: list[bytes]) -> list[Chunk]:
        """The chunks that these events stand for."""

    def end(self, rest: Iterable[bytes] = ()) -> list[Chunk]:
        """What remains when the connection has ended; no finish if the answer was cut short.

        `rest` is an event whose end did not come. It counts unless it was cut itself.
        """
        out = self.feed([data for data in rest if _is_whole(data)])
        if not self.finished:
            self._cut(out)
        return out

    # ── what a format adds ─────────────────────────────────────────────────────────────────────

    @abstractmethod
    def _event(self, out: list[Chunk], event: E, data: bytes) -> None:
        """The chunks of an event, which was decoded from `data`."""

    @abstractmethod
    def _loose(self, value: Any) -> list[E]:
        """The events that plain data stand for; else `ValueError`."""

    def _end_marked(self, out: list[Chunk]) -> None:
        """The end mark that some servers send; here it says nothing."""

    def _cut(self, out: list[Chunk]) -> None:
        """The end of a connection without an end of the answer."""

    # ── what it can use ────────────────────────────────────────────────────────────────────────

    def _take(self, out: list[Chunk], event: E, data: bytes) -> None:
        try:
            if self._include_raw:
                out.append(Chunk(type="raw", payload=clean_json(value_of(data))))
            self._event(out, event, data)
        except (InputError, RecursionError):
            self._reject(out)  # nested too deeply for anything that would hold it

    def _odd(self, out: list[Chunk], data: bytes) -> None:
        """An event that is no clean JSON: the end mark, half a surrogate pair, or rubbish."""
        data = data.strip()
        if data == _END_MARK:
            self._end_marked(out)
        elif data:
            try:
                events = self._loose(value_of(data))
            except (ValueError, InputError, RecursionError):
                return self._reject(out)
            for event in events:
                if not self.finished:
                    self._take(out, event, data)

    def _reject(self, out: list[Chunk]) -> None:
        # The data itself may be private: it is not part of the error.
        self._fail(out, ModelError(f"{self._provider} sent an event that is no {self.part_name}"))

    def _fail(self, out: list[Chunk], error: ModelError) -> None:
        """An error inside a stream that began well. An open block stays open: it broke off."""
        self.failed = True
        out.append(Chunk(type="error", payload=ErrorPayload(error=error)))
        self._finish(out, "error")

    @abstractmethod
    def _finish(self, out: list[Chunk], reason: str | None = None) -> None:
        """End the answer, for its own reason or for this one."""

    def _put_finish(
        self, out: list[Chunk], reason: str, raw: str | None, usage: Usage, meta: Any
    ) -> None:
        self.finished = True
        payload = FinishPayload(
            step_result=StepOutcome(reason=reason, raw_reason=UNSET if raw is None else raw),
            output=StepOutput(usage=usage),
            metadata={"providerMetadata": {self._provider: meta}},
        )
        out.append(Chunk(type="finish", payload=payload))


def response_metadata(identity: Any, model: Any, created: Any = None) -> ResponseMetadataPayload:
    """What the provider calls this response; what it does not say in proper form is left out."""
    payload = ResponseMetadataPayload()
    if word(identity):
        payload.id = identity
    if word(model):
        payload.model_id = model
    time = moment(created)
    if time is not None:
        payload.timestamp = time
    return payload


def value_of(data: bytes) -> Any:
    """The JSON of an event, as far as it can be read: with `U+FFFD` for bytes that are no text."""
    return json.loads(data.decode("utf-8", "replace"))


def _is_whole(data: bytes) -> bool:
    if data.strip() == _END_MARK:
        return True
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True
