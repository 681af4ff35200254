"""One attempt at one step: what was asked, what came, and the record that is made of it."""

from __future__ import annotations

import logging
from copy import copy
from typing import TYPE_CHECKING, Any

from ..conversation.prompt_memo import isolated_part
from ..ids import new_id
from ..model import spec_name
from ..processor import CachedLLMStepChunk, ToolCallInfo
from ..records import own
from ..results import ModelCall, ResponseInfo, StepResult, Tripwire
from .answer import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ..chunks import Chunk
    from ..conversation.sequence import ResponseMark
    from ..errors import TripWire
    from ..model import LanguageModel, ModelSettings, Prompt, ToolChoice
    from ..processor import CachedLLMStepResponse, ProcessInputStepArgs
    from ..tools import Tool
    from ..waiting import Decision, Waiting
    from .response import Portion
    from .run_state import RunState

__all__ = ["Step", "tripwire_of"]

_log = logging.getLogger("procession.engine")


def tripwire_of(wire: TripWire) -> Tripwire:
    """A verdict in the form results show it."""
    return Tripwire(
        reason=wire.reason,
        processor_id=wire.processor_id or "",
        retry=wire.retry,
        metadata=wire.metadata,
    )


class Step:
    """An attempt at a step. A retried step gets a new one with the same number (R-180)."""

    number: int
    mark: ResponseMark
    """What the response messages were before; a rejected attempt goes back to it."""
    answer: Answer
    portion: Portion | None
    """Where the answer stands in the response message, once merged."""
    raw: list[dict[str, Any]]
    """The model's chunks as it produced them, in JSON form, for `process_llm_response`."""
    asked: bool
    """Whether the model was called, or a response replayed."""
    started: bool
    """Whether `step-start` was sent."""
    from_cache: bool
    replay: list[Chunk] | None
    """Chunks that stand in for a call of the model (R-094)."""
    wire: TripWire | None
    """The verdict that ended this attempt, if any."""
    failure: Exception | None
    """Why the model call failed, if it did."""
    reminded: bool
    """Whether a signal was sent after that: another attempt speaks behind it."""
    taken_back: bool
    """Whether the attempt was rejected: its parts have left the message list."""
    continues: bool
    """Whether another step or attempt follows."""
    cut_short: bool
    """Whether another step would follow, had the caller not asked to stop."""
    wants_retry: bool
    """Whether an error processor wants another call, and is granted it."""
    recorded: bool
    """Whether the step stands in the run's steps already."""
    interrupted: bool
    """Whether the caller cut it off."""
    waits_for_client: bool
    """Whether a call is the client's to answer (R-525)."""
    waiting: dict[str, Waiting]
    """The calls that wait for somebody's word, by id (R-570)."""
    decisions: dict[str, Decision]
    """What has been said about calls that waited, by id."""
    suspension: list[Chunk]
    """The chunks that tell of the waiting calls, as hooks left them: the stream's last ones."""
    outcomes: list[Chunk]
    """`tool-result` chunks as delivered, and those a processor hid."""
    had_outcome: bool
    """Whether a tool came to an outcome, an error included (R-523)."""
    warnings: list[Any]
    request_info: dict[str, Any]
    raw_response: Any
    headers: dict[str, str]

    # What `process_input_step` may change, for this step only.
    model: LanguageModel | Any
    tools: dict[str, Tool]
    tool_choice: ToolChoice
    active_tools: list[str] | None
    provider_options: Mapping[str, Any] | None
    model_settings: ModelSettings
    structured_output: Any
    choices: ProcessInputStepArgs[Any] | None
    """What the hooks have chosen of these, while they are asked."""
    prompt: Prompt
    listeners: list[Callable[[ModelCall], object]]
    """Who is to be told of each call of the model when it is over."""
    known_results: Mapping[str, Any]
    """Results of tools that came with a replayed response, by call id (R-218)."""
    result_listeners: list[Callable[[str, Any], object]]
    """Who is to be told what each tool has returned."""

    __slots__ = tuple(__annotations__)

    def __init__(self, run: RunState, mark: ResponseMark) -> None:
        self.number = len(run.steps)
        self.mark = mark
        self.answer = Answer()
        self.portion = self.replay = self.wire = self.choices = self.raw_response = None
        self.asked = self.started = self.from_cache = self.continues = self.cut_short = False
        self.wants_retry = self.recorded = self.taken_back = self.interrupted = False
        self.failure, self.reminded = None, False
        self.waits_for_client = self.had_outcome = False
        self.raw, self.outcomes, self.warnings, self.prompt = [], [], [], []
        self.request_info, self.headers, self.listeners = {}, {}, []
        self.waiting, self.decisions, self.suspension = {}, {}, []
        self.known_results, self.result_listeners = {}, []
        self.model = run.model
        self.tools = run.tools
        self.tool_choice = run.tool_choice
        self.active_tools = run.active_tools
        self.provider_options = run.provider_options
        self.model_settings = run.model_settings
        self.structured_output = run.structured_output

    def continued(self, tool_call_id: str, decision: Decision) -> Step:
        """The step for a run that goes on: one of its waiting calls has been decided."""
        step = copy(self)
        step.recorded = False
        step.outcomes = list(self.outcomes)
        step.waiting = {id: held for id, held in self.waiting.items() if id != tool_call_id}
        step.decisions = {tool_call_id: decision}
        step.suspension = []
        step.result_listeners = []  # whose word it took is asked again the next time
        return step

    def use(self, response: CachedLLMStepResponse, chunks: list[Chunk]) -> None:
        """Replay a response instead of asking the model (R-094)."""
        self.replay = chunks
        self.from_cache = True
        self.warnings = list(response.warnings or ())
        self.request_info = dict(response.request or {})
        self.raw_response = response.raw_response
        self.known_results = response.tool_results or {}

    @property
    def model_id(self) -> str:
        """The model's name, as far as it is known; nothing else of what stands for one."""
        return spec_name(self.model)

    @property
    def provider(self) -> str:
        """The provider's name, as far as it is known."""
        return getattr(self.model, "provider", "")

    def usable_tools(self) -> dict[str, Tool]:
        """The tools that may be called in this step (R-084, R-085, R-529)."""
        if self.tool_choice == "none":
            return {}
        if self.active_tools is None:
            return self.tools
        return {name: tool for name, tool in self.tools.items() if name in self.active_tools}

    def calls(self) -> list[ToolCallInfo]:
        """The step's tool calls as hooks see them (R-134)."""
        return [
            ToolCallInfo(
                tool_name=call.name, tool_call_id=call.id, args=call.part.tool_invocation.args
            )
            for call in self.answer.calls.values()
        ]

    def result(self, run: RunState, text: str) -> StepResult:
        """The record of this step as it stands."""
        answer = self.answer
        return StepResult(
            step_number=self.number,
            step_type="tool-result" if run.steps and run.steps[-1].tool_results else "initial",
            text=text,
            finish_reason=answer.finish_reason,
            usage=answer.usage,
            tool_calls=[call.chunk for call in answer.calls.values()],
            tool_results=self.outcomes,
            reasoning=answer.reasoning(),
            sources=answer.chunks.get("sources", []),
            files=answer.chunks.get("files", []),
            content=self._content(run),
            warnings=self.warnings,
            request=self.request_info,
            response=self.response(),
            provider_metadata=answer.provider_metadata,
            from_cache=self.from_cache,
        )

    def _content(self, run: RunState) -> list[Any]:
        """The step's parts; copies, when a hook may edit those in the message later."""
        if self.portion is None:
            return []
        parts = self.portion.parts(run.message_list)
        return [isolated_part(p) for p in parts] if run.pipeline.changes_messages else parts

    def rejected(self, reason: str, wire: TripWire | None) -> StepResult:
        """The record of an attempt that does not count: its usage, and who rejected it (R-179)."""
        return StepResult(
            step_number=self.number,
            finish_reason=reason,
            usage=self.answer.usage,
            warnings=self.warnings,
            request=self.request_info,
            response=self.response(),
            provider_metadata=self.answer.provider_metadata,
            tripwire=tripwire_of(wire) if wire else None,
            from_cache=self.from_cache,
        )

    def response(self) -> ResponseInfo:
        """What is known of the model's response."""
        answer = self.answer
        return ResponseInfo(
            id=answer.response_id,
            timestamp=answer.timestamp,
            model_id=answer.model_id,
            headers=self.headers,
            messages=[],
            db_messages=[],
            ui_messages=[],
        )

    def tell_listeners(self, run: RunState, unread: Iterable[Chunk]) -> None:
        """A call of the model is over (`on_model_call`); of `unread` a part was not taken in."""
        usage = self.answer.usage
        said = [chunk.payload.text for chunk in self.answer.reasoning()]
        said.append(self.answer.text())
        for chunk in unread:
            if chunk.type == "finish":
                usage = chunk.payload.output.usage
            elif chunk.type in ("text-delta", "reasoning-delta"):
                said.append(chunk.payload.text)
        call = ModelCall(
            id=new_id(),
            run_id=run.run_id,
            step_number=self.number,
            provider=self.provider,
            model_id=self.model_id,
            usage=usage,
            answered=self.started,
            from_cache=self.from_cache,
            prompt=self.prompt,
            text="".join(said),
        )
        for tell in self.listeners:
            try:
                tell(call)
            except Exception as error:
                _log.warning("on_model_call: a listener raised %s", type(error).__name__)

    def tell_result(self, tool_call_id: str, value: Any) -> None:
        """A tool has returned (`on_tool_result`)."""
        for tell in self.result_listeners:
            try:
                tell(tool_call_id, own(value))
            except Exception as error:
                _log.warning("on_tool_result: a listener raised %s", type(error).__name__)

    def cacheable(self) -> list[CachedLLMStepChunk]:
        """The model's chunks, reduced to type and payload (R-101)."""
        return [CachedLLMStepChunk(raw["type"], raw.get("payload") or {}) for raw in self.raw]
