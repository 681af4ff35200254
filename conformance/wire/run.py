"""Reading exchanges one after the other, in each of the ways to cut them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .comparing import differences
from .cutting import cut
from .documented import DOCUMENTED
from .exchange import Exchange, model_for
from .loopback import Player
from .reading import read

__all__ = ["Outcome", "check", "readings"]


class Outcome(NamedTuple):
    """What came of an exchange: where it differs from what is expected, and where it may."""

    wrong: list[str]
    documented: list[str]


async def readings(player: Player, exchange: Exchange, ways: Sequence[str], seed: int = 0) -> Any:
    """The reading for each way of cutting; `None` when no adapter reads this wire format yet."""
    cuts = [cut(exchange.body, way, seed) for way in ways]
    model = model_for(exchange, player.base_url(exchange, cuts))
    if model is None:
        return None
    try:
        return [await read(model, exchange.api) for _ in ways]
    finally:
        await model.aclose()


def check(exchange: Exchange, reading: Any, expected_folder: Path) -> Outcome:
    """A reading beside the expected file of the same name."""
    text = (expected_folder / f"{exchange.name}.json").read_text(encoding="utf-8")
    reasons = DOCUMENTED.get(exchange.name, {})
    outcome = Outcome([], [])
    seen: set[str] = set()
    for place, line in differences(json.loads(text), reading):
        field = next((field for field in reasons if place.startswith(field)), None)
        if field is None:
            outcome.wrong.append(f"{place}: {line}")
        elif field not in seen:
            seen.add(field)
            outcome.documented.append(f"{place}: {line}, for {reasons[field]}")
    outcome.wrong.extend(
        f"{field}: no longer an exception" for field in reasons if field not in seen
    )
    return outcome
