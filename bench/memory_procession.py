"""Our own memory, in both stores."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from procession import Agent, text_message
from procession.memory import Memory
from procession.store import Turn
from procession.testing.parts import chunk_of

from .memory_case import LAST, answer_to

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Sequence

    from procession.chunks import Chunk

AT_A_TIME = 1_000
ROLES = ("user", "assistant")


class Model:
    """Answers the last question at once, in one read."""

    provider, model_id = "example", "played-1"

    def __init__(self) -> None:
        self.seen = 0

    async def stream(self, request: Any) -> AsyncGenerator[Sequence[Chunk], None]:
        """The answer."""
        self.seen = len(request.prompt)
        answer = answer_to(request.prompt[-1]["content"][0]["text"])
        usage = {"inputTokens": 1, "outputTokens": 1}
        parts = (
            {"type": "text-start", "id": "t"},
            {"type": "text-delta", "id": "t", "delta": answer},
            {"type": "text-end", "id": "t"},
            {"type": "finish", "finishReason": "stop", "usage": usage},
        )
        yield [chunk_of(part) for part in parts]


class Conversations:
    """See `bench.memory_case.Turns`."""

    limits = True

    def __init__(self, store: Any) -> None:
        self._store = store
        self._model = Model()
        self._memory = Memory(storage=store, last_messages=LAST)
        self._agent = Agent(id="a", model=self._model, memory=self._memory)

    @property
    def seen(self) -> int:
        """How many messages the model was asked with last."""
        return self._model.seen

    async def turn(self, thread: str, question: str) -> str:
        """One run with memory."""
        memory: Any = {"thread": thread, "resource": "r"}
        return (await self._agent.generate(question, memory=memory)).text

    async def bare(self, question: str) -> str:
        """The same agent, and no thread."""
        return (await self._agent.generate(question)).text

    async def fill(self, thread: str, texts: list[str]) -> None:
        """Written as turns are, many at once."""
        made = [text_message(text, role=ROLES[n % 2]) for n, text in enumerate(texts)]
        for start in range(0, len(made), AT_A_TIME):
            some = made[start : start + AT_A_TIME]
            turn = Turn(thread_id=thread, resource_id="r", messages=some)
            await self._store.get_store("memory").save_turn(turn)

    async def texts(self, thread: str) -> list[str]:
        """Read page by page, all of it."""
        return [row.text for row in (await self._memory.recall(thread, per_page=False)).messages]


@asynccontextmanager
async def opened(place: str) -> AsyncIterator[Conversations]:
    """A file, or a PostgreSQL database."""
    from procession.stores import PostgresStore, SQLiteStore

    store = PostgresStore(place) if place.startswith("postgresql") else SQLiteStore(place)
    async with store:
        yield Conversations(store)
