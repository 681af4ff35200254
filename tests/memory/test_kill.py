"""Processes are killed in the midst of their turns: what they have reported is there, and whole.

`python -m checks.kill --times 200` does the same more often.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from checks.kill.places import FAULTS, Place
from checks.kill.rounds import play
from procession.ids import new_id
from tests.postgres import postgres

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["postgres"]

KILLS = 5
MOST_KILLS = 40


def rounds(place: Place, fault: str | None = None) -> Iterator[list[str]]:
    """What is wrong after each kill; the dice are those of the test run."""
    dice = random.Random(random.random())
    for number in range(MOST_KILLS):
        yield play(place, f"r{number}", dice, fault).problems


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty place, in each of the two stores that outlive a process."""
    if request.param == "SQLite":
        return Place(str(tmp_path / "talks.db"))
    return Place(request.getfixturevalue("postgres"), f"s{new_id()}")


def test_m_107_a_killed_process_leaves_whole_turns_and_all_that_it_reported(place: Place) -> None:
    """Law 5, G-F5: readable, balanced, without duplicates; and runs that wait go on."""
    for _, problems in zip(range(KILLS), rounds(place), strict=False):
        assert problems == []


@pytest.mark.parametrize("fault", FAULTS)
def test_a_store_that_does_it_wrong_is_found(fault: str, tmp_path: Path) -> None:
    """Two transactions for a turn, a turn that is reported too early, one that is saved twice."""
    assert any(rounds(Place(str(tmp_path / "talks.db")), fault))
