"""Read recorded exchanges: `python -m conformance.wire EXCHANGES_DIR OUT_DIR`.

Writes OUT_DIR/NAME.json for each exchange, in the form of the expected files.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from .cutting import WAYS
from .exchange import Exchange
from .loopback import Player
from .run import check, readings


def main(arguments: list[str]) -> int:
    """Run the program; its exit status is 1 when something was expected otherwise."""
    options = _options(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    return asyncio.run(_run(options))


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m conformance.wire", description=__doc__)
    parser.add_argument("exchanges", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--cut", choices=WAYS, default="whole", help="how to cut the bytes")
    parser.add_argument("--seed", type=int, default=0, help="of --cut random")
    parser.add_argument("--expected", type=Path, help="compare with the files of this folder")
    parser.add_argument("--only", default="", help="exchanges whose name has this in it")
    return parser.parse_args(arguments)


async def _run(options: argparse.Namespace) -> int:
    counts = {"read": 0, "without adapter": 0, "wrong": 0}
    async with Player() as player:
        for path in sorted(options.exchanges.glob("*.json")):
            if options.only not in path.stem:
                continue
            exchange = Exchange.load(path)
            found = await readings(player, exchange, [options.cut], options.seed)
            if found is None:
                counts["without adapter"] += 1
                print(f"{exchange.name}  not yet: no adapter for this wire format")
                continue
            counts["read"] += 1
            _write(options.out / path.name, found[0])
            if options.expected is not None:
                outcome = check(exchange, found[0], options.expected)
                counts["wrong"] += bool(outcome.wrong)
                for line in outcome.wrong + outcome.documented:
                    print(f"{exchange.name}  {line}")
    print(", ".join(f"{count} {name}" for name, count in counts.items()))
    return 1 if counts["wrong"] or not counts["read"] else 0


def _write(path: Path, reading: Any) -> None:
    text = json.dumps(reading, ensure_ascii=False, indent=1, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
