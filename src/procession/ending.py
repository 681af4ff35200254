"""The end of a run, as processors are told of it: what became of it, and what is to be stored.

A processor with a method `run_ended` hears of the end of each run it took part in, whatever the
end is. It is not a hook: nothing of the run can be changed or blocked any more. It is where a run
is written down (memory), and where what was put off until the run had ended well is done (a cache).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from .chunks import Usage
from .message_list import MessageList
from .messages import Message
from .model import LanguageModel
from .policy import PolicyEvent
from .request_context import RequestContext
from .results import StepResult, Tripwire

__all__ = ["RunEnded", "RunStatus"]

RunStatus = Literal["success", "tripwire", "failed", "canceled", "suspended"]


class RunEnded(Struct, kw_only=True):
    """What `run_ended` is given.

    `status` tells how the run has ended, `error` what it failed with, `tripwire` who has blocked
    it. `state` is the processor's own, as in its hooks. `steps` are all steps and rejected
    attempts, `usage` what they have used in all.

    `messages` are the new messages that this outcome leaves to be stored, in order of time: none
    of a run that was blocked or in which a hook raised. `executed` is what may be stored of a run
    that was blocked after the model had answered: the input, and the calls of tools that really
    ran with their outcomes, without any text of the answer and without what the verdict covers;
    empty for every other run. Both are the live messages or copies of them: to be read only.

    `policy_events` are what policies of processors did, `options` those of the call;
    `current_model` gives the model that the agent asked last, and raises what resolving it raises;
    `count_usage` adds tokens of a model of the processor's own.
    `note_failure(processor_id, hook, action, error)` tells in `policy_events` of what could not be
    done.
    """

    run_id: str
    agent_id: str
    status: RunStatus
    finish_reason: str | None
    error: BaseException | None
    tripwire: Tripwire | None
    steps: Sequence[StepResult]
    usage: Usage
    message_list: MessageList
    request_context: RequestContext
    messages: list[Message]
    executed: list[Message]
    options: Mapping[str, Any]
    current_model: Callable[[], LanguageModel | None]
    count_usage: Callable[[Usage], None]
    note_failure: Callable[[str, str, str, str], None]
    policy_events: Sequence[PolicyEvent] = ()
    state: dict[str, Any]
