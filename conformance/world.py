"""What lives as long as one scenario: its models, shared processors, caches, the running log."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from .made import MessageMaker

Event = dict[str, Any]


@dataclass
class CallLog:
    """What happened during one call, in order, and what the models were given."""

    events: list[Event] = field(default_factory=list)
    model_calls: list[Event] = field(default_factory=list)


@dataclass
class World:
    """The state of one scenario.

    `log` belongs to the call that is running. `shared` holds the processors that several places
    mean by name, `runs` counts the runs of each hook of each processor object.
    """

    scenario: dict[str, Any]
    log: CallLog = field(default_factory=CallLog)
    make: MessageMaker = field(default_factory=MessageMaker)
    models: dict[str, Any] = field(default_factory=dict)
    shared: dict[str, Any] = field(default_factory=dict)
    caches: dict[str, Any] = field(default_factory=dict)
    runs: Counter[tuple[int, str]] = field(default_factory=Counter)
    store: Any = None
    memory: Any = None

    def event(self, event: str, **values: Any) -> None:
        """Note an event of the running call."""
        self.log.events.append({"event": event, **values})

    def model(self, name: str) -> Any:
        """The scenario's model of that name; another name stands for itself, as a model id."""
        return self.models.get(name, name)
