"""What the tests of the laws have in common: a model that is cut at will, taps, plain outcomes."""

from __future__ import annotations

import asyncio
import copy
import gc
import itertools
import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from procession import Agent, FullOutput, tool
from procession.processor import HOOKS
from procession.records import Record
from procession.testing.parts import chunk_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence

    from procession.chunks import Chunk

LIFE_CYCLE = frozenset({"start", "finish", "tripwire", "abort"})
"""Delivered chunks that no processor is offered (R-126)."""

PATIENCE = 2.0
"""Seconds that tasks which are ending are given, before they count as left behind."""

NEVER_DELIVERED = frozenset({"response-metadata"})
"""Offered chunks that no consumer gets (R-048)."""

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIMES = frozenset({"createdAt", "startedAt", "timestamp", "prompt_memo"})


class PlayedModel:
    """Plays answers (lists of provider parts) in reads of the given sizes, the last one for ever.

    It waits at every read, and knows how many of its streams are open. `hang_at` is the number of
    the read that never comes; an exception among the parts is raised in its place.
    """

    provider = "example"
    model_id = "played-1"

    def __init__(
        self,
        answers: Iterable[Sequence[Any]],
        sizes: Iterable[int] = (1,),
        hang_at: int | None = None,
    ) -> None:
        self.answers = [list(parts) for parts in answers]
        self.sizes = list(sizes)
        self.hang_at = hang_at
        self.prompts: list[list[dict[str, Any]]] = []
        self.open = 0
        self.hanging = asyncio.Event()

    async def stream(self, request: Any) -> AsyncGenerator[Sequence[Chunk], None]:
        number = len(self.prompts)
        self.prompts.append(copy.deepcopy(list(request.prompt)))
        parts = self.answers[min(number, len(self.answers) - 1)]
        self.open += 1
        try:
            for count, read in enumerate(_reads(parts, self.sizes)):
                await asyncio.sleep(0)
                if count == self.hang_at:
                    self.hanging.set()
                    await asyncio.Event().wait()
                if isinstance(read, BaseException):
                    raise read.with_traceback(None)
                yield read
        finally:
            self.open -= 1


def _reads(parts: Sequence[Any], sizes: Sequence[int]) -> Iterable[list[Chunk] | BaseException]:
    left = list(parts)
    for size in itertools.cycle(sizes):
        if not left:
            return
        taken, left = left[:size], left[size:]
        chunks: list[Chunk] = []
        for part in taken:
            if isinstance(part, BaseException):
                if chunks:
                    yield chunks
                yield part
                return
            chunks.append(chunk_of(part))
        yield chunks


# ── parts of an answer ─────────────────────────────────────────────────────────────────────────


def said(*deltas: str, id: str = "t1", kind: str = "text") -> list[dict[str, Any]]:
    """A block of text or reasoning."""
    return [
        {"type": f"{kind}-start", "id": id},
        *({"type": f"{kind}-delta", "id": id, "delta": delta} for delta in deltas),
        {"type": f"{kind}-end", "id": id},
    ]


def call(name: str, args: str = "{}", id: str = "c1", **more: Any) -> dict[str, Any]:
    """A complete tool call."""
    return {"type": "tool-call", "toolCallId": id, "toolName": name, "input": args, **more}


def end(reason: str = "stop") -> dict[str, Any]:
    """The end of an answer: three tokens in, two out."""
    usage = {"inputTokens": 3, "outputTokens": 2}
    return {"type": "finish", "finishReason": reason, "usage": usage}


METADATA = {"type": "response-metadata", "id": "resp-1", "modelId": "played-1"}


# ── tools ──────────────────────────────────────────────────────────────────────────────────────


@tool
async def echo(value: str = "") -> str:
    """Say it again."""
    return f"echo {value}"


@tool
async def fail(value: str = "") -> str:
    """Never works."""
    raise ValueError(f"no {len(value)}")


# ── processors ─────────────────────────────────────────────────────────────────────────────────


class Tap:
    """A processor with every hook, which notes each call and changes nothing."""

    process_data_parts = True

    def __init__(self, id: str = "tap", log: list[Any] | None = None) -> None:
        self.id = id
        self.log: list[Any] = [] if log is None else log
        self.offered: list[Chunk] = []

    def process_output_stream(self, args: Any) -> Chunk:
        self.log.append((self.id, "process_output_stream", args.part.type))
        self.offered.append(args.part)
        return args.part


def _noting(name: str) -> Callable[[Any, Any], None]:
    def hook(self: Tap, args: Any) -> None:
        self.log.append((self.id, name, args.retry_count))

    return hook


for _name in HOOKS:
    if _name != "process_output_stream":
        setattr(Tap, _name, _noting(_name))


class Hook:
    """A processor made of one hook, whatever its name; the function gets the arguments."""

    process_data_parts = True

    def __init__(self, name: str, function: Callable[[Any], Any], id: str = "hooked") -> None:
        self.id = id
        setattr(self, name, function)


def in_all_lists(*processors: Any) -> dict[str, Any]:
    """The processors in each of the three lists, as options of a call or an agent."""
    kinds = ("input_processors", "output_processors", "error_processors")
    return {kind: list(processors) for kind in kinds}


def agent_with(model: Any, *processors: Any, tools: Sequence[Any] = (), **more: Any) -> Agent:
    """An agent that has the processors in all lists."""
    given = {**in_all_lists(*processors), **more}
    return Agent(id="laws", model=model, tools=tools or [echo, fail], **given)


# ── outcomes ───────────────────────────────────────────────────────────────────────────────────


def bare(value: Any) -> Any:
    """A value as plain data in which made-up ids and times do not show."""
    if isinstance(value, Record):
        return bare(value.to_json())
    if isinstance(value, FullOutput):
        names = [name for name, kind in vars(FullOutput).items() if isinstance(kind, property)]
        return {name: bare(getattr(value, name)) for name in names}
    if isinstance(value, Struct):
        return {name: bare(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, BaseException):
        return [type(value).__name__, str(value)]
    if isinstance(value, dict):
        return {key: bare(entry) for key, entry in value.items() if key not in _TIMES}
    if isinstance(value, list | tuple):
        return [bare(entry) for entry in value]
    if isinstance(value, str):
        return _UUID.sub("<id>", value)
    return value


async def outcome_of(run: Any) -> dict[str, Any]:
    """What a run came to, read from the run handle after its end; nothing raises here."""
    await run.consume_stream()
    found: dict[str, Any] = {"status": run.status, "error": bare(run.error)}
    found["tripwire"] = bare(run.tripwire)
    found["messages"] = bare(run.message_list.messages())
    if not run._state.raises:
        names = ("text", "usage", "finish_reason", "steps", "tool_calls", "tool_results")
        for name in (*names, "reasoning", "reasoning_text", "sources", "warnings"):
            found[name] = bare(await getattr(run, name))
    return found


async def generated(agent: Agent, given: Any, **options: Any) -> Any:
    """The output of `generate`, or the exception it raised."""
    try:
        return await agent.generate(given, **options)
    except Exception as error:
        return error


def accepted_text(chunks: Iterable[Chunk]) -> str:
    """The text of the deltas of accepted attempts, block by block in the order they began."""
    texts: list[str] = []
    lanes: dict[str, list[str]] = {}
    for chunk in chunks:
        if chunk.type in ("text-start", "text-delta"):
            lanes.setdefault(chunk.payload.id, [])
        if chunk.type == "text-delta":
            lanes[chunk.payload.id].append(chunk.payload.text)
        if chunk.type == "step-finish":
            if chunk.payload.step_result.reason != "retry":
                texts += ["".join(pieces) for pieces in lanes.values()]
            lanes = {}
    return "".join(texts)


def stored_text(messages: Iterable[Any]) -> str:
    """The text parts of the assistant's messages, joined."""
    return "".join(
        part.text
        for message in messages
        if message.role == "assistant"
        for part in message.parts
        if part.type == "text"
    )


# ── leaving ────────────────────────────────────────────────────────────────────────────────────


async def others_done(before: set[asyncio.Task[Any]]) -> None:
    """Let tasks that are ending end; those that do not within `PATIENCE` are a leak."""
    gc.collect()
    for _ in range(3):
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - before - {asyncio.current_task()}
        if left:
            await asyncio.wait(left, timeout=PATIENCE)
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    names = [str(task.get_coro()) for task in left]
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left)
    assert not names, f"tasks outlived their run: {names}"


def run_async(work: Awaitable[Any], seconds: float = 20) -> Any:
    """Run a coroutine on a loop of its own; one that hangs fails."""

    async def limited() -> Any:
        async with asyncio.timeout(seconds):
            return await work

    return asyncio.run(limited())
