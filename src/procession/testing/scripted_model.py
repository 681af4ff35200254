"""A model that answers from a script and remembers what it was asked."""

from __future__ import annotations

import asyncio
import copy
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ..chunks import Chunk, ModelStartPayload, ResponseMetadataPayload
from ..errors import ConfigurationError
from ..model import ModelRequest, ToolDefinition
from .answers import Answer, Script, as_answer
from .parts import DELAY, Part, chunk_of, in_one_piece

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence

__all__ = ["RecordedCall", "ScriptedModel"]

_TIMESTAMP = datetime(1970, 1, 1, tzinfo=UTC)
"""Answers carry a fixed time, so that two runs of a test give the same chunks."""


class RecordedCall(Struct, kw_only=True):
    """What one call was given, as it was then: later changes to the prompt do not show.

    `number` counts the calls of the model from 0.
    """

    number: int
    prompt: list[dict[str, Any]]
    tools: list[ToolDefinition]
    tool_choice: Any
    settings: dict[str, Any]
    provider_options: dict[str, Any] | None
    response_format: dict[str, Any] | None
    streaming: bool
    run_id: str

    @property
    def tool_names(self) -> list[str]:
        """The names of the tools that were offered, in order."""
        return [definition.name for definition in self.tools]

    @property
    def text(self) -> str:
        """The texts of the prompt, one line for each, which is convenient to search in."""
        return "\n".join(_texts(self.prompt))


class ScriptedModel:
    """A `LanguageModel` that plays answers in order; the last one is repeated.

        model = ScriptedModel([answer(tool_calls=[tool_call("weather")]), "It is 21"])

    Each answer begins with `stream-start` and with `response-metadata` of id `resp-NAME-N`, where
    `name` defaults to the model id and N counts the calls. By default every chunk comes in a list
    of its own, the way it is hardest for the reader; `batch` sets how many come together. A call
    that does not ask for streaming gets each block of text as one delta.

    `calls` holds what each call was given, `closed` the numbers of the calls whose reader left
    before the end. `on_call` is called at once with each recorded call.
    """

    def __init__(
        self,
        answers: Iterable[Script],
        *,
        provider: str = "mock",
        model_id: str = "mock-1",
        name: str | None = None,
        batch: int = 1,
        on_call: Callable[[RecordedCall], object] | None = None,
    ) -> None:
        scripts = [answers] if isinstance(answers, str) else answers  # a text is one answer
        self._answers = [as_answer(script) for script in scripts]
        if not self._answers:
            raise ConfigurationError("a scripted model needs at least one answer")
        if batch < 1:
            raise ConfigurationError(f"batch must be at least 1, not {batch}")
        self._provider = provider
        self._model_id = model_id
        self.name = name or model_id
        self.batch = batch
        self.on_call = on_call
        self.calls: list[RecordedCall] = []
        self.closed: list[int] = []

    @property
    def provider(self) -> str:
        """The provider's name."""
        return self._provider

    @property
    def model_id(self) -> str:
        """The model's id."""
        return self._model_id

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Chunk], None]:
        """Play the next answer. A scripted error is raised after the call was recorded."""
        call = self._record(request)
        answer = self._answers[min(call.number, len(self._answers) - 1)]
        try:
            await asyncio.sleep(answer.delay)
            if answer.error is not None:
                # The same object may be raised again; it must not pile up tracebacks.
                raise answer.error.with_traceback(None)
            yield [Chunk(type="stream-start", payload=_start(answer))]
            yield [self._metadata(call.number)]
            parts = answer.parts if request.streaming else in_one_piece(answer.parts)
            async with aclosing(self._batches(parts)) as batches:
                async for batch in batches:
                    yield batch
        except (GeneratorExit, asyncio.CancelledError):
            self.closed.append(call.number)
            raise

    def _record(self, request: ModelRequest) -> RecordedCall:
        options, form = request.provider_options, request.response_format
        call = RecordedCall(
            number=len(self.calls),
            prompt=copy.deepcopy(request.prompt),
            tools=list(request.tools),
            tool_choice=copy.deepcopy(request.tool_choice),
            settings=copy.deepcopy(dict(request.settings)),
            provider_options=None if options is None else copy.deepcopy(dict(options)),
            response_format=None if form is None else copy.deepcopy(dict(form)),
            streaming=request.streaming,
            run_id=request.run_id,
        )
        self.calls.append(call)
        if self.on_call is not None:
            self.on_call(call)
        return call

    def _metadata(self, number: int) -> Chunk:
        payload = ResponseMetadataPayload(
            id=f"resp-{self.name}-{number}", model_id=self._model_id, timestamp=_TIMESTAMP
        )
        return Chunk(type="response-metadata", payload=payload)

    async def _batches(self, parts: Iterable[Part]) -> AsyncGenerator[list[Chunk], None]:
        """Lists of at most `batch` chunks; a scripted wait is waited for in between."""
        waiting: list[Chunk] = []
        for part in parts:
            if not isinstance(part, Chunk) and part["type"] == DELAY:
                if waiting:
                    yield waiting
                waiting = []
                await asyncio.sleep(part["ms"] / 1000)
                continue
            waiting.append(chunk_of(part))
            if len(waiting) == self.batch:
                yield waiting
                waiting = []
        if waiting:
            yield waiting


def _start(answer: Answer) -> ModelStartPayload:
    return ModelStartPayload(warnings=copy.deepcopy(list(answer.warnings)))


def _texts(prompt: list[dict[str, Any]]) -> Iterator[str]:
    for entry in prompt:
        content = entry.get("content")
        if isinstance(content, str):
            yield content
            continue
        for part in content or ():
            if isinstance(part.get("text"), str):
                yield part["text"]
