"""`ToolCallFilter`: earlier tool calls are kept, but no longer sent (B-300 to B-305)."""

from __future__ import annotations

import json
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any, cast

from ...hook_functions import near_name
from ..builtin import BuiltIn
from ..option_checks import flag, names, whole
from .prompt_calls import Entry, Place, PromptCall, calls_in, without

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...model import Prompt
    from ...policy import Policy
    from ...processor import ProcessLLMRequestArgs, ProcessorViolation
    from ...results import StepResult

__all__ = ["ToolCallFilter"]

_log = logging.getLogger("procession.processors")

_ASKED = "unanswered"
"""The key in `state` of the calls whose results came with this request."""


class ToolCallFilter(BuiltIn):
    """Leaves tool calls and their results out of what the model is sent; they stay stored.

    `exclude` names the tools to leave out; `None` means all. By default only calls from before
    this request are left out. With `filter_after_tool_steps=n` those of the `n` most recent
    answers with calls stay, from before or of this run, and all others go. With
    `preserve_model_output` a call whose tool has a `to_model_output` leaves that output behind,
    as a text.

    A name in `exclude` that is nearly a tool's is told in the log, once. A call and its result
    always go together. Results that came with the request itself, after
    which nobody has said anything, count as part of this run.
    """

    fixed_id = "tool-call-filter"
    name = "Tool Call Filter"

    def __init__(
        self,
        *,
        exclude: Iterable[str] | None = None,
        filter_after_tool_steps: int | None = None,
        preserve_model_output: bool = False,
        on_violation: Callable[[ProcessorViolation], object] | None = None,
        policy: Policy | None = None,
    ) -> None:
        super().__init__(on_violation=on_violation, policy=policy)
        owner = type(self).__name__
        self._excluded = (
            None if exclude is None else frozenset(names(owner, "exclude", exclude, None))
        )
        self._not_met = set(self._excluded or ())
        self._steps_kept = (
            None
            if filter_after_tool_steps is None
            else whole(owner, "filter_after_tool_steps", filter_after_tool_steps)
        )
        self._leaves_output = flag(owner, "preserve_model_output", preserve_model_output)

    def process_llm_request(self, args: ProcessLLMRequestArgs[Any]) -> dict[str, Prompt] | None:
        """The prompt without the calls; `None` when there are none to leave out (B-304)."""
        prompt = args.prompt
        calls = calls_in(prompt)
        if self._not_met:
            self._meet({*args.tools, *(call.name for call in calls)})
        if self._steps_kept is None:
            old = _before(calls, args.steps, _asked_with(args))
        else:
            old = _older(calls, self._steps_kept)
        gone = [call for call in old if self._excluded is None or call.name in self._excluded]
        if not gone:
            return None
        instead = _outputs(prompt, gone) if self._leaves_output else {}
        return {"prompt": without(prompt, gone, instead)}

    def _meet(self, known: set[str]) -> None:
        """Say once of a name in `exclude` that it is nearly that of a tool, and of none."""
        self._not_met -= known
        for name in sorted(self._not_met):
            near = near_name(name, frozenset(known))
            if near is not None:
                self._not_met.discard(name)
                _log.warning(
                    "%s: exclude has %r, but no tool is called so; did you mean %r?",
                    *(self.id, name[:100], near),
                )


def _asked_with(args: ProcessLLMRequestArgs[Any]) -> frozenset[str]:
    """The ids of the calls that this request brings results of: a client's tools answer so.

    They are those since the user's last message, if nothing was said after them. Whether that is
    so shows when the run begins; later its own calls follow.
    """
    if _ASKED not in args.state:
        said = [message for message in args.messages if message.role != "signal"]
        users = [n for n, message in enumerate(said) if message.role == "user"]
        parts = [
            part for message in said[users[-1] + 1 if users else 0 :] for part in message.parts
        ]
        parts = [part for part in parts if part.type != "step-start"]
        answered = bool(parts) and parts[-1].type == "tool-invocation"
        args.state[_ASKED] = frozenset(map(_call_id, parts)) if answered else frozenset[str]()
    return args.state[_ASKED]


def _call_id(part: Any) -> str:
    return part.tool_invocation.tool_call_id if part.type == "tool-invocation" else ""


def _before(
    calls: list[PromptCall], steps: list[StepResult], asked: frozenset[str]
) -> list[PromptCall]:
    """The calls from before this run (B-302).

    Some providers begin to count with each request, so an id can be an old one's, too: as many as
    the run has made are the last ones.
    """
    made = Counter(chunk.payload.tool_call_id for step in steps for chunk in step.tool_calls)
    old: list[PromptCall] = []
    for call in reversed(calls):
        if made[call.id]:
            made[call.id] -= 1
        elif call.id not in asked:
            old.append(call)
    return old


def _older(calls: list[PromptCall], kept: int) -> list[PromptCall]:
    """The calls before the `kept` most recent answers that have calls (B-303)."""
    answers = sorted({call.call[0] for call in calls if call.call is not None})
    recent = frozenset(answers[len(answers) - min(kept, len(answers)) :])
    return [call for call in calls if call.call is None or call.call[0] not in recent]


def _outputs(prompt: Prompt, gone: list[PromptCall]) -> dict[Place, Entry]:
    """What stays of the calls whose tools have an output for the model (B-305)."""
    left: dict[Place, Entry] = {}
    for call in gone:
        if call.call is None or call.outcome is None:
            continue
        number, position = call.outcome
        said = _said(prompt[number]["content"][position])
        if said:
            text = f"[Result of the tool {call.name}]\n{said}"
            left[call.call] = {"type": "text", "text": text}
    return left


def _said(result: Mapping[str, Any]) -> str | None:
    """The text of a result that its tool made for the model; `None` for any other result."""
    if _at(result, "providerOptions", "mastra", "modelOutput") is None:
        return None
    kind, value = _at(result, "output", "type"), _at(result, "output", "value")
    if kind == "text" and isinstance(value, str):
        return value
    if kind == "json":
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if kind == "content" and isinstance(value, list):
        texts = [_at(part, "text") for part in cast("list[Any]", value)]
        return "\n".join(text for text in texts if isinstance(text, str))
    return None


def _at(value: Any, *path: str) -> Any:
    """What stands at the end of a path of keys; `None` when it ends before."""
    for key in path:
        value = cast("dict[str, Any]", value).get(key) if isinstance(value, dict) else None
    return value
