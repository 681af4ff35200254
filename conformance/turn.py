"""One run of one hook, as the operations see it."""

from dataclasses import dataclass, field
from typing import Any

from procession.messages import Message

from .world import World


@dataclass
class Turn:
    """What the operations of a hook share while they run.

    `hook` is the scenario's name of it, `args` the library's argument object, `nth` counts the runs
    of this hook on its processor from 1. `part` is the chunk as the operations left it so far.
    """

    world: World
    processor: str
    hook: str
    args: Any
    nth: int
    part: Any = field(init=False)

    def __post_init__(self) -> None:
        self.part = self.arg("part")

    def arg(self, name: str) -> Any:
        """An argument, `None` where this hook does not have it."""
        return getattr(self.args, name, None)

    @property
    def messages(self) -> list[Message]:
        """The list the hook was given, which `push_message` may have made longer."""
        return self.args.messages

    @property
    def state(self) -> dict[str, Any]:
        """The processor's state; empty where there is none."""
        return self.args.state if self.args.state is not None else {}

    @property
    def present(self) -> list[Message]:
        """Every message there is, in the list of the run or only in the one given."""
        whole = self.arg("message_list")
        return [*(whole.get.all.db() if whole is not None else ()), *self.messages]

    @property
    def part_type(self) -> str | None:
        """The type of the current chunk."""
        return None if self.part is None else self.part.type

    @property
    def part_text(self) -> str | None:
        """The text of the current chunk, if it has one."""
        return None if self.part is None else getattr(self.part.payload, "text", None)
