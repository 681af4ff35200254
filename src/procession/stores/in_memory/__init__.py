"""The store that keeps everything in this process: for tests, and for a start without a file."""

from ..domains import ByDomain
from .conversations import Conversations
from .snapshots import Snapshots
from .traces import Traces

__all__ = ["InMemoryStore"]


class InMemoryStore(ByDomain):
    """Keeps everything in this process, until it ends.

    What is handed in and out is copied, so that it behaves as a database does; it may be used from
    several threads and event loops.
    """

    def __init__(self) -> None:
        self._domains = {
            "memory": Conversations(),
            "workflows": Snapshots(),
            "observability": Traces(),
        }
