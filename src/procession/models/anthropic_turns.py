"""From a provider prompt to the turns of an Anthropic conversation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from ..errors import InputError
from .anthropic_answers import answer_blocks
from .anthropic_blocks import CALL_FIELDS, text_digest
from .anthropic_files import file_block
from .anthropic_options import own_options, with_cache_control

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Turns"]

Json = dict[str, Any]


class Turns:
    """`system` and `messages` of a request, and warnings about what they cannot express."""

    def __init__(self, provider: str, prompt: Sequence[Json], warnings: list[Json]) -> None:
        self.system: list[Json] = []
        self.messages: list[Json] = []
        self._provider = provider
        self._warnings = warnings
        self._late: list[tuple[int, Json]] = []
        for entry in prompt:
            self._add(entry)
        self._finish()

    def _add(self, entry: Json) -> None:
        role, content = entry["role"], entry["content"]
        own = own_options(self._provider, entry.get("providerOptions"))
        if role == "system":
            # Wherever it stands: most models take instructions in this one place only.
            if content.strip():
                self.system.append(with_cache_control({"type": "text", "text": content}, own))
            return
        if role == "user":
            blocks = self._user(content)
        elif role == "assistant":
            blocks = self._assistant(content)
        elif role == "tool":
            blocks = [self._tool_result(part) for part in content]
        else:
            raise InputError(f"a prompt entry has the unknown role {role!r}")
        if blocks and blocks[-1]["type"] in _MARKED and "cache_control" not in blocks[-1]:
            blocks[-1] = with_cache_control(blocks[-1], own)
        self._say("assistant" if role == "assistant" else "user", blocks)

    def _say(self, role: str, blocks: list[Json]) -> None:
        """Add to the conversation, whose turns change from one side to the other."""
        if not blocks:
            return
        if not self.messages or self.messages[-1]["role"] != role:
            self._put_late(len(self._late))
            self.messages.append({"role": role, "content": []})
        content: list[Json] = self.messages[-1]["content"]
        for block in blocks:
            after = block.pop("resultAfter", 0)
            if after:
                self._late.append((_place_of(block["tool_use_id"], content) + after, block))
            else:
                content.append(block)
            while self._late and self._late[0][0] < len(content):
                self._put_late(1)

    def _put_late(self, count: int) -> None:
        """Results that came some blocks after their calls, as several tools ran side by side."""
        for _, block in self._late[:count]:
            self.messages[-1]["content"].append(block)
        del self._late[:count]

    def _finish(self) -> None:
        self._put_late(len(self._late))
        for message in self.messages:
            if message["role"] == "user":
                # What tools answered comes first, whatever was said in the meantime.
                message["content"].sort(key=_comes_later)
        if self.messages and self.messages[-1]["role"] == "assistant":
            last: Json = self.messages[-1]["content"][-1]
            if last["type"] == "text":  # an answer to be continued must not end in white space
                last["text"] = last["text"].rstrip()

    # ── users and tools ────────────────────────────────────────────────────────────────────────

    def _user(self, parts: Any) -> list[Json]:
        return [block for part in _listed(parts) for block in self._user_part(part)]

    def _user_part(self, part: Json) -> Iterable[Json]:
        kind = part["type"]
        if kind == "text":
            return self._text(part)
        if kind == "file":
            return [file_block(part, self._provider)]
        raise InputError(
            f"a user message has a part of type {kind!r}: only text and file can be sent"
        )

    def _text(self, part: Json) -> list[Json]:
        """A text block; the API refuses those that show nothing."""
        if not part["text"].strip():
            return []
        block: Json = {"type": "text", "text": part["text"]}
        own = self._own(part)
        if own.get("citations"):
            block["citations"] = own["citations"]
        return [with_cache_control(block, own_options(self._provider, part.get("providerOptions")))]

    def _own(self, part: Json) -> Json:
        """What this very provider said of a part; another one's signatures are worth nothing."""
        options: Json = part.get("providerOptions") or {}
        own = options.get(self._provider)
        return cast("Json", own) if isinstance(own, dict) else {}

    def _tool_result(self, part: Json) -> Json:
        content, failed = answer_blocks(part["output"], self._provider)
        block: Json = {"type": "tool_result", "tool_use_id": _id(part["toolCallId"])}
        if content:
            block["content"] = content
        if failed:
            block["is_error"] = True
        if "toolsetName" in self._own(part):
            block["toolset_name"] = self._own(part)["toolsetName"]
        return with_cache_control(block, own_options(self._provider, part.get("providerOptions")))

    # ── the model's own words ──────────────────────────────────────────────────────────────────

    def _assistant(self, parts: Any) -> list[Json]:
        listed = _listed(parts)
        told = {
            part["toolCallId"]
            for part in listed
            if part["type"] == "tool-result" and _is_native(part["output"])
        }
        blocks: list[Json] = []
        for part in listed:
            if part["type"] == "tool-result" or part.get("providerExecuted"):
                if part["toolCallId"] not in told:
                    self._warn("a call of the provider's own tool is not sent: its result is gone")
                    continue
            blocks += self._assistant_part(part)
        return blocks

    def _assistant_part(self, part: Json) -> list[Json]:
        kind = part["type"]
        if kind == "text":
            return self._text(part)
        if kind == "reasoning":
            return self._thinking(part)
        if kind == "tool-call":
            return self._call(part)
        if kind == "tool-result":
            return self._provider_result(part)
        if kind == "file":
            self._warn("files of the assistant are not sent")
        return []

    def _thinking(self, part: Json) -> list[Json]:
        own = self._own(part)
        if own.get("redactedData") is not None:
            return [{"type": "redacted_thinking", "data": own["redactedData"]}]
        if "signature" not in own:
            self._warn("thoughts without a signature of this provider are not sent")
            return []
        if own.get("signedText") not in (None, text_digest(part["text"])):
            self._warn("thoughts that were changed after they had been signed are not sent")
            return []
        return [{"type": "thinking", "thinking": part["text"], "signature": own["signature"]}]

    def _call(self, part: Json) -> list[Json]:
        own = self._own(part)
        kind = "tool_use"
        if part.get("providerExecuted"):
            kind = _executed_as(part["toolCallId"], own)
            if not kind:
                return []  # another provider's tool
        given = part["input"]
        block: Json = {
            "type": kind,
            "id": _id(part["toolCallId"]),
            "name": part["toolName"],
            "input": given
            if isinstance(given, dict)
            else {}
            if given is None
            else {"input": given},
        }
        for ours, theirs in CALL_FIELDS:
            if ours in own:
                block[theirs] = own[ours]
        options = own_options(self._provider, part.get("providerOptions"))
        return [block if kind != "tool_use" else with_cache_control(block, options)]

    def _provider_result(self, part: Json) -> list[Json]:
        """What a tool of this provider answered, as it came; a call goes with its result."""
        own = self._own(part)
        kind = _executed_as(part["toolCallId"], own)
        if not kind:
            return []
        value = part["output"]["value"]
        block: Json = {
            "type": own.get("resultType") or _result_type(kind, part["toolName"]),
            "tool_use_id": _id(part["toolCallId"]),
            "resultAfter": own.get("resultAfter") or 0,
        }
        if kind == "mcp_tool_use" and isinstance(value, dict):
            block |= cast("Json", value)
        else:
            block["content"] = value
        if "resultCaller" in own:
            block["caller"] = own["resultCaller"]
        return [block]

    def _warn(self, message: str) -> None:
        warning = {"type": "other", "message": message}
        if warning not in self._warnings:
            self._warnings.append(warning)


_MARKED = frozenset({"text", "image", "document", "tool_use", "tool_result"})
"""Blocks that can be marked as the end of what is to be cached."""


def _place_of(call_id: str, content: list[Json]) -> int:
    """Where a call is; results follow their calls closely."""
    places = range(len(content) - 1, -1, -1)
    return next((place for place in places if content[place].get("id") == call_id), len(content))


def _comes_later(block: Json) -> bool:
    return block["type"] != "tool_result"


def _listed(parts: Any) -> list[Json]:
    return [{"type": "text", "text": parts}] if isinstance(parts, str) else parts


def _is_native(output: Any) -> bool:
    """Whether a result still has a form in which the provider could have given it."""
    return isinstance(output, dict) and isinstance(cast("Json", output).get("value"), dict | list)


def _id(call_id: str) -> str:
    """Ids of other providers may have characters that are refused here."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", call_id)


def _executed_as(call_id: str, own: Json) -> str:
    """The type of the block with which this API told of a call that it executed itself."""
    if own.get("type"):
        return own["type"]
    starts = (("srvtoolu_", "server_tool_use"), ("mcptoolu_", "mcp_tool_use"))
    return next((kind for start, kind in starts if call_id.startswith(start)), "")


def _result_type(kind: str, tool: str) -> str:
    if kind == "mcp_tool_use":
        return "mcp_tool_result"
    if tool.startswith("tool_search_tool"):
        return "tool_search_tool_result"
    return f"{tool}_tool_result"
