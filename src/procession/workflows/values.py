"""Values of processor steps: made of a hook's arguments, copied for branches, put back (W-061)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from ..chunks import Chunk
from ..errors import InputError
from ..message_list import MessageList, isolated
from ..messages import Message
from ..policy.marks import copied
from ..policy.streaming import chunk_copy
from .phases import OUTPUT_RESULT, OUTPUT_STREAM, Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..hook_args import HookArgs

__all__ = [
    "StepValue",
    "as_part",
    "chunks_in",
    "forked",
    "set_args",
    "settled",
    "shown_of",
    "value_of",
    "with_list",
]

_COPIED = frozenset(
    "active_tools provider_options model_settings tool_calls provider_metadata args".split()
)
"""What a hook could change in place, and a sibling would see."""
_LISTED = frozenset({"steps", "tools", "usage"})
_ITS_OWN = frozenset({"state", "run_id", "stream_parts"})
"""What is the processor's own, or the engine's, whatever the value says."""


class StepValue(dict[str, Any]):
    """The value of a processor step. In the phase `outputStream`, whose chunks are many, the list
    of messages is copied when it is asked for.
    """

    make_list: Callable[[], MessageList] | None = None
    low: int = 0
    at: int = 0
    exact: bool = True
    """In a stream: from where to where in it the chunk stood, and whether it is that very text."""
    need: int = 0
    """Up to where all siblings must have let the stream pass before the chunk may leave."""

    def __missing__(self, key: str) -> Any:
        if key == "message_list" and self.make_list is not None:
            made = self[key] = self.make_list()
            return made
        raise KeyError(key)

    @property
    def known_list(self) -> MessageList | None:
        """The list of messages, if anybody has asked for it."""
        found: Any = super().get("message_list")
        return found

    def copy_place(self, other: StepValue) -> None:
        """Stand where another value stands."""
        self.make_list = other.make_list
        self.low, self.at, self.exact, self.need = other.low, other.at, other.exact, other.need

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or `default`."""
        try:
            return self[key]
        except KeyError:
            return default


def shown_of(phase: Phase, messages: MessageList) -> tuple[Sequence[Message], Sequence[Any]]:
    """What a hook of this phase is shown of a list (R-158)."""
    shown, system = messages.shown()
    return (messages.response_messages() if phase.name == OUTPUT_RESULT else shown), system


def value_of(phase: Phase, args: HookArgs[Any], messages: MessageList | None) -> StepValue:
    """The value that stands for a hook's arguments."""
    value = StepValue(phase=phase.name)
    for name in phase.fields:
        value[name] = getattr(args, name)
    return value if messages is None else with_list(phase, value, messages)


def with_list(phase: Phase, value: StepValue, messages: MessageList) -> StepValue:
    """The value with this list, and the messages in it."""
    value["message_list"] = messages
    if phase.messages:
        shown, system = shown_of(phase, messages)
        value["messages"], value["system_messages"] = sorted(shown, key=_time), list(system)
    return value


def chunks_in(value: Any) -> list[Any]:
    """The chunks that a value of the phase `outputStream` holds: one, several, or none."""
    part: Any = cast("Mapping[str, Any]", value).get("part") if isinstance(value, Mapping) else None
    if isinstance(part, list):
        return cast("list[Any]", part)
    return [] if part is None else [part]


def as_part(chunks: list[Any]) -> Any:
    """What `part` is for these chunks."""
    return chunks[0] if len(chunks) == 1 else chunks or None


def _time(message: Message) -> Any:
    return message.created_at


def set_args(phase: Phase, args: Any, value: Mapping[str, Any]) -> None:
    """Have arguments say what the value says."""
    for name in phase.fields:
        if name in value and name not in _ITS_OWN:
            setattr(args, name, value[name])


def forked(phase: Phase, value: Mapping[str, Any], lists: Callable[[], MessageList]) -> StepValue:
    """A copy that shares nothing that hooks change; `lists` gives the list to fall back to.

    Messages that somebody has put into the value by hand take the place of those of its list.
    """
    made = StepValue(value)
    if phase.name == OUTPUT_STREAM:
        return _forked_chunk(made, lists)
    for name, held in made.items():
        if name in _COPIED:
            made[name] = copied(held)
        elif name in _LISTED and isinstance(held, dict | list):
            made[name] = cast("Any", held).copy()
    live = made.known_list
    return with_list(phase, made, settled(phase, value, live if live is not None else lists()))


def _forked_chunk(made: StepValue, lists: Callable[[], MessageList]) -> StepValue:
    part, live = made["part"], made.known_list
    if isinstance(part, Chunk):
        made["part"] = chunk_copy(part)
    if live is None:
        made.make_list = lambda: lists().twin()
    else:
        made["message_list"] = live.twin()
    return made


def settled(phase: Phase, value: Mapping[str, Any], messages: MessageList) -> MessageList:
    """A copy of a value's list that holds the messages, and system messages, of the value."""
    twin = messages.twin()
    given, system = value.get("messages"), value.get("system_messages")
    shown, told = shown_of(phase, messages)
    if given is not None and not _same(given, sorted(shown, key=_time)):
        source = "input" if phase.name.startswith("input") else "response"
        before, _ = shown_of(phase, twin)
        twin.reconcile(before, [_copy(entry) for entry in _list(given, "messages")], source)
    if system is not None and list(system) != list(told):
        twin.replace_system(_list(system, "system_messages"))
    return twin


def _same(given: Any, shown: Sequence[Message]) -> bool:
    entries = _list(given, "messages")
    return len(entries) == len(shown) and all(map(_is, entries, shown))


def _is(one: Any, other: Any) -> bool:
    return one is other


def _copy(entry: Any) -> Any:
    return isolated(entry) if isinstance(entry, Message) else entry


def _list(given: Any, name: str) -> list[Any]:
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        kind = type(cast("Any", given)).__name__
        raise InputError(f"{name!r} in a step's value must be a list, not {kind}")
    return [*cast("Sequence[Any]", given)]
