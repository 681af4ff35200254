"""Text that is to be judged, in sentences of a bounded length (B-131)."""

from __future__ import annotations

from ...hold import Unit

__all__ = ["Portions"]


class Portions(Unit):
    """Sentences, as a watch; one that is longer than `size` characters comes in parts (B-131)."""

    def __init__(self, size: int) -> None:
        super().__init__("sentence")
        self.size = size

    def release(self, text: str, start: int, limit: int) -> int:
        """See `Watch.release`."""
        ends = self.split(text, start, limit)
        return ends[-1] if ends else start

    def split(self, text: str, start: int, stop: int) -> list[int]:
        """The ends of sentences, and of parts of them: the same, however the text came."""
        cuts: list[int] = []
        for end in [*super().split(text, start, stop), None]:
            limit = stop if end is None else end - 1
            while limit - start >= self.size:
                start += self.size
                cuts.append(start)
            if end is not None:
                cuts.append(end)
                start = end
        return cuts
