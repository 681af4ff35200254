"""A model of its own for the object: it turns what another one has answered into JSON."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from ..engine.asking import ResolvedModels
from ..errors import ConfigurationError, StructuredOutputError
from ..keywords import TakesOptions
from ..messages import ReasoningPart, TextPart, ToolInvocationPart
from ..model import ModelRequest
from ..policy import Policy, policy_of
from ..records import clean_text, plain
from .consulting import consult
from .object_chunk import Validated
from .options import Asked, asked_for
from .rules import Asking, ask_again, deliver, in_its_place, last_text, runs_tools, screened

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from ..chunks import Usage
    from ..engine.screening import ScreenedText
    from ..hook_args import HookArgs, ProcessOutputStepArgs
    from ..model import LanguageModel, ModelSpec
    from .options import ErrorStrategy
    from .partial_json import JSONReader

__all__ = ["StructuredOutputProcessor", "Structurer"]

_TASK = (
    "You turn text into data. Write the object that the schema asks for, from what you are given "
    "and from nothing else."
)

_MISFIT = "misfit"
"""In the state: what was wrong with the last object, for the model that made it."""
_AGAIN = "No object could be made of this answer. Answer again, with all that was asked for."


class StructuredOutputProcessor(TakesOptions, Asking):
    """Has a second model turn each answer into an object of a schema (B-380 to B-383).

    Added by `structured_output={"schema": …, "model": …}`; it may stand in `output_processors` as
    well, with the same options. Steps that call tools are left alone. The second model is shown the
    answer's text, what was thought and what tools gave; its tokens are counted in
    `processor_usage`.

    An answer that does not fit, or a call that fails: `"strict"` asks for another attempt, of which
    the second model is told what was wrong with its last one, and without retries left blocks the
    answer; `"warn"` and `"fallback"` go on. A model that cannot be set up is a
    `ConfigurationError`, whatever the strategy.
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
        policy: Policy | None = None,
    ) -> None:
        self.policy = policy
        policy_of(self)
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
        self._models = ResolvedModels(model)

    async def process_output_step(self, args: ProcessOutputStepArgs[Any]) -> None:
        """Turn the step's answer into an object, and deliver it before `step-finish`."""
        asked = self.now(args)
        args.state["text"] = None
        args.made_steps = None  # made before an earlier hook's edits, perhaps
        withheld = args.finish_reason == "content-filter"  # then the step is not among them
        content = args.steps[-1].content if args.steps and not withheld else []
        if asked is None or asked.model is None or runs_tools(content):
            return
        args.state["text"] = last_text(args.message_list)
        metadata: dict[str, Any] | None = None
        try:
            found = await self._structured(args, asked, _material(content))
        except StructuredOutputError as error:
            if asked.strategy == "strict" or args.retry_count < args.retry_budget:
                ask_again(args, error, _AGAIN)
            args.state.pop(_MISFIT, None)
            found, metadata = in_its_place(asked, error)
        if found is not None:
            await deliver(args, found, metadata)

    async def read_again(self, args: HookArgs[Any], asked: Asked) -> Validated:
        return await self._structured(args, asked, last_text(args.message_list))

    async def _structured(self, args: Any, asked: Asked, material: str) -> Validated:
        """Ask the second model; partial objects are delivered as they come (B-381)."""
        if not material.strip():
            raise StructuredOutputError("the answer has no text")
        model = asked.structuring(self._models.get)
        assert model is not None
        reader = asked.reader()
        await _listen(args, model, _request(args, asked, material), reader)
        try:
            found = await screened(args, asked, Validated(*asked.read(reader.text())))
        except StructuredOutputError as error:
            args.state[_MISFIT] = str(error)
            raise
        args.state.pop(_MISFIT, None)
        return found


class Structurer(StructuredOutputProcessor):
    """The one that is put in line: what it is asked for stands in its state, with its model."""

    def __init__(self) -> None:
        self.asked = None
        self._models = ResolvedModels(None)


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


async def _listen(
    args: Any, model: LanguageModel, request: ModelRequest, reader: JSONReader
) -> None:
    text: ScreenedText = args.writer.screen().text()

    async def show(passed: AsyncGenerator[str, None]) -> None:
        async with aclosing(passed) as pieces:
            async for piece in pieces:
                if reader.feed(piece) and text.is_sure:
                    await args.writer.object(reader.value())

    async with aclosing(consult(model, request)) as reads:
        async for read in reads:
            for chunk in read:
                if chunk.type == "text-delta":
                    await show(text.feed(clean_text(chunk.payload.text)))
                elif chunk.type == "finish":
                    args.count_usage(cast("Usage", chunk.payload.output.usage), model=model)
    await show(text.end())


def _request(args: Any, asked: Asked, material: str) -> ModelRequest:
    task = asked.instructions or _TASK
    if asked.injects:
        task = f"{task}\n\n{asked.told()}"
    if _MISFIT in args.state:
        task = f"{task}\n\nWhat you wrote before was rejected: {args.state[_MISFIT]}."
    settings: Any = dict(asked.options.get("model_settings") or {})
    return ModelRequest(
        prompt=[
            {"role": "system", "content": task},
            {"role": "user", "content": [{"type": "text", "text": material}]},
        ],
        settings=settings,
        max_retries=settings.get("max_retries", args.max_retries),
        provider_options=asked.options.get("provider_options"),
        response_format=asked.response_format(),
        abort_signal=args.abort_signal,
        run_id=args.run_id,
    )
