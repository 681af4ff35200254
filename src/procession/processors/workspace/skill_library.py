"""The skills there are: values, and directories that are read again when they have changed."""

from __future__ import annotations

import inspect
import logging
import os
from asyncio import to_thread
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

from ...errors import ConfigurationError, InputError, OptionError
from .confined_files import ConfinedFiles, Stamp, directory_of
from .front_matter import front_matter
from .skill import FolderSkill, Skill, SkillSource, checked_name

__all__ = ["SkillFolders", "SkillLibrary", "SkillsOf", "library"]

_log = logging.getLogger("procession.processors")

_FILE = "SKILL.md"


class SkillFolders:
    """The skills of a directory: those in its folders, or the one that it is itself.

    `shown` is what the model is told that the directory is called.
    """

    def __init__(self, files: ConfinedFiles, shown: str) -> None:
        self._files = files
        self.shown = shown
        self._known: dict[str, tuple[Stamp, FolderSkill | None]] = {}
        self._missing = False

    def scan(self) -> list[Skill]:
        """The skills as they are now. A file that has not changed is not read again. Blocking.

        What is no skill, or cannot be read, is left out, and told in the log when it is met.
        """
        known = self._known
        now: dict[str, tuple[Stamp, FolderSkill | None]] = {}
        for folder in self._folders():
            path = f"{folder}/{_FILE}" if folder else _FILE
            stamp = self._files.stamp(path)
            if stamp is None:
                continue
            entry = known.get(folder)
            if entry is None or entry[0] != stamp:
                entry = stamp, self._read(folder, path)
            now[folder] = entry
        self._known = now
        return [skill for _, skill in now.values() if skill is not None]

    def _folders(self) -> list[str]:
        if self._files.stamp(_FILE) is not None:
            return [""]
        try:
            found = self._files.folders()
        except InputError as error:
            if not self._missing:
                _log.warning("skills in %s: %s; there are none", self.shown, error)
            self._missing = True
            return []
        self._missing = False
        return found

    def _read(self, folder: str, path: str) -> FolderSkill | None:
        shown = os.path.join(self.shown, path)
        try:
            head, body = front_matter(self._files.read(path))
            name = checked_name(head.get("name") or folder or Path(self.shown).name)
            inner = self._files.below(folder) if folder else self._files
            return FolderSkill({**head, "name": name}, body, files=inner, location=shown)
        except InputError as error:
            _log.warning("the skill in %r is left out: %s", shown, error)
            return None


class _ByName:
    """Puts skills in order. As long as they are the same it gives the same object."""

    def __init__(self) -> None:
        self._latest: tuple[Skill, ...] = ()
        self._told: set[tuple[str, str | None]] = set()

    def ordered(self, skills: Iterable[Skill]) -> tuple[Skill, ...]:
        """Each name once: the first one counts, and the log tells of the other."""
        named: dict[str, Skill] = {}
        for skill in skills:
            first = named.setdefault(skill.name, skill)
            case = skill.name, skill.location
            if first is not skill and case not in self._told:
                self._told.add(case)
                _log.warning(
                    "two skills are called %r: the one in %r counts, and not the one in %r",
                    *(skill.name, first.location, skill.location),
                )
        found = tuple(sorted(named.values(), key=lambda skill: skill.name))
        if found != self._latest:
            self._latest = found
        return self._latest


class SkillLibrary:
    """Skills from several places, in the order in which these are given."""

    def __init__(self, sources: Sequence[Skill | SkillFolders]) -> None:
        self._sources = sources
        self._by_name = _ByName()
        self._reads = any(isinstance(source, SkillFolders) for source in sources)
        self.folders = [source.shown for source in sources if isinstance(source, SkillFolders)]

    async def list_skills(self) -> tuple[Skill, ...]:
        """The skills of now, by name."""
        return await to_thread(self._scan) if self._reads else self._scan()

    def _scan(self) -> tuple[Skill, ...]:
        found: list[Skill] = []
        for source in self._sources:
            found += source.scan() if isinstance(source, SkillFolders) else [source]
        return self._by_name.ordered(found)


def library(owner: str, option: str, given: Any, root: ConfinedFiles | None = None) -> SkillLibrary:
    """A library of skills and of directories with skills.

    With a `root` directories are within it. Raises `OptionError` for what is none of these, and for
    two skills of one name.
    """
    if isinstance(given, str | os.PathLike | Skill) or not isinstance(given, Iterable):
        raise OptionError(f"{owner}: {option} must be a list of skills and directories")
    sources: list[Skill | SkillFolders] = []
    names: set[str] = set()
    for entry in cast("Iterable[Any]", given):
        if not isinstance(entry, Skill):
            sources.append(_folders(owner, option, entry, root))
            continue
        if entry.name in names:
            raise OptionError(f"{owner}: two of {option} are called {entry.name!r}: rename one")
        names.add(entry.name)
        sources.append(entry)
    return SkillLibrary(sources)


def _folders(owner: str, option: str, entry: Any, root: ConfinedFiles | None) -> SkillFolders:
    where = f"each of {option}"
    if root is None or not isinstance(entry, str | os.PathLike):
        real = directory_of(owner, where, entry)
        return SkillFolders(ConfinedFiles(real), os.fsdecode(entry))
    real = directory_of(owner, where, root.root / os.fsdecode(entry))  # pyright: ignore[reportUnknownArgumentType]
    if not real.is_relative_to(root.root):
        raise OptionError(f"{owner}: {where} must be within the workspace's root")
    inner = os.path.relpath(real, root.root)
    return SkillFolders(ConfinedFiles(root.root, inner), inner)


class SkillsOf:
    """The skills of a run, by whichever of the two options a processor was given.

    A run looks once for what there is, and then goes by what was found last; with `always` it looks
    before each step. Raises `OptionError` when
    both options were given, or neither.
    """

    def __init__(self, owner: str, workspace: Any, skills: Any, *, always: bool) -> None:
        if (workspace is None) == (skills is None):
            raise OptionError(f"{owner}: give either workspace or skills")
        if workspace is not None and not callable(getattr(workspace, "list_skills", None)):
            kind = type(workspace).__name__
            raise OptionError(
                f"{owner}: workspace must have a method list_skills(), which {kind} has not"
            )
        self._owner = owner
        self._always = always
        self._by_name = _ByName()
        self._source: SkillSource = (
            library(owner, "skills", skills) if workspace is None else workspace
        )
        self._latest: tuple[Skill, ...] = ()
        # Processors of one id share the state of a run.
        self._key = f"looked-for-skills-{id(self):x}"

    async def now(self, state: dict[str, Any]) -> tuple[Skill, ...]:
        """The skills for this step, by name; `state` is that of the run."""
        if self._always or self._key not in state:
            self._latest = await self._found()
            state[self._key] = True  # and not the skills: a state has to be JSON, to be kept
        return self._latest

    async def _found(self) -> tuple[Skill, ...]:
        found: Any = self._source.list_skills()
        found = await found if inspect.isawaitable(found) else found
        skills: list[Any] = list(found)
        for entry in skills:
            if not isinstance(entry, Skill):
                kind = type(entry).__name__
                raise ConfigurationError(
                    f"{self._owner}: list_skills() of the workspace must give skills, not {kind}"
                )
        return self._by_name.ordered(skills)
