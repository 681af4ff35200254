"""The built-in tools of OpenAI Responses: their definitions, and their items in both directions.

A tool becomes one by its provider options: `Tool(name="web", provider_options={"openai": {"type":
"web_search"}})`. What the provider runs itself is a provider-executed call with its result. What it
leaves to its caller (a computer, a shell, custom tools, the approval of an MCP call) is a call like
any other: the tool's `execute` answers it.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from ..tools import parse_tool_input
from .json_values import mapping, mappings, word

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..model import ToolDefinition
    from .responses_wire import Item

__all__ = [
    "answer_item",
    "built_in",
    "call_item",
    "call_parts",
    "hosted_item",
    "hosted_parts",
    "is_hosted",
    "own_options",
    "snake_keys",
    "tool_name",
]


class CallParts(NamedTuple):
    """An item taken apart: a call's arguments, and what else must be sent back with it."""

    args: Any
    kept: Item


class HostedParts(NamedTuple):
    """An item of a tool that the provider has run, taken apart."""

    args: Any
    kept: Item
    result: Item


# The fields that say what was asked for. Every other field of such an item is part of its result.
_ASKED: dict[str, tuple[str, ...]] = {
    "web_search_call": ("action",),
    "file_search_call": ("queries",),
    "code_interpreter_call": ("code", "container_id"),
    "image_generation_call": (),
    "mcp_list_tools": ("server_label",),
    "tool_search_call": ("arguments",),
    "shell_call": ("action",),
    "program": ("code",),
}
_MCP_KEPT = ("name", "server_label", "approval_request_id")

# What the caller answers: the call's arguments, and the type of the item that answers it.
_CLIENTS: dict[str, tuple[tuple[str, ...], str]] = {
    "computer_call": (("action", "actions"), "computer_call_output"),
    "local_shell_call": (("action",), "local_shell_call_output"),
    "shell_call": (("action",), "shell_call_output"),
    "apply_patch_call": (("operation",), "apply_patch_call_output"),
    "custom_tool_call": (("input",), "custom_tool_call_output"),
    "tool_search_call": (("arguments",), "tool_search_output"),
    "mcp_approval_request": (("name", "arguments", "server_label"), "mcp_approval_response"),
}
_NEVER_KEPT = ("type", "id", "call_id", "status")


def is_hosted(item: Item) -> bool:
    """Whether the provider has run, or runs, what this item asks for."""
    kind = word(item.get("type"))
    if kind == "function_call":
        return False
    if kind == "tool_search_call":
        return item.get("execution") != "client"
    if kind == "shell_call":
        return mapping(item.get("environment")).get("type") == "container_reference"
    return kind not in _CLIENTS


# ── definitions ────────────────────────────────────────────────────────────────────────────────


def own_options(provider: str, given: Mapping[str, Any] | None) -> Item:
    """Options under `openai`, and those under the provider's own name on top of them."""
    options: Item = {}
    for key in dict.fromkeys(("openai", provider)):
        options |= mapping((given or {}).get(key))
    return options


def snake_keys(options: Item) -> Item:
    """Options by the API's own names; keys further inside are the user's."""
    return {re.sub(r"[A-Z]", _underscored, name): value for name, value in options.items()}


def _underscored(letter: re.Match[str]) -> str:
    return f"_{letter[0].lower()}"


def built_in(provider: str, tool: ToolDefinition) -> Item | None:
    """The definition of a built-in tool; `None` for a function."""
    options = snake_keys(own_options(provider, tool.provider_options))
    kind = options.get("type")
    if not kind or kind == "function":
        return None
    if kind == "custom":
        described = {"description": tool.description} if tool.description else {}
        return {"name": tool.name, **described, **options}
    return options


def tool_name(provider: str, item: Item, tools: Sequence[ToolDefinition]) -> str:
    """What the caller calls the tool of this item; the API's own name if there is none."""
    kind = word(item.get("type"))
    if kind in ("function_call", "custom_tool_call"):
        return word(item.get("name"))
    family = kind.removesuffix("_output").removesuffix("_call")
    if kind.startswith("mcp_"):
        family = "mcp"
    label = item.get("server_label")
    forms = _built_ins(provider, tools)
    found = next((name for name, form in forms if _fits(form, family, label)), "")
    name = found or word(label) or family
    return f"{name}.{word(item.get('name'))}" if kind == "mcp_call" else name


def _built_ins(provider: str, tools: Iterable[ToolDefinition]) -> Iterable[tuple[str, Item]]:
    for tool in tools:
        form = built_in(provider, tool)
        if form is not None:
            yield tool.name, form


def _fits(form: Item, family: str, label: Any) -> bool:
    same = form.get("server_label") == label if family == "mcp" else True
    return same and word(form.get("type")).startswith(family)


# ── from items ─────────────────────────────────────────────────────────────────────────────────


def call_parts(item: Item) -> CallParts:
    """A call that the caller answers."""
    kind = word(item.get("type"))
    if kind == "function_call":
        args = parse_tool_input(word(item.get("arguments")))
        asked: tuple[str, ...] = ("name", "arguments")
    else:
        asked = _CLIENTS[kind][0]
        args = {name: item[name] for name in asked if item.get(name) is not None}
        if kind == "custom_tool_call":
            asked = (*asked, "name")
        if kind == "mcp_approval_request":
            args["arguments"] = _parsed(item.get("arguments"))
    kept = {
        name: value
        for name, value in item.items()
        if value is not None and name not in asked and name not in _NEVER_KEPT
    }
    return CallParts(args, kept)


def hosted_parts(item: Item) -> HostedParts:
    """A call that the provider has answered itself."""
    kind = word(item.get("type"))
    if kind == "mcp_call":
        asked: tuple[str, ...] = ("arguments",)
        kept_names = _MCP_KEPT
        args = _parsed(item.get("arguments"))
    else:
        asked, kept_names = _ASKED.get(kind, ()), ()
        args = {name: item[name] for name in asked if name in item}
    kept = {name: item[name] for name in kept_names if name in item}
    known = ("type", "id", *asked, *kept_names)
    result = {name: value for name, value in item.items() if name not in known}
    if kind == "image_generation_call":
        result.pop("result", None)  # the image is a file of the answer
    return HostedParts(args, kept, result)


def _parsed(text: Any) -> Any:
    return mapping(parse_tool_input(word(text)))


# ── and back ───────────────────────────────────────────────────────────────────────────────────


def call_item(part: Item, own: Item) -> Item:
    """The item of a call that the caller answers."""
    kind = word(own.get("itemType")) or "function_call"
    item: Item = {"type": kind}
    if own.get("itemId"):
        item["id"] = own["itemId"]
    if kind == "mcp_approval_request":
        args = mapping(part["input"])
        return {**item, **args, "arguments": _json(args.get("arguments", {}))}
    item["call_id"] = part["toolCallId"]
    if kind == "function_call":
        item |= {"name": part["toolName"], "arguments": _json(part["input"])}
    else:
        item |= mapping(part["input"])
        if kind == "custom_tool_call":
            item["name"] = part["toolName"]
        else:
            item["status"] = "completed"
    return item | mapping(own.get("item"))


def answer_item(part: Item, own: Item, output: Any) -> Item:
    """The item that answers a call; `output` is a text or a list of the API's content parts."""
    kind = word(own.get("itemType")) or "function_call"
    if kind == "function_call":
        return {"type": "function_call_output", "call_id": part["toolCallId"], "output": output}
    answer: Item = {"type": _CLIENTS[kind][1] if kind in _CLIENTS else f"{kind}_output"}
    value = mapping(part["output"]).get("value")
    if kind == "mcp_approval_request":
        return answer | {"approval_request_id": part["toolCallId"], **_approval(value)}
    answer["id" if kind == "local_shell_call" else "call_id"] = part["toolCallId"]
    if kind == "computer_call":
        checks = mapping(value).get("acknowledged_safety_checks")
        seen = {"acknowledged_safety_checks": checks} if checks else {}
        return answer | seen | {"output": _screenshot(value, output)}
    if kind == "tool_search_call":
        return answer | {"execution": "client", "status": "completed", "tools": value}
    if kind == "apply_patch_call":
        return answer | ({"status": "completed"} | _status(value, output))
    if kind == "shell_call":
        given = mappings(value) or mappings(mapping(value).get("output"))
        return answer | {"output": given or _shell(output)}
    return answer | {"output": output}


def _approval(value: Any) -> Item:
    if isinstance(value, dict):
        given = cast("Item", value)
        reason = {"reason": given["reason"]} if given.get("reason") else {}
        return {"approve": given.get("approve") is True, **reason}
    return {"approve": value is True}


def _screenshot(value: Any, output: Any) -> Any:
    """The first image of the output, or the address of one."""
    images = [entry["image_url"] for entry in mappings(output) if entry.get("image_url")]
    url = images[0] if images else word(mapping(value).get("image_url")) or word(value)
    return {"type": "computer_screenshot", "image_url": url}


def _status(value: Any, output: Any) -> Item:
    given = mapping(value)
    if given.get("status"):
        return {name: given[name] for name in ("status", "output") if name in given}
    return {"output": output} if isinstance(output, str) else {}


def _shell(output: Any) -> list[Item]:
    text = output if isinstance(output, str) else json.dumps(output)
    return [{"stdout": text, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]


def hosted_item(part: Item, own: Item, output: Any, image: str | None) -> Item | None:
    """The item of a call that the provider has answered; `None` if there is not enough left of it.

    The result goes back as hooks have left it.
    """
    kind, value = word(own.get("itemType")), mapping(output).get("value")
    item: Item = {"type": kind, "id": own.get("itemId")} | mapping(own.get("item"))
    if kind == "mcp_call":
        item["arguments"] = _json(part["input"])
        if isinstance(value, str):  # a hook has put a text in the place of the outcome
            value = {"output": value}
    else:
        item |= mapping(part["input"])
    if not kind or not item["id"] or not isinstance(value, dict):
        return None
    item |= cast("Item", value)
    if kind == "image_generation_call":
        if image is None:
            return None
        item["result"] = image
    return item


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
