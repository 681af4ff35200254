"""Who is measured: a name, what to import, what to install."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".bench"


class Peer(NamedTuple):
    """One runtime under measurement.

    `package` names the distribution whose version is reported. `statement` is what a program
    imports to use the peer. `source` is put on the import path of a peer that is not installed
    from its requirements. `wires` are the formats in which it can be asked in W5, and with
    `wire_only` in nothing else.
    """

    name: str
    package: str
    statement: str
    source: Path | None = None
    wires: tuple[str, ...] = ("chat",)
    wire_only: bool = False

    @property
    def requirements(self) -> Path:
        """The pinned file its environment is made from."""
        return ROOT / "bench" / "requirements" / f"{self.name}.txt"

    @property
    def module(self) -> str:
        """The module that drives it."""
        return f"bench.peers.{self.name}"


WIRES = ("chat", "responses", "anthropic", "google")

PEERS = (
    Peer("procession", "procession", "from procession import Agent", ROOT / "src", WIRES),
    Peer("floor", "msgspec", "import asyncio, msgspec"),
    Peer("agno", "agno", "from agno.agent import Agent"),
    Peer("maf", "agent-framework-core", "from agent_framework import Agent"),
    Peer(
        "openai_agents",
        "openai-agents",
        "from agents import Agent, Runner",
        wires=("chat", "responses"),
    ),
    Peer("langchain", "langchain", "from langchain.agents import create_agent"),
    Peer(
        "procession_aiohttp",
        "aiohttp",
        "from procession import Agent",
        ROOT / "src",
        WIRES,
        wire_only=True,
    ),
    # No framework: what a program gets that reads the typed streams of the providers' own clients.
    Peer("sdk", "openai", "import openai, anthropic, google.genai", wires=WIRES, wire_only=True),
)
BY_NAME = {peer.name: peer for peer in PEERS}

OURS = ("procession", "procession_aiohttp", "floor")
"""Not peers: what is judged, and what it is judged by."""


def chosen(names: str | None) -> list[Peer]:
    """The peers of a comma-separated list, in the order of `PEERS`; all of them for `None`."""
    if names is None:
        return list(PEERS)
    wanted = {name.strip() for name in names.split(",") if name.strip()}
    unknown = sorted(wanted - set(BY_NAME))
    if unknown:
        raise SystemExit(f"unknown peers {', '.join(unknown)}; known: {', '.join(BY_NAME)}")
    return [peer for peer in PEERS if peer.name in wanted]
