"""`pipeline_of`: who is called for each hook of an agent, in order, and where each comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from .engine.assembling import LISTS, around_of, combined, extensions_of, identity, own_list
from .engine.pipeline import Pipeline
from .extension import Around, Opening
from .message_list import MessageList
from .model import LanguageModel, spec_name
from .options import RequestScope, check_option
from .pipeline_rows import Added, PipelineView, rows_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .agent import Agent
    from .request_context import RequestContext

__all__ = ["pipeline_of"]


async def pipeline_of(
    agent: Agent,
    *,
    request_context: RequestContext | Mapping[str, Any] | None = None,
    memory: Mapping[str, Any] | None = None,
) -> PipelineView:
    """What a call of this agent would run, without running anything.

    With `request_context` or `memory`, which are those of a call, functions of the request are
    asked, and memory looks up whose conversation it is. What fails then is a note. Without, they
    are named in `per_request`, and memory shows what it adds to a call that names a conversation.

    Raises `ConfigurationError` for processors that cannot work together, as the call would.
    """
    for name, value in (("request_context", request_context), ("memory", memory)):
        check_option(name, value)
    resolving = _Resolving(agent, request_context, memory)
    lists = [await resolving.own(kind) for kind in LISTS]
    arounds = [await resolving.around(each, lists) for each in await resolving.extensions()]
    if agent.record is not None:
        arounds.append((Added("Recorder", "extension"), agent.record.processors))
    chains = combined(lists, [around for _, around in arounds])
    return PipelineView(
        agent_id=agent.id,
        agent_name=agent.name,
        model=_model_of(agent),
        rows=[*rows_of(Pipeline(*chains), chains, lists, arounds)],
        per_request=tuple(resolving.per_request),
        notes=tuple(resolving.notes),
    )


class _Resolving:
    """The request of a view, and what it has come to."""

    def __init__(self, agent: Agent, context: Any, memory: Mapping[str, Any] | None) -> None:
        self._agent = agent
        self._memory = memory
        self._asks = context is not None or memory is not None
        asked = {"request_context": context, "memory": memory}
        self._context, self._thread, self._resource = identity(asked)
        self._scope = RequestScope(self._context)
        self.per_request: list[str] = []
        self.notes: list[str] = []

    async def own(self, kind: str) -> list[Any]:
        """One of the user's lists; nothing when it could not be found out."""
        if callable(getattr(self._agent, kind)) and not self._asks:
            self.per_request.append(kind)
            return []
        try:
            return await own_list(self._agent, kind, None, self._scope)
        except Exception as error:
            self._note(kind, error)
            return []

    async def extensions(self) -> Sequence[Any]:
        """The memory, if there is one, and the other extensions."""
        memory: Any = self._agent.memory
        if memory is not None and not hasattr(memory, "extend"):
            if not self._asks:
                self.per_request.append("memory")
                return self._agent.extensions
        try:
            return await extensions_of(self._agent, self._scope)
        except Exception as error:
            self._note("memory", error)
            return self._agent.extensions

    async def around(self, extension: Any, lists: Sequence[list[Any]]) -> tuple[Added, Around]:
        """What an extension adds."""
        inputs, outputs, _ = lists
        is_memory = extension not in self._agent.extensions
        shows = getattr(extension, "get_input_processors", None)
        added = Added(
            origin=type(extension).__name__,
            source="memory" if is_memory else "extension",
            needs_conversation=callable(shows) and not (self._thread and self._resource),
        )
        around = Around()
        try:
            around = await around_of(extension, self._opening(inputs, outputs))
        except Exception as error:
            self._note(added.origin, error)
        if added.needs_conversation:  # what it would add to a call that names one
            around = Around(
                before_input=extension.get_input_processors(inputs),
                after_output=extension.get_output_processors(outputs, configured_input=inputs),
            )
        return added, around

    def _opening(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Opening:
        return Opening(
            run_id="",
            agent_id=self._agent.id,
            request_context=self._context,
            message_list=MessageList(self._thread, self._resource if self._thread else None),
            memory=self._memory,
            input_processors=inputs,
            output_processors=outputs,
        )

    def _note(self, what: str, error: Exception) -> None:
        self.notes.append(f"{what}: {type(error).__name__}: {error}")


def _model_of(agent: Agent) -> str | None:
    """What the agent's model is called; `None` for a function of the request, and for none."""
    model = agent.model
    if isinstance(model, LanguageModel):
        return f"{model.provider}/{model.model_id}"
    if isinstance(model, list | tuple):
        entries = cast("Sequence[Any]", model)
        return ", then ".join(filter(None, map(spec_name, entries))) or None
    return (None if callable(model) else spec_name(model)) or None
