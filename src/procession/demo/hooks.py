"""Scene: all nine hooks of a run, in the order in which they fire."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ..agent import Agent
from ..errors import APICallError
from ..processor import HOOKS, ProcessAPIErrorResult, ProcessInputStepResult, Processor
from ..testing import answer, tool_call
from ..tools import tool
from .scene import INSTRUCTIONS, OPTIONS, Scene, Setting, raise_failure

if TYPE_CHECKING:
    from ..chunks import Chunk
    from ..processor import (
        ProcessAPIErrorArgs,
        ProcessInputArgs,
        ProcessInputStepArgs,
        ProcessLLMRequestArgs,
        ProcessLLMResponseArgs,
        ProcessOutputResultArgs,
        ProcessOutputStepArgs,
        ProcessOutputStreamArgs,
        ProcessToolResultArgs,
    )
    from .stage import LiveText, Stage

__all__ = ["SCENE", "HookCall"]

QUESTION = "What is 12 plus 30?"
WIDTHS = [21, 7]
COLOURS = {"doorman": "cyan", "clerk": "yellow", "reader": "green", "medic": "magenta"}


class HookCall(Struct, frozen=True):
    """A hook that was called: of which processor, and what it saw. Chunks have their type."""

    hook: str
    processor: str
    saw: str
    chunk: str = ""


Tell = Callable[[HookCall], None]


class Doorman(Processor):
    """Sees what comes in, once."""

    id = "doorman"

    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def process_input(self, args: ProcessInputArgs) -> None:
        """The messages as the caller gave them."""
        newest = args.message_list.get_latest_user_content()
        saw = f"messages: {len(args.messages)}, the newest: {newest}"
        self._tell(HookCall("process_input", self.id, saw))


class Clerk(Processor):
    """Sees each step before and after the model; spoils the first request, on purpose."""

    id = "clerk"

    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def process_input_step(self, args: ProcessInputStepArgs) -> ProcessInputStepResult:
        """Sets the temperature: to a word at first, which every server refuses."""
        settings: Any = dict(args.model_settings)
        if not args.retry_count:
            settings["temperature"] = "hot"
        shown = f"step {args.step_number}, temperature {settings['temperature']!r}"
        self._tell(HookCall("process_input_step", self.id, shown))
        return ProcessInputStepResult(model_settings=settings)

    def process_llm_request(self, args: ProcessLLMRequestArgs) -> None:
        """The prompt as it goes to the provider."""
        roles = ", ".join(entry["role"] for entry in args.prompt)
        self._tell(HookCall("process_llm_request", self.id, f"a prompt: {roles}"))

    def process_llm_response(self, args: ProcessLLMResponseArgs) -> None:
        """The whole response, as the model gave it."""
        self._tell(HookCall("process_llm_response", self.id, f"{len(args.chunks)} raw chunks"))


class Reader(Processor):
    """Sees everything that goes out."""

    id = "reader"

    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def process_output_stream(self, args: ProcessOutputStreamArgs) -> Chunk:
        """Each chunk, as it comes."""
        part = args.part
        self._tell(HookCall("process_output_stream", self.id, _text_of(part), part.type))
        return part

    def process_output_step(self, args: ProcessOutputStepArgs) -> None:
        """The step's text and calls, before any tool runs."""
        calls = ", ".join(call.tool_name for call in args.tool_calls)
        saw = f"calls of: {calls}" if calls else f"text: {args.text}"
        self._tell(HookCall("process_output_step", self.id, saw))

    def process_tool_result(self, args: ProcessToolResultArgs) -> None:
        """What a tool returned."""
        saw = f"{args.tool_name} {json.dumps(args.args)} returned {json.dumps(args.result)}"
        self._tell(HookCall("process_tool_result", self.id, saw))

    def process_output_result(self, args: ProcessOutputResultArgs) -> None:
        """The whole run, at its end."""
        result = args.result
        attempts, tokens = len(result.steps), result.usage.total_tokens
        saw = f"steps and attempts: {attempts}, tokens: {tokens or 0}, text: {result.text}"
        self._tell(HookCall("process_output_result", self.id, saw))


class Medic(Processor):
    """Sees a refused call, and asks for another attempt."""

    id = "medic"

    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def process_api_error(self, args: ProcessAPIErrorArgs) -> ProcessAPIErrorResult:
        """Only a request that was refused as wrong can be mended."""
        error = args.error
        status = error.status_code if isinstance(error, APICallError) else None
        mend = status is not None and 400 <= status <= 500 and not args.retry_count
        saw = f"HTTP {status}: {error}" if status else str(error)
        saw += " -> again" if mend else ""
        self._tell(HookCall("process_api_error", self.id, saw))
        return ProcessAPIErrorResult(retry=mend)


def _text_of(chunk: Chunk) -> str:
    if chunk.type == "text-delta":
        return chunk.payload.text
    return chunk.payload.args_text_delta if chunk.type == "tool-call-delta" else ""


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def play(setting: Setting) -> list[HookCall]:
    """One question that needs a tool, and meets an error on its way."""
    stage = setting.stage
    stage.say(
        "A processor is an object with any of nine hooks. Four processors stand around the model "
        "here; each line is a hook as it is called, and what it saw. 'clerk' spoils the first "
        "request on purpose, so that there is an error to see."
    )
    stage.asked(QUESTION)
    stage.blank()
    stage.columns([("hook", "dim"), ("who", "dim"), ("what it saw", "dim")], WIDTHS)
    calls: list[HookCall] = []
    log = _Log(stage, calls)
    agent = Agent(
        id="hooks",
        model=setting.model,
        instructions=INSTRUCTIONS,
        tools=[add],
        input_processors=[Doorman(calls.append), Clerk(calls.append)],
        output_processors=[Reader(calls.append)],
        error_processors=[Medic(calls.append)],
        max_processor_retries=1,
    )
    async with agent.stream(QUESTION, observer=setting.observer, **OPTIONS) as run:
        log.catch_up()
        async for _ in run:
            log.catch_up()
        log.close()
        raise_failure(run)
    _judge(stage, calls)
    return calls


def _judge(stage: Stage, calls: list[HookCall]) -> None:
    fired = {call.hook for call in calls}
    missing = [hook for hook in HOOKS if hook not in fired]
    stage.checks()
    if missing:
        stage.note(f"not called this time: {', '.join(missing)}.")
        return
    stage.check(f"all {len(HOOKS)} hooks were called, {len(calls)} times in all", True)
    stage.check(
        "process_input was the first and process_output_result the last",
        calls[0].hook == "process_input" and calls[-1].hook == "process_output_result",
    )


class _Log:
    """Shows calls in order; the chunks of a stream share a line, on which their text grows."""

    def __init__(self, stage: Stage, calls: list[HookCall]) -> None:
        self._stage = stage
        self._calls = calls
        self._shown = 0
        self._line: LiveText | None = None
        self._chunks: list[str] = []
        self._has_text = False

    def catch_up(self) -> None:
        """Show the calls that have come since."""
        for call in self._calls[self._shown :]:
            if call.chunk:
                self._grow(call)
            else:
                self.close()
                self._stage.columns([*_who(call), (call.saw, "")], WIDTHS)
        self._shown = len(self._calls)

    def close(self) -> None:
        """End the line of chunks, if one is open."""
        if self._line is None:
            return
        kinds = ", ".join(dict.fromkeys(self._chunks))
        count = len(self._chunks)
        self._line.end(f"({count} chunks)" if self._has_text else kinds)
        self._line = None

    def _grow(self, call: HookCall) -> None:
        if self._line is None:
            self._line = self._stage.live(_who(call), WIDTHS, "bold")
            self._chunks, self._has_text = [], False
        self._chunks.append(call.chunk)
        self._has_text = self._has_text or bool(call.saw)
        self._line.write(call.saw)


def _who(call: HookCall) -> list[tuple[str, str]]:
    return [(call.hook, COLOURS[call.processor]), (call.processor, COLOURS[call.processor])]


SCENE = Scene(
    name="hooks",
    title="hooks: the nine places where a processor may step in",
    play=play,
    script=[
        APICallError("'temperature' must be a number, but is a string", status_code=400),
        answer(tool_calls=[tool_call("add", {"a": 12, "b": 30})]),
        answer("12", " +", " 30", " =", " 42", "."),
    ],
)
