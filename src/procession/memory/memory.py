"""`Memory`: what an agent remembers of its conversations, as processors around the user's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Unpack

from msgspec import Struct
from msgspec.structs import replace

from ..errors import InputError, OptionError, OwnerError
from ..extension import Around
from ..host import hand_over
from ..keywords import check_keywords
from ..lifetime import close_all
from ..store import Store
from ..tools import Tool
from ..waiting import WaitingCalls
from .bounded_history import BoundedHistory
from .conversation import MEMORY_CONTEXT_KEY, Conversation, asked_of, memory_context
from .history import MessageHistory
from .input_filter import MemoryInputFilter
from .meanings import forget_meanings
from .notes import note_form
from .options import OptionsDict, WorkingMemoryOptions, merged_options, read_options
from .recall import Found, SemanticRecall
from .threads import RecallDict, Threads, memory_store
from .titles import EmittedTitles, ThreadTitles
from .working import (
    SignalledNotes,
    WorkingMemory,
    change_notes,
    clear_notes,
    notes_of,
    working_memory_tool,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..embedder import EmbedderSpec
    from ..extension import Opening
    from ..host import Host
    from ..store import Include, MemoryStore
    from ..vector_store import VectorStore
    from .options import MemoryOptions, RecallOptions, Scope, SemanticRecallDict, TitleOptions
    from .threads import Recalled

__all__ = ["Memory"]

_NAME = "Memory"
_OWN_OPTIONS = ("storage", "vector", "embedder", "options")


class Memory(Threads):
    """Remembers conversations: `Agent(…, memory=Memory(storage=…))`.

    A call uses it when it names a conversation: `memory={"thread": "t1", "resource": "u1"}`, where
    `thread` may be `{"id": …, "title": …, "metadata": …}`, and `options` override those given here
    for this call (M-002, M-020). Nothing of a thread is loaded or saved by other calls (M-003).

    `storage` is a `Store`, or its domain `"memory"`; it is needed when a conversation is first used
    (M-021). `vector` and `embedder` are what `semantic_recall` looks things up with. Options may be
    given as keywords, or as a mapping `options`:

    - `last_messages` (10): how many stored messages a prompt holds; `False`, and 0: nothing is
      loaded and nothing is saved;
    - `message_history`: `{"max_tokens": …, "at_max_remove_tokens": …}`, the history within a number
      of tokens of the whole prompt, in place of `last_messages` or beside it (M-091);
    - `semantic_recall`, `working_memory`, `generate_title`: off unless asked for;
    - `read_only` (False): load, but save nothing (M-024);
    - `retain_full_input` (False): take what the caller sends as it is, also what is known (M-066);
    - `save_on_abort` (False): keep, of a run that a processor has blocked after the model answered,
      the user's message and the calls of tools that really ran (M-108).

    Raises `OptionError`, which names the option, for what cannot work (M-022, M-026).
    """

    def __init__(
        self,
        *,
        storage: Store | MemoryStore | None = None,
        vector: VectorStore | Literal[False] | None = None,
        embedder: EmbedderSpec | None = None,
        options: OptionsDict | None = None,
        **keywords: Unpack[OptionsDict],
    ) -> None:
        super().__init__(storage)
        check_keywords(_NAME, keywords, (*_OWN_OPTIONS, *OptionsDict.__annotations__))
        for name, value in (("vector", vector), ("embedder", embedder)):
            if isinstance(value, type):
                raise OptionError(f"{_NAME}: {name} is the class {value.__name__}: make one of it")
        self.vector = vector or None
        self.embedder = embedder
        self._given = merged_options(_NAME, merged_options(_NAME, {}, options), keywords)
        self.options = self._checked(self._given)
        """The options in force where a call gives none."""
        self.page_size = self.options.last_messages or False
        self._kept: _Built | None = None
        self.waiting_calls: WaitingCalls | None = None
        """Where runs of agents with this memory wait; with a whole store, in that (G-F5)."""
        if isinstance(storage, Store):
            self.waiting_calls = WaitingCalls(store=storage)

    def _checked(self, given: Mapping[str, Any]) -> MemoryOptions:
        options = read_options(_NAME, given)
        if options.semantic_recall is not None:
            for name, there in (("vector", self.vector), ("embedder", self.embedder)):
                if there is None:
                    raise OptionError(f"{_NAME}: semantic_recall needs {name}=…")
        notes = options.working_memory
        if notes is not None:
            note_form(_NAME, notes.template, notes.schema)  # tells what cannot be one
        return options

    def options_for(self, asked: Mapping[str, Any] | None) -> MemoryOptions:
        """The options of a call that gives `asked` (M-020)."""
        return self._checked(merged_options(_NAME, self._given, asked)) if asked else self.options

    # ── with an app ────────────────────────────────────────────────────────────────────────────

    def register_app(self, app: Host) -> None:
        """Take the app's store, if there is no storage (M-021); all is closed with the app."""
        super().register_app(app)
        hand_over(app, self.vector)
        for held in (self.vector, self.embedder, self):
            app.attach(held)

    async def aclose(self) -> None:
        """Wait for the work behind runs, 10 seconds at most, and close the connections of models.

        What was given, `storage` and `vector`, stays open: it is its owner's, or the app's. The
        memory can be used again.
        """
        await self.background.aclose()
        if self._kept is not None:
            await close_all([*self._kept.before, *self._kept.behind])

    # ── what a run is given ────────────────────────────────────────────────────────────────────

    async def extend(self, opening: Opening) -> Around:
        """The processors and tools of one run; nothing without a conversation (M-003).

        Raises `InputError` for a thread without a resource, or the reverse, and for a run that has
        waited while somebody deleted its thread; `OwnerError` for a thread of another resource
        (M-004, R-813, R-814).
        """
        conversation, asked = asked_of(opening.memory, opening.request_context)
        options = self.options_for(asked)
        if conversation is None:
            return Around()
        thread = await memory_store(self.storage).get_thread_by_id(conversation.thread_id)
        if thread is not None and thread.resource_id != conversation.resource_id:
            raise OwnerError(
                f"thread {thread.id!r} belongs to resource {thread.resource_id!r}, not to "
                f"{conversation.resource_id!r}"
            )
        if thread is None and opening.continues:
            _refuse_deleted(conversation, options, memory_context(opening.request_context))
        conversation = replace(conversation, options=options, existed=thread is not None)
        opening.request_context.pin(MEMORY_CONTEXT_KEY, conversation.entry())
        inputs, outputs = opening.input_processors, opening.output_processors
        built = self._built(options)
        return Around(
            before_input=without(built.before, inputs),
            after_output=without(built.behind, (*inputs, *outputs)),
            tools=built.tools,
        )

    def get_input_processors(self, configured: Iterable[Any] = ()) -> list[Any]:
        """What runs before the input processors `configured`; theirs by id are left out (M-046)."""
        return without(self._built(self.options).before, configured)

    def get_output_processors(
        self, configured: Iterable[Any] = (), *, configured_input: Iterable[Any] = ()
    ) -> list[Any]:
        """What runs behind the output processors `configured` (M-046).

        What stands among `configured_input` saves by itself, and is left out as well (M-043).
        """
        return without(self._built(self.options).behind, (*configured_input, *configured))

    def list_tools(self) -> dict[str, Tool]:
        """The tools that are offered to the model beside the agent's own, by name."""
        return dict(self._built(self.options).tools)

    def _built(self, options: MemoryOptions) -> _Built:
        """The processors and tools of options; those in force where a call gives none are kept."""
        if options is not self.options:
            return self._build(options)
        if self._kept is None or self._kept.storage is not self.storage:
            self._kept = self._build(options)
        return self._kept

    def _build(self, options: MemoryOptions) -> _Built:
        before: list[Any] = []
        behind: list[Any] = []
        history, recall = options.has_history, options.semantic_recall
        if history:
            kept = options.retain_full_input
            before.append(MemoryInputFilter(storage=self.storage, retain_full_input=kept))
        if options.working_memory is not None:
            before.append(self._notes(options.working_memory, read_only=options.read_only))
        if history:
            before.append(self._history(options, read_only=True))  # the one behind saves
        if recall is not None:
            before.append(self._recall(recall, read_only=True))
        if history and not options.read_only:
            if recall is not None:
                behind.append(self._recall(recall, read_only=False))
            behind.append(self._history(options, read_only=False))
            if options.generate_title is not None:
                behind.append(self._titles(options.generate_title))
        return _Built(self.storage, before, behind, self._tools(options))

    def _history(self, options: MemoryOptions, *, read_only: bool) -> MessageHistory:
        given: dict[str, Any] = {
            "storage": self.storage,
            "last_messages": options.last_messages,
            "read_only": read_only,
            "save_on_abort": options.save_on_abort,
        }
        if options.budget is None:
            return MessageHistory(**given)
        return BoundedHistory(budget=options.budget, **given)

    def _titles(self, options: TitleOptions) -> ThreadTitles:
        made = EmittedTitles if options.emit_event else ThreadTitles
        return made(storage=self.storage, options=options, background=self.background)

    def _recall(self, options: RecallOptions, *, read_only: bool) -> SemanticRecall:
        assert self.vector is not None and self.embedder is not None  # checked with the options
        return SemanticRecall(
            storage=self.storage,
            vector=self.vector,
            embedder=self.embedder,
            top_k=options.top_k,
            message_range={"before": options.before, "after": options.after},
            scope=options.scope,
            threshold=options.threshold,
            filter=options.filter,
            index_name=options.index_name,
            index_config=options.index_config,
            embedder_options=options.embedder_options,
            read_only=read_only,
        )

    def _notes(self, options: WorkingMemoryOptions, *, read_only: bool) -> WorkingMemory:
        made = SignalledNotes if options.use_state_signals else WorkingMemory
        return made(
            storage=self.storage,
            scope=options.scope,
            template=options.template,
            schema=options.schema,
            agent_managed=options.agent_managed,
            read_only=read_only,
        )

    def _tools(self, options: MemoryOptions) -> dict[str, Tool]:
        notes = options.working_memory
        if notes is None or not notes.agent_managed or options.read_only:
            return {}
        tool = working_memory_tool(self.storage, notes)
        return {tool.name: tool}

    # ── messages ──────────────────────────────────────────────────────────────────────────────

    async def search(
        self,
        text: str,
        *,
        resource_id: str,
        thread_id: str | None = None,
        options: SemanticRecallDict | None = None,
    ) -> list[Found]:
        """Stored messages that mean something like `text`, the nearest first, with neighbours.

        Of one thread if `thread_id` is given, else of all threads of the resource. `options` are
        those of `semantic_recall`, such as `{"top_k": 10, "message_range": 0}`, laid over the
        memory's own; `scope` follows from `thread_id`. Raises `OptionError` without a vector store
        and an embedder.
        """
        asked = merged_options(_NAME, self._given, {"semantic_recall": options or True})
        found = self._checked(asked).semantic_recall
        assert found is not None
        scope: Scope = "resource" if thread_id is None else "thread"
        place = Conversation(thread_id=thread_id or "", resource_id=resource_id)
        recall = self._recall(replace(found, scope=scope), read_only=True)
        return await recall.found(text, place)

    async def recall(
        self,
        thread_id: str,
        resource_id: str | None = None,
        *,
        include: Sequence[Include] | None = None,
        vector_search_string: str | None = None,
        **how: Unpack[RecallDict],
    ) -> Recalled:
        """Messages of a thread; `vector_search_string` adds those that mean something like it.

        They are of the thread, or of any thread of `resource_id` if that is given and recall has
        `scope="resource"`. See `Threads.recall` for the rest (M-181).
        """
        around: Sequence[Include] = ()
        if vector_search_string is not None:
            around = await self._found(vector_search_string, thread_id, resource_id)
        asked = [*(include or ()), *around]
        return await super().recall(thread_id, resource_id, include=asked, **how)

    async def _found(self, text: str, thread_id: str, resource_id: str | None) -> Sequence[Include]:
        options = self._checked(merged_options(_NAME, self._given, {"semantic_recall": True}))
        found = options.semantic_recall
        assert found is not None
        if resource_id is None:
            thread = await self.get_thread_by_id(thread_id)
            if thread is None:
                return ()
            found, resource_id = replace(found, scope="thread"), thread.resource_id
        place = Conversation(thread_id=thread_id, resource_id=resource_id)
        return await self._recall(found, read_only=True).places(text, place)

    async def delete_thread(self, thread_id: str) -> None:
        """Delete a thread with its messages, and in the background their vectors (M-148)."""
        await super().delete_thread(thread_id)
        self._forget(thread_id=thread_id)

    async def delete_resource(self, resource_id: str) -> None:
        """Delete all there is of a resource: threads, messages, notes, vectors, runs that wait.

        All of it is gone when this returns; where something fails, that is raised, and the rest can
        be deleted by another call. Runs under way in threads that exist leave nothing behind; one
        that begins a thread of its own has to be ended before. Runs that wait are looked for in the
        storage, if that is a whole `Store`, and in `waiting_calls`; for an agent with a room of its
        own call `agent.waiting_calls.forget_resource`. Caches and traces are not memory's.
        """
        await self._store.delete_resource(resource_id)
        room = self.waiting_calls
        if room is None and isinstance(self.storage, Store):
            room = WaitingCalls(store=self.storage)
        if room is not None:
            await room.forget_resource(resource_id)
        if self.vector is not None:
            await forget_meanings(self.vector, self._index_name, resource_id=resource_id)

    async def delete_messages(self, ids: Iterable[str]) -> None:
        """Delete the messages with these ids, and in the background their vectors (M-148)."""
        ids = list(ids)
        await super().delete_messages(ids)
        if ids:
            self._forget(ids=ids)

    def _forget(self, **what: Any) -> None:
        if self.vector is not None:
            forgetting = forget_meanings(self.vector, self._index_name, **what)
            self.background.begin("forgetting vectors", forgetting)

    @property
    def _index_name(self) -> str | None:
        recall = self.options.semantic_recall
        return None if recall is None else recall.index_name

    # ── working memory ─────────────────────────────────────────────────────────────────────────

    async def get_working_memory(
        self, *, thread_id: str | None = None, resource_id: str | None = None
    ) -> str | None:
        """The notes about a resource, or those of a thread, as `working_memory` has it (M-127).

        A schema's notes are JSON text. Raises `InputError` when the id is missing that the scope
        asks for.
        """
        place, options = self._place(thread_id, resource_id)
        return await notes_of(memory_store(self.storage), place, options.scope)

    async def update_working_memory(
        self,
        working_memory: Any,
        *,
        thread_id: str | None = None,
        resource_id: str | None = None,
    ) -> str | None:
        """Write the notes as the agent's tool does: a text, or what is merged into the object.

        `None` clears them. The notes as they are now come back. Raises `InputError` for what does
        not fit (M-123).
        """
        place, options = self._place(thread_id, resource_id)
        if working_memory is None:
            await clear_notes(memory_store(self.storage), place, options.scope)
            return None
        return await change_notes(memory_store(self.storage), place, options, working_memory)

    def _place(
        self, thread_id: str | None, resource_id: str | None
    ) -> tuple[Conversation, WorkingMemoryOptions]:
        options = self.options.working_memory or WorkingMemoryOptions()
        wanted = {"resource": resource_id, "thread": thread_id}[options.scope]
        if wanted is None:
            raise InputError(f"working memory is kept by {options.scope}: give {options.scope}_id")
        place = Conversation(thread_id=thread_id or "", resource_id=resource_id or "")
        return place, options


def _refuse_deleted(
    conversation: Conversation, options: MemoryOptions, before: Conversation | None
) -> None:
    """A run that waits has a thread, unless none is kept; where it is gone, nothing may go on."""
    kept = options.has_history and not options.read_only
    if kept or (before is not None and before.existed):
        raise InputError(
            f"thread {conversation.thread_id!r} was deleted while this run waited, so its tool "
            f"call is not run: let go of it with waiting_calls.forget(run_id)"
        )


class _Built(Struct):
    """What stands around the user's processors, and the store that it was made for."""

    storage: Any
    before: list[Any]
    behind: list[Any]
    tools: dict[str, Tool]


def without(found: Sequence[Any], placed: Iterable[Any]) -> list[Any]:
    """Those of `found` whose ids nobody has placed himself (M-043)."""
    ids = set(_ids(placed))
    return [entry for entry in found if entry.id not in ids]


def _ids(entries: Iterable[Any]) -> Iterable[Any]:
    """The ids of processors, and of those within a workflow that stands for one (M-044)."""
    for entry in entries:
        yield getattr(entry, "id", None)
        yield from _ids(getattr(entry, "processors", ()))
