"""What is registered on an app: agents, workflows and processors, and who uses what."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec import Struct

from .errors import ConfigurationError
from .pipeline_rows import HOOK_ORDER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .agent import Agent

__all__ = [
    "Named",
    "RegisteredProcessor",
    "RegisteredWorkflow",
    "Registry",
    "Use",
    "is_workflow",
    "named_values",
]

MOST = 1000
"""So many processors are listed that functions of the request gave to calls: the latest ones."""


class Use(Struct, frozen=True, kw_only=True):
    """Where a processor stands: an agent's id, the list, and the workflow in it, if any."""

    agent_id: str
    where: str
    workflow_id: str | None = None


class RegisteredProcessor(Struct, frozen=True, kw_only=True):
    """A processor, and where it stands (W-156). `hooks` are those that it has, in running order."""

    id: str
    name: str
    description: str | None
    hooks: tuple[str, ...]
    uses: tuple[Use, ...]
    processor: Any

    @property
    def agent_ids(self) -> tuple[str, ...]:
        """The agents that use it, each once."""
        return tuple(dict.fromkeys(use.agent_id for use in self.uses))


class RegisteredWorkflow(Struct, frozen=True, kw_only=True):
    """A workflow, and the agents that have it in a list.

    `type` is `processor` for one that stands in a list, or could, and `default` for others (W-154).
    `key` is the name it was registered under: its id, where an agent brought it.
    """

    key: str
    id: str
    name: str
    description: str | None
    type: Literal["processor", "default"]
    agent_ids: tuple[str, ...]
    workflow: Any


class Named:
    """Objects with an `id`, by a key and by that id; no name stands for two of them."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._by_key: dict[str, Any] = {}
        self._by_id: dict[str, Any] = {}
        self._places: dict[str, str] = {}

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter(list(self._by_key.items()))

    def add(self, key: str, value: Any, place: str) -> None:
        """Take in an object, once; `place` says in errors where it comes from (W-152).

        Raises `ConfigurationError` for a name that stands for another one already.
        """
        for name in (key, value.id):
            for taken in (self._by_id.get(name), self._by_key.get(name)):
                if taken is not None and taken is not value:
                    raise self._collision(name, value, place, taken)
        if value.id not in self._by_id or key != value.id:
            self._by_key[key] = value
        self._by_id[value.id] = value
        self._places.setdefault(value.id, place)

    def _collision(self, name: str, value: Any, place: str, taken: Any) -> ConfigurationError:
        return ConfigurationError(
            f"two {self._kind}s cannot have the name {name!r}: {value.id!r} ({place}) and "
            f"{taken.id!r} ({self._places[taken.id]}), which is another object. Give one of them "
            f"another id, or use one object in both places"
        )

    def put(self, value: Any) -> None:
        """Have an object take the place of the one with its id."""
        for key, known in list(self._by_key.items()):
            if known.id == value.id:
                self._by_key[key] = value
        self._by_key.setdefault(value.id, value)
        self._by_id[value.id] = value

    def find(self, name: str) -> Any:
        """By key, then by id; `None` if there is none (O-130)."""
        return self._by_key.get(name) or self._by_id.get(name)

    def get(self, name: str) -> Any:
        """As `find`; raises `ConfigurationError`, which lists what is there, if there is none."""
        found = self.find(name)
        if found is None:
            raise self.unknown(name, self._by_key)
        return found

    def by_id(self, id: str) -> Any:
        """By id alone; raises as `get`."""
        if id not in self._by_id:
            raise self.unknown(id, self._by_id)
        return self._by_id[id]

    def unknown(self, name: str, known: Iterable[str]) -> ConfigurationError:
        """The error for a name that stands for nothing."""
        listed = ", ".join(map(repr, sorted(known))) or "none at all"
        return ConfigurationError(f"there is no {self._kind} {name!r}; there is {listed}")


class Registry:
    """The agents and workflows by name, the processors by object."""

    def __init__(self) -> None:
        self.agents = Named("agent")
        self.workflows = Named("workflow")
        self._users: dict[str, dict[str, None]] = {}
        self._met_by: dict[str, str] = {}
        self._processors: dict[int, tuple[Any, dict[Use, None]]] = {}
        self._met: dict[tuple[Use, str], Any] = {}

    # ── taking in ──────────────────────────────────────────────────────────────────────────────

    def add_list(self, agent: Agent, where: str, entries: Iterable[Any]) -> None:
        """A list of an agent: its workflows and its processors.

        Raises `ConfigurationError` for a workflow whose id another one has (W-152).
        """
        for entry in entries:
            if is_workflow(entry):
                self.workflows.add(entry.id, entry, f"in {where} of agent {agent.id!r}")
                self._used(entry.id, agent)
            for processor, use in _standing(agent, where, entry):
                self._processors.setdefault(id(processor), (processor, {}))[1][use] = None

    def meet(self, agent: Agent, where: str, entries: Iterable[Any]) -> None:
        """What a function of the request gave to a call, which may be made anew for each.

        The latest of an agent's own takes the place of those before. Raises `ConfigurationError`
        for a workflow whose id another agent's has, or one that was registered.
        """
        for entry in entries:
            if is_workflow(entry):
                self._meet_workflow(agent, entry)
            for processor, use in _standing(agent, where, entry):
                self._met.pop((use, processor.id), None)
                self._met[use, processor.id] = processor
                if len(self._met) > MOST:
                    del self._met[next(iter(self._met))]

    def _meet_workflow(self, agent: Agent, workflow: Any) -> None:
        known = self.workflows.find(workflow.id)
        if known is workflow or self._met_by.get(workflow.id) != agent.id:
            if known is None:
                self._met_by[workflow.id] = agent.id
            self.workflows.add(workflow.id, workflow, f"of a function of agent {agent.id!r}")
        else:
            self.workflows.put(workflow)
        self._used(workflow.id, agent)

    def _used(self, workflow_id: str, agent: Agent) -> None:
        self._users.setdefault(workflow_id, {})[agent.id] = None

    # ── listing ────────────────────────────────────────────────────────────────────────────────

    def list_workflows(self) -> list[RegisteredWorkflow]:
        """All workflows, in the order in which they were registered."""
        return [
            RegisteredWorkflow(
                key=key,
                id=workflow.id,
                name=_text(workflow, "name") or workflow.id,
                description=_text(workflow, "description"),
                type=self._type_of(workflow),
                agent_ids=tuple(self._users.get(workflow.id, ())),
                workflow=workflow,
            )
            for key, workflow in self.workflows
        ]

    def _type_of(self, workflow: Any) -> Literal["processor", "default"]:
        stands = workflow.id in self._users or getattr(workflow, "type", None) == "processor"
        return "processor" if stands else "default"

    def list_processors(self) -> list[RegisteredProcessor]:
        """All processors, each object once, in the order in which they were registered."""
        found = {key: (one, dict(uses)) for key, (one, uses) in self._processors.items()}
        for (use, _), one in self._met.items():
            found.setdefault(id(one), (one, {}))[1][use] = None
        return [_registered(one, uses) for one, uses in found.values()]


def is_workflow(entry: Any) -> bool:
    """Whether it is a workflow: it has a graph of steps, and stands for the processors in it."""
    return inspect.getattr_static(entry, "serialized_step_graph", None) is not None


def hooks_of(processor: Any) -> tuple[str, ...]:
    """The hooks that a processor has, in running order; `run_ended` comes last."""
    return tuple(hook for hook in HOOK_ORDER if callable(getattr(processor, hook, None)))


def _standing(agent: Agent, where: str, entry: Any) -> Iterator[tuple[Any, Use]]:
    """The processors that an entry of a list is, or stands for."""
    inner: Iterable[Any] | None = getattr(entry, "processors", None)
    if not callable(getattr(entry, "stands_for", None)) or inner is None:
        yield entry, Use(agent_id=agent.id, where=where)
        return
    for processor in inner:
        yield processor, Use(agent_id=agent.id, where=where, workflow_id=entry.id)


def _registered(processor: Any, uses: Iterable[Use]) -> RegisteredProcessor:
    return RegisteredProcessor(
        id=processor.id,
        name=_text(processor, "name") or processor.id,
        description=_text(processor, "description"),
        hooks=hooks_of(processor),
        uses=tuple(uses),
        processor=processor,
    )


def _text(thing: Any, name: str) -> str | None:
    value = getattr(thing, name, None)
    return value if isinstance(value, str) and value else None


def named_values(given: Any, kind: str) -> Sequence[tuple[str, Any]]:
    """Pairs of key and object, of a mapping or a list; raises `ConfigurationError` else."""
    if isinstance(given, Mapping):
        return list(cast("Mapping[str, Any]", given).items())
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ConfigurationError(f"App: {kind} must be a list or a mapping of names to them")
    return [(getattr(value, "id", ""), value) for value in cast("Iterable[Any]", given)]
