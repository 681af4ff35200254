"""Scene: a tool's result holds a secret, which neither the model nor the client ever gets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ..agent import Agent
from ..processor import Processor
from ..testing import answer, tool_call
from ..tools import tool
from .scene import INSTRUCTIONS, OPTIONS, Scene, Setting, raise_failure

if TYPE_CHECKING:
    from ..chunks import Chunk
    from ..processor import ProcessToolResultArgs
    from .stage import LiveText, Stage

__all__ = ["SCENE", "ToolUsed"]

QUESTION = "Which room is Anna Berg in?"
DOOR_CODE = "7741-0932"
WIDTHS = [18]


class ToolUsed(Struct, frozen=True, kw_only=True):
    """What the tool returned, and what was told of it to whom; all as JSON text.

    `sent` is what each call of the model was sent, `delivered` all chunks, `kept` the messages.
    """

    returned: list[dict[str, str]]
    sent: list[str]
    delivered: list[str]
    kept: str
    text: str


class NoDoorCodes(Processor):
    """Takes door codes out of what tools return, before anyone else sees the result."""

    id = "discreet"

    def process_tool_result(self, args: ProcessToolResultArgs) -> None:
        """Put a result without the code in the place of the tool's own."""
        result: dict[str, Any] = args.result
        invocation: dict[str, Any] = {
            "state": "result",
            "toolCallId": args.tool_call_id,
            "toolName": args.tool_name,
            "args": args.args,
            "result": {**result, "door_code": "[removed]"},
        }
        args.message_list.update_tool_invocation(
            {"type": "tool-invocation", "toolInvocation": invocation}
        )


async def play(setting: Setting) -> ToolUsed:
    """Ask for something only the tool knows, and follow the secret."""
    stage, model = setting.stage, setting.model
    stage.say(
        "The tool 'find_room' returns a room and its door code. The processor 'discreet' replaces "
        "the result before the model, the client or the conversation get it."
    )
    stage.asked(QUESTION)
    stage.blank()
    returned: list[dict[str, str]] = []

    @tool
    def find_room(name: str) -> dict[str, str]:
        """Find the room of a person."""
        returned.append({"room": "204", "door_code": DOOR_CODE})
        return returned[-1]

    agent = Agent(
        id="tool",
        model=model,
        instructions=INSTRUCTIONS,
        tools=[find_room],
        output_processors=[NoDoorCodes()],
    )
    delivered: list[str] = []
    before = len(model.calls)
    teller = _Teller(stage, returned)
    async with agent.stream(QUESTION, observer=setting.observer, **OPTIONS) as run:
        async for chunk in run:
            delivered.append(_json(chunk.to_json()))
            teller.tell(chunk)
        raise_failure(run)
        found = ToolUsed(
            returned=returned,
            sent=[call.sent for call in model.calls[before:]],
            delivered=delivered,
            kept=_json(run.message_list.serialize()),
            text=await run.text,
        )
    _judge(stage, found)
    return found


class _Teller:
    """Shows the call, its result before and after, and the answer as it streams."""

    def __init__(self, stage: Stage, returned: list[dict[str, str]]) -> None:
        self._stage = stage
        self._returned = returned
        self._line: LiveText | None = None

    def tell(self, chunk: Chunk) -> None:
        """Show a delivered chunk, if it says something here."""
        stage, payload = self._stage, chunk.payload
        if chunk.type == "tool-call":
            call = f"{payload.tool_name} {_json(payload.args)}"
            stage.columns([("model calls", "cyan"), (call, "")], WIDTHS)
        elif chunk.type == "tool-result":
            for result in self._returned:
                stage.columns([("tool returns", "red"), (_json(result), "")], WIDTHS)
            told = _json(payload.result)
            stage.columns([("everyone else gets", "green"), (told, "")], WIDTHS)
        elif chunk.type == "text-delta":
            self._line = self._line or stage.live([("model answers", "cyan")], WIDTHS, "bold")
            self._line.write(payload.text)
        elif chunk.type == "text-end" and self._line is not None:
            self._line.end()


def _judge(stage: Stage, found: ToolUsed) -> None:
    if not found.returned:
        stage.note("the model did not call the tool this time, so there was nothing to remove.")
        return
    stage.checks()
    stage.check("the tool returned the door code", DOOR_CODE in _json(found.returned))
    stage.check(
        f"the model never got it, in {len(found.sent)} requests",
        not any(DOOR_CODE in sent for sent in found.sent),
    )
    stage.check(
        f"the client never got it, in {len(found.delivered)} chunks",
        not any(DOOR_CODE in chunk for chunk in found.delivered),
    )
    stage.check("the conversation does not keep it", DOOR_CODE not in found.kept)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


SCENE = Scene(
    name="tool",
    title="tool: a secret in a tool's result",
    play=play,
    script=[
        answer(tool_calls=[tool_call("find_room", {"name": "Anna Berg"})]),
        answer("Anna", " Berg", " is in", " room", " 204", "."),
    ],
)
