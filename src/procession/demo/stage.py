"""Where the demo shows itself: lines, columns and live text, on any terminal or none.

Without a terminal, or with NO_COLOR, the same words come as plain text. Everything a model or a
tool said is shown without control characters, so that it cannot play tricks on the terminal.
"""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

__all__ = ["Cell", "LiveText", "Stage", "printable", "quoted"]

Cell = tuple[str, str]
"""A text and its style."""

MARGIN = 2
WIDEST = 100
NARROWEST = 40
_LEAST_LAST = 18
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """`text` without control characters; line ends and tabs stay."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def quoted(text: str) -> str:
    """`text` in quotes, so that spaces at its ends show; line ends are spelled."""
    return f"'{printable(text)}'".replace("\n", "\\n").replace("\t", "\\t") if text else ""


class Stage:
    """Writes to a rich console, and remembers which promises did not hold."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.broken: list[str] = []
        """Claims that turned out false; the demo must not end well with any."""

    @property
    def width(self) -> int:
        """Columns in use: those of the terminal, within reason."""
        return max(NARROWEST, min(self.console.width, WIDEST))

    def blank(self) -> None:
        """An empty line."""
        self.put("\n")

    def heading(self, title: str, mark: str = "") -> None:
        """The title of a scene, under a rule."""
        self.blank()
        self.put(self._rule() * self.width + "\n", "dim")
        self.put(self._wrapped(title, 0) + "\n", "bold")
        if mark:
            self.put(self._wrapped(mark, 0) + "\n", "bold yellow")

    def say(self, text: str, style: str = "") -> None:
        """A paragraph that explains."""
        self.put(self._wrapped(text, MARGIN) + "\n", style)

    def asked(self, question: str) -> None:
        """What the model is asked in this scene."""
        self.columns([("asked", "dim"), (question, "bold")], [7])

    def note(self, text: str) -> None:
        """Something that did not go as the scene needs it, said plainly."""
        self.say(f"Note: {text}", "yellow")

    def checks(self) -> None:
        """What stands above the claims of a scene."""
        self.blank()
        self.say("checked on this run:", "dim")

    def check(self, claim: str, holds: bool) -> None:
        """A claim about the run, and whether it holds."""
        self.columns(
            [("yes" if holds else "NO", "bold green" if holds else "bold red"), (claim, "")], [3]
        )
        if not holds:
            self.broken.append(claim)

    def columns(self, cells: Sequence[Cell], widths: Sequence[int]) -> None:
        """One row; the last cell takes what is left, and wraps under itself."""
        *first, (last, style) = cells
        column = self.start_row(first, widths)
        self.put(self._wrapped(last, column).lstrip() + "\n", style)

    def start_row(self, cells: Sequence[Cell], widths: Sequence[int]) -> int:
        """The first cells of a row, without ending the line; returns the column that is reached.

        A terminal too narrow for another cell gets the rest on the next line.
        """
        self.put(" " * MARGIN)
        for (text, style), width in zip(cells, widths, strict=True):
            self.put(printable(text).ljust(width) + " ", style)
        column = MARGIN + sum(width + 1 for width in widths)
        if self.width - column >= _LEAST_LAST:
            return column
        self.put("\n" + " " * (MARGIN * 2))
        return MARGIN * 2

    def live(self, cells: Sequence[Cell], widths: Sequence[int], style: str = "") -> LiveText:
        """A row whose last cell grows as text arrives; `end` ends the line."""
        return LiveText(self, self.start_row(cells, widths), style)

    def put(self, text: str, style: str = "") -> None:
        """Text as it is, at once."""
        self.console.print(Text(text, style=style), end="", soft_wrap=True)

    def _rule(self) -> str:
        try:
            "─".encode(self.console.encoding)
        except UnicodeEncodeError:
            return "-"
        return "─"

    def _wrapped(self, text: str, indent: int) -> str:
        margin = " " * indent
        lines = textwrap.wrap(
            printable(text),
            self.width,
            initial_indent=margin,
            subsequent_indent=margin,
            break_on_hyphens=False,
        )
        return "\n".join(lines) or margin


class LiveText:
    """Text that grows on its line, and goes on under its own beginning when the line is full."""

    def __init__(self, stage: Stage, column: int, style: str) -> None:
        self._stage = stage
        self._first = self._column = column
        self._style = style
        self._space = False

    def write(self, text: str) -> None:
        """Add `text`; white space of any kind is shown as one space."""
        for part in re.split(r"(\s+)", printable(text)):
            if not part or part.isspace():
                self._space = self._space or bool(part)
                continue
            gap = " " if self._space and self._column > self._first else ""
            if self._column + len(gap) + len(part) > self._stage.width:
                self._stage.put("\n" + " " * self._first)
                self._column, gap = self._first, ""
            self._stage.put(gap + part, self._style)
            self._column += len(gap) + len(part)
            self._space = False

    def end(self, note: str = "") -> None:
        """End the line, with a remark in small type."""
        if note:
            self._style, self._space = "dim", True
            self.write(note)
        self._stage.blank()
