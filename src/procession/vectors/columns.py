"""The values of metadata, by field, so that a filter is asked once for each value, not each row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from ..extras import brought_by
from .filters import ABSENT, AnyOf, Condition, Not

with brought_by("recall", "numpy"):
    import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from .filters import Filter
    from .rows import Mask

__all__ = ["Columns", "ValuesFrom", "single"]

ValuesFrom: TypeAlias = "Callable[[str, int], Sequence[Any]]"
"""The values of a field, of all rows from one on; `ABSENT` for what is no single value."""


class Columns:
    """Columns of the fields that filters have asked for, brought up to date when they are used."""

    def __init__(self) -> None:
        self._columns: dict[str, _Column] = {}

    def mask(self, chosen: Filter, end: int, values_from: ValuesFrom) -> Mask:
        """Which of the rows up to `end` pass a filter."""
        if isinstance(chosen, Condition):
            return self._column(chosen.field, end, values_from).mask(chosen)
        if isinstance(chosen, Not):
            return ~self.mask(chosen.condition, end, values_from)
        masks = [self.mask(each, end, values_from) for each in chosen.filters]
        if isinstance(chosen, AnyOf):
            return np.logical_or.reduce(masks)
        return np.logical_and.reduce(masks) if masks else np.ones(end, np.bool_)

    def move(self, kept: NDArray[np.intp]) -> None:
        """The rows have moved: where each was before."""
        for column in self._columns.values():
            column.move(kept)

    def _column(self, field: str, end: int, values_from: ValuesFrom) -> _Column:
        column = self._columns.setdefault(field, _Column())
        if column.end < end:
            column.add(values_from(field, column.end))
        return column


class _Column:
    """The values of one field: each different one once, and for each row its number."""

    def __init__(self) -> None:
        self._values: list[Any] = []
        self._number_of: dict[Any, int] = {}
        self._numbers: NDArray[np.int32] = np.empty(0, np.int32)

    @property
    def end(self) -> int:
        """How many rows it has."""
        return len(self._numbers)

    def add(self, values: Sequence[Any]) -> None:
        """Values of the rows that follow."""
        numbers = np.fromiter((self._number(value) for value in values), np.int32, len(values))
        self._numbers = np.concatenate((self._numbers, numbers))

    def move(self, kept: NDArray[np.intp]) -> None:
        """Only these rows are left, of those there were when it was last used."""
        self._numbers = self._numbers[kept[kept < self.end]]

    def mask(self, condition: Condition) -> Mask:
        """The rows for whose values it holds."""
        if condition.operator == "=":
            keys = (_key(operand) for operand in condition.operands)
            wanted = [self._number_of[key] for key in keys if key in self._number_of]
            if len(wanted) == 1:
                return self._numbers == wanted[0]
            return np.isin(self._numbers, wanted)
        holds = np.fromiter(map(condition.holds, self._values), np.bool_, len(self._values))
        return holds[self._numbers]

    def _number(self, value: Any) -> int:
        key = _key(value)
        number = self._number_of.get(key)
        if number is None:
            number = self._number_of[key] = len(self._values)
            self._values.append(value)
        return number


def _key(value: Any) -> Any:
    # In Python, True equals 1.
    return (value,) if isinstance(value, bool) else value


def single(value: Any) -> Any:
    """A value out of metadata; `ABSENT` for a list or an object, which filters do not look into."""
    return ABSENT if isinstance(value, list | dict) else value
