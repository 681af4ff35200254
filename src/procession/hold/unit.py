"""Portions of an answer as a watch: for hooks that judge a sentence, a part or a whole step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from ..errors import OptionError
from ..keywords import TakesOptions
from .sentences import may_end, sentence_ends

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Unit", "UnitName"]

UnitName = Literal["delta", "sentence", "part", "step", "end"]


class Unit(TakesOptions):
    """How much of an answer a hook wants to see at a time (G-A7, G-A8): `Unit("sentence")`.

    - `delta`: what has come, as it comes;
    - `sentence`: one sentence for each call, with the white space behind it. Sentences end with
      the marks of many scripts, or with their line;
    - `part`: a whole block of text or reasoning, a whole leaf of tool arguments;
    - `step`: as `part`, but nothing leaves before the model's stream has ended, so that a verdict
      comes before any text of the step;
    - `end`: as `step`, and `piece.before` is all that was said in this run before, in lanes of the
      same kind, as the model wrote it; attempts that were rejected do not count. (Later steps are
      not waited for: a step that was held back until the run ends could not be acted on.)

    Leaves of tool arguments are whole at their own ends, with `step` and `end` too: what the tool
    is called with cannot wait. Raises `OptionError` for another name.
    """

    look_behind = 0

    def __init__(self, name: UnitName) -> None:
        if name not in get_args(UnitName):
            known = ", ".join(map(repr, get_args(UnitName)))
            raise OptionError(f"Unit: the name must be one of {known}, not {name!r}")
        self.name: UnitName = name

    def __repr__(self) -> str:
        return f"Unit({self.name!r})"

    @property
    def is_whole(self) -> bool:
        """Whether nothing of a lane leaves before it has ended."""
        return self.name in ("part", "step", "end")

    def release(self, text: str, start: int, limit: int) -> int:
        """See `Watch.release`."""
        if self.name == "delta":
            return limit
        if self.name != "sentence":
            return start
        ends = sentence_ends(text, start, limit)
        return ends[-1] if ends else start

    def idle(self, held: str, new: str) -> bool:
        """Whether no sentence can be found to end when `new` comes behind `held`.

        An end is found when a character comes behind a mark and white space.
        """
        return self.name == "sentence" and not may_end(held, new)

    def split(self, text: str, start: int, stop: int) -> Sequence[int]:
        """Where `text[start:stop]`, which may leave, is cut so that each call gets one portion."""
        return sentence_ends(text, start, stop) if self.name == "sentence" else ()
