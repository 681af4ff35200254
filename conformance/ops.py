"""The operations that processors of a scenario are made of."""

import asyncio
import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from .conditions import holds
from .fields import recorded
from .made import after
from .names import snake_top
from .returns import default_return, new_part, returned
from .transforms import edit_text, merge_metadata, selected, transformed
from .turn import Turn

Op = Mapping[str, Any]


async def play(ops: Sequence[Op], turn: Turn) -> Any:
    """Run the operations in order; what the hook returns.

    Whatever an operation raises, tripwires above all, is the library's to see.
    """
    for op in ops:
        if not holds(op.get("when"), turn):
            continue
        if op["op"] == "return":
            return returned(op["value"], turn)
        done = _OPS[op["op"]](op, turn)
        if done is not None:
            await done
    return default_return(turn)


def _record(op: Op, turn: Turn) -> None:
    names: Sequence[str] = op.get("fields") or ()
    values = {"fields": {name: recorded(name, turn) for name in names}} if names else {}
    turn.world.event("hook", hook=turn.hook, processor=turn.processor, **values)


def _note(op: Op, turn: Turn) -> None:
    turn.world.event("note", processor=turn.processor, text=op["text"])


def _set_state(op: Op, turn: Turn) -> None:
    turn.args.state[op["key"]] = copy.deepcopy(op.get("value"))


def _inc_state(op: Op, turn: Turn) -> None:
    turn.args.state[op["key"]] = turn.args.state.get(op["key"], 0) + op.get("by", 1)


def _append_state(op: Op, turn: Turn) -> None:
    value = _SOURCES[op["from"]](turn) if "from" in op else op.get("value")
    turn.args.state.setdefault(op["key"], []).append(copy.deepcopy(value))


def _transform_text(op: Op, turn: Turn) -> None:
    whole = op.get("source") == "list.all"
    messages = turn.args.message_list.get.all.db() if whole else turn.messages
    edit_text(selected(messages, op.get("select")), op["transform"])


def _retype_parts(op: Op, turn: Turn) -> None:
    for message in selected(turn.messages, op.get("select")):
        for part in message.content.parts:
            if part.type == op["from"]:
                part.type = op["to"]


def _set_metadata(op: Op, turn: Turn) -> None:
    merge_metadata(selected(turn.messages, op.get("select")), op["metadata"])


def _made(op: Op, turn: Turn) -> Any:
    made = {"role": "user", **{key: op[key] for key in _MADE_KEYS if key in op}}
    return turn.world.make(made, after(turn.present))


def _push_message(op: Op, turn: Turn) -> None:
    turn.messages.append(_made(op, turn))


def _add_message(op: Op, turn: Turn) -> None:
    turn.args.message_list.add(_made(op, turn), op.get("source", "input"))


def _add_system(op: Op, turn: Turn) -> None:
    turn.args.message_list.add_system(op["text"], op.get("tag"))


def _remove_messages(op: Op, turn: Turn) -> None:
    whole = turn.args.message_list
    chosen = selected(whole.get.all.db(), op.get("select"))
    whole.remove_by_ids([message.id for message in chosen])


def _update_tool_invocation(op: Op, turn: Turn) -> None:
    args = turn.args
    result = {**args.result, **op["set"]} if "set" in op else op.get("result")
    invocation = {
        "state": "result",
        "toolCallId": args.tool_call_id,
        "toolName": args.tool_name,
        "args": args.args,
        "result": copy.deepcopy(result),
    }
    args.message_list.update_tool_invocation(
        {"type": "tool-invocation", "toolInvocation": invocation}
    )


def _mutate_part(op: Op, turn: Turn) -> None:
    text = turn.part_text
    if isinstance(text, str):
        turn.part.payload["text"] = transformed(text, op["transform"])


def _replace_part(op: Op, turn: Turn) -> None:
    turn.part = new_part(op["part"], turn)


async def _writer_custom(op: Op, turn: Turn) -> None:
    if turn.args.writer is None:
        turn.world.event("note", processor=turn.processor, text="no writer")
    else:
        await turn.args.writer.custom(copy.deepcopy(op["chunk"]))


async def _send_signal(op: Op, turn: Turn) -> None:
    if turn.args.send_signal is None:
        turn.world.event("note", processor=turn.processor, text="no sendSignal")
    else:
        await turn.args.send_signal(snake_top(copy.deepcopy(op["signal"])))


def _abort(op: Op, turn: Turn) -> None:
    given = {key: copy.deepcopy(op[key]) for key in ("retry", "metadata") if key in op}
    turn.args.abort(op.get("reason"), **given)


def _throw(op: Op, turn: Turn) -> None:
    raise RuntimeError(op["message"])


async def _sleep(op: Op, turn: Turn) -> None:
    await asyncio.sleep(op["ms"] / 1000)


_MADE_KEYS = ("role", "text", "parts", "id", "metadata")

_SOURCES: dict[str, Callable[[Turn], Any]] = {
    "hook": lambda turn: turn.hook,
    "partType": lambda turn: turn.part_type,
    "partText": lambda turn: turn.part_text,
    "partData": lambda turn: None if turn.part is None else turn.part.get("data"),
}

_OPS: dict[str, Callable[[Op, Turn], Awaitable[None] | None]] = {
    "record": _record,
    "note": _note,
    "set_state": _set_state,
    "inc_state": _inc_state,
    "append_state": _append_state,
    "transform_text": _transform_text,
    "retype_parts": _retype_parts,
    "set_metadata": _set_metadata,
    "push_message": _push_message,
    "add_message": _add_message,
    "add_system": _add_system,
    "remove_messages": _remove_messages,
    "update_tool_invocation": _update_tool_invocation,
    "mutate_part": _mutate_part,
    "replace_part": _replace_part,
    "writer_custom": _writer_custom,
    "send_signal": _send_signal,
    "abort": _abort,
    "throw": _throw,
    "sleep": _sleep,
}
