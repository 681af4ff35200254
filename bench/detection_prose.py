"""Ordinary text for measuring speed: hardly anything to find, as in most answers."""

from __future__ import annotations

__all__ = ["CHUNK", "chunks", "prose"]

CHUNK = 4
"""Characters of a chunk: about a token."""

PARAGRAPH = (
    "The committee met on 12 March 2024 to review the proposal, which had been delayed "
    "twice. According to the report, revenue grew by 3.5% in the second quarter, while costs "
    'stayed flat at about $1,200 per unit. "We are not in a hurry," said the director; '
    "nevertheless, the schedule is tight. See chapter 4 (page 17) for details about the "
    "method. Open the settings page, choose the second option and wait until the light turns "
    "green. If it doesn't, write to help@example.com. The well-known algorithm runs in O(n "
    "log n) time and needs very little memory. First, we define what a chunk is: a piece of "
    "text of any length. Then we look at how chunks are joined, and why the order matters. "
    "In practice, most answers have between 200 and 800 words; longer ones are rare. "
)


def prose(size: int) -> str:
    """So many characters of text."""
    return (PARAGRAPH * (size // len(PARAGRAPH) + 1))[:size]


def chunks(text: str) -> list[str]:
    """The text as a model would send it."""
    return [text[at : at + CHUNK] for at in range(0, len(text), CHUNK)]
