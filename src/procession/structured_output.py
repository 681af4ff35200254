"""Structured output: the object in an answer, read while it comes, checked when it is complete.

Two processors, last in the line, so that the object is made of the text as all others left it.
`AnswerReader` reads the model's own JSON; `StructuredOutputProcessor` has another model turn the
answer into JSON. `attend` puts them in line when a step asks for an object.
"""

from __future__ import annotations

import logging
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from .asking import ModelFailure
from .errors import ConfigurationError, ModelError, StructuredOutputError
from .messages import ReasoningPart, TextPart, ToolInvocationPart
from .model import ModelRequest, resolve_model
from .object_chunk import ObjectChunk, Validated
from .pipeline import Link
from .processor import Processor
from .records import clean_text, plain
from .structured import Asked, asked_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

    from .chunks import Chunk, FinishPayload, Usage
    from .hook_args import (
        HookArgs,
        ProcessLLMRequestArgs,
        ProcessOutputResultArgs,
        ProcessOutputStepArgs,
        ProcessOutputStreamArgs,
    )
    from .message_list import MessageList
    from .model import ModelSpec
    from .partial_json import JSONReader
    from .run_state import RunState
    from .step import Step
    from .structured import ErrorStrategy

__all__ = ["StructuredOutputProcessor", "attend"]

_log = logging.getLogger("procession")

ID = "structured-output"
_DONE = frozenset({"retry", "error", "aborted"})
"""How a step ends that has no answer to read."""
_TASK = (
    "You turn text into data. Write the object that the schema asks for, from what you are given "
    "and from nothing else."
)


class _Asking(Processor[Any]):
    """What both have in common: what is asked for, and what becomes of an answer that misses it."""

    id = ID
    asked: Asked | None = None

    def _now(self, args: HookArgs[Any]) -> Asked | None:
        """What this step asks for."""
        return self.asked or args.state.get("asked")

    async def _read_again(self, args: ProcessOutputResultArgs[Any], asked: Asked) -> Any:
        raise NotImplementedError

    async def process_output_result(self, args: ProcessOutputResultArgs[Any]) -> None:
        """A text that was edited at the end has another object, or none (README 20)."""
        asked, known = self._now(args), args.state.get("text")
        if asked is None or known is None or _last_text(args.message_list) == known:
            return
        metadata: dict[str, Any] | None = None
        try:
            found = await self._read_again(args, asked)
        except StructuredOutputError as error:
            if asked.strategy == "strict":
                raise
            found, metadata = _in_its_place(asked, error)
        await _deliver(args, found, metadata)


class AnswerReader(_Asking):
    """Reads the object from the JSON that the model answers with (R-560 to R-567)."""

    def process_llm_request(self, args: ProcessLLMRequestArgs[Any]) -> Any:
        """Tell the schema in the system message (R-567)."""
        asked = self._now(args)
        if asked is None or asked.model is not None or not asked.injects:
            return None
        prompt = args.prompt
        if prompt and prompt[0]["role"] == "system":
            prompt[0] = {**prompt[0], "content": f"{prompt[0]['content']}\n\n{asked.told()}"}
        else:
            prompt.insert(0, {"role": "system", "content": asked.told()})
        return {"prompt": prompt}

    def process_output_stream(self, args: ProcessOutputStreamArgs[Any]) -> Any:
        """An `object` chunk before the text that brought more of it; the result at the end."""
        part, state = args.part, args.state
        kind = part.type
        if kind == "text-delta":
            reader: JSONReader | None = state.setdefault("open", {}).get(part.payload.id)
            if reader is None:
                reader = self._reader(args, part)
            if reader is not None and reader.feed(part.payload.text):
                return [ObjectChunk.of("object", reader.value(), run_id=args.run_id), part]
        elif kind == "text-end":
            state.setdefault("open", {}).pop(part.payload.id, None)
        elif kind == "step-finish":
            readers = state.get("readers", ())
            state.update(open={}, readers=[], text=None)
            return self._judged(args, part, readers)
        return part

    def _reader(self, args: ProcessOutputStreamArgs[Any], part: Chunk) -> JSONReader | None:
        asked = self._now(args)
        if asked is None or asked.model is not None:
            return None
        reader = args.state["open"][part.payload.id] = asked.reader()
        args.state.setdefault("readers", []).append(reader)
        return reader

    def _judged(
        self, args: ProcessOutputStreamArgs[Any], part: Chunk, readers: Sequence[JSONReader]
    ) -> Any:
        """The step is complete: its object goes before `step-finish` (R-562)."""
        asked, payload = self._now(args), cast("FinishPayload", part.payload)
        if asked is None or asked.model is not None or not _answers(payload):
            return part
        metadata: dict[str, Any] | None = None
        args.state["text"] = _last_text(args.message_list)
        try:
            found = _object_in(asked, _texts(payload.output.text or "", readers))
        except StructuredOutputError as error:
            if args.retry_count < args.retry_budget:
                _ask_again(args, error)
            if asked.strategy == "strict":
                problem = _at_the_limit(error) if payload.step_result.reason == "length" else error
                raise ModelFailure(problem) from None
            found, metadata = _in_its_place(asked, error)
        if found is None:
            return part
        payload.output.object = found.plain
        chunk = ObjectChunk.of("object-result", found, run_id=args.run_id, metadata=metadata)
        return [chunk, part]

    async def _read_again(self, args: ProcessOutputResultArgs[Any], asked: Asked) -> Validated:
        return _object_in(asked, [_last_text(args.message_list)])


class StructuredOutputProcessor(_Asking):
    """Has a second model turn each answer into an object of a schema (B-380 to B-383).

    Added by `structured_output={"schema": …, "model": …}`; it may stand in `output_processors` as
    well, with the same options. Steps that call tools are left alone. The second model is shown the
    answer's text, what was thought and what tools gave; its tokens are counted in
    `processor_usage`.

    An answer that does not fit, or a call that fails: `"strict"` asks for another attempt, and
    without retries left blocks the answer; `"warn"` and `"fallback"` go on.
    """

    def __init__(
        self,
        *,
        schema: Any,
        model: ModelSpec,
        instructions: str | None = None,
        error_strategy: ErrorStrategy = "strict",
        fallback_value: Any = None,
        json_prompt_injection: bool = False,
        model_settings: Mapping[str, Any] | None = None,
        provider_options: Mapping[str, Any] | None = None,
    ) -> None:
        if model is None:  # pyright: ignore[reportUnnecessaryComparison]  # not everyone checks types
            raise ConfigurationError("StructuredOutputProcessor needs a model")
        self.asked = asked_for(
            {
                "schema": schema,
                "model": model,
                "instructions": instructions,
                "error_strategy": error_strategy,
                "fallback_value": fallback_value,
                "json_prompt_injection": json_prompt_injection,
                "model_settings": model_settings,
                "provider_options": provider_options,
            }
        )

    async def process_output_step(self, args: ProcessOutputStepArgs[Any]) -> None:
        """Turn the step's answer into an object, and deliver it before `step-finish`."""
        asked = self._now(args)
        args.state["text"] = None
        args.made_steps = None  # made before an earlier hook's edits, perhaps
        withheld = args.finish_reason == "content-filter"  # then the step is not among them
        content = args.steps[-1].content if args.steps and not withheld else []
        if asked is None or asked.model is None or _runs_tools(content):
            return
        args.state["text"] = _last_text(args.message_list)
        metadata: dict[str, Any] | None = None
        try:
            found = await _structured(args, asked, _material(content))
        except StructuredOutputError as error:
            if asked.strategy == "strict" or args.retry_count < args.retry_budget:
                _ask_again(args, error)
            found, metadata = _in_its_place(asked, error)
        if found is not None:
            await _deliver(args, found, metadata)

    async def _read_again(self, args: ProcessOutputResultArgs[Any], asked: Asked) -> Validated:
        return await _structured(args, asked, _last_text(args.message_list))


class _Structurer(StructuredOutputProcessor):
    """The one that is put in line: what it is asked for stands in its state."""

    def __init__(self) -> None:
        self.asked = None


READER, STRUCTURER = AnswerReader(), _Structurer()


def attend(run: RunState, step: Step) -> None:
    """Put the processor that makes the object in line, last, when a step asks for one (R-569).

    One of the same id among the user's own has its place already (R-021).
    """
    if not step.structured_output and ID not in run.states:
        return
    asked = asked_for(step.structured_output)
    run.states[ID]["asked"] = asked
    if asked is None:
        return
    processor = READER if asked.model is None else STRUCTURER
    hooks = ["process_output_stream"] if asked.model is None else ["process_output_step"]
    if asked.injects and asked.model is None:
        hooks.append("process_llm_request")
    if run.pipeline.process_output_result:  # nobody else could edit the text then
        hooks.append("process_output_result")
    for hook in hooks:
        if all(link.processor_id != ID for link in getattr(run.pipeline, hook)):
            run.join(Link(processor, hook))


# ── what an answer holds ───────────────────────────────────────────────────────────────────────


def _answers(payload: FinishPayload) -> bool:
    """Whether a step has the answer of a run: no call of ours or the client's is in it."""
    outcome = payload.step_result
    if outcome.reason in _DONE or outcome.is_continued is True:
        return False
    calls: Sequence[Any] = payload.output.tool_calls or ()
    return all(call.payload.provider_executed is True for call in calls)


def _runs_tools(content: Sequence[Any]) -> bool:
    """Whether a step leads to tools of ours or the client's (B-383)."""
    calls = (part for part in content if isinstance(part, ToolInvocationPart))
    return any(call.provider_executed is not True for call in calls)


def _texts(text: str, readers: Sequence[JSONReader]) -> list[str]:
    """Where the object may stand: the blocks of the text, the last one first, or an edited text."""
    blocks = [reader.text() for reader in readers]
    return blocks[::-1] if "".join(blocks) == text else [text]


def _object_in(asked: Asked, texts: Sequence[str]) -> Validated:
    problem: StructuredOutputError | None = None
    for text in texts:
        try:
            return Validated(*asked.read(text))
        except StructuredOutputError as error:
            problem = problem or error
    raise problem or StructuredOutputError("the answer has no text")


def _last_text(messages: MessageList) -> str:
    """The text that an answer ends with, as hooks have left it."""
    response = messages.get.response.db()
    found: list[str] = []
    for part in reversed(response[-1].content.parts if response else ()):
        if part.type == "step-start":
            break
        if isinstance(part, TextPart):
            found.append(part.text)
    return "".join(reversed(found))


# ── an answer that does not fit ────────────────────────────────────────────────────────────────


def _ask_again(args: HookArgs[Any], error: StructuredOutputError) -> NoReturn:
    """Reject the answer, and tell the model why."""
    reason = f"{error} Answer again with JSON that fits the schema, and with nothing else."
    args.abort(reason, retry=True, metadata={"error": str(error)})


def _in_its_place(
    asked: Asked, error: StructuredOutputError
) -> tuple[Validated | None, dict[str, Any] | None]:
    """What stands in for an object (R-566)."""
    if asked.strategy == "fallback":
        return Validated(plain(asked.fallback), asked.fallback), {"fallback": True}
    _log.warning("structured output: %s", error)
    return None, None


def _at_the_limit(error: StructuredOutputError) -> StructuredOutputError:
    told = f"{error} (it was cut off: the limit of tokens was reached)"
    return StructuredOutputError(told, error.problems, text=error.text)


# ── a model of its own ─────────────────────────────────────────────────────────────────────────


def _material(content: Sequence[Any]) -> str:
    """What a step has come to, for the second model."""
    said = "".join(part.text for part in content if isinstance(part, TextPart))
    thought = "\n".join(p.reasoning or "" for p in content if isinstance(p, ReasoningPart))
    results = [
        f"{part.tool_invocation.tool_name}: {plain(part.tool_invocation.result)}"
        for part in content
        if isinstance(part, ToolInvocationPart) and part.tool_invocation.state == "result"
    ]
    titled = (("Thoughts", thought), ("Results of tools", "\n".join(results)), ("Answer", said))
    given = [(title, text) for title, text in titled if text.strip()]
    if len(given) == 1:
        return given[0][1]
    return "\n\n".join(f"# {title}\n{text}" for title, text in given)


async def _structured(args: Any, asked: Asked, material: str) -> Validated:
    """Ask the second model; partial objects are delivered as they come (B-381)."""
    if not material.strip():
        raise StructuredOutputError("the answer has no text")
    reader = asked.reader()
    try:
        await _listen(args, asked, material, reader)
    except Exception as error:  # whatever went wrong with the call, the strategy decides
        problem = f"the structuring model failed: {type(error).__name__}"
        raise StructuredOutputError(problem) from error
    return Validated(*asked.read(reader.text()))


async def _listen(args: Any, asked: Asked, material: str, reader: JSONReader) -> None:
    assert asked.model is not None
    stream = resolve_model(asked.model).stream(_request(args, asked, material))
    async with aclosing(stream) as reads:
        async for read in reads:
            for chunk in read:
                if chunk.type == "text-delta" and reader.feed(clean_text(chunk.payload.text)):
                    await args.writer.object(reader.value())
                elif chunk.type == "finish":
                    args.count_usage(cast("Usage", chunk.payload.output.usage))
                elif chunk.type == "error":
                    raise ModelError("an error came within the stream")


def _request(args: Any, asked: Asked, material: str) -> ModelRequest:
    task = asked.instructions or _TASK
    if asked.injects:
        task = f"{task}\n\n{asked.told()}"
    settings: Any = dict(asked.options.get("model_settings") or {})
    return ModelRequest(
        prompt=[
            {"role": "system", "content": task},
            {"role": "user", "content": [{"type": "text", "text": material}]},
        ],
        settings=settings,
        provider_options=asked.options.get("provider_options"),
        response_format=asked.response_format(),
        abort_signal=args.abort_signal,
        run_id=args.run_id,
    )


async def _deliver(args: Any, found: Validated | None, metadata: dict[str, Any] | None) -> None:
    """Write the object where no `step-finish` is at hand to put it before."""
    assert args.writer is not None
    await args.writer.object(found, final=True, metadata=metadata)
