"""The wire formats of the adapters, for tests that hold for each of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import anthropic
import openai

from procession.models.anthropic import AnthropicModel
from procession.models.anthropic_events import AnthropicEvents
from procession.models.chat_events import ChatEvents
from procession.models.google import GoogleModel
from procession.models.google_events import GoogleEvents
from procession.models.openai import OpenAIChatModel
from procession.models.responses import OpenAIResponsesModel
from procession.models.responses_events import ResponsesEvents
from procession.models.sse import EventReader

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx2

    from procession.models.adapter import Decoder, StreamedModel

DATA = Path(__file__).parent.parent / "data"
KEY = "sk-example-0123456789"


class Format(NamedTuple):
    """One adapter: its model, its decoder, its recorded events, and an answer that is cut short."""

    model: Callable[..., StreamedModel]
    decoder: Callable[..., Decoder]
    client: Callable[[httpx2.AsyncClient], Any]
    folder: str
    whole: str
    begun: list[Any]
    keys: dict[str, str] = {}  # noqa: RUF012 - never changed
    """What a model needs besides a client."""

    def recorded(self, name: str) -> bytes:
        """The event text of a data file."""
        return (DATA / self.folder / f"{name}.txt").read_bytes()

    def streams(self) -> list[list[Any]]:
        """The events of each data file, decoded; what is no JSON stays text."""
        names = sorted(path.stem for path in (DATA / self.folder).glob("*.txt"))
        return [list(map(value_of, events_of(self.recorded(name)))) for name in names]


def events_of(text: bytes) -> list[bytes]:
    """The data of the events of a whole text."""
    reader = EventReader()
    return reader.feed(text) + reader.finish()


def value_of(data: bytes) -> Any:
    """An event decoded, or its text."""
    try:
        return json.loads(data)
    except ValueError:
        return data.decode()


def written(events: list[Any]) -> bytes:
    """Events as a server writes them."""
    lines = (event if isinstance(event, str) else json.dumps(event) for event in events)
    return "".join(f"data: {line}\n\n" for line in lines).encode("utf-8", "surrogatepass")


def said(text: str) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": [{"text": text}], "role": "model"}}]}


ITEM = {"item_id": "m", "output_index": 0, "content_index": 0}
BLOCK = {"type": "text", "text": ""}

FORMATS = {
    "chat": Format(
        lambda **options: OpenAIChatModel("example-1", **options),
        lambda **options: ChatEvents("example", **options),
        lambda http: openai.AsyncOpenAI(api_key=KEY, http_client=http),
        "openai_chat",
        "text",
        [{"id": "r", "choices": [{"delta": {"content": "Half"}}]}],
    ),
    "responses": Format(
        lambda **options: OpenAIResponsesModel("example-1", **options),
        lambda **options: ResponsesEvents("example", **options),
        lambda http: openai.AsyncOpenAI(api_key=KEY, http_client=http),
        "openai_responses",
        "text",
        [
            {"type": "response.created", "response": {"id": "r", "status": "in_progress"}},
            {"type": "response.output_text.delta", **ITEM, "delta": "Half"},
        ],
    ),
    "anthropic": Format(
        lambda **options: AnthropicModel("example-1", **options),
        lambda **options: AnthropicEvents("example", **options),
        lambda http: anthropic.AsyncAnthropic(api_key=KEY, http_client=http),
        "anthropic",
        "text",
        [
            {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 1}}},
            {"type": "content_block_start", "index": 0, "content_block": BLOCK},
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": "Half"},
            },
        ],
    ),
    "google": Format(
        lambda **options: GoogleModel("example-1", **options),
        GoogleEvents,
        lambda http: http,
        "google",
        "rich",
        [said("Half")],
        {"api_key": KEY},
    ),
}
