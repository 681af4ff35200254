"""Runs that wait, in a store: as JSON data, by the id of the workflow and of the run (W-124)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ..errors import StoreError
from ..records import plain
from ..request_context import MASTRA_AUTH_TOKEN_KEY
from .endings import StepRecord
from .journal import Journal
from .phases import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..request_context import RequestContext
    from ..store import WorkflowStore
    from .run import WorkflowRun
    from .workflow import Workflow

__all__ = ["KeptRun", "Snapshots"]

KIND = "workflow-run"
VERSION = 1


class KeptRun(Struct, frozen=True, kw_only=True):
    """What it takes to go on with a run."""

    journal: Journal
    input: Any
    state: dict[str, Any]
    request_context: dict[str, Any]
    resource_id: str | None


class Snapshots:
    """The snapshots of one run; without a store there are none, and a run lives in its process."""

    def __init__(self, workflow: Workflow, run_id: str) -> None:
        self._workflow = workflow
        self._run_id = run_id
        self._is_kept = False

    def _store(self) -> WorkflowStore | None:
        found = self._workflow.store or getattr(self._workflow.app, "store", None)
        return None if found is None else found.get_store("workflows")

    @property
    def _id(self) -> str:
        return f"{self._workflow.id}/{self._run_id}"

    async def keep(
        self,
        journal: Journal,
        input: Any,
        state: Mapping[str, Any],
        context: RequestContext,
        run: WorkflowRun,
    ) -> None:
        """Write down a run that waits, unless `should_persist_snapshot` says no (W-128)."""
        store, wanted = self._store(), self._workflow.options.get("should_persist_snapshot", True)
        if store is None or not (wanted(run) if callable(wanted) else wanted):
            return
        form = {
            "version": VERSION,
            "resourceId": run.resource_id,
            "input": shown(input),
            "state": dict(state),
            "requestContext": {
                k: v for k, v in context.to_json().items() if k != MASTRA_AUTH_TOKEN_KEY
            },
            "records": [[list(key), r.to_json()] for key, r in journal.records.items()],
            "finished": [[list(key), shown(value)] for key, value in journal.finished.items()],
            "decisions": [[list(key), value] for key, value in journal.decisions.items()],
            "waiting": [[list(key), payload] for key, payload in journal.waiting.items()],
            "path": journal.path,
        }
        await store.put(KIND, self._id, plain(form))
        self._is_kept = True

    async def read(self) -> KeptRun | None:
        """The run as it was written down, if it was."""
        store = self._store()
        form = None if store is None else await store.get(KIND, self._id)
        if form is None:
            return None
        if form.get("version") != VERSION:
            raise StoreError(
                f"run {self._run_id!r} was written down by another version of this library"
            )
        self._is_kept = True
        journal = Journal(self._run_id)
        journal.records = {tuple(k): StepRecord.from_json(r) for k, r in form["records"]}
        journal.finished = {tuple(k): value for k, value in form["finished"]}
        journal.decisions = {tuple(k): value for k, value in form["decisions"]}
        journal.waiting = {tuple(k): payload for k, payload in form["waiting"]}
        journal.path = list(form["path"])
        return KeptRun(
            journal=journal,
            input=form["input"],
            state=form["state"],
            request_context=form["requestContext"],
            resource_id=form.get("resourceId"),
        )

    async def take(self) -> None:
        """The run goes on: of several who want it to, in any process, one gets it."""
        store = self._store()
        if store is None or not self._is_kept:
            return
        self._is_kept = False
        if await store.take(KIND, self._id) is None:
            raise StoreError(f"run {self._run_id!r} was resumed, or cancelled, by somebody else")
