"""What hooks return."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import structs

from procession.chunks import Chunk
from procession.message_list import MessageList

from .made import message_list_of, system_list_of
from .names import snake, snake_top
from .schemas import whole_schema
from .tools import build_tools
from .transforms import known, transformed
from .turn import Turn

_NOTHING = frozenset(("nothing", "drop_undefined", "null", "drop_null"))
_OBJECT = frozenset(("messages", "systemMessages", "step", "prompt", "response", "retry", "part"))
_PART = frozenset(("transform_text", "set_data", "set_payload", "literal"))
_PROMPT = frozenset(("drop_role", "append_system", "append_user", "transform_text"))


def returned(value: Any, turn: Turn) -> Any:
    """The Python value that a `return` means."""
    if isinstance(value, str):
        return _named(value, turn)
    known(value, _OBJECT, "return")
    if "part" in value:
        return new_part(value["part"], turn)
    if "step" in value:
        return _step(value["step"], turn)
    if "messages" in value and "systemMessages" not in value:
        return _messages(value["messages"], turn)
    return {snake(key): _MAKERS[key](entry, turn) for key, entry in value.items()}


def default_return(turn: Turn) -> Any:
    """What a hook returns that says nothing about it."""
    if turn.hook in ("processInput", "processOutputStep", "processOutputResult"):
        return turn.messages
    return turn.part if turn.hook == "processOutputStream" else None


def _named(value: str, turn: Turn) -> Any:
    if value in _NOTHING:
        return None
    named: dict[str, Callable[[], Any]] = {
        "part": lambda: turn.part,
        "messages": lambda: turn.messages,
        "message_list": lambda: turn.args.message_list,
        "other_message_list": MessageList,
        "empty_object": dict,
    }
    return named[value]()


def new_part(value: Mapping[str, Any], turn: Turn) -> Chunk:
    """A chunk made from the current one, or from nothing."""
    known(value, _PART, "part")
    if "literal" in value:
        return Chunk.from_json(copy.deepcopy(dict(value["literal"])))
    part: Chunk = turn.part
    text = getattr(part.payload, "text", None)
    if "transform_text" in value and isinstance(text, str):
        payload = copy.copy(part.payload)
        payload["text"] = transformed(text, value["transform_text"])
        part = structs.replace(part, payload=payload)
    if "set_data" in value:
        part = structs.replace(part, data=copy.deepcopy(value["set_data"]))
    if "set_payload" in value:
        payload = copy.copy(part.payload)
        for key, entry in value["set_payload"].items():
            payload[key] = copy.deepcopy(entry)
        part = structs.replace(part, payload=payload)
    return part if part is not turn.part else structs.replace(part)


def _messages(value: Any, turn: Turn) -> Any:
    return message_list_of(value, turn.messages, turn.present, turn.world.make)


def _system(value: Any, turn: Turn) -> Any:
    return system_list_of(value, turn.args.system_messages)


def _step(value: Mapping[str, Any], turn: Turn) -> dict[str, Any]:
    """What `process_input_step` may return, key by key."""
    return {snake(key): _STEP_MAKERS[key](entry, turn) for key, entry in value.items()}


def _tools(value: Mapping[str, Any], turn: Turn) -> dict[str, Any]:
    tools = {} if "set" in value else dict(turn.args.tools or {})
    tools |= build_tools(turn.world, value.get("set", {}))
    tools |= build_tools(turn.world, value.get("add", {}))
    return {name: tool for name, tool in tools.items() if name not in value.get("remove", ())}


def _list(value: Any, turn: Turn) -> Any:
    return MessageList() if value == "other" else turn.args.message_list


def _copied(value: Any, turn: Turn) -> Any:
    return copy.deepcopy(value)


def _structured(value: Mapping[str, Any], turn: Turn) -> dict[str, Any]:
    return {**value, "schema": whole_schema(value["schema"])}


def _prompt(value: Any, turn: Turn) -> list[dict[str, Any]]:
    prompt: list[dict[str, Any]] = turn.args.prompt
    if value == "same":
        return prompt
    known(value, _PROMPT, "prompt")
    if "drop_role" in value:
        prompt = [entry for entry in prompt if entry["role"] != value["drop_role"]]
    if "append_system" in value:
        prompt = [*prompt, {"role": "system", "content": value["append_system"]}]
    if "append_user" in value:
        content = [{"type": "text", "text": value["append_user"]}]
        prompt = [*prompt, {"role": "user", "content": content}]
    if "transform_text" in value:
        prompt = [_entry(entry, value["transform_text"]) for entry in prompt]
    return prompt


def _entry(entry: dict[str, Any], transform: Mapping[str, Any]) -> dict[str, Any]:
    content = entry["content"]
    if isinstance(content, str):
        return {**entry, "content": transformed(content, transform)}
    return {
        **entry,
        "content": [
            {**part, "text": transformed(part["text"], transform)}
            if part.get("type") == "text"
            else part
            for part in content
        ],
    }


_MAKERS: dict[str, Callable[[Any, Turn], Any]] = {
    "messages": _messages,
    "systemMessages": _system,
    "prompt": _prompt,
    "response": _copied,
    "retry": _copied,
}

_STEP_MAKERS: dict[str, Callable[[Any, Turn], Any]] = {
    "model": lambda name, turn: turn.world.model(name),
    "toolChoice": _copied,
    "activeTools": _copied,
    "tools": _tools,
    "messages": _messages,
    "messageList": _list,
    "systemMessages": _system,
    "providerOptions": _copied,
    "modelSettings": lambda settings, turn: snake_top(copy.deepcopy(settings)),
    "structuredOutput": _structured,
}
