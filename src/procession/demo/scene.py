"""What a scene is, and what all scenes share: settings, a question, reading a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ..testing import RecordingObserver, Script
from .overheard import Overheard
from .stage import Stage

if TYPE_CHECKING:
    from ..run import Run

__all__ = ["INSTRUCTIONS", "OPTIONS", "Scene", "Setting", "raise_failure"]

INSTRUCTIONS = "You are a helpful assistant."

OPTIONS: dict[str, Any] = {
    "model_settings": {"temperature": 0.0, "seed": 1, "max_output_tokens": 48},
    # A prompt that is partly remembered is computed in other batches, and floating-point sums
    # then differ a little: without it each scene gives the same answer alone and among the others.
    "provider_options": {"local": {"cache_prompt": False}},
}
"""Options of every run: the same question gets the same answer."""


class Setting(Struct, frozen=True):
    """What a scene is given: where to show itself, the model, and who hears of the spans."""

    stage: Stage
    model: Overheard
    observer: RecordingObserver


class Scene(Struct, frozen=True, kw_only=True):
    """One scene: its name on the command line, its title, and how it is played.

    `script` is what a scripted model answers in it, call by call.
    """

    name: str
    title: str
    play: Callable[[Setting], Awaitable[Any]]
    script: Sequence[Script]


def raise_failure(run: Run) -> None:
    """Raise what a run that has been read failed with, if it failed."""
    if run.error is not None:
        raise run.error
