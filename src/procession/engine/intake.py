"""Taking in what the model delivers: content goes through the gate, control is noted on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from ..chunks import DeltaPayload
from ..errors import InputError, ModelError
from ..messages import ToolInvocation, ToolInvocationPart
from .asking import ModelFailure
from .frames import step_start_chunk
from .gate import PENDING
from .mending import Mending, mend_control, mend_edited
from .misfits import as_exception
from .response import find_call, merge
from .toolphase import judge_result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..chunks import Chunk, ToolResultPayload
    from .run_state import RunState
    from .step import Step

__all__ = ["Intake"]

_CONTROL = frozenset(
    {
        "stream-start",
        "response-metadata",
        "tool-call",
        "tool-result",
        "finish",
        "error",
        "raw",
    }
)

_PIECES = frozenset({"text-delta", "reasoning-delta"})


class Intake:
    """Takes one attempt's chunks, read by read."""

    __slots__ = (
        "_answer",
        "_gate",
        "_keeps_raw",
        "_mending",
        "_out",
        "_plain",
        "_run",
        "_run_id",
        "_step",
        "writes",
    )

    def __init__(self, run: RunState, step: Step) -> None:
        self._run = run
        self._step = step
        self._answer = step.answer
        self._gate = run.gate
        self._out = run.out
        self._run_id = run.run_id
        self._plain = False
        """Whether pieces of text need nothing but the gate: true once the step has started."""
        self._mending = Mending()
        if run.gate.holds:
            run.gate.begin_attempt(step.number)
        self._keeps_raw = bool(run.pipeline.process_llm_response)
        self.writes = run.gate.writes or run.pipeline.process_tool_result.writes
        """Whether a hook that is called on the way may write while it runs."""

    # One frame for a read, not several: the usual chunk needs no other.
    async def take(self, read: Sequence[Chunk]) -> None:  # noqa: C901
        """Take in what one read delivered, chunk by chunk; what passes is in `run.out`.

        Raises `TripWire` for a verdict; what passed before it is in `run.out` already.
        """
        gate, answer, out, mending = self._gate, self._answer, self._out, self._mending
        for chunk in read:
            kind = chunk.type
            if kind in _CONTROL:
                await self._control(chunk)
                continue
            if not self._plain or kind not in _PIECES:
                await self._content(chunk)
                continue
            payload = chunk.payload
            text = payload.text
            if not text.isascii() or mending.watches:
                mending.piece(chunk)
                text = payload.text
            chunk.run_id = self._run_id
            chunk.from_ = "AGENT"
            if gate.is_open:
                passed = chunk
            elif gate.is_plain:
                passed = gate.ask(chunk)
                if passed is PENDING:
                    passed = await gate.finish(chunk)
            else:
                passed = await gate.offer(chunk)
            if (
                passed is chunk
                and chunk.payload is payload
                and (payload.text is text or _is_plain(payload.text))
                and payload.id == answer.text_id
                and chunk.type == "text-delta"
            ):
                answer.add_text(payload.text)
                out.append(chunk)
            else:
                if passed is chunk:
                    mend_edited(chunk)
                self._keep(passed)
        if gate.late:
            await gate.let_in()

    async def _content(self, chunk: Chunk) -> None:
        """Content other than a piece of text, and all that has to be kept besides."""
        if chunk.type in _PIECES:
            self._mending.piece(chunk)
        else:
            for half in self._mend(chunk):
                await self._content(half)
        if not self._plain:
            await self.start()
            self._plain = not self._keeps_raw
            if self._keeps_raw:
                self._step.raw.append(_recorded(chunk))
        chunk.run_id, chunk.from_ = self._run_id, "AGENT"
        self._keep(await self._gate.through(chunk))

    def _keep(self, passed: Chunk | None) -> None:
        """Deliver what came of a chunk, if anything, and fold it into the answer."""
        if passed is not None:
            self._answer.add(passed)
            self._out.append(passed)

    def _mend(self, chunk: Chunk) -> Sequence[Chunk]:
        """Mend a chunk that is no piece of text; returns what is to be taken in before it."""
        try:
            if chunk.type not in _CONTROL:
                return self._mending.other(chunk)
            mend_control(chunk.type, chunk.payload, raw=self._run.include_raw_chunks)
        except InputError as error:
            problem = f"model {self._step.model_id!r}: a chunk of type {chunk.type!r}: {error}"
            raise ModelFailure(ModelError(problem)) from None
        return ()

    async def start(self) -> None:
        """Offer `step-start`, once (R-047)."""
        run, step = self._run, self._step
        if step.started:
            return
        step.started = True
        chunk = step_start_chunk(run, step)
        if self._keeps_raw:
            step.raw.append(_recorded(chunk))
        await self._offer(chunk)

    async def end(self) -> None:
        """The stream has ended: an empty one was a step too, and half characters are let go."""
        await self.start()
        await self._let_go()

    async def _let_go(self) -> None:
        """Halves of characters, and what is held back at the gate."""
        for half in self._mending.let_go():
            await self._content(half)
        if self._gate.holds:
            await self._gate.let_go()

    async def _offer(self, chunk: Chunk) -> None:
        self._keep(await self._gate.offer(chunk))

    async def _control(self, chunk: Chunk) -> None:
        run, step, kind = self._run, self._step, chunk.type
        chunk.run_id, chunk.from_ = run.run_id, "AGENT"
        self._mend(chunk)
        if kind == "stream-start":
            payload = chunk.payload
            step.warnings = payload.warnings
            step.request_info = dict(payload.request or {})
            step.headers = payload.headers
            step.raw_response = payload.raw_response
            if payload.answered_by is not UNSET:
                step.model = payload.answered_by
            run.warnings = step.warnings
            await self.start()
            return
        await self.start()
        if self._keeps_raw and kind not in ("error", "raw"):
            step.raw.append(_recorded(chunk))
        if kind == "response-metadata":
            step.answer.note_metadata(chunk)
            await self._offer_hidden(chunk)
        elif kind == "tool-call":
            await self._call(chunk)
        elif kind == "tool-result":
            await self._provider_result(chunk)
        elif kind == "finish":
            await self._finish(chunk)
        elif kind == "error":
            raise ModelFailure(as_exception(chunk.payload.error))
        elif run.include_raw_chunks:
            await self._offer(chunk)

    async def _call(self, chunk: Chunk) -> None:
        step = self._step
        if chunk.payload.tool_call_id in step.answer.calls:
            raise ModelFailure(
                ModelError("the model gave two tool calls of one answer the same id")
            )
        step.answer.note_call(chunk)
        self._keep(await self._gate.through(chunk))

    async def _finish(self, chunk: Chunk) -> None:
        """The model's own finish: offered unless it asks for tools, never delivered (R-049)."""
        if chunk.payload.step_result.reason == "unknown":
            chunk.payload.step_result.reason = "other"
        self._step.answer.note_finish(chunk)
        if self._gate.holds:
            await self._let_go()  # a `finish` that is offered is the last chunk of the model's
        if self._step.answer.finish_reason != "tool-calls":
            await self._offer_hidden(chunk)
        self._step.answer.end_blocks()

    async def _offer_hidden(self, chunk: Chunk) -> None:
        """Offer a chunk that is never delivered; what a hook makes of it may be."""
        passed = await self._gate.offer(chunk)
        if passed is not None and passed.type != chunk.type:
            self._keep(passed)

    async def _provider_result(self, chunk: Chunk) -> None:
        """A result that comes in the model's stream is judged before it is offered (R-239)."""
        run, step = self._run, self._step
        payload: ToolResultPayload = chunk.payload
        call = step.answer.calls.get(payload.tool_call_id)
        if call is None:
            part = _orphan(payload)
            step.answer.parts.append(part)
        else:
            part = call.part
        step.portion = merge(run, step.answer, step.portion)
        executed = True if payload.provider_executed is True else None
        value = await judge_result(run, step, part, payload.result, executed)
        live = find_call(run, payload.tool_call_id) or part
        live.tool_invocation.state = "result"
        live.tool_invocation.result = value
        if payload.is_error is True:
            live.tool_invocation.is_error = True
        if payload.provider_metadata:
            live.provider_metadata = _joined(payload.provider_metadata, live.provider_metadata)
        payload.result = value
        if step.from_cache and executed is None:
            step.had_outcome = True
        passed = await self._gate.through(chunk)
        step.outcomes.append(passed if passed and passed.type == chunk.type else chunk)
        if passed is not None:
            run.out.append(passed)


def _recorded(chunk: Chunk) -> dict[str, Any]:
    """What `process_llm_response` is told of a chunk, in JSON form (R-101)."""
    payload = chunk.payload
    if payload.__class__ is DeltaPayload and payload.text.__class__ is str:  # nearly all of them
        if payload.provider_metadata is UNSET and payload.extra is None:
            return {"type": chunk.type, "payload": {"id": payload.id, "text": payload.text}}
    return chunk.to_json()


def _joined(result: dict[str, Any], call: dict[str, Any] | None) -> dict[str, Any]:
    """What a provider says of a result, and of its call: the call's word stands."""
    found = {**result, **(call or {})}
    for name in result.keys() & (call or {}).keys():
        if isinstance(result[name], dict) and isinstance(found[name], dict):
            found[name] = {**result[name], **found[name]}
    return found


def _orphan(payload: ToolResultPayload) -> ToolInvocationPart:
    return ToolInvocationPart(
        tool_invocation=ToolInvocation(
            tool_call_id=payload.tool_call_id,
            tool_name=payload.tool_name,
            args={} if payload.args is UNSET else payload.args,
        ),
        provider_executed=payload.provider_executed or None,
    )


def _is_plain(text: Any) -> bool:
    """Whether a text that was put in place of another needs no mending."""
    return text.__class__ is str and text.isascii()
