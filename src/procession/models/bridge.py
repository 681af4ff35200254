"""Any model of pydantic-ai as a model of ours: one line, `model=bridge("bedrock:…")`.

It is for providers without an adapter here. An adapter reads a stream some thirty times as fast,
and keeps more of what its provider says.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from ..errors import ConfigurationError, ProcessionError
from ..extras import brought_by

with brought_by("pydantic-ai", "pydantic_ai"):
    from pydantic_ai import direct, exceptions
    from pydantic_ai.models import Model, ModelRequestParameters, infer_model
    from pydantic_ai.output import OutputObjectDefinition
    from pydantic_ai.tools import ToolDefinition as TheirTool

from .bridge_errors import failure_of, is_cut
from .bridge_events import BridgeEvents
from .bridge_prompt import messages_of
from .bridge_settings import settings_of
from .call_errors import cut_short
from .keeping import PerLoop

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from ..chunks import Chunk
    from ..model import ModelRequest

__all__ = ["BridgedModel", "bridge"]


class BridgedModel:
    """A model of pydantic-ai. `settings` are its `ModelSettings`, for every call.

    Those of one call stand in its provider options under `pydantic-ai`. Clients and keys are those
    of pydantic-ai; failed calls are made again by the engine alone, unless `settings` have a
    `max_retries` for the provider's client. The connections of a client that pydantic-ai made are
    closed with the event loop, or when nobody holds the model any more; `aclose` closes them now.
    """

    def __init__(self, model: Model, *, settings: Mapping[str, Any] | None = None) -> None:
        self.model = model
        """The model that is asked."""
        self._settings = dict(settings or {})
        self._entered: PerLoop[bool] = PerLoop()
        self._entering: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]
        self._entering = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"BridgedModel({self.provider!r}, {self.model_id!r})"

    @property
    def provider(self) -> str:
        """The provider's name, as pydantic-ai has it."""
        return self.model.system

    @property
    def model_id(self) -> str:
        """The provider's own name of the model."""
        return self.model.model_name

    async def aclose(self) -> None:
        """Close the connections that were opened in the running event loop."""
        await self._entered.aclose()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[list[Chunk], None]:
        """Ask the model; one list of chunks for each event that brings any.

        Raises `APICallError` when the provider refuses or cannot be reached, `ModelError` for an
        answer that cannot be used, `ConfigurationError` for what cannot work with this model.
        """
        settings, warnings = settings_of(request, self._settings, self.model)
        asked: dict[str, Any] = {
            "model": self.model,
            "messages": messages_of(request.prompt, self.provider),
            "model_settings": settings,
            "model_request_parameters": _parameters(self.model, request),
            "instrument": False,
        }
        events = BridgeEvents(self.provider, warnings)
        try:
            await self._enter()
            if not request.streaming:
                yield events.whole(await direct.model_request(**asked))
                return
            async with direct.model_request_stream(**asked) as stream:
                async for event in stream:
                    chunks = events.feed(event, stream.get)
                    if chunks:
                        yield chunks
                answer = stream.get()
                if is_cut(stream, answer):
                    raise cut_short(self.provider)
                yield events.end(answer)
        except ProcessionError:
            raise
        except Exception as error:
            raise failure_of(error, self.model) from error

    async def _enter(self) -> None:
        """Let the model make its client for this event loop, once, and close it in the end."""
        if self._entered.get():
            return
        async with self._entering.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            if not self._entered.get():
                await self.model.__aenter__()
                self._entered.put(self, True, partial(self.model.__aexit__, None, None, None))


def _parameters(model: Model, request: ModelRequest) -> ModelRequestParameters:
    tools = [
        TheirTool(
            name=tool.name,
            description=tool.description or None,
            parameters_json_schema=tool.input_schema,
        )
        for tool in request.tools
    ]
    wanted = request.response_format
    if wanted is None or wanted.get("schema") is None:
        return ModelRequestParameters(function_tools=tools)
    form = OutputObjectDefinition(json_schema=wanted["schema"], name=wanted.get("name"))
    native = model.profile.get("supports_json_schema_output", False)
    return ModelRequestParameters(
        function_tools=tools, output_mode="native" if native else "prompted", output_object=form
    )


def bridge(model: Model | str, *, settings: Mapping[str, Any] | None = None) -> BridgedModel:
    """A model of pydantic-ai, given as an object or by its name there, as a model of ours.

    Raises `ConfigurationError` for a name that pydantic-ai does not know, a package that the
    provider needs, or a key that is missing.
    """
    if not isinstance(cast("Any", model), Model | str):
        raise ConfigurationError(
            f"bridge() takes a model of pydantic-ai, or its name there, not {type(model).__name__}"
        )
    try:
        return BridgedModel(infer_model(model), settings=settings)
    except (exceptions.UserError, ImportError, ValueError) as error:
        raise ConfigurationError(f"pydantic-ai model {model!r}: {error}") from error
