"""A workflow: steps put together, fixed by `commit()`, then run or put among processors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ..errors import ConfigurationError
from ..keywords import check_keywords
from .graph import Graph, is_number
from .schemas import schema_of
from .steps import Step, step_id

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..host import Host
    from .run import WorkflowRun

__all__ = ["Workflow"]

_OPTIONS = ("validate_inputs", "on_start", "on_finish", "on_error", "should_persist_snapshot")


class Workflow(Graph):
    """Steps in order, side by side, or by condition; made by `create_workflow`.

    It keeps nothing of any run: one may serve many at the same time. Put among the processors of an
    agent, it acts in every hook as a processor does; see `stands_for`.
    """

    __slots__ = (
        "__weakref__",
        "_standing",
        "app",
        "description",
        "metadata",
        "name",
        "options",
        "processor_index",
        "request_context",
        "retries",
        "retry_pause",
        "state",
        "store",
        "validates",
    )

    def __init__(
        self,
        *,
        id: str,
        description: str | None = None,
        input_schema: Any = None,
        output_schema: Any = None,
        state_schema: Any = None,
        request_context_schema: Any = None,
        retry_config: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        store: Any = None,
    ) -> None:
        super().__init__()
        self.id = step_id(id)
        self.name = self.id
        self.description = description
        self.input = schema_of(input_schema)
        self.output = schema_of(output_schema)
        self.state = schema_of(state_schema)
        self.request_context = schema_of(request_context_schema)
        self.retries, self.retry_pause = _retries(id, retry_config)
        self.options = dict(options or {})
        check_keywords(f"workflow {id!r}", self.options, _OPTIONS)
        self.validates: bool = self.options.get("validate_inputs", True) is not False
        self.metadata = dict(metadata or {})
        self.store = store
        """Where runs that are suspended are kept; without one, those of the app's store."""
        self.app: Any = None
        """The application that it is registered on."""
        self.processor_index: int | None = None
        self._standing: Any = None

    def __repr__(self) -> str:
        return f"Workflow({self.id!r}, {len(self.stages)} stages)"

    def cloned(self, id: str) -> Workflow:
        """The same workflow with another id; see `clone_workflow`."""
        made = cast("Workflow", object.__new__(type(self)))
        for name in {*Graph.__slots__, *Workflow.__slots__} - {"__weakref__"}:
            setattr(made, name, getattr(self, name))
        made.id = made.name = step_id(id)
        made.stages, made._given = list(self.stages), dict(self._given)
        made._standing = made.app = None
        return made

    def as_step(self) -> Step:
        """It as a step of another one (W-073)."""
        self.check_committed()
        return Step(
            self.id,
            "workflow",
            None,
            self,
            description=self.description,
            input_schema=self.input,
            output_schema=self.output,
            metadata=self.metadata,
        )

    @property
    def type(self) -> str:
        """`processor` when it takes what processor steps take, else `default` (W-154)."""
        schema: Any = self.input
        return "processor" if hasattr(schema, "phases") else "default"

    def retries_of(self, step: Step) -> tuple[int, float]:
        """How often a step that fails is tried again, and the pause before, in seconds (W-127)."""
        return self.retries if step.retries is None else step.retries, self.retry_pause

    def check_committed(self) -> None:
        """Raise `ConfigurationError` unless it is committed (W-074)."""
        if not self._committed:
            raise ConfigurationError(
                f"workflow {self.id!r} is not committed: end it with .commit() to use it"
            )

    def stands_for(self, hook: str, /) -> Sequence[Any]:
        """The processors that are called in its place among an agent's (W-060).

        Processor steps that follow each other are what they would be in the list itself; all else
        is carried out stage by stage in each call of a hook.
        """
        self.check_committed()
        if self._standing is None:
            from .standing import Standing

            self._standing = Standing(self)
        return self._standing.of(hook)

    def register_app(self, app: Host) -> None:
        """Belong to an app, with the workflows within; suspended runs are kept in its store."""
        self.app = app
        for step in self.steps.values():
            if step.kind == "workflow":
                step.made_of.register_app(app)

    async def create_run(
        self, run_id: str | None = None, resource_id: str | None = None
    ) -> WorkflowRun:
        """A run of its own: `await run.start(input_data=…)` (W-120).

        With the id of a run that is suspended it is that run, in whatever process it began.
        """
        from .run import WorkflowRun

        self.check_committed()
        return await WorkflowRun.create(self, run_id, resource_id)


def _retries(id: str, config: Mapping[str, Any] | None) -> tuple[int, float]:
    given = dict(config or {})
    check_keywords(f"workflow {id!r}, retry_config", given, ("attempts", "delay"))
    attempts, delay = given.get("attempts", 0), given.get("delay", 0)
    if type(attempts) is not int or attempts < 0 or not is_number(delay) or delay < 0:
        raise ConfigurationError(
            f"workflow {id!r}: retry_config takes attempts, a whole number of 0 or more, and "
            f"delay, milliseconds"
        )
    return attempts, delay / 1000
