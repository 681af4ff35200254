"""Titles of threads: one question to a model, behind the first exchange (M-160 to M-163)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ..engine.asking import ResolvedModels
from ..engine.interruption import Interrupted
from ..messages import joined_text
from ..model import ModelRequest
from ..processor import Processor
from ..processors.judging.one_answer import one_answer
from ..records import clean_text
from .conversation import memory_context
from .threads import memory_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..abort_signal import AbortSignal
    from ..chunks import Usage
    from ..ending import RunEnded
    from ..messages import Message
    from ..model import LanguageModel
    from ..processor import ProcessOutputResultArgs
    from ..store import MemoryStore, Store, Thread
    from .background import Background
    from .conversation import Conversation
    from .options import TitleOptions

__all__ = ["PINNED_KEY", "EmittedTitles", "ThreadTitles"]

_log = logging.getLogger("procession.memory")

PINNED_KEY = "titlePinned"
"""An entry of a thread's metadata that keeps its title, or its having none, as it is."""

INSTRUCTIONS = """\
You give conversations a title. You are shown the beginning of one between a user and an assistant.
Answer with the title and nothing else: at most seven words, in the language of the conversation,
saying what it is about. No quotation marks, no full stop, no line breaks, no markup."""

_SHOWN = 2_000
"""Characters of each message that the model is shown."""
_FIRST = 20
_LONGEST = 120
_WASTED = 2_000
"""So much may be said before the answer counts as no title."""


class ThreadTitles(Processor[Any]):
    """Gives an untitled thread a title once it has `min_messages`, behind the run.

    A thread that has a title, or metadata `titlePinned`, keeps it. What fails is logged, and tried
    again behind the next run.
    """

    id = "thread-titles"
    name = "Titles of threads"

    def __init__(
        self, *, storage: Store | MemoryStore | None, options: TitleOptions, background: Background
    ) -> None:
        self.storage = storage
        self._options = options
        self._background = background
        self._models = ResolvedModels(options.model)

    async def aclose(self) -> None:
        """Close what its model has open in the running event loop."""
        await self._models.aclose()

    async def run_ended(self, ending: RunEnded) -> None:
        """Begin to make a title, if the run has gone well (M-163)."""
        conversation = memory_context(ending.request_context)
        if conversation is None or ending.status != "success":
            return
        self._background.begin("the title of a thread", self._give(conversation, ending))

    async def _give(self, conversation: Conversation, ending: RunEnded) -> None:
        store = memory_store(self.storage)
        transcript = await self._transcript(store, conversation, ())
        if not transcript:
            return
        title = await self._made(transcript, ending.current_model, lambda usage: None)
        if title:
            await _write(store, conversation, title)

    async def _transcript(
        self, store: MemoryStore, conversation: Conversation, new: Iterable[Message]
    ) -> list[Message]:
        """What the conversation begins with; nothing when no title is wanted, or not yet."""
        thread = await store.get_thread_by_id(conversation.thread_id)
        if not _wants_title(thread or conversation):
            return []
        count = max(self._options.min_messages, _FIRST)
        stored = await store.newest_messages(conversation.thread_id, count)
        known = {message.id for message in stored}
        found = [*stored, *(message for message in new if message.id not in known)]
        return found if len(found) >= self._options.min_messages else []

    async def _made(
        self,
        transcript: Sequence[Message],
        current_model: Callable[[], LanguageModel | None],
        count_usage: Callable[[Usage], object],
        abort_signal: AbortSignal | None = None,
    ) -> str:
        options = self._options
        model = current_model() if options.model is None else self._models.get(options.model)
        if model is None:
            return ""
        request = ModelRequest(
            prompt=[
                {"role": "system", "content": options.instructions or INSTRUCTIONS},
                {"role": "user", "content": [{"type": "text", "text": _told(transcript)}]},
            ],
            settings={"temperature": 0.0},
            abort_signal=abort_signal,
        )
        answer = await one_answer(
            model, request, most=_WASTED, count_usage=count_usage, called="the titles of threads"
        )
        return _cleaned(answer.text)


class EmittedTitles(ThreadTitles):
    """`ThreadTitles` whose title the stream tells, in a transient `data-thread-title` (M-161).

    The answer's end waits for it.
    """

    async def process_output_result(self, args: ProcessOutputResultArgs) -> None:
        """Make the title, and tell it; it is stored when the run has gone well."""
        conversation = memory_context(args.request_context)
        if conversation is None or args.result.finish_reason == "error":
            return
        try:
            new = [*args.message_list.get.input.db(), *args.message_list.get.response.db()]
            store = memory_store(self.storage)
            transcript = await self._transcript(store, conversation, new)
            if not transcript:
                return
            title = await self._made(
                transcript, args.current_model, args.count_usage, args.abort_signal
            )
        except Interrupted:
            raise
        except Exception as error:
            _log.warning("memory: the title of a thread failed: %s", type(error).__name__)
            return
        if title and args.writer is not None:
            args.state["title"] = title
            data = {"threadId": conversation.thread_id, "title": title}
            await args.writer.custom({"type": "data-thread-title", "data": data, "transient": True})

    async def run_ended(self, ending: RunEnded) -> None:
        """Store the title, if the run has gone well."""
        conversation, title = memory_context(ending.request_context), ending.state.get("title")
        if conversation is None or not title or ending.status != "success":
            return
        try:
            await _write(memory_store(self.storage), conversation, title)
        except Exception as error:
            _log.warning("memory: the title of a thread failed: %s", type(error).__name__)


def _wants_title(thread: Thread | Conversation) -> bool:
    return not thread.title and not (thread.metadata or {}).get(PINNED_KEY)


async def _write(store: MemoryStore, conversation: Conversation, title: str) -> None:
    """Nobody has given the thread a title meanwhile (M-162)."""
    thread = await store.get_thread_by_id(conversation.thread_id)
    if thread is not None and _wants_title(thread):
        await store.update_thread(thread.id, title)


def _told(transcript: Iterable[Message]) -> str:
    lines = [
        f"{message.role}: {text[:_SHOWN]}"
        for message in transcript
        if message.role in ("user", "assistant") and (text := joined_text([message]))
    ]
    return "\n\n".join(lines[:_FIRST])


def _cleaned(text: str) -> str:
    """The first line that says something, without what models put around it."""
    lines = (line.strip(" \t\"'`*#“”„«»") for line in clean_text(text).splitlines())
    return next((line[:_LONGEST].strip() for line in lines if line), "")
