"""The floor: the smallest runtime that still has every stage, and spends nothing on anything else.

Stages are input (once), request (before each model call), chunk, step, tool result and output
(once). A hook takes (value, run) and returns the value; it may be plain or async, may replace it,
may drop a chunk by returning `None`, and may raise `Blocked`. Hooks are looked up once, when the
agent is made: who lacks one is not in the chain, and whether to await is known beforehand.
"""

from __future__ import annotations

from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence

    Chain = tuple[tuple[bool, Callable[..., Any]], ...]
    Model = Callable[[list["Message"]], AsyncIterator[list["Chunk"]]]

STAGES = ("input", "request", "chunk", "step", "tool_result", "output")


class Blocked(BaseException):
    """A hook's verdict; what was delivered before it stays delivered."""


class Call(msgspec.Struct):
    """A tool call; `arguments` is JSON."""

    id: str
    name: str
    arguments: str


class Chunk(msgspec.Struct):
    """A piece of text, or a tool call."""

    text: str = ""
    call: Call | None = None


class Message(msgspec.Struct, omit_defaults=True):
    """One message of the conversation."""

    role: str
    text: str = ""
    calls: list[Call] = []
    call_id: str = ""


class Run(msgspec.Struct):
    """What hooks are told of the run; `state` is theirs."""

    messages: list[Message]
    state: dict[str, Any] = {}
    steps: int = 0
    text: str = ""


def chain_of(processors: Iterable[object], stage: str) -> Chain:
    """The hooks of one stage, in order."""
    hooks = [getattr(processor, stage, None) for processor in processors]
    return tuple((iscoroutinefunction(hook), hook) for hook in hooks if hook is not None)


async def through(chain: Chain, value: Any, run: Run) -> Any:
    """The value as the chain leaves it."""
    for is_async, hook in chain:
        value = await hook(value, run) if is_async else hook(value, run)
    return value


class Agent:
    """A model, its tools, and the processors around them."""

    def __init__(
        self,
        model: Model,
        tools: Iterable[Callable[..., Any]] = (),
        processors: Sequence[object] = (),
    ) -> None:
        self.model = model
        self.tools = {tool.__name__: tool for tool in tools}
        self.chains = {stage: chain_of(processors, stage) for stage in STAGES}

    async def generate(self, messages: list[Message]) -> Run:
        """Run to the end."""
        run = Run(messages)
        async for _ in self.reads(run):
            pass
        return run

    async def stream(self, messages: list[Message]) -> AsyncGenerator[Chunk, None]:
        """Chunks, one by one."""
        async for read in self.reads(Run(messages)):
            for chunk in read:
                yield chunk

    # One frame for a read, not several: being short of calls is what makes it a floor.
    async def reads(self, run: Run) -> AsyncGenerator[list[Chunk], None]:  # noqa: C901
        """The loop: for each read of the model, the chunks that passed the chain."""
        chains, chunk_chain = self.chains, self.chains["chunk"]
        if chains["input"]:
            run.messages = await through(chains["input"], run.messages, run)
        messages = run.messages = list(run.messages)
        while True:
            request = messages
            if chains["request"]:
                request = await through(chains["request"], messages, run)
            texts: list[str] = []
            calls: list[Call] = []
            async for read in self.model(request):
                passed: list[Chunk] = []
                verdict = None
                try:
                    for chunk in read:
                        for is_async, hook in chunk_chain:
                            chunk = await hook(chunk, run) if is_async else hook(chunk, run)
                            if chunk is None:
                                break
                        else:
                            passed.append(chunk)
                            if chunk.call is None:
                                texts.append(chunk.text)
                            else:
                                calls.append(chunk.call)
                except Blocked as raised:
                    verdict = raised
                if passed:
                    yield passed
                if verdict is not None:
                    raise verdict
            answer = Message("assistant", "".join(texts), calls)
            if chains["step"]:
                answer = await through(chains["step"], answer, run)
            messages.append(answer)
            run.steps += 1
            if not answer.calls:
                break
            for call in answer.calls:
                messages.append(await self.answer(call, run))
        run.text = answer.text
        if chains["output"]:
            run.text = await through(chains["output"], run.text, run)

    async def answer(self, call: Call, run: Run) -> Message:
        """Run a tool."""
        result = await self.tools[call.name](**msgspec.json.decode(call.arguments))
        if chain := self.chains["tool_result"]:
            result = await through(chain, result, run)
        return Message("tool", msgspec.json.encode(result).decode(), call_id=call.id)
