"""One answer of a model beside the run's own, read to its end."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct, field

from ...chunks import Usage
from ...errors import StructuredOutputError
from ...records import clean_text
from ...structured.consulting import consult
from ..costs.costs import estimated

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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

    Those of an answer that is cut off, of which the provider tells nothing, are estimated.

    `called` is what errors say of the model beside its name.

    Raises what `consult` raises, and `StructuredOutputError` for an answer of more than `most`
    characters, which is broken off: small models that are bound to a schema like to fill the room
    that it leaves, and are paid for it.
    """
    answer = OneAnswer()
    begun = False
    try:
        async with aclosing(consult(model, request, called=called)) as reads:
            async for read in reads:
                begun = True
                most -= _take(answer, read)
                if most < 0:
                    raise StructuredOutputError("the answer is longer than any verdict")
    finally:
        if answer.usage is not None:
            count_usage(answer.usage)
        elif begun:
            count_usage(estimated(request.prompt, answer.text))
    return answer


def _take(answer: OneAnswer, read: Sequence[Chunk]) -> int:
    """Note what a read brings; returns how many characters of text."""
    said = ""
    for chunk in read:
        if chunk.type == "text-delta":
            said += clean_text(chunk.payload.text)
        elif chunk.type == "stream-start":
            answer.warnings.extend(chunk.payload.warnings)
        elif chunk.type == "finish":
            _finish(answer, chunk)
    answer.text += said
    return len(said)


def _finish(answer: OneAnswer, chunk: Chunk) -> None:
    answer.usage = chunk.payload.output.usage
    metadata: Any = chunk.payload.metadata
    if metadata is not UNSET and metadata:
        answer.provider_metadata = metadata.get("providerMetadata")
