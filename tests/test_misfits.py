"""What is wrong with a chunk: looked at for each one that a second model or a hook has made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from procession import Chunk
from procession.chunks import BlockPayload
from procession.engine.misfits import chunk_problem

if TYPE_CHECKING:
    import pytest


def start(id: Any) -> Chunk:
    return Chunk("text-start", BlockPayload(id=id))


def test_what_a_kind_of_chunk_has_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law 7: reading the annotations of a class costs more than all else that a chunk does."""
    assert chunk_problem(start("t1")) is None

    def fields(_kind: Any) -> Any:
        raise AssertionError("read again")

    monkeypatch.setattr(msgspec.structs, "fields", fields)
    assert chunk_problem(start("t2")) is None
    problem = chunk_problem(start(7))
    assert problem is not None and "id" in problem
