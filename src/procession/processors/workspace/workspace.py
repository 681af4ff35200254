"""`Workspace`: a directory, skills and a sandbox that an agent works with (B-340, B-342)."""

from __future__ import annotations

from asyncio import to_thread
from typing import TYPE_CHECKING, Any, Protocol

from ...errors import InputError, OptionError
from ...extension import Around, Opening
from ...keywords import TakesOptions
from ..option_checks import text_or_none
from .confined_files import ConfinedFiles, directory_of
from .skill_library import library
from .skills import SkillsProcessor
from .workspace_instructions import WorkspaceInstructionsProcessor

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from pathlib import Path

    from .skill import Skill

__all__ = ["Sandbox", "Workspace"]


class Sandbox(Protocol):
    """Where commands of the agent run; all that is asked of it is how it describes itself."""

    def instructions(self) -> str:
        """What the model has to know about it."""
        ...


class Workspace(TakesOptions):
    """What an agent works with: give it as one of the agent's `extensions`.

    - `root`: the directory of its files. `read_text` reads within it and nothing else.
    - `skills`: `Skill`s, and directories with skills, relative to `root` if there is one.
    - `sandbox`: where commands run.
    - `description`: what the model is told about `root`, in place of our words.

    As an extension it adds a `WorkspaceInstructionsProcessor`, where there is a `root` or a
    `sandbox`, and a `SkillsProcessor`, where there are skills; the latter not when one of the
    user's own processors finds skills on demand. Raises `OptionError` for an option that cannot be
    used, and when there is nothing in the workspace.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        *,
        skills: Iterable[Skill | str | os.PathLike[str]] = (),
        sandbox: Sandbox | None = None,
        description: str | None = None,
    ) -> None:
        owner = type(self).__name__
        self._files = None if root is None else ConfinedFiles(directory_of(owner, "root", root))
        if sandbox is not None and not callable(getattr(sandbox, "instructions", None)):
            kind = type(sandbox).__name__
            raise OptionError(
                f"{owner}: sandbox must have a method instructions(), which {kind} has not"
            )
        self.sandbox = sandbox
        self._description = text_or_none(owner, "description", description)
        if description is not None and root is None:
            raise OptionError(f"{owner}: description is what is told of root, and there is none")
        entries = list(skills) if not isinstance(skills, str) else skills
        self._has_skills = bool(entries)
        self._library = library(owner, "skills", entries, self._files)
        if self._files is None and sandbox is None and not entries:
            raise OptionError(f"{owner}: give root, skills or sandbox")

    @property
    def root(self) -> Path | None:
        """The real path of the directory."""
        return None if self._files is None else self._files.root

    async def read_text(self, path: str) -> str:
        """The text of a file, by its path relative to `root`.

        Raises `InputError` when it is outside, is no UTF-8 text, is larger than 128 KiB, or cannot
        be read.
        """
        if self._files is None:
            raise InputError("the workspace has no files: it was made without a root")
        return await to_thread(self._files.read, path)

    async def list_skills(self) -> tuple[Skill, ...]:
        """The skills there are now, by name. Files that have not changed are not read again."""
        return await self._library.list_skills()

    def instructions(self) -> str:
        """What the model is told: the paths, and the sandbox in its own words (B-342)."""
        told: list[str] = []
        if self._files is not None:
            told.append(self._description or self._described(self._files))
        if self.sandbox is not None:
            told.append(self.sandbox.instructions().strip())
        return "\n\n".join(text for text in told if text)

    def _described(self, files: ConfinedFiles) -> str:
        lines = [
            f"Your workspace is the directory {files.root}. Give paths of files relative to it; "
            f"what lies outside is not yours to read or change."
        ]
        if self._library.folders:
            lines.append(f"Skills are in: {', '.join(self._library.folders)}.")
        return "\n".join(lines)

    def extend(self, opening: Opening, /) -> Around:
        """The processors that the workspace brings to a run."""
        added: list[Any] = []
        if self._files is not None or self.sandbox is not None:
            added.append(WorkspaceInstructionsProcessor(workspace=self))
        if self._has_skills and not any(map(_finds_skills, opening.input_processors)):
            added.append(SkillsProcessor(workspace=self))
        return Around(before_input=added)


def _finds_skills(processor: Any) -> bool:
    return getattr(processor, "provides_skill_discovery", None) == "on-demand"
