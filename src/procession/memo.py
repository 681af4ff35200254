"""What the library remembers on a message: what it was turned into, or that it came before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .conversation.prompt_run import PromptRun

__all__ = ["REFUSED", "SEEN", "UNSEEN", "PromptMemo"]


class PromptMemo(list[Any]):
    """What a message was turned into. As a list it is always empty.

    `facts` is what counts beside the parts, `parts` a private copy of them, `entries` the prompt
    entries. `bounds` are (index of part, index of entry) where each block of an assistant message
    begins. `whole` tells that `parts` covers the message and not only its beginning. `run` is the
    remembered conversation that the message is part of.

    A memo is never changed once it is on a message, so copies of a message and concurrent runs may
    share it.
    """

    # What is remembered of a message makes it no different from another, and comparing thousands
    # of messages must not call Python: two empty lists are equal in C.

    __slots__ = ("bounds", "entries", "facts", "has_urls", "parts", "run", "whole")

    facts: tuple[Any, ...]
    parts: list[Any]
    entries: list[dict[str, Any]]
    bounds: list[tuple[int, int]]
    whole: bool
    has_urls: bool
    run: PromptRun | None

    def __init__(self, run: PromptRun | None = None) -> None:
        super().__init__()
        self.facts = ()
        self.parts = []
        self.entries = []
        self.bounds = []
        self.whole = False
        self.has_urls = False
        self.run = run

    __hash__ = object.__hash__  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        return f"<memo of {len(self.entries)} entries>"

    def __deepcopy__(self, seen: object) -> PromptMemo:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return PromptMemo, ()


UNSEEN = PromptMemo()
"""On a message of which nothing is remembered."""
SEEN = PromptMemo()
"""On the first of many messages that came once: the next time they are worth remembering."""
REFUSED = PromptMemo()
"""On a message that cannot be remembered, so that nobody tries again."""
