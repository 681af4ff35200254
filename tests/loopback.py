"""Providers of all four wire formats on loopback, for the examples of the guides.

Each gives the same answer, a thought and a text, in the form that the path of the call asks for.
"""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from procession.models import google
from procession.models.compatible import PROVIDERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

THOUGHT = "Air scatters light."
TEXT = "Blue light is scattered most."
KEY = "example-key-1234567890"
KEYS = ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"]


def _chat() -> list[Any]:
    return [
        {"id": "r1", "choices": [{"index": 0, "delta": {"reasoning_content": THOUGHT}}]},
        {"id": "r1", "choices": [{"index": 0, "delta": {"content": TEXT}}]},
        {
            "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21},
        },
    ]


def _responses() -> list[Any]:
    thought = {"type": "summary_text", "text": THOUGHT}
    said = {"type": "output_text", "text": TEXT, "annotations": []}
    items = [
        {"type": "reasoning", "id": "rs_1", "summary": [thought], "encrypted_content": "c2VjcmV0"},
        {"type": "message", "id": "msg_1", "role": "assistant", "content": [said]},
    ]
    usage = {"input_tokens": 9, "output_tokens": 12, "total_tokens": 21}
    response = {"id": "r1", "status": "completed", "output": items, "usage": usage}
    return [{"type": "response.completed", "response": response}]


def _messages() -> list[Any]:
    blocks = [
        {"type": "thinking", "thinking": THOUGHT, "signature": "c2lnbmVk"},
        {"type": "text", "text": TEXT},
    ]
    events: list[Any] = []
    for index, block in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_stop", "index": index})
    usage = {"input_tokens": 9, "output_tokens": 12}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}
    return [*events, end, {"type": "message_stop"}]


def _gemini() -> list[Any]:
    parts = [{"text": THOUGHT, "thought": True}, {"text": TEXT, "thoughtSignature": "c2lnbmVk"}]
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 7, "thoughtsTokenCount": 5}
    candidate = {"content": {"parts": parts}, "finishReason": "STOP"}
    return [{"candidates": [candidate], "usageMetadata": usage}]


FORMATS = {
    "/chat/completions": _chat,
    "/responses": _responses,
    "/messages": _messages,
    ":streamGenerateContent?alt=sse": _gemini,
}


class _Handler(BaseHTTPRequestHandler):
    """Answers a call in the format of its path; `paths` of the server keeps what was called."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.server.paths.append(self.path)  # type: ignore[attr-defined]
        events = next(make() for end, make in FORMATS.items() if self.path.endswith(end))
        body = "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is written to the terminal."""


@contextmanager
def providers_on_loopback(patch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Every provider by id is here and has its key; yields the paths of the calls, as they come."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.paths = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        root = f"http://127.0.0.1:{server.server_port}"
        patch.setenv("ANTHROPIC_BASE_URL", root)
        patch.setattr(google, "_BASE_URL", f"{root}/v1beta")
        for name in ["openai", *PROVIDERS]:
            patch.setenv(f"{name.upper()}_BASE_URL", f"{root}/{name}/v1")
        for variable in [*KEYS, *(site.keys[0] for site in PROVIDERS.values())]:
            patch.setenv(variable, KEY)
        try:
            yield server.paths  # type: ignore[attr-defined]
        finally:
            server.shutdown()
            thread.join()
