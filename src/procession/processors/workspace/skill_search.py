"""`SkillSearchProcessor`: skills that are found when they are needed (B-341)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ...errors import ConfigurationError
from ...request_context import MASTRA_RESOURCE_ID_KEY, MASTRA_THREAD_ID_KEY
from ..builtin import BuiltIn
from ..option_checks import flag, mapping_of, number, whole
from ..tools.loaded_tools import LoadedTools, ToolSearchStats
from ..tools.tool_index import ToolIndex
from .skill_library import SkillsOf
from .skill_tools import LOAD, READ, SEARCH, SearchShelf, SkillSearchOptions, earlier_tools, offered

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping

    from ...policy import Policy
    from ...processor import ProcessInputStepArgs, ProcessInputStepResult, ProcessorViolation
    from .skill import Skill, SkillSource

__all__ = ["SkillSearchProcessor"]

_NO_THREAD = "default"
_TAG = "skill-search"


class SkillSearchProcessor(BuiltIn):
    """Offers `search_skills` and `load_skill` in place of a list of all skills (B-341).

    The skills are those of a `workspace`, or `skills`, as for `SkillsProcessor`. A skill that was
    loaded stands in a system message from the next step on, and in later runs of the thread;
    `read_skill_file` gives the model its files.

    `search` has `top_k` (how many hits) and `min_score`. What is loaded is remembered per thread
    and resource, until it is not used for `ttl` milliseconds (0: until the process ends), of the
    10,000 threads used last; requests without a thread share one. With `blocking_refresh`
    directories are looked at before each step, and not only before the first one of a run.

    Raises `ConfigurationError` in a run whose tools are called like one of the three, and
    `OptionError` for an option that cannot be used.
    """

    fixed_id = "skill-search"
    name = "Skill Search Processor"
    provides_skill_discovery = "on-demand"
    """A workspace that finds this adds no `SkillsProcessor` of its own."""

    def __init__(
        self,
        *,
        workspace: SkillSource | None = None,
        skills: Iterable[Skill | str | os.PathLike[str]] | None = None,
        search: Mapping[str, Any] | None = None,
        ttl: float = 3_600_000,
        blocking_refresh: bool = False,
        on_violation: Callable[[ProcessorViolation], object] | None = None,
        policy: Policy | None = None,
    ) -> None:
        super().__init__(on_violation=on_violation, policy=policy)
        owner = type(self).__name__
        self._options = _search_options(owner, search)
        self._memory = LoadedTools(number(owner, "ttl", ttl) / 1000)
        always = flag(owner, "blocking_refresh", blocking_refresh)
        self._skills = SkillsOf(owner, workspace, skills, always=always)
        self._index: tuple[tuple[Skill, ...], ToolIndex] = (), ToolIndex({})

    async def process_input_step(
        self, args: ProcessInputStepArgs[Any]
    ) -> ProcessInputStepResult | None:
        """What is loaded, in system messages of this step, and the tools; if there are skills."""
        owner = type(self).__name__
        if SEARCH in earlier_tools(owner, args, (SEARCH,)):
            raise ConfigurationError(f"use one {owner} per agent, with all the skills")
        earlier = earlier_tools(owner, args, (LOAD, READ))
        skills = await self._skills.now(args.state)
        if not skills:
            return None
        ids = args.request_context
        thread: str = ids.get(MASTRA_THREAD_ID_KEY) or _NO_THREAD
        resource: str | None = ids.get(MASTRA_RESOURCE_ID_KEY) or None
        shelf = SearchShelf(
            skills,
            earlier,
            index=self._indexed(skills),
            options=self._options,
            load=partial(self._memory.add, thread, resource=resource),
        )
        for name in self._memory.of(thread, resource):
            skill = shelf.skills.get(name)
            if skill is not None:
                args.message_list.add_system(f"# Skill: {name}\n\n{skill.instructions}", _TAG)
        return offered(args, shelf.tools())

    def _indexed(self, skills: tuple[Skill, ...]) -> ToolIndex:
        """The index of these skills, which are the same object as long as nothing changes."""
        indexed = self._index
        if indexed[0] is not skills:
            indexed = self._index = skills, ToolIndex({skill.name: skill for skill in skills})
        return indexed[1]

    # ── what is loaded ─────────────────────────────────────────────────────────────────────────

    def clear_state(self, thread_id: str = _NO_THREAD) -> None:
        """Forget what is loaded in a thread, whichever resource has it."""
        self._memory.clear(thread_id)

    def clear_all_state(self) -> None:
        """Forget what is loaded in all threads."""
        self._memory.clear()

    def get_state_stats(self) -> ToolSearchStats:
        """In how many threads skills are loaded, and the time of the oldest use."""
        return self._memory.stats()

    def cleanup_now(self) -> int:
        """Forget threads that were not used for `ttl`; how many. It also happens by itself."""
        return self._memory.clean_up()

    def dispose(self) -> None:
        """Let go of what is remembered: loaded skills, and the index. It may be used again."""
        self._memory.clear()
        self._index = (), ToolIndex({})


def _search_options(owner: str, given: Any) -> SkillSearchOptions:
    options = mapping_of(owner, "search", given, SkillSearchOptions.__struct_fields__)
    usual = SkillSearchOptions()
    return SkillSearchOptions(
        top_k=whole(owner, "search.top_k", options.get("top_k", usual.top_k), least=1),
        min_score=number(owner, "search.min_score", options.get("min_score", usual.min_score)),
    )
