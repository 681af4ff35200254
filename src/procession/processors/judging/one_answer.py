"""One answer of a model beside the run's own, read to its end."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct, field

from ...chunks import Usage
from ...errors import StructuredOutputError
from ...records import clean_text
from ...structured.consulting import consult

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...chunks import Chunk
    from ...model import LanguageModel, ModelRequest

__all__ = ["OneAnswer", "one_answer"]


class OneAnswer(Struct):
    """What a model has said, what it cost, and what the provider said about it."""

    text: str = ""
    usage: Usage | None = None
    warnings: list[Any] = field(default_factory=list[Any])
    provider_metadata: Any = None


async def one_answer(
    model: LanguageModel,
    request: ModelRequest,
    *,
    most: int,
    count_usage: Callable[[Usage], object],
    called: str = "the judge",
) -> OneAnswer:
    """Ask once; `count_usage` is told of the tokens, whatever the answer is worth.

    `called` is what errors say of the model beside its name.

    Raises what `consult` raises, and `StructuredOutputError` for an answer of more than `most`
    characters, which is broken off: small models that are bound to a schema like to fill the room
    that it leaves, and are paid for it.
    """
    answer = OneAnswer()
    pieces: list[str] = []
    async with aclosing(consult(model, request, called=called)) as reads:
        async for read in reads:
            for chunk in read:
                if chunk.type == "text-delta":
                    pieces.append(clean_text(chunk.payload.text))
                    most -= len(pieces[-1])
                elif chunk.type == "stream-start":
                    answer.warnings.extend(chunk.payload.warnings)
                elif chunk.type == "finish":
                    _finish(answer, chunk)
                    count_usage(chunk.payload.output.usage)
            if most < 0:
                raise StructuredOutputError("the answer is longer than any verdict")
    answer.text = "".join(pieces)
    return answer


def _finish(answer: OneAnswer, chunk: Chunk) -> None:
    answer.usage = chunk.payload.output.usage
    metadata: Any = chunk.payload.metadata
    if metadata is not UNSET and metadata:
        answer.provider_metadata = metadata.get("providerMetadata")
