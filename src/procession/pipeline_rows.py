"""The rows of a view of a pipeline: what stands in each chain, and where it comes from."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct

from .engine.assembling import LISTS
from .engine.granting import with_automatic
from .extension import Around
from .processor import ERROR_HOOKS, INPUT_HOOKS, OUTPUT_HOOKS, in_place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .engine.pipeline import Link, Pipeline
    from .policy import Policy

__all__ = ["HOOK_ORDER", "Added", "PipelineRow", "PipelineView", "PolicyView", "Source", "rows_of"]

HOOK_ORDER = (
    "process_input",
    "process_input_step",
    "process_llm_request",
    "process_output_stream",
    "process_llm_response",
    "process_api_error",
    "process_output_step",
    "process_tool_result",
    "process_output_result",
    "run_ended",
)
"""The hooks in the order of a run; `run_ended`, which is none, is told last."""

Source = Literal["list", "memory", "extension", "automatic"]


class PolicyView(Struct, frozen=True, kw_only=True, rename="camel"):
    """What failures and delays of a processor mean; `timeout` is in seconds. See `Policy`."""

    on_error: str
    timeout: float | None = None
    fallback: str | None = None
    """The id of the processor that does the work instead."""
    breaker_failures: int | None = None
    breaker_seconds: float | None = None
    observe: bool = False


class PipelineRow(Struct, frozen=True, kw_only=True, rename="camel"):
    """One processor's place in the chain of one hook."""

    hook: str
    position: int
    """Its place among those that are called for this hook, from 0."""
    processor_id: str
    type: str
    """The name of its class."""
    source: Source
    """Whose it is: of the user's `list`, of the `memory`, of another `extension`, or of every run
    (`automatic`)."""
    origin: str
    """The list it stands in, or the name of the class that has added it."""
    name: str | None = None
    description: str | None = None
    workflow_id: str | None = None
    """The workflow that stands in the list for it."""
    graph: Sequence[Mapping[str, Any]] = ()
    """The stages, where it is part of a workflow that acts as one."""
    is_async: bool = False
    needs_conversation: bool = False
    """Whether only calls have it that name a conversation (M-003)."""
    policy: PolicyView | None = None
    watches: Sequence[str] = ()
    """What it looks for in the stream, in words that show no secret text."""
    lanes: Sequence[str] = ()
    granularity: str | None = None
    """How much of a stream it looks at with one call."""
    sees_data_parts: bool = False


class PipelineView(Struct, frozen=True, kw_only=True, rename="camel"):
    """The resolved chains of an agent: `rows` by hook, in the order in which they are called."""

    agent_id: str
    agent_name: str
    model: str | None
    rows: Sequence[PipelineRow]
    per_request: Sequence[str] = ()
    """What is a function of the request, and was not asked: its processors are not among the rows.
    """
    notes: Sequence[str] = ()
    """What could not be resolved, and why (O-133)."""

    def of(self, hook: str) -> list[PipelineRow]:
        """The rows of one hook."""
        return [row for row in self.rows if row.hook == hook]

    def to_json(self) -> dict[str, Any]:
        """The JSON form, with keys in camelCase."""
        return msgspec.json.decode(msgspec.json.encode(self, enc_hook=str))


class Added(Struct, frozen=True):
    """An extension as it was asked."""

    origin: str
    source: Source
    needs_conversation: bool = False


class _Place(Struct, frozen=True, kw_only=True):
    source: Source
    origin: str
    needs_conversation: bool = False
    workflow_id: str | None = None


class _Places:
    """Where each processor of a combined list comes from."""

    def __init__(self, lists: Sequence[list[Any]], arounds: Sequence[tuple[Added, Around]]) -> None:
        self._own = {
            kind: {id(entry) for entry in entries}
            for kind, entries in zip(LISTS, lists, strict=True)
        }
        self._added = [(added, {*map(id, _entries_of(around))}) for added, around in arounds]

    def of(self, entry: Any, kind: str) -> _Place:
        """The place of an entry of the list `kind`."""
        if id(entry) not in self._own[kind]:
            for added, entries in self._added:
                if id(entry) in entries:
                    return _Place(
                        source=added.source,
                        origin=added.origin,
                        needs_conversation=added.needs_conversation,
                    )
        within = entry.id if hasattr(entry, "stands_for") else None
        return _Place(source="list", origin=kind, workflow_id=within)


def _entries_of(around: Around) -> Iterator[Any]:
    for name in Around.__struct_fields__:
        if name != "tools":
            yield from getattr(around, name)


_HOOKS = dict(zip(LISTS, (INPUT_HOOKS, OUTPUT_HOOKS, ERROR_HOOKS), strict=True))


def rows_of(
    pipeline: Pipeline,
    chains: Sequence[list[Any]],
    lists: Sequence[list[Any]],
    arounds: Sequence[tuple[Added, Around]],
) -> Iterator[PipelineRow]:
    """The rows of a compiled pipeline, which is that of `chains`: the user's own `lists`, with what
    extensions put around them.
    """
    places = _Places(lists, arounds)
    known: dict[tuple[str, int], _Place] = {}
    for kind, entries in zip(LISTS, chains, strict=True):
        for entry in entries:
            for hook in (*_HOOKS[kind], "run_ended"):
                for inner, _ in in_place([entry], hook):
                    known.setdefault((hook, id(inner)), places.of(entry, kind))
    for hook in HOOK_ORDER:
        if hook == "run_ended":
            closers = enumerate(pipeline.closers)
            yield from (_closer(at, one, known[hook, id(one)]) for at, one in closers)
            continue
        chain: Iterable[Link] = getattr(pipeline, hook)
        links = with_automatic(tuple(chain)) if hook in ERROR_HOOKS else chain
        for position, link in enumerate(links):
            yield _row(position, link, known.get((hook, id(link.processor)), _AUTOMATIC))


_AUTOMATIC = _Place(source="automatic", origin="Agent")


def _row(position: int, link: Link, place: _Place) -> PipelineRow:
    looks = link.name == "process_output_stream"
    watches, lanes = link.sought() if looks else ((), ())
    units = [watch for watch in map(_unit_of, watches) if watch]
    granularity = getattr(link.processor, "granularity", None) or (units[0] if units else None)
    return PipelineRow(
        hook=link.name,
        position=position,
        is_async=link.is_async,
        policy=None if link.guard is None else _policy(link.guard.policy),
        watches=tuple(map(_watch_text, watches)),
        lanes=tuple(lanes) if watches else (),
        granularity=granularity if watches and isinstance(granularity, str) else None,
        sees_data_parts=looks and link.process_data_parts,
        **_identity_of(link.processor, place),
    )


def _closer(position: int, processor: Any, place: _Place) -> PipelineRow:
    return PipelineRow(
        hook="run_ended",
        position=position,
        is_async=inspect.iscoroutinefunction(processor.run_ended),
        **_identity_of(processor, place),
    )


def _identity_of(processor: Any, place: _Place) -> dict[str, Any]:
    """What a row says of the processor itself, whatever the hook."""
    stages: Iterable[Any] = getattr(processor, "stages", ())
    return {
        "processor_id": processor.id,
        "type": type(processor).__name__,
        "name": _text(processor, "name"),
        "description": _text(processor, "description"),
        "graph": tuple(stage.describe() for stage in stages if hasattr(stage, "describe")),
        "source": place.source,
        "origin": place.origin,
        "needs_conversation": place.needs_conversation,
        "workflow_id": place.workflow_id,
    }


def _policy(policy: Policy) -> PolicyView:
    breaker = policy.breaker
    return PolicyView(
        on_error=policy.on_error,
        timeout=policy.timeout,
        fallback=None if policy.fallback is None else policy.fallback.id,
        breaker_failures=None if breaker is None else breaker.failures,
        breaker_seconds=None if breaker is None else breaker.seconds,
        observe=policy.observe,
    )


def _watch_text(watch: Any) -> str:
    """A watch as it shows itself, which for secret texts is their number."""
    shown = f"{watch!r:.60}"
    return type(watch).__name__ if " object at 0x" in shown else shown


def _unit_of(watch: Any) -> str | None:
    return watch.name if type(watch).__name__ == "Unit" else None


def _text(thing: Any, name: str) -> str | None:
    value = getattr(thing, name, None)
    return value if isinstance(value, str) and value else None
