"""An answer in whole blocks, for callers that do not watch it grow."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..chunks import Chunk

__all__ = ["WholeBlocks"]

_DELTAS = {
    "text-delta": "text",
    "reasoning-delta": "text",
    "tool-call-delta": "args_text_delta",
}


class WholeBlocks:
    """Joins the deltas of each block into one, delivered where the block ends (R-549)."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[Chunk, list[str]]] = {}

    def feed(self, chunks: list[Chunk]) -> list[Chunk]:
        """`chunks` without the deltas of open blocks, and with those of ended ones joined."""
        out: list[Chunk] = []
        for chunk in chunks:
            field = _DELTAS.get(chunk.type)
            payload = chunk.payload
            if field is not None:
                held = self._held.setdefault(_block(chunk), (chunk, []))
                held[1].append(getattr(payload, field))
                continue
            if chunk.type.endswith("-end"):
                self._release(out, _block(chunk))
            elif chunk.type in ("finish", "error"):
                out += self.end()
            out.append(chunk)
        return out

    def end(self) -> list[Chunk]:
        """The joined deltas of blocks that never ended."""
        out: list[Chunk] = []
        for block in list(self._held):
            self._release(out, block)
        return out

    def _release(self, out: list[Chunk], block: str) -> None:
        held = self._held.pop(block, None)
        if held is None:
            return
        chunk, texts = held
        setattr(chunk.payload, _DELTAS[chunk.type], "".join(texts))
        out.append(chunk)


def _block(chunk: Chunk) -> str:
    payload = chunk.payload
    if chunk.type.startswith("tool-call"):
        return payload.tool_call_id
    return payload.id
