"""One recorded exchange, and the adapter that reads answers of its kind."""

import importlib
import json
from pathlib import Path
from typing import Any, NamedTuple, Self

__all__ = ["Exchange", "model_for"]

APIS = {
    "chat": ("procession.models.compatible", "chat_model"),
    "responses": ("procession.models.responses", "OpenAIResponsesModel"),
    "messages": ("procession.models.anthropic", "AnthropicModel"),
    "generate": ("procession.models.google", "GoogleModel"),
}
"""Where the adapter of each wire format is."""


class Exchange(NamedTuple):
    """What a provider answered to one request."""

    name: str
    provider: str
    api: str
    model: str
    streaming: bool
    status: int
    content_type: str
    retry_after: str | None
    body: bytes

    @classmethod
    def load(cls, path: Path) -> Self:
        """The exchange of a file."""
        record = json.loads(path.read_text(encoding="utf-8"))
        asked, answered = record["request"], record["response"]
        body = answered["body"]
        text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
        return cls(
            name=path.stem,
            provider=record["provider"],
            api=record["api"],
            model=(asked.get("body") or {}).get("model") or "example-1",
            streaming="event-stream" in answered["contentType"],
            status=answered["status"],
            content_type=answered["contentType"],
            retry_after=answered.get("retryAfter"),
            body=text.encode(),
        )


def model_for(exchange: Exchange, base_url: str) -> Any:
    """A model of the exchange's provider whose address is `base_url`; `None` without an adapter."""
    module, name = APIS[exchange.api]
    try:
        make = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        return None
    return make(
        exchange.model, provider=exchange.provider, base_url=base_url, api_key="example-key-12345"
    )
