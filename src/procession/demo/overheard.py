"""A model that is listened to: what it was sent, and every piece it said, before any processor."""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from ..errors import ModelError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from ..chunks import Chunk
    from ..model import LanguageModel, ModelRequest

__all__ = ["Heard", "Overheard"]


class Heard(Struct, kw_only=True):
    """One call of the model.

    `sent` is all that went to it, as JSON text: the prompt, and the body of the HTTP request where
    there was one. `pieces` are its text deltas. `complete` is False when its reader left early.
    """

    sent: str
    pieces: list[str] = field(default_factory=list[str])
    complete: bool = False


class Overheard:
    """Passes everything on, unchanged, and keeps what it heard.

    `is_alive` says whether the model can be asked at all: a demo must not hide that its model has
    ended by quietly starting another one.
    """

    def __init__(self, model: LanguageModel, *, is_alive: Callable[[], bool] | None = None) -> None:
        self._model = model
        self._is_alive = is_alive
        self.calls: list[Heard] = []

    @property
    def provider(self) -> str:
        """The provider's name."""
        return self._model.provider

    @property
    def model_id(self) -> str:
        """The model's name."""
        return self._model.model_id

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Chunk], None]:
        """Ask the model; raises `ModelError` when it has ended."""
        if self._is_alive is not None and not self._is_alive():
            raise ModelError("the model's process has ended")
        heard = Heard(sent=_json(request.prompt))
        self.calls.append(heard)
        async with aclosing(self._model.stream(request)) as answer:
            async for chunks in answer:
                _listen(heard, chunks)
                yield chunks
        heard.complete = True


def _listen(heard: Heard, chunks: Sequence[Chunk]) -> None:
    for chunk in chunks:
        if chunk.type == "text-delta":
            heard.pieces.append(chunk.payload.text)
        elif chunk.type == "stream-start":
            heard.sent += "\n" + _json(chunk.payload.request)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
