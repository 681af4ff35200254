"""What a message list shows: by source, in five forms (R-320, R-321)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .core_messages import to_core, to_model
from .prompt_files import resolve_files
from .prompt_memo import plain_copy
from .ui_messages import to_ui

if TYPE_CHECKING:
    from collections.abc import Collection

    from ..message_list import MessageList
    from ..messages import Message
    from .prompt_files import Download, SupportedUrls

__all__ = ["AllView", "Clearing", "View", "Views"]

Hide = "bool | Collection[str]"


class View:
    """The messages of one source, or all, ordered by time (R-323)."""

    __slots__ = ("_list", "_source")

    def __init__(self, messages: MessageList, source: str | None) -> None:
        self._list = messages
        self._source = source

    def db(self) -> list[Message]:
        """A new list of the live messages: editing them edits the list's content (R-322)."""
        if self._source is None:
            return self._list.messages()
        return self._list.messages_from(self._source)

    def ui(self, hide_signals: bool | Collection[str] = True) -> list[dict[str, Any]]:
        """As AI SDK v5 clients hold them (R-383 to R-390).

        `hide_signals`: True hides all signals, False none, a collection those types.
        """
        return to_ui(self.db(), hide_signals)

    def core(self, hide_signals: bool | Collection[str] = True) -> list[dict[str, Any]]:
        """AI SDK v4 core messages, without system messages (R-380)."""
        return to_core(self.db(), hide_signals, keep_pending=self._list.keeps_pending)

    def model(self) -> list[dict[str, Any]]:
        """AI SDK v5 model messages, without system messages (R-321)."""
        return to_model(self.db(), keep_pending=self._list.keeps_pending)


class AllView(View):
    """Every message; also as a prompt."""

    __slots__ = ()

    def prompt(self) -> list[dict[str, Any]]:
        """System messages, then model messages (R-321, R-352). Yours to change."""
        return plain_copy(self._list.provider_prompt())

    async def llm_prompt(
        self, supported_urls: SupportedUrls | None = None, download: Download | None = None
    ) -> list[dict[str, Any]]:
        """The provider prompt with its files resolved (R-321, R-362). Yours to change.

        `supported_urls` maps media types to patterns of the URLs the model fetches by itself; the
        others are fetched with `download`. Raises `InputError` when that fails (R-363).
        """
        prompt = plain_copy(self._list.provider_prompt())
        return await resolve_files(prompt, supported_urls, download)


class Views:
    """`message_list.get`."""

    __slots__ = ("all", "input", "remembered", "response")

    def __init__(self, messages: MessageList) -> None:
        self.all = AllView(messages, None)
        """Everything, context messages too."""
        self.input = View(messages, "input")
        """What the caller and input processors said."""
        self.response = View(messages, "response")
        """What the run produced."""
        self.remembered = View(messages, "memory")
        """What memory brought."""


class ClearedView:
    """One view to be emptied."""

    __slots__ = ("_list", "_source")

    def __init__(self, messages: MessageList, source: str | None) -> None:
        self._list = messages
        self._source = source

    def db(self) -> list[Message]:
        """Delete the view's messages and return them (R-337)."""
        held = View(self._list, self._source).db()
        return self._list.remove_by_ids([message.id for message in held])


class Clearing:
    """`message_list.clear`."""

    __slots__ = ("all", "input", "response")

    def __init__(self, messages: MessageList) -> None:
        self.all = ClearedView(messages, None)
        self.input = ClearedView(messages, "input")
        self.response = ClearedView(messages, "response")
