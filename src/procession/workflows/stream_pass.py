"""The stages for one chunk: what comes to nothing ends there, what comes to several goes on so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from .branches import NOT_YET
from .execution import Execution
from .stages import Branch, Parallel
from .values import StepValue, as_part, chunks_in

if TYPE_CHECKING:
    from .stages import Stage
    from .steps import Step

__all__ = ["StreamPass"]


class StreamPass(Execution):
    """A pass of one chunk."""

    __slots__ = ()

    async def stages(self, stages: Sequence[Stage], value: Any) -> Any:
        """One stage after the other, as far as something is left of the chunk."""
        for number, stage in enumerate(stages):
            value = await stage.run(self, value)
            rest = stages[number + 1 :]
            if isinstance(stage, Parallel | Branch):
                if not rest:
                    return value
                rows = _rows(value)
            else:
                rows = _each(value)
            if not rows:
                return _without(value)
            if len(rows) > 1:
                return await self._several(rest, rows)
            value = rows[0]
        return value

    def at_once(self, step: Step, value: Any) -> Any:
        """What plain hooks make of a piece of text."""
        if step.kind != "processor" or not isinstance(value, StepValue):
            return NOT_YET
        output = cast("Any", self.host).ask(step, value, (*self.path, step.id))
        if output is not NOT_YET:
            self.results[step.id] = output
        return output

    async def _several(self, rest: Sequence[Stage], rows: Sequence[Any]) -> Any:
        """The rest of the stages for each of several."""
        found: list[Any] = []
        last: Any = None
        for row in rows:
            last = await self.stages(rest, row)
            if not isinstance(last, Mapping) or "phase" not in last:
                return cast("Any", last)  # said by whoever checks it
            found.extend(chunks_in(last))
        return _with(last, as_part(found))


def _each(value: Any) -> list[Any]:
    """A value for each of the chunks it holds."""
    if not isinstance(value, Mapping) or "part" not in value:
        return [cast("Any", value)]
    chunks = chunks_in(value)
    return [cast("Any", value)] if len(chunks) == 1 else [_with(value, chunk) for chunk in chunks]


def _rows(branches: Mapping[str, Any]) -> list[Any]:
    """What branches have come to, chunk by chunk; the last ones stand side by side."""
    columns = {id: _each(value) for id, value in branches.items()}
    most = max(map(len, columns.values()), default=0)
    if not columns:
        return [branches]
    return [
        {
            id: column[number - most + len(column)]
            if number >= most - len(column)
            else _without(branches[id])
            for id, column in columns.items()
        }
        for number in range(most)
    ]


def _with(value: Any, part: Any) -> StepValue:
    made = StepValue(value)
    made["part"] = part
    if isinstance(value, StepValue):
        made.copy_place(value)
    return made


def _without(value: Any) -> StepValue:
    if "phase" not in value:  # of branches, each of which has come to nothing
        value = next(iter(value.values()))
    return _with(value, None)
