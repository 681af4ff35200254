"""An MCP server that says what it is told to say, right or wrong: `python raw_server.py JSON`.

`tools` or `pages` are what it lists, `endless` announces one more page for ever, `slow` is how
long it takes to begin, `refuses` what it answers then, `notes` how much progress it reports of a
call, which never ends, and `answers` the result of a call as it stands. `log` is a file for what it
hears.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

how: dict[str, Any] = json.loads(sys.argv[1])
pages: list[Any] = how.get("pages") or [how.get("tools", [])]


def send(line: str) -> None:
    """One message, as it stands."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def say(id: Any, key: str, value: str) -> None:
    """Answer a request; `value` stands as it is."""
    send(f'{{"jsonrpc": "2.0", "id": {json.dumps(id)}, "{key}": {value}}}')


def note(*what: Any) -> None:
    """Write down what happens."""
    if "log" in how:
        with open(how["log"], "a") as file:
            print(*what, file=file)


def listed(cursor: str | None) -> dict[str, Any]:
    """A page of the list."""
    at = int(cursor or 0)
    page: dict[str, Any] = {"tools": pages[at % len(pages)]}
    if how.get("endless") == "new" or at + 1 < len(pages):
        page["nextCursor"] = str(at + 1)
    elif how.get("endless") == "same":
        page["nextCursor"] = "0"
    return page


def answer(message: dict[str, Any]) -> None:
    """Answer one message."""
    method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
    note(method)
    if method == "initialize":
        time.sleep(how.get("slow", 0))
        if "refuses" in how:
            say(id, "error", json.dumps({"code": -1, "message": how["refuses"]}))
            return
        capabilities = {"tools": {}}
        told = {"capabilities": capabilities, "serverInfo": {"name": "raw", "version": "1"}}
        say(id, "result", json.dumps({"protocolVersion": params["protocolVersion"], **told}))
    elif method == "tools/list":
        say(id, "result", json.dumps(listed(params.get("cursor"))))
    elif method == "tools/call" and "notes" in how:
        token = params["_meta"]["progressToken"]
        for number in range(how["notes"]):
            told = {"progressToken": token, "progress": number}
            sent = {"jsonrpc": "2.0", "method": "notifications/progress", "params": told}
            send(json.dumps(sent))
    elif method == "tools/call":
        say(id, "result", how.get("answers", '{"content": [{"type": "text", "text": "ok"}]}'))
    elif id is not None:
        say(id, "error", '{"code": -32601, "message": "no such method"}')


note("pid", os.getpid())
for line in sys.stdin:
    answer(json.loads(line))
