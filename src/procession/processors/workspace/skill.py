"""A skill: a description by which a model chooses it, instructions, and files for these."""

from __future__ import annotations

import re
from asyncio import to_thread
from typing import TYPE_CHECKING, Any, Protocol

from ...errors import InputError, OptionError
from ...keywords import TakesOptions
from ...records import clean_text
from ..option_checks import mapping_or_none, text_or_none

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from .confined_files import ConfinedFiles

__all__ = ["FolderSkill", "Skill", "SkillSource", "checked_name"]

LONGEST_DESCRIPTION = 1_024
_NAME = re.compile(r"[^\W_][\w .-]{0,63}")
_MOST_LISTED = 50
"""So many files of a skill are listed."""


def checked_name(name: Any) -> str:
    """The name of a skill; raises `InputError` for what none can be called."""
    text = name.strip() if isinstance(name, str) else ""
    if _NAME.fullmatch(text) is None:
        raise InputError(
            "the name of a skill is a text of at most 64 letters, digits, spaces, '-', '_' and '.'"
        )
    return text


class Skill(TakesOptions):
    """A skill that is given as a value.

    - `name`: by which it is loaded.
    - `description`: what it does and when to use it. It is all that a model sees until it loads the
      skill; what is beyond 1,024 characters is cut.
    - `instructions`: how it is done.
    - `files`: texts that the instructions speak of, by their paths.
    - `location`: where it can be found, if somewhere, as the model is to be told.

    Raises `OptionError` for a value that cannot be used.
    """

    def __init__(
        self,
        *,
        name: str,
        description: str,
        instructions: str,
        files: Mapping[str, str] | None = None,
        location: str | None = None,
    ) -> None:
        try:
            self.name = checked_name(name)
        except InputError as error:
            raise OptionError(f"Skill: {error}") from None
        described = text_or_none("Skill", "description", description) or ""
        if not described.strip():
            raise OptionError(
                f"Skill {self.name!r}: description must be a text that says something"
            )
        self.description = _short(clean_text(described.strip()))
        self.instructions = clean_text(text_or_none("Skill", "instructions", instructions) or "")
        self.location = text_or_none("Skill", "location", location)
        self._files = dict(mapping_or_none("Skill", "files", files) or {})
        for path, text in self._files.items():
            if not isinstance(path, str) or not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise OptionError(f"Skill {self.name!r}: files must be texts by their paths")

    @property
    def has_files(self) -> bool:
        """Whether there may be files to read."""
        return bool(self._files)

    async def file_names(self) -> list[str]:
        """The paths of its files, the first fifty."""
        return list(self._files)[:_MOST_LISTED]

    async def read(self, path: str) -> str:
        """The text of one of its files; raises `InputError` when it cannot be read."""
        if path not in self._files:
            raise InputError("there is no such file")
        return clean_text(self._files[path])


class FolderSkill(Skill):
    """A skill in a directory: `SKILL.md`, and the files beside and below it."""

    def __init__(self, head: Mapping[str, str], body: str, *, files: ConfinedFiles, location: str):
        super().__init__(
            name=head["name"],
            description=head.get("description", ""),
            instructions=body,
            location=clean_text(location),
        )
        self._folder = files

    @property
    def has_files(self) -> bool:
        """Whether there may be files to read: nobody has looked."""
        return True

    async def file_names(self) -> list[str]:
        """The paths of its files, the first fifty."""
        found = await to_thread(self._folder.files, _MOST_LISTED + 1)
        names = [name for name in found if name != "SKILL.md" and clean_text(name) == name]
        return names[:_MOST_LISTED]

    async def read(self, path: str) -> str:
        """The text of one of its files; raises `InputError` when it cannot be read."""
        return await to_thread(self._folder.read, path)


class SkillSource(Protocol):
    """What may be given as `workspace` to the processors of skills: it knows the skills of now."""

    def list_skills(self) -> Sequence[Skill] | Awaitable[Sequence[Skill]]:
        """The skills, plain or async; asked once in each run."""
        ...


def _short(description: str) -> str:
    if len(description) <= LONGEST_DESCRIPTION:
        return description
    return f"{description[: LONGEST_DESCRIPTION - 1]}…"
