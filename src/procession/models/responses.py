"""OpenAI Responses, spoken by OpenAI itself and by servers compatible with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .openai import OpenAIModel
from .responses_events import ResponsesEvents
from .responses_prompt import responses_body

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..model import ModelRequest
    from .adapter import Decoder

__all__ = ["OpenAIResponsesModel", "responses_model"]


class OpenAIResponsesModel(OpenAIModel):
    """A model behind the Responses API of OpenAI or of a compatible server.

    The provider keeps nothing unless the provider option `store` is true; reasoning comes back
    encrypted and is sent again with the next step. For the rest see `OpenAIOptions`. Provider
    options are the API's own fields in camelCase (`reasoningEffort`, `reasoningSummary`,
    `textVerbosity`, `include`, `previousResponseId`, `serviceTier`, …), and `strictJsonSchema`;
    keys within their values are not renamed. With `previousResponseId`, give only what is new.

    A tool whose provider options have a `type` is a built-in one: `Tool(name="web_search",
    provider_options={"openai": {"type": "web_search"}})`. What the provider leaves to its caller (a
    computer, a shell, custom tools, the approval of an MCP call: `True`, or `{"approve": …}`) the
    tool's own `execute` answers.
    """

    path = "/responses"

    supported_urls: Mapping[str, list[str]] = {
        "image/*": [r"^https?://.*$"],
        "application/pdf": [r"^https?://.*$"],
    }
    """Media types, and patterns of the addresses, that the provider fetches by itself (R-362)."""

    def _body(self, request: ModelRequest) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        return responses_body(self._model_id, self._provider, request)

    def _decoder(self, request: ModelRequest) -> Decoder:
        return ResponsesEvents(
            self._provider, tools=request.tools, include_raw=request.include_raw_chunks
        )


def responses_model(name: str) -> OpenAIResponsesModel:
    """The model of an id `openai-responses/name`."""
    return OpenAIResponsesModel(name)
