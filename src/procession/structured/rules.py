"""What the two ways to an object have in common: when it is made, and what stands in for it."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from ..errors import StructuredOutputError
from ..messages import TextPart, ToolInvocationPart
from ..processor import Processor
from ..records import own, plain
from .object_chunk import Validated

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from ..hook_args import HookArgs, ProcessOutputResultArgs
    from ..message_list import MessageList
    from ..messages import Part
    from .options import Asked

__all__ = [
    "ID",
    "Asking",
    "ask_again",
    "deliver",
    "in_its_place",
    "last_parts",
    "last_text",
    "runs_tools",
    "screened",
]

_log = logging.getLogger("procession.engine")

ID = "structured-output"


class Asking(Processor[Any], ABC):
    """What both have in common: what is asked for, and what becomes of an answer that misses it."""

    id = ID
    asked: Asked | None = None

    def now(self, args: HookArgs[Any]) -> Asked | None:
        """What this step asks for."""
        return self.asked or args.state.get("asked")

    @abstractmethod
    async def read_again(self, args: HookArgs[Any], asked: Asked) -> Any:
        """The object of the answer as hooks have left it; raises `StructuredOutputError`."""

    async def process_output_result(self, args: ProcessOutputResultArgs[Any]) -> None:
        """A text that was edited at the end has another object, or none (README 20)."""
        asked, known = self.now(args), args.state.get("text")
        if asked is None or known is None or last_text(args.message_list) == known:
            return
        metadata: dict[str, Any] | None = None
        try:
            found = await self.read_again(args, asked)
        except StructuredOutputError as error:
            if asked.strategy == "strict":
                raise
            found, metadata = in_its_place(asked, error)
        await deliver(args, found, metadata)


async def screened(args: HookArgs[Any], asked: Asked, found: Validated) -> Validated:
    """The object as the guards of the run leave it, checked anew if that is another one.

    What they have seen in its text they are not shown again; text that is not JSON all through may
    have said it in another way. Raises `StructuredOutputError`.
    """
    writer: Any = args.writer
    plain: Any = await writer.screen().value(found.plain)
    return found if plain is found.plain else Validated(plain, asked.fitted(plain))


def ask_again(args: HookArgs[Any], error: StructuredOutputError, wish: str) -> NoReturn:
    """Reject the answer, and tell the model that gave it why, and what it should do."""
    args.abort(f"{error}. {wish}", retry=True, metadata={"error": str(error)})


def in_its_place(
    asked: Asked, error: StructuredOutputError
) -> tuple[Validated | None, dict[str, Any] | None]:
    """What stands in for an object (R-566)."""
    if asked.strategy == "fallback":
        return Validated(plain(asked.fallback), own(asked.fallback)), {"fallback": True}
    _log.warning("structured output: %s", error)
    return None, None


def last_parts(messages: MessageList) -> list[Part]:
    """The parts that an answer ends with, as hooks have left them."""
    response = messages.get.response.db()
    parts = response[-1].content.parts if response else []
    begin = max((at + 1 for at, part in enumerate(parts) if part.type == "step-start"), default=0)
    return parts[begin:]


def last_text(messages: MessageList) -> str:
    """The text of these parts."""
    return "".join(part.text for part in last_parts(messages) if isinstance(part, TextPart))


def runs_tools(content: Sequence[Any]) -> bool:
    """Whether a step leads to tools of ours or the client's (B-383)."""
    calls = (part for part in content if isinstance(part, ToolInvocationPart))
    return any(call.provider_executed is not True for call in calls)


async def deliver(args: Any, found: Validated | None, metadata: dict[str, Any] | None) -> None:
    """Write the object where no `step-finish` is at hand to put it before."""
    assert args.writer is not None
    await args.writer.object(found, final=True, metadata=metadata)
