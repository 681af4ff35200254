"""The lines of a recording: what is written as the run goes, and what when it has ended."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ..ids import new_id
from ..records import format_time
from .differences import difference, with_the_rest_withheld
from .masking import masked, masked_chunks
from .recorded_run import VERSION
from .snapshots import encoded, items_of_prompt

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .asked import Asked
    from .outcome import Outcome
    from .recording import Recording, Told
    from .snapshots import Changed

__all__ = ["Written"]


class Written:
    """How much of a recording is written already, and what there is to write next."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.failed = False
        self._part = new_id()
        self._started = datetime.now(UTC)
        self._bytes = self._events = self._calls = 0
        self.begun = False

    def lines(self, outcome: Outcome | None) -> list[bytes]:
        """The next lines; with an `outcome` the last ones.

        What is longer than all of it may be is left out, but for how it begins and ends.
        """
        recording, limit = self.recording, self.recording.recorder.max_bytes
        found: list[bytes] = []
        for line in self._next(outcome):
            made = encoded({"line": line.pop("line"), "part": self._part, **line})
            if self._bytes + len(made) > limit and line.get("line") != "begin":
                recording.cut = True
                continue
            self._bytes += len(made)
            found.append(made)
        if outcome is not None:
            found.append(self._end(outcome, limit))
        return found

    def _end(self, outcome: Outcome, limit: int) -> bytes:
        recording = self.recording
        form = self._masked({**outcome.form, "durationMs": recording.now()})
        made: dict[str, Any] = {"line": "end", "part": self._part, **form}
        whole = encoded({**made, "cut": recording.cut})
        if self._bytes + len(whole) <= limit:
            return whole
        for name in ("messages", "steps", "policyEvents", "text", "options"):
            made.pop(name, None)
        return encoded({**made, "cut": True})

    def _next(self, outcome: Outcome | None) -> Iterator[dict[str, Any]]:
        recording = self.recording
        raw = recording.recorder.raw
        if not self.begun:
            self.begun = True
            yield {
                "line": "begin",
                "version": VERSION,
                "runId": recording.run_id,
                "agentId": recording.agent_id,
                "startedAt": format_time(self._started),
                "raw": raw,
            }
        already = self._events
        if outcome is not None:
            _mark_verdicts(recording.told, outcome.refused)
            if outcome.model_error is not None and recording.asked:
                recording.asked[-1].call.error = outcome.model_error
        for told in recording.told[already:]:
            self._events += 1
            yield {"line": "event", **self._event(told, raw)}
        if raw or outcome is not None:
            yield from self._asked(outcome)
        if outcome is not None:
            yield from self._more(outcome, 0 if not raw else already)

    def _event(self, told: Told, raw: bool) -> dict[str, Any]:
        form = told.event.to_json()
        form["changes"] = [self._change(each, None) for each in told.changes] if raw else []
        if not form["changes"]:
            del form["changes"]
        return self._masked(form)

    def _more(self, outcome: Outcome, start: int) -> Iterator[dict[str, Any]]:
        """What could not be told before the end of those events that were told already."""
        recording = self.recording
        if recording.recorder.raw:
            for number, told in enumerate(recording.told[:start]):
                if told.event.outcome in ("tripped", "retry"):
                    yield {"line": "more", "of": number, "outcome": told.event.outcome}
            return
        answer, sent = self._clean(outcome.let_through), self._clean(self._sent())
        last = {told.event.step_number: told.event.attempt for told in recording.told}
        for number, told in enumerate(recording.told):
            if told.changes or told.event.outcome in ("tripped", "retry"):
                event = told.event
                is_last = event.attempt >= last.get(event.step_number, 0)
                let_through = {"assistant": answer if is_last else [], "": sent}
                changes = [self._change(each, let_through) for each in told.changes]
                form: dict[str, Any] = {"outcome": told.event.outcome}
                if changes:
                    form["changes"] = changes
                yield {"line": "more", "of": number, **form}

    def _sent(self) -> list[str]:
        """What the model was told last."""
        if not self.recording.asked:
            return []
        return [item.text for item in items_of_prompt(self.recording.asked[-1].entries)]

    def _change(self, changed: Changed, let_through: dict[str, list[str]] | None) -> dict[str, Any]:
        mask = self.recording.recorder.mask
        limit = self.recording.recorder.bounded
        before = masked(changed.before, mask)
        after = masked(changed.after, mask)
        if let_through is None:
            made = difference(limit(before), limit(after))
        else:
            said = let_through.get(changed.role, let_through[""])
            made = with_the_rest_withheld(limit(before), limit(after), said)
        return {"role": changed.role, "kind": changed.kind, "diff": made}

    def _asked(self, outcome: Outcome | None) -> Iterator[dict[str, Any]]:
        recording = self.recording
        asked, raw = recording.asked, recording.recorder.raw
        may_tell = None if raw or outcome is None else _may_tell(asked, outcome)
        for each in asked[self._calls :]:
            self._calls += 1
            form = each.call.to_json()
            entries = each.entries[each.same :]
            form["prompt"] = [
                entry if may_tell is None or encoded(entry) in may_tell else _shape(entry)
                for entry in entries
            ]
            form["samePrompt"] = each.same
            form["delivered"] = each.delivered(recording.began)
            recording.cut = recording.cut or each.is_cut
            error = each.call.error
            if error is not None and not raw:
                form["error"] = {key: v for key, v in error.items() if key != "message"}
            made = self._masked(form)
            if raw:
                chunks = recording.recorder.bounded(each.chunks(recording.began))
                made["chunks"] = masked_chunks(chunks, recording.recorder.mask)
            yield {"line": "call", **made}

    def _masked(self, form: dict[str, Any]) -> Any:
        recorder = self.recording.recorder
        return masked(recorder.bounded(form), recorder.mask)

    def _clean(self, texts: Sequence[str]) -> list[str]:
        recorder = self.recording.recorder
        return [masked(recorder.bounded(text), recorder.mask) for text in texts]


def _may_tell(asked: Sequence[Asked], outcome: Outcome) -> set[bytes]:
    """The entries of prompts that may be told: those that the model was still sent at last.

    A blocked answer stands in the prompts of the steps behind the first one.
    """
    if not asked:
        return set()
    found = {encoded(entry) for entry in asked[-1].entries}
    if outcome.is_blocked:
        found &= {encoded(entry) for entry in asked[0].entries}
    return found


def _shape(entry: dict[str, Any]) -> dict[str, Any]:
    texts = [item.text for item in items_of_prompt([entry])]
    return {"role": entry.get("role"), "withheld": sum(map(len, texts))}


def _mark_verdicts(told: Sequence[Told], refused: Sequence[tuple[int, str, bool]]) -> None:
    """A verdict on a chunk is told of the processor's part in the stream."""
    marked: set[int] = set()
    for step_number, processor_id, again in refused:
        for number, each in enumerate(told):
            event = each.event
            if number in marked or event.step_number != step_number:
                continue
            if event.processor_id != processor_id:
                continue
            if event.outcome in ("tripped", "retry"):
                marked.add(number)
                break
            if event.type == "stream":
                event.outcome = "retry" if again else "tripped"
                marked.add(number)
                break
