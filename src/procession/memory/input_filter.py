"""`MemoryInputFilter`: what of the messages that a client sends is new (M-060 to M-067)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..keywords import TakesOptions
from ..processor import Processor
from ..processors.option_checks import flag

if TYPE_CHECKING:
    from ..processor import ProcessInputArgs
    from ..store import MemoryStore, Store

__all__ = ["MemoryInputFilter"]

_NAME = "MemoryInputFilter"


class MemoryInputFilter(TakesOptions, Processor[Any]):
    """Keeps of the input what storage does not have yet."""

    id = "memory-input-filter"
    name = "Memory input filter"

    def __init__(
        self, *, storage: Store | MemoryStore | None = None, retain_full_input: bool = False
    ) -> None:
        self._storage = storage
        self._retains = flag(_NAME, "retain_full_input", retain_full_input)

    async def process_input(self, args: ProcessInputArgs) -> None:
        """Sort the input."""
