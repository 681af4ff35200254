"""What judges of texts have in common: messages one by one, an answer piece by piece."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ...hold import Unit
from ..builtin import BuiltIn
from ..guarding.sightings import Place
from ..guarding.text_guard import INPUT, RESULT, STREAM
from ..option_checks import callback, flag, one_of, whole
from .judged_messages import one_by_one

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...chunks import Chunk
    from ...hold import Piece
    from ...hook_args import ProcessInputArgs, ProcessOutputResultArgs, ProcessOutputStreamArgs
    from ...messages import Message
    from ...policy import Policy
    from ...processor import ProcessorViolation

__all__ = ["Granularity", "TextJudge"]

Granularity = Literal["delta", "sentence", "part", "step", "end"]
_GRANULARITIES = ("delta", "sentence", "part", "step", "end")
_WHOLE = ("part", "step", "end")
_AT_A_TIME = 4
"""So many pieces of an answer are judged at a time, unless something else is said."""


class TextJudge(BuiltIn):
    """Shows texts to a judge, and lets go on what it says may (B-023, B-105, B-107).

    `context` is how many pieces before it are judged with each piece of an answer. `drops` tells
    whether a piece may be taken out of an answer that goes on.
    """

    owner: ClassVar[str]
    lanes = ("text",)

    def __init__(
        self,
        *,
        granularity: Granularity,
        chunk_window: int,
        context: int,
        concurrency: int | None,
        drops: bool,
        last_message_only: bool,
        on_violation: Callable[[ProcessorViolation], object] | None,
        policy: Policy | None,
    ) -> None:
        owner = self.owner
        super().__init__(on_violation=callback(owner, "on_violation", on_violation), policy=policy)
        self.granularity = one_of(owner, "granularity", granularity, _GRANULARITIES)
        self.chunk_window = whole(owner, "chunk_window", chunk_window)
        usual = 1 if granularity == "delta" else _AT_A_TIME
        self.concurrency = (
            usual if concurrency is None else whole(owner, "concurrency", concurrency, least=1)
        )
        self.last_message_only = flag(owner, "last_message_only", last_message_only)
        self.watches = (Unit(granularity),)
        self._context, self._drops = context, drops

    @abstractmethod
    async def keeps(
        self, args: Any, place: Place, text: str, message: Message | None
    ) -> bool | None:
        """Whether a text goes on; `None`: it does, for nobody could say. Aborts where it must not.

        `message` is whose text it is, `None` in a stream.
        """

    def shown(self, text: str, place: Place) -> str:
        """What the judge gets to see of a text."""
        return text

    # ── messages ───────────────────────────────────────────────────────────────────────────────

    async def process_input(self, args: ProcessInputArgs[Any]) -> list[Message] | None:
        """Judge each message that a model is about to get."""
        return await self._messages(args, INPUT)

    async def process_output_result(
        self, args: ProcessOutputResultArgs[Any]
    ) -> list[Message] | None:
        """Judge the whole answer once more (B-107)."""
        return await self._messages(args, RESULT)

    async def _messages(self, args: Any, phase: str) -> list[Message] | None:
        settled = self._so_far(args.state).settled if phase == RESULT else ()

        async def check(message: Message, text: str) -> Message | None:
            if text in settled:
                return message
            place = Place(phase, message.id)
            keeps = await self.keeps(args, place, self.shown(text, place), message)
            return None if keeps is False else message

        return await one_by_one(args.messages, check, last_only=self.last_message_only)

    # ── the stream ─────────────────────────────────────────────────────────────────────────────

    def process_output_stream(self, args: ProcessOutputStreamArgs[Any]) -> Any:
        """Judge a piece of text before it leaves (B-105); other chunks pass."""
        piece = args.piece
        if piece is not None:
            return self._piece(args, piece)
        if args.part.type == "step-start":  # what was said before is answered, or was rejected
            self._so_far(args.state).window.clear()
        return args.part

    async def _piece(self, args: ProcessOutputStreamArgs[Any], piece: Piece) -> Chunk | None:
        part, so_far = args.part, self._so_far(args.state)
        if self._drops and self._context:
            await args.turn()  # what it is judged with depends on what was said of that
        said, place = (piece.before or "".join(so_far.window)) + piece.text, Place(STREAM)
        if not self._drops:
            so_far.window.append(piece.text)
        if piece.text.strip():
            shown = self.shown(said, place)
            keeps = await self.keeps(args, place, shown, None)
            if keeps is False:
                return None  # nobody gets it: it is no context of what comes next
            if keeps and shown == said and self.granularity in _WHOLE:
                so_far.settled.add(said)
        if self._drops:
            so_far.window.append(piece.text)
        return part

    def _so_far(self, state: dict[str, Any]) -> _SoFar:
        # The state is shared by all that have the same id.
        key = f"__judged-{id(self):x}"
        found = state.get(key)
        if found is None:
            found = state[key] = _SoFar(self._context)
        return found


class _SoFar:
    """What one processor knows of the stream of one run."""

    __slots__ = ("settled", "window")

    def __init__(self, window: int) -> None:
        self.window: deque[str] = deque(maxlen=window)
        self.settled: set[str] = set()
        """Texts that were judged in one piece, and went on."""
