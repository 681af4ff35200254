"""`AgentsMDInjector`: instructions of the directories that tools work in (B-343, B-344)."""

from __future__ import annotations

import inspect
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ...errors import InputError, OptionError
from ..builtin import BuiltIn
from ..option_checks import callback, text_or_none, whole
from ..tokens.token_estimate import estimate_tokens
from ..tokens.token_output import longest_prefix
from .confined_files import directory_of
from .instruction_files import InstructionFiles, InstructionReader, LocalReader
from .touched_paths import completed_calls, paths_in

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from ...messages import Message
    from ...policy import Policy
    from ...processor import ProcessInputStepArgs, ProcessorViolation

__all__ = ["AgentsMDInjector"]

_log = logging.getLogger("procession.processors")

_KIND = "directory-instructions"
_UNREADABLE = "This file has instructions for the files below it, which could not be shown."
_CUT = "\n[…]"
_MOST_PER_TOKEN = 24
"""Characters of a text that are looked at, for each token that it may have."""


class AgentsMDInjector(BuiltIn):
    """Reminds the model of `AGENTS.md`, `CLAUDE.md` or `CONTEXT.md` where its tools work (B-343).

    Before each step the completed tool calls are looked through, newest first. From each path among
    their arguments the directories are walked up to `root`, and the first file that the
    conversation does not have yet is sent, as a reminder that is stored with it: one in each step.

    - `root`: the directory that nothing is read outside of; the current one if it is left out.
    - `max_tokens`: what of a file is sent, by our estimate; the rest is cut.
    - `reminder_text`: sent in place of a file that is empty or cannot be read.
    - `path_exists`, `is_directory`, `read_file`: take the place of the local file system, plain or
      async, each for an absolute path. `get_reader(args)` gives an `InstructionReader` for a
      request, or `None`.
    - `get_ignored_instruction_paths(args)`: files that the model has already, for example in its
      instructions; relative to `root`, or absolute.
    - `is_enabled(args)`: whether anything is done in a step.

    When one of these functions raises, nothing is sent in that step, and the log says so. Raises
    `OptionError` for an option that cannot be used.
    """

    fixed_id = "agents-md-injector"
    name = "Agents MD Injector"

    def __init__(
        self,
        *,
        root: str | os.PathLike[str] | None = None,
        max_tokens: int = 1_000,
        reminder_text: str | None = None,
        path_exists: Callable[[str], bool | Awaitable[bool]] | None = None,
        is_directory: Callable[[str], bool | Awaitable[bool]] | None = None,
        read_file: Callable[[str], str | Awaitable[str]] | None = None,
        get_ignored_instruction_paths: Callable[
            [ProcessInputStepArgs[Any]], Iterable[str] | Awaitable[Iterable[str]]
        ]
        | None = None,
        is_enabled: Callable[[ProcessInputStepArgs[Any]], bool | Awaitable[bool]] | None = None,
        get_reader: Callable[
            [ProcessInputStepArgs[Any]],
            InstructionReader | Awaitable[InstructionReader | None] | None,
        ]
        | None = None,
        on_violation: Callable[[ProcessorViolation], object] | None = None,
        policy: Policy | None = None,
    ) -> None:
        super().__init__(on_violation=on_violation, policy=policy)
        owner = type(self).__name__
        self._root = directory_of(owner, "root", os.getcwd() if root is None else root)
        # Tools may name it as it was given, through a link.
        self._roots = self._root, Path(os.path.abspath(root or self._root))
        self._most = whole(owner, "max_tokens", max_tokens, least=1)
        told = text_or_none(owner, "reminder_text", reminder_text)
        self._unreadable = told or _UNREADABLE
        given = {"path_exists": path_exists, "is_directory": is_directory, "read_file": read_file}
        self._methods = {
            name: function
            for name, value in given.items()
            if (function := callback(owner, name, value)) is not None
        }
        self._local = LocalReader(self._root)
        self._ignored = callback(
            owner, "get_ignored_instruction_paths", get_ignored_instruction_paths
        )
        self._enabled = callback(owner, "is_enabled", is_enabled)
        self._get_reader = callback(owner, "get_reader", get_reader)
        if get_reader is not None and self._methods:
            raise OptionError(f"{owner}: give either get_reader or {', '.join(self._methods)}")
        # Processors of one id share the state of a run.
        self._key = f"looked-at-{id(self):x}"

    async def process_input_step(self, args: ProcessInputStepArgs[Any]) -> None:
        """Send the first file that is new, if there is one."""
        try:
            if self._enabled is not None and not await _answer(self._enabled, args):
                return
            files = await self._files(args)
            found = await self._found(args, files)
        except Exception as error:
            _log.warning(
                "processor %r looked for no instructions in this step: %s was raised",
                *(self.id, type(error).__name__),
            )
            return
        if found is not None and args.send_signal is not None:
            await args.send_signal(
                {
                    "type": "reactive",
                    "attributes": {"kind": _KIND, "path": self._shown(found)},
                    "contents": await self._contents(files, found),
                }
            )

    async def _files(self, args: ProcessInputStepArgs[Any]) -> InstructionFiles:
        reader: Any = None
        if self._get_reader is not None:
            reader = await _answer(self._get_reader, args)
        return InstructionFiles(self._roots, reader or self._local, self._methods)

    async def _found(self, args: ProcessInputStepArgs[Any], files: InstructionFiles) -> str | None:
        """The file to send: the nearest new one for the newest call that has one.

        A call for which nothing is left is not looked at again in this run.
        """
        done: dict[str, bool] = args.state.setdefault(self._key, {})
        messages = args.messages
        calls = [call for call in completed_calls(messages) if call.tool_call_id not in done]
        touched = {call.tool_call_id: paths_in(call.args) for call in calls}
        if not any(touched.values()):
            done.update(dict.fromkeys(touched, True))
            return None
        known = await self._known(args, files, messages)

        async def covered(path: str) -> bool:
            return await files.identity(path) in known

        for call_id, paths in touched.items():
            for path in paths:
                found = await files.uncovered(path, covered)
                if found is not None:
                    return found
            done[call_id] = True
        return None

    async def _known(
        self, args: ProcessInputStepArgs[Any], files: InstructionFiles, messages: Sequence[Message]
    ) -> set[str]:
        """The files that the model has, by what identifies them (B-344)."""
        paths = list(_reminded(messages))
        if self._ignored is not None:
            paths += await _answer(self._ignored, args)
        full = [files.within(path) for path in paths]
        return {await files.identity(str(path)) for path in full if path is not None}

    def _shown(self, path: str) -> str:
        return os.path.relpath(path, self._root).replace(os.sep, "/")

    async def _contents(self, files: InstructionFiles, path: str) -> str:
        try:
            text = (await files.read(path)).strip()
        except InputError as error:
            _log.warning("processor %r: %r: %s", self.id, self._shown(path), error)
            text = ""
        return self._cut(text) if text else self._unreadable

    def _cut(self, text: str) -> str:
        begin = text[: self._most * _MOST_PER_TOKEN]
        if len(begin) == len(text) and estimate_tokens(text) <= self._most:
            return text
        kept = longest_prefix(begin, lambda part: estimate_tokens(part) <= self._most)
        return f"{kept.rstrip()}{_CUT}"


def _reminded(messages: Sequence[Message]) -> list[str]:
    """The paths that reminders in the messages name."""
    found: list[str] = []
    for message in messages:
        if message.role != "signal":
            continue
        facts: Any = (message.content.metadata or {}).get("signal")
        attributes: Any = (
            cast("dict[str, Any]", facts).get("attributes") if isinstance(facts, dict) else None
        )
        if isinstance(attributes, dict):
            told = cast("dict[str, Any]", attributes)
            if told.get("kind") == _KIND and isinstance(told.get("path"), str):
                found.append(told["path"])
    return found


async def _answer(function: Callable[..., Any], args: ProcessInputStepArgs[Any]) -> Any:
    answer = function(args)
    return await answer if inspect.isawaitable(answer) else answer
