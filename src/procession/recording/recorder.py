"""What records runs: the option `record` of an agent or a call."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ..errors import OptionError
from ..extension import Around
from ..keywords import TakesOptions
from .outcome import outcome_of
from .places import RecordedRuns
from .recording import OWN_ID, Recording
from .written import Written

if TYPE_CHECKING:
    from pathlib import Path

    from ..chunks import Chunk
    from ..ending import RunEnded
    from ..hook_args import ProcessInputStepArgs, ProcessOutputStreamArgs
    from ..host import Host
    from ..store import Store

__all__ = ["Recorder"]

_log = logging.getLogger("procession.recording")


class Recorder(TakesOptions):
    """Writes down what happens in runs, each as a `RecordedRun`.

    `place` is a folder, which is made, or a `Store`. One recorder serves any number of agents and
    of runs at the same time. What a run is recorded with never fails it: what goes wrong is logged.

    A recording holds texts as they were let through: nothing that a processor took out or blocked,
    no words of exceptions, and of a run that was blocked no answer. With `raw=True` it holds all of
    it, with the chunks of the model as they came: keep such recordings as you keep secrets.
    `mask` is called with each text before it is written, from a thread of its own, and gives the
    text that is. What it raises leaves a note in the text's place.

    A text is cut behind `max_text` characters, and of a part of a run that has come to `max_bytes`
    only its end is still told. Raises `OptionError` for a value that none of these can have.
    """

    def __init__(
        self,
        place: str | Path | Store,
        *,
        raw: bool = False,
        mask: Callable[[str], str] | None = None,
        max_text: int = 20_000,
        max_bytes: int = 10_000_000,
    ) -> None:
        self._place = place
        self.runs = RecordedRuns(place)
        """What has been recorded there: to list, load and delete."""
        if not isinstance(cast("Any", raw), bool):
            raise OptionError(f"Recorder: raw must be True or False, not {type(raw).__name__}")
        if mask is not None and not callable(mask):
            raise OptionError(f"Recorder: mask must be a function, not {type(mask).__name__}")
        for name, value, least in (("max_text", max_text, 100), ("max_bytes", max_bytes, 1_000)):
            if isinstance(value, bool) or not isinstance(cast("Any", value), int) or value < least:
                raise OptionError(f"Recorder: {name} must be a whole number, {least} or more")
        self.raw, self.mask = raw, mask
        self.max_text, self.max_bytes = max_text, max_bytes
        self.most_chunks = max_bytes // 50
        self._under_way: dict[int, Written] = {}
        self.processors = Around(
            before_input=[_Start(self)],
            before_output=[_First(self)] if raw else (),
            after_output=[_Last(self)],
        )
        """The recorder's own processors, the same in all runs."""

    def register_app(self, app: Host) -> None:
        """A store that runs are recorded in is closed with the app."""
        app.attach(self._place)

    def begin(self, run: Any) -> Recording:
        """The engine's: a run begins, or goes on after it has waited."""
        made = Recording(self, run)
        self._under_way[id(made.message_list)] = Written(made)
        return made

    def of(self, message_list: Any) -> Recording | None:
        """The recording of the run that has this message list."""
        held = self._under_way.get(id(message_list))
        return None if held is None else held.recording

    def forget(self, recording: Recording) -> None:
        """The run has ended."""
        self._under_way.pop(id(recording.message_list), None)

    async def write(self, message_list: Any, ending: RunEnded | None = None) -> None:
        """Write what has happened since the last time; with an `ending` the last lines."""
        held = self._under_way.get(id(message_list))
        if held is None or held.failed or (ending is None and not self._may_write(held)):
            return
        recording, outcome = held.recording, None
        try:
            if ending is not None:
                recording.end_streams()
                outcome = outcome_of(ending, raw=self.raw)
            await self.runs.append(recording.run_id, partial(held.lines, outcome))
        except Exception as error:
            held.failed = True
            _log.warning(
                "run %r is not recorded any further: %s", recording.run_id, type(error).__name__
            )

    def _may_write(self, held: Written) -> bool:
        """In a store a run is one value: it is written when it begins and when it ends."""
        return self.runs.takes_lines or not held.begun

    def bounded(self, value: Any) -> Any:
        """JSON data whose texts are no longer than `max_text`."""
        if isinstance(value, str):
            more = len(value) - self.max_text
            return value if more <= 0 else f"{value[: self.max_text]}… ({more} characters more)"
        if isinstance(value, Mapping):
            pairs = cast("Mapping[str, Any]", value).items()
            return {key: self.bounded(entry) for key, entry in pairs}
        if isinstance(value, list):
            return [self.bounded(entry) for entry in cast("list[Any]", value)]
        return value


class _Start:
    """Stands before all input processors."""

    id = f"{OWN_ID}-start"
    name = "recorder"

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    async def process_input_step(self, args: ProcessInputStepArgs) -> None:
        """What has happened until now is written, should there be no later."""
        await self._recorder.write(args.message_list)


class _First:
    """Stands before all output processors, where the model's chunks come in."""

    id = f"{OWN_ID}-first"
    name = "recorder"

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def process_output_stream(self, args: ProcessOutputStreamArgs) -> Chunk:
        """Take note of the chunk."""
        recording = self._recorder.of(args.message_list)
        if recording is not None:
            recording.came(args.part)
        return args.part


class _Last:
    """Stands behind all output processors, where what they let through leaves."""

    id = f"{OWN_ID}-last"
    name = "recorder"

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def process_output_stream(self, args: ProcessOutputStreamArgs) -> Chunk:
        """Take note of when it leaves."""
        recording = self._recorder.of(args.message_list)
        if recording is not None:
            recording.left(args.part)
        return args.part

    async def run_ended(self, ending: RunEnded) -> None:
        """Write the rest."""
        recorder, messages = self._recorder, ending.message_list
        await recorder.write(messages, ending)
        recording = recorder.of(messages)
        if recording is not None:
            recorder.forget(recording)
