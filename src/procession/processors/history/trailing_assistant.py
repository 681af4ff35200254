"""`TrailingAssistantGuard`: no prompt ends with an answer where the model refuses that (B-450)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ...errors import InputError
from ...structured.options import asked_for
from ..builtin import BuiltIn

if TYPE_CHECKING:
    from ...message_list import MessageList
    from ...processor import ProcessInputStepArgs

__all__ = ["TrailingAssistantGuard"]

_GEMINI = re.compile(r"gemini-(\d+)(?:\.(\d+))?")
_LAST_GEMINI_THAT_CONTINUES = (3, 1)

_CLAUDE = re.compile(r"claude-[a-z]+-(\d+)(?:[-.](\d{1,2})(?!\d))?")
_FIRST_CLAUDE_THAT_REFUSES = (4, 6)


class TrailingAssistantGuard(BuiltIn):
    """Adds a short turn of the user's where the prompt would end with a message of the assistant.

    It acts before each step, when all of this holds:

    - the last entry of the prompt would be the assistant's; one that ends with a tool's result is
      none;
    - the model is a Gemini later than 3.1, or it is a Claude from 4.6 on and the step asks it for
      structured output in the provider's own way: with a schema, without a second model and without
      `json_prompt_injection`. A model is known by its name, whichever provider has it; a name
      without a version is left alone.

    What it adds is a transient signal, the text `continue` in the tag `system-reminder`: it is in
    the prompts of this run, and stored nowhere. Where it is not in place, or does not know the
    model, `PrefillErrorHandler` repairs the refusal, for the price of a failed call.
    """

    fixed_id = "trailing-assistant-guard"
    name = "Trailing Assistant Guard"

    async def process_input_step(self, args: ProcessInputStepArgs[Any]) -> None:
        """Look at how the prompt would end, and at who is asked."""
        name = args.model if isinstance(args.model, str) else getattr(args.model, "model_id", "")
        if not _refuses(str(name).lower(), args.structured_output):
            return
        if not _ends_with_answer(args.message_list):
            return
        assert args.send_signal is not None
        await args.send_signal(
            {
                "type": "reactive",
                "contents": "continue",
                "attributes": {"purpose": "trailing-assistant"},
                "transient": True,
            }
        )


def _refuses(name: str, structured_output: Any) -> bool:
    found = _GEMINI.search(name)
    if found is not None:
        return _version(found) > _LAST_GEMINI_THAT_CONTINUES
    found = _CLAUDE.search(name)
    if found is None or _version(found) < _FIRST_CLAUDE_THAT_REFUSES:
        return False
    asked = asked_for(structured_output)
    return asked is not None and asked.model is None and not asked.injects


def _version(found: re.Match[str]) -> tuple[int, int]:
    return int(found[1]), int(found[2] or 0)


def _ends_with_answer(message_list: MessageList) -> bool:
    try:
        prompt = message_list.provider_prompt()
    except InputError:  # the call itself will say what is wrong
        return False
    return bool(prompt) and prompt[-1]["role"] == "assistant"
