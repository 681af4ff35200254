"""OpenAI Agents SDK: `SQLiteSession` for a file, `SQLAlchemySession` on asyncpg for a server."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from agents import Agent, Runner
from agents.memory import SessionSettings, SQLiteSession
from agents.testing import assistant_message

from .memory_case import LAST, answer_to
from .peers.openai_agents import Model

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

LIMITED = SessionSettings(limit=LAST)


class Conversations:
    """See `bench.memory_case.Turns`. A session is made once for each thread."""

    limits = True
    seen = 0

    def __init__(self, session_of: Callable[[str], Any]) -> None:
        self._session_of = session_of
        self.sessions: dict[str, Any] = {}
        self._agent: Any = Agent(name="bench", model=Model(self._answer))

    def _answer(self, asked: Any) -> Any:
        items = [{"content": asked}] if isinstance(asked, str) else asked
        self.seen = len(items)
        return assistant_message(answer_to(items[-1]["content"]))

    def _session(self, thread: str) -> Any:
        if thread not in self.sessions:
            self.sessions[thread] = self._session_of(thread)
        return self.sessions[thread]

    async def turn(self, thread: str, question: str) -> str:
        """One run with a session."""
        return (await Runner.run(self._agent, question, session=self._session(thread))).final_output

    async def bare(self, question: str) -> str:
        """One without."""
        return (await Runner.run(self._agent, question)).final_output

    async def fill(self, thread: str, texts: list[str]) -> None:
        """One call."""
        roles = ("user", "assistant")
        items: Any = [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]
        await self._session(thread).add_items(items)

    async def texts(self, thread: str) -> list[str]:
        """All items."""
        items = await self._session(thread).get_items(limit=1_000_000)
        return [_text(item["content"]) for item in items]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else content[0]["text"]


@asynccontextmanager
async def opened(place: str) -> AsyncIterator[Conversations]:
    """A file, or a PostgreSQL database with a pool of ten connections for all sessions."""
    if not place.startswith("postgresql"):
        memory = Conversations(lambda id: SQLiteSession(id, place, session_settings=LIMITED))
        yield memory
        for session in memory.sessions.values():
            session.close()
        return
    from agents.extensions.memory.sqlalchemy_session import SQLAlchemySession
    from sqlalchemy.ext.asyncio import create_async_engine

    url = place.replace("postgresql://", "postgresql+asyncpg://")
    engine = create_async_engine(url, pool_size=10, max_overflow=0)
    options: Any = {"engine": engine, "session_settings": LIMITED}
    await SQLAlchemySession("first", create_tables=True, **options).get_items()
    yield Conversations(lambda id: SQLAlchemySession(id, **options))
    await engine.dispose()
