"""A recorded run as a value: what is read back from a file or a store."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec
from msgspec import field

from ..chunks import Usage
from ..errors import InputError
from ..records import Record, parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .replay import RecordedModel

__all__ = [
    "VERSION",
    "RecordedModelCall",
    "RecordedPart",
    "RecordedRun",
    "RunEvent",
    "RunSummary",
    "TextChange",
    "check_version",
    "read_lines",
]

VERSION = 1
UNFINISHED = "unfinished"


class TextChange(Record, kw_only=True):
    """A text that a hook has changed, added or removed.

    `role` and `kind` say where it stands, `diff` what has happened to it: a list of `[mark, text]`,
    where `=` has stayed, `-` is gone, `+` is new, and `.` is withheld. A number in place of the
    text is how many characters are not told.
    """

    role: str
    kind: str
    diff: list[list[Any]] = field(default_factory=list[list[Any]])


class RunEvent(Record, kw_only=True):
    """One thing that happened.

    `type` is `hook`, `stream` (one processor's `process_output_stream` over one attempt), `tool`
    or `policy`, `name` the hook or the tool. `outcome` is `ok`, `changed`, `dropped`, `tripped`,
    `retry` or `failed`; of a policy what it did. `at_ms` counts from the beginning of the part,
    `duration_ms` is how long it took. For streams, `count` chunks were looked at, of which
    `changed` and `dropped`. `detail` has a few plain values, such as the reason of a verdict.
    """

    type: str
    name: str
    processor_id: str | None = None
    step_number: int | None = None
    attempt: int = 0
    at_ms: float = 0.0
    duration_ms: float = 0.0
    outcome: str = "ok"
    count: int = 1
    changed: int = 0
    dropped: int = 0
    detail: dict[str, Any] | None = None
    changes: list[TextChange] = field(default_factory=list[TextChange])

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """From the JSON form; unknown keys are kept."""
        changes = [TextChange.from_json(each) for each in data.get("changes", ())]
        return super().from_json({**data, "changes": changes})


class RecordedModelCall(Record, kw_only=True):
    """One call of the model.

    `prompt` is what was sent; of an entry that must not be told, its role and `withheld`, a number
    of characters. `delivered` has the pieces that left the run, for each lane of the answer: its
    type and id, and `cuts`, pairs of milliseconds and characters. `chunks` are the model's own, as
    pairs of milliseconds and the chunk's JSON form, where the recorder was told to keep them.
    `tools` names the tools that were offered. `error` tells why the call failed.
    """

    number: int
    step_number: int
    attempt: int = 0
    provider: str = ""
    model_id: str = ""
    at_ms: float = 0.0
    duration_ms: float = 0.0
    from_cache: bool = False
    answered: bool = False
    usage: dict[str, Any] = field(default_factory=dict[str, Any])
    tools: list[str] = field(default_factory=list[str])
    prompt: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    delivered: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    chunks: list[Any] | None = None
    error: dict[str, Any] | None = None


class RecordedPart(Record, kw_only=True):
    """A run from its beginning to its end, or to where it waits; what goes on then is another.

    `status` is `unfinished` when the process ended before the run did, and else what the run's was.
    `steps` are all steps and rejected attempts, `messages` what the run has added to the
    conversation, `cut` whether there was more than the recorder keeps.
    """

    id: str
    started_at: datetime
    raw: bool = False
    status: str = UNFINISHED
    finish_reason: str | None = None
    duration_ms: float = 0.0
    text: str = ""
    usage: dict[str, Any] = field(default_factory=dict[str, Any])
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    tripwire: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    events: list[RunEvent] = field(default_factory=list[RunEvent])
    calls: list[RecordedModelCall] = field(default_factory=list[RecordedModelCall])
    steps: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    policy_events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    cut: bool = False

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """From the JSON form; unknown keys are kept."""
        made = {
            "startedAt": parse_time(data.get("startedAt")),
            "events": [RunEvent.from_json(each) for each in data.get("events", ())],
            "calls": [RecordedModelCall.from_json(each) for each in data.get("calls", ())],
        }
        return super().from_json({**data, **made})


class RunSummary(Record, kw_only=True):
    """What a list of recorded runs tells of each."""

    run_id: str
    agent_id: str
    started_at: datetime
    status: str = UNFINISHED
    duration_ms: float = 0.0
    parts: int = 1
    tripwire: dict[str, Any] | None = None


class RecordedRun(Record, kw_only=True):
    """A run that was recorded: its parts, in the order in which they began.

    The properties are those of the last part, or of all of them.
    """

    run_id: str
    agent_id: str
    version: int = VERSION
    parts: list[RecordedPart] = field(default_factory=list[RecordedPart])

    @classmethod
    def load(cls, path: str | Path) -> RecordedRun:
        """Read a file that a recorder wrote. A line that was not finished is left out.

        Raises `InputError` for what is no recorded run, or one of a newer version.
        """
        try:
            held = Path(path).read_bytes()
        except OSError as error:
            raise InputError(f"no recorded run at {path}: {error.strerror}") from None
        return cls.of_lines(read_lines(held), str(path))

    @classmethod
    def of_lines(cls, lines: Iterable[Mapping[str, Any]], place: str = "here") -> RecordedRun:
        """The run that these lines tell of; raises `InputError` if they tell of none."""
        from .reading import run_of_lines

        return run_of_lines(lines, place)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """From the JSON form; unknown keys are kept."""
        check_version(data.get("version", VERSION), str(data.get("runId")))
        parts = [RecordedPart.from_json(part) for part in data.get("parts", ())]
        return super().from_json({**data, "parts": parts})

    @property
    def status(self) -> str:
        """How the run has ended: `success`, `tripwire`, …, or `unfinished`."""
        return self.parts[-1].status

    @property
    def started_at(self) -> datetime:
        """When it began."""
        return self.parts[0].started_at

    @property
    def duration(self) -> timedelta:
        """How long its parts took in all."""
        return timedelta(milliseconds=sum(part.duration_ms for part in self.parts))

    @property
    def text(self) -> str:
        """The answer; empty when it was blocked."""
        return self.parts[-1].text

    @property
    def tripwire(self) -> dict[str, Any] | None:
        """Who blocked the run, and why."""
        return self.parts[-1].tripwire

    @property
    def error(self) -> dict[str, Any] | None:
        """What the run failed with."""
        return self.parts[-1].error

    @property
    def usage(self) -> Usage:
        """The tokens of the whole run: a part begins with those of the parts before it."""
        return Usage.from_json(self.parts[-1].usage)

    @property
    def events(self) -> list[RunEvent]:
        """What happened, in order."""
        return [event for part in self.parts for event in part.events]

    @property
    def calls(self) -> list[RecordedModelCall]:
        """The calls of the model, in order."""
        return [call for part in self.parts for call in part.calls]

    @property
    def steps(self) -> list[dict[str, Any]]:
        """All steps and rejected attempts, as the last part knows them."""
        return self.parts[-1].steps

    @property
    def summary(self) -> RunSummary:
        """In short."""
        return RunSummary(
            run_id=self.run_id,
            agent_id=self.agent_id,
            started_at=self.started_at,
            status=self.status,
            duration_ms=sum(part.duration_ms for part in self.parts),
            parts=len(self.parts),
            tripwire=self.tripwire,
        )

    def model(self, *, strict: bool = True) -> RecordedModel:
        """A model that answers as it did then, for a run of a test (X9).

        The calls are answered in their order. One that asks something else than was asked then
        raises `ModelError`, which tells what differs; with `strict=False` only one too many does.
        Raises `InputError` when the recording has no chunks of the model: those are kept with
        `Recorder(…, raw=True)`.
        """
        from .replay import RecordedModel

        return RecordedModel(self, strict=strict)

    as_scripted_model = model


def check_version(version: Any, place: str) -> None:
    """Raises `InputError` for what a later version has written."""
    if not isinstance(version, int) or version > VERSION:
        raise InputError(
            f"{place}: recorded in form {version!r}, and this version of procession reads up to "
            f"{VERSION}: read it with the version that wrote it"
        )


def read_lines(held: bytes, beginnings: Sequence[bytes] = ()) -> list[dict[str, Any]]:
    """The lines of a file, without those that were not finished.

    With `beginnings` only lines that begin like one of them, which spares reading the others.
    """
    found: list[dict[str, Any]] = []
    for line in held.split(b"\n"):
        if not line or (beginnings and not line.startswith(tuple(beginnings))):
            continue
        try:
            read = msgspec.json.decode(line)
        except msgspec.DecodeError:
            continue
        if isinstance(read, dict):
            found.append(read)  # pyright: ignore[reportUnknownArgumentType]
    return found
