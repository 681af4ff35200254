"""Compiled pipelines, kept by the processors in them: most calls of an agent have the same ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .pipeline import Pipeline

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CompiledPipelines", "compile_lists"]

MOST = 8


def compile_lists(
    inputs: Sequence[Any], outputs: Sequence[Any], errors: Sequence[Any], *, own_errors: bool
) -> Pipeline:
    """The pipeline of these lists; `own_errors`: whether some of the `errors` are the user's."""
    made = Pipeline(inputs, outputs, errors)
    made.has_error_processors = own_errors  # the automatic ones do not count
    return made


class CompiledPipelines:
    """The pipelines of an agent whose extensions add the same processors to many runs.

    They are known by the objects themselves, which are held as long as their pipeline: the last few
    are kept.
    """

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[tuple[int, ...], tuple[Pipeline, tuple[Any, ...]]] = {}

    def of(
        self,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        errors: Sequence[Any],
        *,
        own_errors: bool,
    ) -> Pipeline:
        """As `compile_lists`, made once."""
        held = (*inputs, *outputs, *errors)
        key = (len(inputs), len(outputs), own_errors, *map(id, held))
        known = self._kept.get(key)
        if known is None:
            while len(self._kept) >= MOST:
                self._kept.pop(next(iter(self._kept)), None)
            made = compile_lists(inputs, outputs, errors, own_errors=own_errors)
            known = self._kept[key] = made, held
        return known[0]
