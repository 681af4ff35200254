"""What a hook may have changed by half when it fails, kept to be put back (`allow`, `degrade`).

Put back are the arguments, the messages with all they hold, system messages, stored changes and
the chunk. Not put back, because it has left or is not ours: what was written or sent, the
processor's own `state`, the request context, tokens spent, whatever was done outside of the run.

The messages are only looked at when the hook asks for them: most never do, and a history is long.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, cast

from ..messages import DataPart
from .marks import Mark

if TYPE_CHECKING:
    from ..hook_args import HookArgs
    from ..message_list import MessageList, SavedList
    from ..messages import Message

__all__ = ["KeptArguments", "KeptMessages", "put_data", "watch"]

_NOT_OURS = frozenset({"state", "shown", "listed", "system_listed", "part", "prompt", "show"})
_SHALLOW = frozenset({"steps", "made_steps", "tools"})
"""Lists and dicts whose entries are not a hook's to change, or are too many to look at."""
_KEEPER = "keeper"


class KeptMessages:
    """The messages of a run as they were before a hook asked for them, if it has."""

    __slots__ = ("_marks", "_messages", "_saved")

    def __init__(self, messages: MessageList) -> None:
        self._messages = messages
        self._saved: SavedList | None = None
        self._marks: Mark | None = None

    def look(self) -> MessageList:
        """The live list, which may be changed from now on."""
        if self._saved is None:
            self._saved = self._messages.save()
            self._marks = Mark(self._saved.messages)
        return self._messages

    def forget(self, args: Any) -> None:
        """A call of a hook is over: what it has done to the messages stays done."""
        if self._saved is not None:
            self._saved = self._marks = None
            args.__dict__.pop("message_list", None)  # to be asked for anew

    def restore(self, running_id: str) -> None:
        """Undo all that was done; data that was written and signals that were sent stay."""
        saved, marks, messages = self._saved, self._marks, self._messages
        if saved is None or marks is None:
            return
        self._saved = None
        running = messages.find(running_id)
        parts = running.content.parts if running else []
        written = [part for part in parts if isinstance(part, DataPart)]
        messages.put_back(saved, _was_sent)
        marks.restore()
        if running is not None and written:
            put_data(messages, running, written)


def _was_sent(message: Message) -> bool:
    return message.role == "signal"


def put_data(messages: MessageList, running: Message, written: list[DataPart]) -> None:
    """Put data parts into the running answer: what has been delivered is stored (R-200)."""
    if messages.find(running.id) is None:
        running.content.parts[:] = []
        messages.adopt_response(running)
    parts = running.content.parts
    for part in written:
        for position, known in enumerate(parts):
            if known is part or _takes_place(part, known):
                parts[position] = part
                break
        else:
            parts.append(part)


def _takes_place(part: DataPart, known: Any) -> bool:
    same = isinstance(known, DataPart) and part.id is not None
    return same and (known.type, known.id) == (part.type, part.id)


class KeptArguments:
    """An argument object as it was before a call, and while the call lasts the one who watches."""

    __slots__ = ("_args", "_kind", "_marks", "_messages", "_step", "_values")

    def __init__(self, args: HookArgs[Any], step: Any) -> None:
        values = args.__dict__
        self._args, self._values, self._kind = args, values.copy(), type(args)
        self._messages = KeptMessages(args.message_list)
        self._marks = Mark()
        for name, value in values.items():
            if name in _SHALLOW:
                if isinstance(value, list | dict):
                    self._marks.add_shallow(value)
            elif name not in _NOT_OURS:
                self._marks.add(value)
        self._step = None if step is None else (step, step.prompt)
        if values.get("message_list") is not None:
            watch(args, self._messages)

    def let_go(self) -> None:
        """The call is over: the arguments are themselves again."""
        values = self._args.__dict__
        values.pop(_KEEPER, None)
        values["message_list"] = self._values.get("message_list")
        self._args.__class__ = self._kind

    def restore(self, running_id: str) -> None:
        """The call has failed: undo what can be undone. After `let_go`."""
        self._messages.restore(running_id)
        self._marks.restore()
        values = self._args.__dict__
        values.clear()
        values.update(self._values)
        if self._step is not None:
            step, step.prompt = self._step


class _Messages:
    """`message_list`, until it is looked at."""

    def __get__(self, args: Any, _owner: Any) -> Any:
        if args is None:
            return self
        values = args.__dict__
        found = values["message_list"] = values[_KEEPER].look()
        return found


def _shown(args: Any) -> Any:
    args.message_list  # noqa: B018  # they are about to be in the hook's hands
    kind = cast("Any", type(args))
    return cast("Any", super(kind, args)).messages


def watch(args: Any, messages: KeptMessages) -> None:
    """From now on `messages` is told when the messages are asked for."""
    values = args.__dict__
    values[_KEEPER] = messages
    values.pop("message_list", None)
    args.__class__ = _watching(cast("Any", type(args)))


@cache
def _watching(kind: type[Any]) -> Any:
    """A class of arguments that notices when messages are asked for."""
    return type(
        kind.__name__,
        (kind,),
        {"message_list": _Messages(), "messages": property(_shown), "__module__": kind.__module__},
    )
