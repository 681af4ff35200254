"""Which conversation a run belongs to: thread, resource and the options in force (M-005, M-006)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from ..errors import ConfigurationError, InputError
from ..keywords import check_keywords
from ..options import ID, is_id
from ..request_context import MASTRA_RESOURCE_ID_KEY, MASTRA_THREAD_ID_KEY
from .options import MemoryOptions

if TYPE_CHECKING:
    from ..request_context import RequestContext

__all__ = ["MEMORY_CONTEXT_KEY", "Conversation", "asked_of", "memory_context"]

MEMORY_CONTEXT_KEY = "MastraMemory"
"""The entry of a request context that tells of the run's memory (R-816)."""

_CALL = ("thread", "resource", "options")
_THREAD = ("id", "title", "metadata")


class Conversation(Struct, frozen=True, kw_only=True):
    """The thread and the resource of a run, and the memory options that are in force for it.

    `title` and `metadata` are those that the thread gets if the run creates it; `existed` tells
    that it was there when the run began.
    """

    thread_id: str
    resource_id: str
    title: str | None = None
    metadata: dict[str, Any] | None = None
    existed: bool = False
    options: MemoryOptions = MemoryOptions()

    def entry(self) -> dict[str, Any]:
        """The entry of the request context, as other readers expect it."""
        thread: dict[str, Any] = {"id": self.thread_id}
        if self.title is not None:
            thread["title"] = self.title
        if self.metadata is not None:
            thread["metadata"] = self.metadata
        return {
            "thread": thread,
            "resourceId": self.resource_id,
            "memoryConfig": self.options,
            "existed": self.existed,
        }


def memory_context(request_context: RequestContext) -> Conversation | None:
    """The conversation of a run, for hooks and tools; `None` for a run without one (M-006).

    Where no `Memory` is at work, thread and resource id alone make one, with default options: that
    is how processors work that were built by hand (M-045). Raises `InputError` when there is only
    one of the two.
    """
    entry: Any = request_context.get(MEMORY_CONTEXT_KEY)
    if isinstance(entry, Mapping):
        found = cast("Mapping[str, Any]", entry)
        thread: Any = found.get("thread") or {}
        options = found.get("memoryConfig")
        return Conversation(
            thread_id=thread["id"],
            resource_id=found["resourceId"],
            title=thread.get("title"),
            metadata=thread.get("metadata"),
            existed=found.get("existed") is True,
            options=options if isinstance(options, MemoryOptions) else MemoryOptions(),
        )
    ids = _ids(request_context)
    return None if ids is None else Conversation(thread_id=ids[0], resource_id=ids[1])


def _ids(request_context: RequestContext) -> tuple[str, str] | None:
    thread = request_context.get(MASTRA_THREAD_ID_KEY)
    resource = request_context.get(MASTRA_RESOURCE_ID_KEY)
    if not thread and not resource:
        return None
    if not thread or not resource:
        there, missing = ("thread", "resource") if thread else ("resource", "thread")
        raise InputError(
            f"memory needs a thread and a resource, a {there} alone is not enough: add {missing} "
            f'to memory={{"thread": …, "resource": …}}, or to the request context'
        )
    return thread, resource


def asked_of(
    memory: Mapping[str, Any] | None, request_context: RequestContext
) -> tuple[Conversation | None, Any]:
    """The conversation that a call names, and the options it gives (M-002 to M-004).

    Raises `InputError` for one of the two ids alone, `OptionError` for keys that do not exist, and
    `ConfigurationError` for what cannot be a title or metadata.
    """
    given = dict(memory or {})
    check_keywords("memory", given, _CALL)
    ids = _ids(request_context)
    title = metadata = None
    thread = given.get("thread")
    if isinstance(thread, Mapping):
        asked = dict(cast("Mapping[str, Any]", thread))
        check_keywords("memory: thread", asked, _THREAD)
        title, metadata = asked.get("title"), asked.get("metadata")
        if title is not None and not is_id(title):
            raise ConfigurationError(f"memory: the title of a thread must be {ID}")
        if metadata is not None and not isinstance(metadata, Mapping):
            raise ConfigurationError(
                f"memory: metadata of a thread must be a mapping, not {type(metadata).__name__}"
            )
        if ids is not None and asked.get("id") != ids[0]:
            title = metadata = None  # the request context names another thread
    if ids is None:
        return None, given.get("options")
    found = Conversation(
        thread_id=ids[0],
        resource_id=ids[1],
        title=title,
        metadata=None if metadata is None else dict(cast("Mapping[str, Any]", metadata)),
    )
    return found, given.get("options")
