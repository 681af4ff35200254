"""What a watch is, and what a processor with watches is handed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

__all__ = ["LANES", "LaneKind", "Piece", "Watch"]

LaneKind = Literal["text", "reasoning", "tool-arguments"]

LANES: tuple[LaneKind, ...] = ("text", "reasoning", "tool-arguments")
"""The kinds of lanes: the texts of an answer, its reasoning, the arguments of its tool calls."""


@runtime_checkable
class Watch(Protocol):
    """Something that is looked for in a text that grows. Immutable: shared by runs and lanes."""

    @property
    def look_behind(self) -> int:
        """How many characters before `start` it needs to see: for `\\b`, or for a keyword."""
        ...

    # A watch may also have `calm`, the `match` of a compiled expression, for processors with
    # `only_matches`. It is asked about what is held back and what is new. Its group 1 must be text
    # that leaves, with nothing found in it; its group 2 what waits for more before anything can be
    # said of it. When they reach to the end of the text, nothing else is asked, not even the hook.

    def release(self, text: str, start: int, limit: int) -> int:
        """How much of `text` may leave: the largest index r, `start <= r <= limit`, such that no
        match begins before r and ends behind it.

        That is a match that is complete in `text`, or one that text to come may still complete or
        lengthen. `text[:start]` has left before, `look_behind` characters of it at most. Behind
        `limit` is what another watch holds back; it is there to be looked at.
        """
        ...


class Piece(Struct, frozen=True, gc=False):
    """What has been released of one lane, for one call of a hook (`args.piece`).

    No match of the processor's own watches is cut by the borders of a piece. To look for matches
    that begin in it, with what stands before it in sight:
    `pattern.finditer(piece.before + piece.text, len(piece.before))`.
    """

    text: str
    """The piece: plain text in every lane, also where the chunk's is JSON."""
    before: str
    """What was released before in this lane, as the model wrote it: as many of its last characters
    as the watches want to see."""
    kind: LaneKind
    """`text`, `reasoning` or `tool-arguments`."""
    lane_id: str
    """The id of the block, of tool arguments that of the call; where leaves are handed over, with
    the number of the leaf."""
    is_last: bool
    """Whether the lane ends with this piece. A lane may also end without one, after its last text
    has left."""
    is_repeated: bool = False
    """Whether the hook was shown this leaf of tool arguments before, in pieces, as it came: the
    arguments of a call come once more, complete."""
    passed_by: Sequence[str] = []
    """What has left of this lane without the hook, where it has `only_matches`, in pieces: all of
    it since the lane began. It goes on to grow."""
    of_object: bool = False
    """Whether it is of the text of an object that was asked for: a leaf of its JSON, or the words
    around that."""
