"""The prompt of a run within a limit of tokens (B-250 to B-256)."""

from __future__ import annotations

import logging
from math import ceil
from typing import TYPE_CHECKING, Any, NoReturn

from ...errors import InputError
from ...processor import ProcessLLMRequestResult
from .token_trimming import LEAD, Unit, kept_prompt, kept_units, newest_question, units_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ...message_list import MessageList
    from ...messages import Message
    from ...processor import ProcessInputStepArgs, ProcessLLMRequestArgs
    from .token_counting import Tokens

__all__ = ["PromptLimit", "offered"]

_log = logging.getLogger("procession.processors")


class PromptLimit:
    """What of a conversation is sent. Its methods are given the counter of the run."""

    def __init__(self, limit: int, *, gaps: bool, removed: int) -> None:
        self.limit = limit
        self._gaps = gaps
        self._removed = removed
        # The state is shared by all that have the same id.
        self._told = f"__told-of-cut-results-{id(self):x}"

    def prompt(self, args: ProcessLLMRequestArgs, tokens: Tokens) -> ProcessLLMRequestResult | None:
        """The prompt that fits; `None` when all of it does (B-251 to B-253)."""
        prompt = args.prompt
        fixed = tokens.per_conversation + tokens.tools(args.tools or {})
        fixed += tokens.entries(entry for entry in prompt if entry["role"] == "system")
        if args.response_format and tokens.given is None:
            fixed += ceil(tokens.value(args.response_format))
        units = units_of(prompt, tokens.entry)
        if not self._is_too_long(args, fixed, units):
            return None
        asked = newest_question(prompt, _said_by_user(args.message_list))
        required = [unit for unit in units if asked in unit.places] or units[-1:]
        kept = self._kept(args, fixed, units, required)
        if asked is not None:
            self._tell_cut(args.state, units, kept, asked)
        left = self.limit - fixed - sum(unit.tokens for unit in kept)
        made = kept_prompt(prompt, kept, left, tokens.entry(LEAD))
        return ProcessLLMRequestResult(prompt=made)

    def messages(self, args: ProcessInputStepArgs, tokens: Tokens) -> list[Message] | None:
        """The messages that fit, where nobody will be asked about the prompt (B-255)."""
        messages = args.messages
        fixed = tokens.per_conversation + tokens.tools(offered(args))
        fixed += tokens.entries(args.system_messages)
        units = [Unit([at], tokens.message(message)) for at, message in enumerate(messages)]
        if not self._is_too_long(args, fixed, units):
            return None
        # The answer under way is part of what is asked: taken from the list, it would be lost.
        under_way = {message.id for message in args.message_list.get.response.db()}
        asked = max((at for at, m in enumerate(messages) if m.role == "user"), default=None)
        required = [
            unit
            for unit, message in zip(units, messages, strict=True)
            if unit.places[0] == asked or message.id in under_way
        ] or units[-1:]
        kept = self._kept(args, fixed, units, required)
        return [messages[unit.places[0]] for unit in kept]

    def _is_too_long(self, args: Any, fixed: int, units: list[Unit]) -> bool:
        """Whether there is something to trim; a conversation that cannot be sent ends here."""
        facts = {"system_tokens": fixed, "limit": self.limit}
        if not units:
            self._refuse(args, "there is no message to send but system messages", facts)
        if fixed + sum(unit.tokens for unit in units) <= self.limit:
            return False
        if fixed >= self.limit:
            self._refuse(args, "system messages and tools alone exceed the limit", facts)
        return True

    def _kept(self, args: Any, fixed: int, units: list[Unit], required: list[Unit]) -> list[Unit]:
        budget = self.limit - fixed
        kept = kept_units(units, required, budget, gaps=self._gaps)
        if kept:
            return kept
        facts = {
            "system_tokens": fixed,
            "limit": self.limit,
            "remaining_budget": budget,
            "message_count": sum(len(unit.places) for unit in units),
        }
        self._refuse(args, f"the newest message does not fit in {budget} tokens", facts)

    def _refuse(self, args: Any, problem: str, facts: dict[str, int]) -> NoReturn:
        args.abort(f"Token limit of {self.limit}: {problem}.", metadata=facts)
        raise AssertionError

    def _tell_cut(
        self, state: dict[str, Any], units: list[Unit], kept: list[Unit], asked: int
    ) -> None:
        """Say once in a run that the model does not see what it has asked tools for."""
        stays = set(map(id, kept))
        gone = any(unit.places[0] > asked and id(unit) not in stays for unit in units)
        if gone and not state.get(self._told):
            state[self._told] = True
            _log.warning(
                "token limit: what tools gave in this run does not fit in %d tokens, so the model "
                "does not see all of it",
                self.limit,
            )

    def trim_memory(self, messages: MessageList, tokens: Tokens, tools: Mapping[str, Any]) -> None:
        """Remove the oldest messages of memory from the list, when there is too much (B-254)."""
        total = tokens.per_conversation + tokens.tools(tools)
        if tokens.given is None:
            try:
                prompt = messages.provider_prompt()
            except InputError:
                return  # it cannot be sent, and whoever sends it will say why
            total += tokens.shared_entries(prompt)
        else:
            total += tokens.entries(messages.get_all_system_messages())
            total += sum(map(tokens.message, messages.get.all.db()))
        if total <= self.limit:
            return
        gone: list[str] = []
        for message in messages.get.remembered.db():
            if total <= self.limit - self._removed:
                break
            total -= tokens.message(message)
            gone.append(message.id)
        messages.remove_by_ids(gone)


def _said_by_user(messages: MessageList) -> Iterator[str]:
    """The texts of the user's messages; the list is read only when somebody asks for one."""
    for message in messages.get.all.db():
        if message.role == "user":
            yield message.text


def offered(args: ProcessInputStepArgs) -> Mapping[str, Any]:
    """The tools that a step offers, as far as they are chosen."""
    tools = args.tools or {}
    if args.tool_choice == "none":
        return {}
    if args.active_tools is None:
        return tools
    return {name: tool for name, tool in tools.items() if name in args.active_tools}
