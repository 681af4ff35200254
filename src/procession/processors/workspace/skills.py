"""`SkillsProcessor`: the model is told which skills there are, and loads what it needs (B-340)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Literal, cast

from ..builtin import BuiltIn
from ..option_checks import callback, flag, one_of
from .skill_library import SkillsOf
from .skill_listing import FORMATS, Located, listing
from .skill_tools import LOAD, READ, SkillShelf, earlier_tools, offered

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    from ...policy import Policy
    from ...processor import ProcessInputStepArgs, ProcessInputStepResult, ProcessorViolation
    from .skill import Skill, SkillSource

__all__ = ["SkillsProcessor"]

_log = logging.getLogger("procession.processors")

_TAG = "skills"
_MANY = 100
_HOW = (
    "Skills are instructions for certain kinds of work. When one fits the task, load it with "
    f"{LOAD} and do as it says."
)


class SkillsProcessor(BuiltIn):
    """Lists the skills in a system message, and offers tools to load them (B-340).

    The skills are those of a `workspace`, or `skills`: a list of `Skill`s and of directories, whose
    folders hold a `SKILL.md` each. Names, descriptions and locations are listed, by name.

    - `format`: `"xml"`, `"json"` or `"markdown"`.
    - `format_location(skill)`: what is told of a skill's location instead of it; `None` or an empty
      text: nothing.
    - `blocking_refresh`: directories are looked at before each step, and not only before the first
      one of a run.

    `load_skill` gives the instructions, `read_skill_file` the files of a skill. Raises
    `ConfigurationError` in a run whose tools are called like one of these, and `OptionError` for an
    option that cannot be used.
    """

    fixed_id = "skills-processor"
    name = "Skills Processor"

    def __init__(
        self,
        *,
        workspace: SkillSource | None = None,
        skills: Iterable[Skill | str | os.PathLike[str]] | None = None,
        format: Literal["xml", "json", "markdown"] = "xml",
        format_location: Callable[[Skill], str | None] | None = None,
        blocking_refresh: bool = False,
        on_violation: Callable[[ProcessorViolation], object] | None = None,
        policy: Policy | None = None,
    ) -> None:
        super().__init__(on_violation=on_violation, policy=policy)
        owner = type(self).__name__
        self._format = one_of(owner, "format", format, FORMATS)
        self._located: Located = _location
        if callback(owner, "format_location", format_location) is not None:
            self._located = cast("Located", format_location)
        always = flag(owner, "blocking_refresh", blocking_refresh)
        self._skills = SkillsOf(owner, workspace, skills, always=always)
        self._is_told = False

    async def process_input_step(
        self, args: ProcessInputStepArgs[Any]
    ) -> ProcessInputStepResult | None:
        """The list, in a system message of this step, and the tools; nothing without skills."""
        earlier = earlier_tools(type(self).__name__, args, (LOAD, READ))
        skills = await self._skills.now(args.state)
        if not skills:
            return None
        if len(skills) > _MANY and not self._is_told:
            self._is_told = True
            _log.warning(
                "processor %r lists %d skills in each prompt: SkillSearchProcessor has them found",
                *(self.id, len(skills)),
            )
        text = listing(skills, self._format, self._located)
        args.message_list.add_system(f"{text}\n\n{_HOW}", _TAG)
        return offered(args, SkillShelf(skills, earlier).tools())


def _location(skill: Skill) -> str | None:
    return skill.location
