"""What a processor watches for is typed, and so is what it is handed."""

from typing import assert_type

from procession import Chunk, ProcessOutputStreamArgs, processor
from procession.hold import Literals, Pattern, Piece, Unit, Watch


class Hide:
    """Replaces a word, however it is cut."""

    id = "hide"
    watches = (Literals("secret"), Pattern("[0-9]{16}"))
    lanes = ("text", "reasoning")

    def process_output_stream(self, args: ProcessOutputStreamArgs) -> Chunk:
        assert_type(args.piece, Piece | None)
        if args.piece is None:
            return args.part
        return args.with_text(args.piece.text.replace("secret", "***"))


class Pairs:
    """A watch of one's own."""

    look_behind = 0

    def release(self, text: str, start: int, limit: int) -> int:
        return limit - (limit - start) % 2


own: Watch = Pairs()
made = processor(process_output_stream=Hide().process_output_stream, watches=[own, Unit("part")])
Unit("word")  # type: ignore[arg-type] # no such unit
no_watch: Watch = "secret"  # type: ignore[assignment] # a text is none
