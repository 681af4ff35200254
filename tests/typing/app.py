"""An app, as type checkers see it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, assert_type

from procession import Agent, App, PipelineRow, PipelineView, RequestContext, pipeline_of
from procession.cache import InMemoryServerCache
from procession.memory import Memory
from procession.stores import InMemoryStore
from procession.tracing import InMemoryExporter, Observability, Tracing

if TYPE_CHECKING:
    from procession import RegisteredProcessor, RegisteredWorkflow
    from procession.host import Host, TakesApp
    from procession.processor import ProcessInputArgs

desk, sales = Agent(id="desk", memory=Memory()), Agent(id="sales")
app = App(
    agents={"front": desk, "sales": sales},
    store=InMemoryStore(),
    cache=InMemoryServerCache(),
    tracing=Tracing([InMemoryExporter()]),
    logger=logging.getLogger("shop"),
)
listed = App(agents=[desk, sales], tracing=Observability({"all": Tracing()}))
wrong = App(agents=[desk, "sales"])  # type: ignore[list-item]
unknown = App(stores=[])  # type: ignore[call-arg]

found: Agent = app.get_agent("front")
workflows: list[RegisteredWorkflow] = app.list_workflows()
processors: list[RegisteredProcessor] = app.list_processors()
host: Host = app


class Noting:
    """A processor that wants to know its app."""

    id = "noting"

    def register_app(self, app: Host) -> None:
        """Keep its logger."""
        self.logger = app.logger

    def process_input(self, args: ProcessInputArgs) -> None:
        """Note it."""
        self.logger.info("%d messages", len(args.messages))


wants: TakesApp = Noting()


async def main() -> None:
    """One life."""
    async with app as started:
        assert_type(started, App)
    view = await pipeline_of(desk, request_context=RequestContext({"tier": "gold"}))
    assert_type(view, PipelineView)
    rows: list[PipelineRow] = view.of("process_input")
    shown: list[str] = [row.processor_id for row in rows]
    await pipeline_of(desk, memory={"thread": "t", "resource": "r"}, request_context={"a": 1})
    await pipeline_of(app)  # type: ignore[arg-type]
    assert shown
