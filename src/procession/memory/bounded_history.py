"""`BoundedHistory`: a history within a number of tokens of the whole prompt (M-091)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..processors.tokens.token_counting import Tokens
from ..processors.tokens.token_prompt import PromptLimit, offered
from ..processors.tokens.token_texts import ChosenCounter
from ..records import format_time, parse_time
from .history import MessageHistory

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ..ending import RunEnded
    from ..messages import Message
    from ..processor import ProcessInputStepArgs
    from ..store import MemoryStore, Store
    from .conversation import Conversation
    from .options import HistoryBudget

__all__ = ["BOUNDARY_KEY", "BoundedHistory"]

BOUNDARY_KEY = "messageHistory"
"""The entry of a thread's metadata that tells from when on its messages are sent."""

_PAGE = 50
_LEFT_OUT = "left_out"


class BoundedHistory(MessageHistory):
    """`MessageHistory` with a limit in tokens: `BoundedHistory(storage=…, budget=…)`.

    When the whole prompt of a step has more than `budget.max_tokens`, the oldest remembered
    messages are left out until it has `budget.remove` tokens less. What was left out stays out in
    later turns, so that the beginning of the prompt does not change with each of them; it stays
    stored. Input, context, system messages and the answer under way are never left out.

    `last_messages` limits the history besides, if it is given.
    """

    def __init__(
        self,
        *,
        budget: HistoryBudget,
        storage: Store | MemoryStore | None = None,
        last_messages: int | None = None,
        read_only: bool = False,
        save_on_abort: bool = False,
    ) -> None:
        super().__init__(
            storage=storage,
            last_messages=last_messages,
            read_only=read_only,
            save_on_abort=save_on_abort,
        )
        self._budget = budget
        self._limit = PromptLimit(budget.max_tokens, gaps=False, removed=budget.remove)
        self._texts = ChosenCounter()

    async def _load(self, store: MemoryStore, conversation: Conversation) -> list[Message]:
        """As many of the newest messages as may fit, page by page: never the whole thread."""
        thread = await store.get_thread_by_id(conversation.thread_id)
        boundary = _boundary_of(thread.metadata if thread is not None else None)
        tokens = Tokens(self._texts.without_model)
        found: list[Message] = []
        spent, before = 0, None
        while spent <= self._budget.max_tokens:
            wanted = _PAGE if self._last is None else min(_PAGE, self._last - len(found))
            if wanted <= 0:
                break
            page = await store.newest_messages(
                conversation.thread_id,
                wanted,
                resource_id=conversation.resource_id,
                before=before,
            )
            since = [m for m in page if boundary is None or m.created_at > boundary]
            found = [*since, *found]
            if len(page) < wanted or len(since) < len(page):
                break
            spent += sum(map(tokens.message, page))
            before = page[0].id
        return found

    async def process_input_step(self, args: ProcessInputStepArgs) -> None:
        """Leave out the oldest, where the prompt of this step is too long."""
        messages = args.message_list
        before = messages.get.remembered.db()
        if not before:
            return
        texts = await self._texts.for_model(args.model)
        tokens: Tokens | None = args.state.get("tokens")
        if tokens is None or tokens.texts is not texts:
            tokens = args.state["tokens"] = Tokens(texts)
        self._limit.trim_memory(messages, tokens, offered(args))
        gone = _gone(before, messages.get.remembered.db())
        if gone:
            args.state[_LEFT_OUT] = gone[-1].created_at

    async def _saved(
        self, store: MemoryStore, conversation: Conversation, ending: RunEnded
    ) -> None:
        left_out: datetime | None = ending.state.get(_LEFT_OUT)
        if left_out is not None:
            mark = {"leftOutUntil": format_time(left_out)}
            await store.update_thread(conversation.thread_id, metadata={BOUNDARY_KEY: mark})


def _gone(before: Sequence[Message], left: Sequence[Message]) -> list[Message]:
    here = {message.id for message in left}
    return [message for message in before if message.id not in here]


def _boundary_of(metadata: dict[str, Any] | None) -> datetime | None:
    mark: Any = (metadata or {}).get(BOUNDARY_KEY)
    until = mark.get("leftOutUntil") if isinstance(mark, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    try:
        return None if until is None else parse_time(until)
    except InputError:
        return None  # somebody else's entry: nothing is left out
