"""Reading the conversation of a run: views, messages, sources, times, the prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .admission import STAMPED
from .prompt import provider_prompt
from .sequence import MessageSequence
from .system_messages import WithSystemMessages

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from ..messages import Message

__all__ = ["ReadableMessages"]


class ReadableMessages(WithSystemMessages):
    """The part of `MessageList` that shows what is in it."""

    def __init__(self, generate_id: Callable[[], str] | None, *, keeps_pending: bool) -> None:
        super().__init__()
        self.keeps_pending = keeps_pending
        self.prompt_has_urls = False
        """Whether the last `provider_prompt()` names files by URL."""
        self._sequence = MessageSequence(generate_id)

    def messages(self) -> list[Message]:
        """A fresh list of all messages but system messages, by time (R-323)."""
        return self._sequence.view().copy()

    def shown(self) -> tuple[Sequence[Message], list[dict[str, Any]]]:
        """What a hook is shown: messages and system messages at this moment, as cheap as can be.

        Both are shared, and never changed once handed out; times that were edited in place since
        the last `view()` are not looked at, so sort before you show the messages. Where nobody has
        asked for the messages yet, reading them here is asking.
        """
        sequence, system = self._sequence, self._system
        messages: Sequence[Message] | None = sequence.order.latest
        if messages is None or sequence.sleeping is not None:
            messages = sequence.unread()
        listed = system.latest
        return messages, system.shown() if listed is None else listed

    def view(self) -> list[Message]:
        """Like `messages()`, in a list that is shared: it is never changed once handed out."""
        return self._sequence.view()

    def held(self) -> Sequence[Message]:
        """The messages of this moment, in no particular order, to read and never to change.

        As cheap as a list can be: they need not be the live ones.
        """
        return self._sequence.held()

    def messages_from(self, source: str) -> list[Message]:
        """A fresh list of the messages of one source, by time."""
        return self._sequence.messages_from(source)

    def response_messages(self) -> list[Message]:
        """A fresh list of the messages of source response, by time."""
        return self._sequence.messages_from("response")

    def find(self, id: str) -> Message | None:
        """The live message with this id."""
        return self._sequence.find(id)

    def source_of(self, id: str) -> str | None:
        """`memory`, `input`, `response` or `context`; `None` for an unknown id."""
        return self._sequence.source_of(id)

    def is_new_message(self, message: Message | str) -> bool:
        """Whether the message came in with this run, as input or response (R-343)."""
        id = message if isinstance(message, str) else message.id
        return self.source_of(id) in STAMPED

    def make_message_source_checker(self) -> Callable[[Message | str], str | None]:
        """A function that tells the source a message (or id) had at the time of this call."""
        sources = {m.id: self._sequence.source_of(m.id) for m in self._sequence.view()}
        return lambda message: sources.get(message if isinstance(message, str) else message.id)

    def get_latest_user_content(self) -> str | None:
        """The text of the newest user message (R-340)."""
        for message in self._sequence.peek():
            if message.role == "user":
                return message.text
        return None

    def newest_time(self) -> datetime | None:
        """When the newest message was created; `None` for an empty list."""
        return self._sequence.newest_time()

    def next_time(self) -> datetime:
        """Now, but at least 1 ms after the newest message (R-327)."""
        return self._sequence.next_time()

    def provider_prompt(self, untouched: Message | None = None) -> list[dict[str, Any]]:
        """The prompt for a provider as plain data; URLs stay URLs (section 7).

        The list is the caller's, its entries are remembered and shared: never change them.
        `untouched` is the engine's word that nobody else has had this message in hand since the
        last prompt, and that it only grew: then its earlier parts are not even compared.
        """
        sequence = self._sequence
        view = sequence.awake()
        head = sequence.sleeping
        if head is not None and head.run.pending != self.keeps_pending:
            head, view = None, sequence.view()
        prompt, self.prompt_has_urls = provider_prompt(
            self._system.for_prompt(),
            view,
            keep_pending=self.keeps_pending,
            untouched=untouched,
            covered=head.covered if head is not None else None,
        )
        return prompt
