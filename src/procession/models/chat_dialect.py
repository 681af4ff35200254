"""How a server's chat completions differ from OpenAI's: what it refuses, and calls otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

__all__ = ["OPENAI", "ChatDialect", "dialect_of"]


class ChatDialect(Struct, frozen=True, kw_only=True):
    """One server's way of speaking. The defaults are what most servers understand."""

    limit: str = "max_tokens"
    """The body's name for the limit of the answer's tokens."""
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    """Fields of the body that have another name there."""
    refused: frozenset[str] = frozenset()
    """Fields of the body that the server refuses, or passes over in silence."""
    usage_on_request: bool = True
    """Whether usage is asked for by `stream_options`; else it comes unasked."""
    tool_choices: Mapping[str, str] = field(
        default_factory=lambda: {"auto": "auto", "none": "none", "required": "required"}
    )
    """The words for our choices of a tool. A choice that is not here cannot be made."""
    names_tool: bool = True
    """Whether one tool can be demanded by its name."""
    json_schema: bool = True
    """Whether an answer can be bound to a schema; else the schema is told to the model."""
    thoughts: Literal["reasoning_content", "reasoning", "reasoning_details", "thinking"] | None = (
        None
    )
    """How the server wants to see again what the model thought; `None`: not at all."""
    thoughts_always: bool = False
    """Whether each message of the assistant must have thoughts, be they empty."""
    short_call_ids: bool = False
    """Whether ids of calls are nine letters and digits."""


OPENAI = ChatDialect(limit="max_completion_tokens", refused=frozenset({"top_k"}))
"""OpenAI's own: newer models refuse the old name of the limit."""

_PLAIN = ChatDialect()


def dialect_of(provider: str) -> ChatDialect:
    """The dialect of a provider of whom nothing more is known."""
    return OPENAI if provider == "openai" else _PLAIN
