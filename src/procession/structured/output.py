"""Structured output: the object in an answer, read while it comes, checked when it is complete.

Two processors, last in the line, so that the object is made of the text as all others left it.
`AnswerReader` reads the model's own JSON; `StructuredOutputProcessor` has another model turn the
answer into JSON. `attend` puts them in line when a step asks for an object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..engine.asking import ModelFailure
from ..engine.pipeline import Link
from ..errors import StructuredOutputError
from ..messages import TextPart
from .object_chunk import ObjectChunk, Validated
from .options import asked_for
from .rules import (
    ID,
    Asking,
    ask_again,
    deliver,
    in_its_place,
    last_parts,
    last_text,
    runs_tools,
    screened,
)
from .second_model import Structurer

if TYPE_CHECKING:
    from ..chunks import Chunk
    from ..engine.run_state import RunState
    from ..engine.step import Step
    from ..hook_args import (
        HookArgs,
        ProcessLLMRequestArgs,
        ProcessOutputStepArgs,
        ProcessOutputStreamArgs,
    )
    from ..message_list import MessageList
    from .options import Asked
    from .partial_json import JSONReader

__all__ = ["attend"]


_AGAIN = "Answer again with JSON that fits the schema, and with nothing else."


class AnswerReader(Asking):
    """Reads the object from the JSON that the model answers with (R-560 to R-567)."""

    def process_llm_request(self, args: ProcessLLMRequestArgs[Any]) -> Any:
        """Tell the schema in the system message (R-567)."""
        asked = self.now(args)
        if asked is None or asked.model is not None or not asked.injects:
            return None
        prompt = args.prompt
        if prompt and prompt[0]["role"] == "system":
            prompt[0] = {**prompt[0], "content": f"{prompt[0]['content']}\n\n{asked.told()}"}
        else:
            prompt.insert(0, {"role": "system", "content": asked.told()})
        return {"prompt": prompt}

    def process_output_stream(self, args: ProcessOutputStreamArgs[Any]) -> Any:
        """An `object` chunk before the text that brought more of it."""
        part, state = args.part, args.state
        kind = part.type
        if kind == "text-delta":
            reader: JSONReader | None = state["open"].get(part.payload.id)
            if reader is None:
                reader = self._reader(args, part)
            if reader is not None and reader.feed(part.payload.text) and _is_sure(args, part):
                return [ObjectChunk.of("object", reader.value(), run_id=args.run_id), part]
        elif kind == "text-end":
            state["open"].pop(part.payload.id, None)
        return part

    def _reader(self, args: ProcessOutputStreamArgs[Any], part: Chunk) -> JSONReader | None:
        asked = self.now(args)
        if asked is None or asked.model is not None:
            return None
        reader = args.state["open"][part.payload.id] = asked.reader()
        return reader

    async def process_output_step(self, args: ProcessOutputStepArgs[Any]) -> None:
        """The step is complete: its object goes before `step-finish` (R-562).

        It is judged by what is stored of it: nobody can edit its way past the schema.
        """
        asked = self.now(args)
        if asked is None or asked.model is not None or runs_tools(last_parts(args.message_list)):
            return
        metadata: dict[str, Any] | None = None
        args.state["text"] = last_text(args.message_list)
        try:
            found = await self.read_again(args, asked)
        except StructuredOutputError as error:
            if args.retry_count < args.retry_budget:
                ask_again(args, error, _AGAIN)
            if asked.strategy == "strict":
                problem = _at_the_limit(error) if args.finish_reason == "length" else error
                raise ModelFailure(problem) from None
            found, metadata = in_its_place(asked, error)
        if found is not None:
            await deliver(args, found, metadata)

    async def read_again(self, args: HookArgs[Any], asked: Asked) -> Validated:
        return await screened(args, asked, _object_in(asked, args.message_list))


def _is_sure(args: ProcessOutputStreamArgs[Any], part: Chunk) -> bool:
    """Whether the guards have seen what is read of a block of text while it comes."""
    writer: Any = args.writer
    return writer.screen().is_sure_of(part.payload.id)


def _object_in(asked: Asked, messages: MessageList) -> Validated:
    """The object may stand in one block of the text, the last one first, or across them."""
    blocks = [part.text for part in last_parts(messages) if isinstance(part, TextPart)]
    texts = blocks[::-1] if len(blocks) < 2 else [*blocks[::-1], "".join(blocks)]
    problem: StructuredOutputError | None = None
    for text in texts:
        try:
            return Validated(*asked.read(text))
        except StructuredOutputError as error:
            problem = problem or error
    raise problem or StructuredOutputError("the answer has no text")


def _at_the_limit(error: StructuredOutputError) -> StructuredOutputError:
    told = f"{error} (it was cut off: the limit of tokens was reached)"
    return StructuredOutputError(told, error.problems, text=error.text)


READER, STRUCTURER = AnswerReader(), Structurer()


def attend(run: RunState, step: Step) -> None:
    """Put the processor that makes the object in line, last, when a step asks for one (R-569).

    One of the same id among the user's own has its place already (R-021).
    """
    if not step.structured_output and ID not in run.states:
        return
    asked = asked_for(step.structured_output)
    run.states[ID].update(asked=asked, open={}, text=None)
    run.gate.for_object = asked is not None and asked.model is None
    if asked is None:
        return
    asked.structuring(run.models.get)  # what cannot be, fails before anybody is asked
    processor = READER if asked.model is None else STRUCTURER
    hooks = ["process_output_step"]
    if asked.model is None:
        hooks.append("process_output_stream")
        if asked.injects:
            hooks.append("process_llm_request")
    if run.pipeline.process_output_result:  # nobody else could edit the text then
        hooks.append("process_output_result")
    for hook in hooks:
        if all(link.processor_id != ID for link in getattr(run.pipeline, hook)):
            run.join(Link(processor, hook))
