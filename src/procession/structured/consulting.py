"""Asking a model beside the run's own: tried again when it may pass, cut short by a stop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ..engine.interruption import Interrupted
from ..engine.misfits import as_exception, read_problem
from ..errors import APICallError, ConfigurationError, ModelError, StructuredOutputError
from ..retrying import Retries
from ..tracing_context import NO_SPAN, current_span

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from ..abort_signal import AbortSignal
    from ..chunks import Chunk
    from ..model import LanguageModel, ModelRequest
    from ..tracing_context import AnySpan

__all__ = ["CutShort", "consult"]


async def consult(
    model: LanguageModel, request: ModelRequest, *, called: str = "the structuring model"
) -> AsyncGenerator[Sequence[Chunk], None]:
    """What a model answers, read by read.

    `called` is what errors say of the model beside its name: what it is for.

    Raises `StructuredOutputError` when the call fails, and a `ConfigurationError` as it is: what is
    set up wrongly is nothing that another answer could put right. A stop is no failure: the signal
    of the request ends the wait at once, and whoever was cancelled stays cancelled, whatever the
    transport makes of it.
    """
    retries = Retries(0 if getattr(model, "repeats_calls", False) else request.max_retries)
    begun = False
    while True:
        source: Any = None
        told = _Told.of(model, request)
        try:
            source = model.stream(request)
            while True:
                with CutShort(request.abort_signal):
                    read: Any = await anext(source, None)
                if read is None:
                    return
                begun = True
                _check(read)
                told.take(read)
                yield read
        except (Interrupted, ConfigurationError):
            raise
        except Exception as error:
            told.span.error(error)
            pause = None if begun else retries.pause_after(error)
            if pause is None:
                raise _failure(model, error, called) from error
        finally:
            told.span.end()
            if hasattr(source, "aclose"):
                await source.aclose()
        with CutShort(request.abort_signal):
            await asyncio.sleep(pause)


class _Told:
    """The span of one call, below that of the processor that makes it (O-007)."""

    __slots__ = ("span",)

    def __init__(self, span: AnySpan) -> None:
        self.span = span

    @classmethod
    def of(cls, model: LanguageModel, request: ModelRequest) -> _Told:
        """The span of a call that is about to be made."""
        parent = current_span.get()
        if parent is None:
            return _NOBODY
        said = {
            "model": model.model_id,
            "provider": model.provider,
            "prompt_messages": len(request.prompt),
        }
        name = f"llm: '{model.model_id}'"
        return cls(parent.create_child_span("model_generation", name, attributes=said))

    def take(self, read: Sequence[Chunk]) -> None:
        """Note what the last chunk says."""
        last = read[-1] if read and self.span.is_valid else None
        if last is not None and last.type == "finish":
            usage = last.payload.output.usage.to_json()
            usage.pop("raw", None)
            reason = last.payload.step_result.reason
            self.span.update(attributes={"usage": usage, "finish_reason": reason})


_NOBODY = _Told(NO_SPAN)


def _failure(model: LanguageModel, error: Exception, called: str) -> StructuredOutputError:
    """Without the provider's words: the model that has answered will be told of it."""
    status = error.status_code if isinstance(error, APICallError) else None
    kind = type(error).__name__ + (f", status {status}" if status is not None else "")
    return StructuredOutputError(f"{called} {model.provider}/{model.model_id} failed: {kind}")


def _check(read: Any) -> None:
    problem = read_problem(read)
    if problem is not None:
        raise ModelError(problem)
    for chunk in read:
        if chunk.type == "error":
            raise as_exception(chunk.payload.error)


class CutShort:
    """A wait that a fired signal ends, as `Interrupted`; being cancelled stays what it is."""

    __slots__ = ("_before", "_events", "_fired", "_signal", "_task", "_undo")

    def __init__(self, signal: AbortSignal | None) -> None:
        self._signal = signal
        self._undo: Callable[[], None] | None = None
        self._fired = False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task: asyncio.Task[Any] | None = task
        self._before = task.cancelling()
        self._events = asyncio.get_running_loop()
        if self._signal is not None:
            self._undo = self._signal.add_callback(self._wake)

    def _wake(self) -> None:  # from whatever thread
        if not self._events.is_closed():
            self._events.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._fired = True
            self._task.cancel()

    def __exit__(self, _kind: Any, error: BaseException | None, _trace: Any) -> None:
        task, self._task = self._task, None
        assert task is not None
        if self._undo is not None:
            self._undo()
        others = (task.uncancel() if self._fired else task.cancelling()) - self._before
        if not isinstance(error, Exception | asyncio.CancelledError | None):
            return
        if others > 0:
            raise asyncio.CancelledError from error
        if self._fired or (self._signal is not None and self._signal.aborted):
            raise Interrupted from error
