"""procession over its other transport, in W5 alone."""

from __future__ import annotations

import os

from bench.peers.procession import paced, wire

__all__ = ["paced", "wire"]

os.environ["PROCESSION_TRANSPORT"] = "aiohttp"
