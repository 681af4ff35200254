"""`WorkspaceInstructionsProcessor`: the model is told where it works (B-342)."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Protocol

from ...errors import ConfigurationError, OptionError
from ..builtin import BuiltIn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ...policy import Policy
    from ...processor import ProcessInputStepArgs, ProcessorViolation

__all__ = ["DescribedWorkspace", "WorkspaceInstructionsProcessor"]

_TAG = "workspace-instructions"


class DescribedWorkspace(Protocol):
    """What may be given as `workspace`: it says what the model has to know about it."""

    def instructions(self) -> str | Awaitable[str]:
        """The text, plain or async; asked before each step. An empty one is left out."""
        ...


class WorkspaceInstructionsProcessor(BuiltIn):
    """Describes the workspace in a system message of each step (B-342).

    `workspace` is a `Workspace`, or any object with a method `instructions()`.
    """

    fixed_id = "workspace-instructions-processor"
    name = "Workspace Instructions Processor"

    def __init__(
        self,
        *,
        workspace: DescribedWorkspace,
        on_violation: Callable[[ProcessorViolation], object] | None = None,
        policy: Policy | None = None,
    ) -> None:
        super().__init__(on_violation=on_violation, policy=policy)
        if not callable(getattr(workspace, "instructions", None)):
            owner, kind = type(self).__name__, type(workspace).__name__
            raise OptionError(
                f"{owner}: workspace must have a method instructions(), which {kind} has not"
            )
        self._workspace = workspace

    async def process_input_step(self, args: ProcessInputStepArgs[Any]) -> None:
        """Add what the workspace says of itself.

        Raises `ConfigurationError` when that is no text.
        """
        told: Any = self._workspace.instructions()
        told = await told if inspect.isawaitable(told) else told
        if not isinstance(told, str):
            kind = type(told).__name__
            raise ConfigurationError(f"instructions() of a workspace must give a text, not {kind}")
        if told.strip():
            args.message_list.add_system(told, _TAG)
