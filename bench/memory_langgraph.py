"""LangChain's create_agent with the checkpointers of LangGraph, which keep the whole state.

There is no limit to the history they load: what a prompt holds is the graph's business, and the
messages of the state stay.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from .case import Recorder
from .memory_case import answer_to
from .peers.langchain import Model

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Conversations:
    """See `bench.memory_case.Turns`."""

    limits = False
    seen = 0

    def __init__(self, saver: Any) -> None:
        model = Model(script=self._answer, recorder=Recorder())
        self._agent: Any = create_agent(model, tools=[], checkpointer=saver)
        self._bare: Any = create_agent(model, tools=[])

    def _answer(self, messages: list[BaseMessage]) -> AIMessage:
        self.seen = len(messages)
        return AIMessage(answer_to(str(messages[-1].content)))

    async def turn(self, thread: str, question: str) -> str:
        """One run with a checkpointer."""
        state = await self._agent.ainvoke({"messages": [HumanMessage(question)]}, _of(thread))
        return state["messages"][-1].content

    async def bare(self, question: str) -> str:
        """An agent without one."""
        state = await self._bare.ainvoke({"messages": [HumanMessage(question)]})
        return state["messages"][-1].content

    async def fill(self, thread: str, texts: list[str]) -> None:
        """One update of the state."""
        kinds = (HumanMessage, AIMessage)
        messages = [kinds[number % 2](text) for number, text in enumerate(texts)]
        await self._agent.aupdate_state(_of(thread), {"messages": messages})

    async def texts(self, thread: str) -> list[str]:
        """The state."""
        state = await self._agent.aget_state(_of(thread))
        return [message.content for message in state.values["messages"]]


def _of(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


@asynccontextmanager
async def opened(place: str) -> AsyncIterator[Conversations]:
    """A file, or a PostgreSQL database with a pool of ten connections, as their guide has it."""
    if not place.startswith("postgresql"):
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        async with AsyncSqliteSaver.from_conn_string(place) as saver:
            yield Conversations(saver)
        return
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    from psycopg.rows import dict_row
    from psycopg_pool import AsyncConnectionPool

    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    pool: Any = AsyncConnectionPool(place, min_size=1, max_size=10, kwargs=options, open=False)
    async with pool:
        saver = AsyncPostgresSaver(pool)
        await saver.setup()
        yield Conversations(saver)
