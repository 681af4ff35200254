"""A model that takes no answer to go on with: the conversation is given a turn of the user's.

It is a processor like those in `processors/`; it stands here because every run has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .causes import words_of
from .policy import Policy, policy_of
from .processor import ProcessAPIErrorResult, Processor, ProcessorViolation

if TYPE_CHECKING:
    from collections.abc import Callable

    from .processor import ProcessAPIErrorArgs

__all__ = ["PrefillErrorHandler"]

_COMPLAINTS = (
    "assistant message prefill",  # Anthropic
    "conversation must end with a user message",
    "assistant response prefill",  # llama.cpp, with Qwen and other models that think
    "2 or more assistant messages at the end",
    "requests ending with a model turn",  # Gemini
    "expected last role user or tool",  # Mistral
)
"""In small letters: how providers word that the last message must not be the assistant's."""


class PrefillErrorHandler(Processor[Any]):
    """Asks again, with a reminder to continue, when a model refuses to go on with an answer.

    Some models refuse a conversation that ends with a message of the assistant. On the first such
    error of a call (in the message or the response body, of the error or of its causes) the handler
    adds a reminder, the text `continue` in the tag `system-reminder`, which is stored with the
    conversation, and asks for another attempt. A second one is final (B-401, B-402).

    It is in every run without being asked for, after the error processors of the call, and brings
    one retry of its own: others get none by it. In a list of error processors it takes the place of
    the automatic one, and its retry is one of the call's; so does any processor with its id
    (B-400, B-403). With `max_processor_retries=0` it does nothing.
    """

    id = "prefill-error-handler"

    def __init__(
        self,
        *,
        on_violation: Callable[[ProcessorViolation], object] | None = None,
        policy: Policy | None = None,
    ) -> None:
        self.on_violation = on_violation
        self.policy = policy
        policy_of(self)

    async def process_api_error(
        self, args: ProcessAPIErrorArgs[Any]
    ) -> ProcessAPIErrorResult | None:
        """Remind and retry, once in a call."""
        if not args.may_retry or args.state.get("asked_again") or not _is_complaint(args.error):
            return None
        args.state["asked_again"] = True
        assert args.send_signal is not None
        await args.send_signal(
            {
                "type": "reactive",
                "contents": "continue",
                "attributes": {"purpose": "prefill-error-retry"},
            }
        )
        return ProcessAPIErrorResult(retry=True)


def _is_complaint(error: Exception) -> bool:
    said = words_of(error).lower()
    return any(words in said for words in _COMPLAINTS)
