"""Holding back what may still become a match, lane by lane, and nothing more.

How a provider cuts its text must not decide what a guard finds (law 3, B-133). A processor
declares what it looks for, as `watches`; the engine then hands its hook pieces in which no match is
ever cut apart.
"""

from __future__ import annotations

from .held import WITHHELD, Held
from .literals import Literals
from .pattern import Pattern
from .piece import LANES, Piece, Watch
from .unit import Unit

__all__ = ["LANES", "WITHHELD", "Held", "Literals", "Pattern", "Piece", "Unit", "Watch"]
