"""How many tokens of text a run has answered, chunk by chunk, and where a text reaches a limit."""

from __future__ import annotations

from copy import copy
from math import ceil
from typing import TYPE_CHECKING, Any

from ..message_text import with_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...chunks import Chunk
    from ...messages import Message
    from .token_counting import Tokens

__all__ = ["AnswerLimit", "OutputTokens", "longest_prefix"]

_TAIL = 48
"""Characters that a piece of text is counted together with: tokens reach across its beginning."""


class OutputTokens:
    """The text of a run's answer against a limit.

    Pieces are counted when they could reach the limit, not before: each byte is only so many tokens
    at most. So a piece costs next to nothing, and all of them together a pass over the text or two.
    """

    __slots__ = (
        "_attempt",
        "_current",
        "_earlier",
        "_limit",
        "_pending",
        "_pending_most",
        "_reached_earlier",
        "_tail",
        "_tokens",
        "block",
        "reached",
    )

    def __init__(self, tokens: Tokens, limit: int) -> None:
        self._tokens, self._limit = tokens, limit
        self._earlier = self._current = self._pending_most = 0.0
        self._pending: list[str] = []
        self._tail = ""
        self._attempt = 0
        self._reached_earlier = self.reached = False
        """Whether something has been withheld."""
        self.block: str | None = None
        """The block that the last piece was of."""

    def begin(self, attempt: int) -> None:
        """A step begins, or is tried again: then what was said before in it does not count."""
        if attempt != self._attempt:
            self._attempt = attempt
            self.reached = self._reached_earlier
        else:
            self._settle()
            self._earlier += self._current
            self._reached_earlier = self.reached
        self._current = self._pending_most = 0.0
        self._pending.clear()
        self._tail, self.block = "", None

    def takes(self, text: str) -> bool:
        """Whether a piece fits; one that does counts from now on."""
        most = self.most(text)
        if self._known() + most <= self._limit:
            self._pending.append(text)
            self._pending_most += most
            return True
        self._settle()
        tokens = self._counted(text)
        if self._earlier + self._current + tokens > self._limit:
            return False
        self._add(text, tokens)
        return True

    def total(self, text: str) -> float:
        """The tokens of the answer with `text` behind what it has."""
        self._settle()
        return self._earlier + self._current + self._counted(text)

    def has_room_for(self, value: object) -> bool:
        """Whether an object that says what this step has said, or is to say, fits."""
        if self._pending or self._current:
            if self._known() <= self._limit:
                return True
        return self._earlier + self._tokens.value(value) <= self._limit

    def most(self, text: str) -> float:
        """More tokens than this `text` cannot have."""
        length = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
        return length * self._tokens.most_per_byte

    def _known(self) -> float:
        return self._earlier + self._current + self._pending_most

    def _settle(self) -> None:
        if self._pending:
            text = "".join(self._pending)
            self._pending.clear()
            self._pending_most = 0.0
            self._add(text, self._counted(text))

    def _counted(self, text: str) -> float:
        count = self._tokens.said
        if not self._tail:
            return count(text)
        return max(0.0, count(self._tail + text) - count(self._tail))

    def _add(self, text: str, tokens: float) -> None:
        self._current += tokens
        self._tail = (self._tail + text)[-_TAIL:]


def longest_prefix(text: str, fits: Callable[[str], bool]) -> str:
    """The longest beginning of `text` that fits; the longer, the less it may fit."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(text[:middle]):
            low = middle
        else:
            high = middle - 1
    return text[:low]


class AnswerLimit:
    """What of a run's answer is let through, piece by piece or as a whole (B-258 to B-261)."""

    def __init__(self, tokens: Tokens, limit: int, *, by_part: bool) -> None:
        self._tokens, self._limit, self._by_part = tokens, limit, by_part
        self._answer = OutputTokens(tokens, limit)
        self.is_told = False
        """Whether it has been told that something is withheld."""
        self.beginning = ""
        """What fits of the piece that was refused last."""

    def begin(self, attempt: int) -> None:
        """A step begins, or is tried again."""
        self._answer.begin(attempt)

    def refuses(self, part: Chunk) -> int:
        """0 when a chunk may pass, else how many tokens there would be with it.

        Of a block that comes in one piece, as it does without streaming, `beginning` fits.
        """
        self.beginning = ""
        answer = self._answer
        if answer.reached:
            return 1  # it was told already how many there were
        if part.type == "object":
            if answer.has_room_for(part.object):
                return 0
            answer.reached = not self._by_part
            return ceil(self._tokens.value(part.object))
        payload = part.payload
        text, begins = payload.text, answer.block != payload.id
        answer.block = payload.id
        if self._fits(text):
            return 0
        tokens = self._size(text)
        if begins:
            self.beginning = self._longest(text)
        answer.reached = not self._by_part
        return tokens

    def shortened(self, messages: Sequence[Message]) -> tuple[list[Message], int]:
        """The messages of an answer within the limit, and how many tokens it had: 0 if it fits."""
        most = 0

        def shorten(text: str) -> str:
            nonlocal most
            if self._fits(text):
                return text
            most = max(most, self._size(text))
            beginning = "" if self._answer.reached else self._longest(text)
            self._answer.reached = not self._by_part
            return beginning

        return [_shortened(message, shorten) for message in messages], most

    def _fits(self, text: str) -> bool:
        if not self._by_part:
            return not self._answer.reached and self._answer.takes(text)
        return self._answer.most(text) <= self._limit or self._tokens.said(text) <= self._limit

    def _size(self, text: str) -> int:
        return ceil(self._tokens.said(text) if self._by_part else self._answer.total(text))

    def _longest(self, text: str) -> str:
        if self._by_part:
            return longest_prefix(text, lambda part: self._tokens.said(part) <= self._limit)
        return longest_prefix(text, lambda part: self._answer.total(part) <= self._limit)


def _shortened(message: Message, shorten: Callable[[str], str]) -> Message:
    """A message with its texts made shorter, one after the other; a part without text goes."""
    texts = [part.text for part in message.content.parts if part.type == "text"]
    if not texts:
        return with_texts(message, shorten)
    made = [shorten(text) for text in texts]
    if made == texts:
        return message
    kept = iter(made)
    copied = copy(message)
    content = copied.content = copy(message.content)
    content.parts = []
    for part in message.content.parts:
        if part.type == "text":
            edited: Any = copy(part)
            edited.text = next(kept)
            if edited.text:
                content.parts.append(edited)
        else:
            content.parts.append(part)
    if content.content is not None:
        content.content = "".join(made)
    return copied
