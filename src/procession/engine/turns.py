"""Who may pass: at the gate, one chunk at a time is on its way through.

While a hook is waited for, others may write, the hook itself among them. What the hook writes goes
on from its post at once, and the chunk it was looking at follows; what would have to pass that post
comes later.
"""

from __future__ import annotations

import asyncio

__all__ = ["IDLE", "Turns"]

IDLE = -1
"""Where the gate stands when nobody is waited for."""


class Turns:
    """The posts that are waited for: positions that rise, each within the one before."""

    __slots__ = ("_left", "at", "waiting")

    def __init__(self) -> None:
        self.at = IDLE
        """The innermost post that is waited for."""
        self._left: dict[int, int] = {}
        """Posts that were left while another, within, was still waited for; and what is around."""
        self.waiting: list[asyncio.Future[None]] = []

    async def free(self, after: int) -> None:
        """Wait until no post behind `after` is waited for."""
        while self.at > after:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.waiting.append(turn)
            await turn

    def leave(self, position: int, outside: int) -> None:
        """No longer wait for the post at `position`, which was entered from `outside`."""
        if self.at == position:
            self.at = self.around(outside)
            self.wake()
        else:
            self._left[position] = outside

    def around(self, outside: int) -> int:
        """What `outside` has become: it may have been left meanwhile."""
        while outside in self._left:
            outside = self._left.pop(outside)
        return outside

    def wake(self) -> None:
        """Let all who wait look again."""
        for turn in self.waiting:
            if not turn.done():
                turn.set_result(None)
        self.waiting.clear()
