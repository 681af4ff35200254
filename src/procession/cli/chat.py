"""A conversation in the terminal: each turn is a run, and goes on where the last one ended."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from ..agent import Agent
from ..errors import ConfigurationError, ModelError, ProcessionError
from ..model import resolve_model

if TYPE_CHECKING:
    from ..messages import Message
    from ..model import LanguageModel
    from ..run import Run

__all__ = ["Conversation", "converse"]


def converse(model_id: str, *, system: str | None, once: str | None, console: Console) -> None:
    """Talk until the input ends, or ask `once` only.

    Raises `ProcessionError`: with `once` any failure, else only what no further turn can mend.
    """
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            model = runner.run(_ready(model_id, stack))
            agent = Agent(id="chat", model=model, instructions=system)
            talk = Conversation(agent, console)
            if once is not None:
                runner.run(talk.turn(once))
            else:
                _talk(talk, runner)
        finally:
            runner.run(stack.aclose())


async def _ready(model_id: str, stack: AsyncExitStack) -> LanguageModel:
    """The model of an id; the embedded one is fetched and started, visibly."""
    if model_id == "local/smollm2":
        from ..demo.embedded import embedded_model
        from ..demo.stage import Stage

        # What is shown on the way is no part of the answer.
        stage = Stage(Console(stderr=True, markup=False, highlight=False, emoji=False))
        model, _ = await stack.enter_async_context(embedded_model(stage))
        return model
    model: Any = resolve_model(model_id)
    close = getattr(model, "aclose", None)
    if close is not None:
        stack.push_async_callback(close)
    return model


class Conversation:
    """What was said so far, and the agent that goes on with it."""

    def __init__(self, agent: Agent, console: Console) -> None:
        self._agent = agent
        self._console = console
        self.messages: list[Message] = []
        """All messages of the turns that were answered, at least in part."""

    async def turn(self, text: str) -> None:
        """Ask and show the answer as it comes; raises what the run failed with.

        Cancelling keeps what was shown; a turn that failed is forgotten.
        """
        asked = {"role": "user", "content": text}  # without a time: it comes last, however fast
        run = await self._agent.stream([*self.messages, asked])
        try:
            async with run:
                async for piece in run.text_stream:
                    self._show(piece)
        except asyncio.CancelledError:
            self.messages = run.message_list.messages()
            raise
        finally:
            self._show("\n")
        self._keep(run)

    def _keep(self, run: Run) -> None:
        if isinstance(run.error, ProcessionError):
            raise run.error
        if run.error is not None:  # whatever the transport raised
            raise ModelError(f"{type(run.error).__name__}: {run.error}") from run.error
        if run.tripwire is not None:
            self._show(f"(stopped by {run.tripwire.processor_id}: {run.tripwire.reason})\n", "red")
            return
        self.messages = run.message_list.messages()

    def _show(self, text: str, style: str = "") -> None:
        from ..demo.stage import printable

        self._console.print(Text(printable(text), style=style), end="", soft_wrap=True)


def _talk(talk: Conversation, runner: asyncio.Runner) -> None:
    """Turn by turn, until the input ends."""
    if sys.stdin.isatty():
        sys.stderr.write("Ctrl-C stops an answer, Ctrl-D leaves.\n")
    while (text := _asked()) is not None:
        if not text.strip():
            continue
        try:
            runner.run(talk.turn(text))
        except KeyboardInterrupt:
            sys.stderr.write("(stopped)\n")
        except ConfigurationError:
            raise  # the next turn would fail alike
        except ProcessionError as error:
            sys.stderr.write(f"procession: {error}\n")


def _asked() -> str | None:
    """The next line; None at the end of the input."""
    while True:
        try:
            return input("you: " if sys.stdin.isatty() else "")
        except EOFError:
            if sys.stdin.isatty():
                sys.stderr.write("\n")
            return None
        except KeyboardInterrupt:
            sys.stderr.write("\n(Ctrl-D leaves)\n")
