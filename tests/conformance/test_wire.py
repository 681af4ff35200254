"""Answers that real providers gave, read as their own SDKs read them, however they are cut.

The recordings are no part of this repository: they are read where they lie, in a folder
`wire/exchanges` beside the checkout, or in the one that PROCESSION_WIRE names.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.wire.__main__ import main
from conformance.wire.comparing import differences
from conformance.wire.cutting import WAYS, cut
from conformance.wire.documented import DOCUMENTED
from conformance.wire.exchange import APIS, Exchange
from conformance.wire.loopback import Player
from conformance.wire.run import check, readings

ROOT = Path(__file__).resolve().parents[2]


def folder() -> Path | None:
    """The folder that holds `exchanges` and `expected`."""
    named = os.environ.get("PROCESSION_WIRE")
    found = [Path(named)] if named else ROOT.parent.glob("*/wire")
    return next((path for path in found if (path / "exchanges").is_dir()), None)


def recorded(api: str) -> Iterator[tuple[Exchange, Path]]:
    recordings = folder()
    if recordings is not None:
        for path in sorted((recordings / "exchanges").glob(f"*-{api}-*.json")):
            yield Exchange.load(path), recordings / "expected"


@pytest.mark.parametrize("api", APIS)
async def test_recordings_mean_what_the_providers_sdk_says(api: str) -> None:
    """In one piece, in single bytes, at random places, and between CR and LF."""
    wrong: list[str] = []
    ways = [way for way in WAYS if way != "bytes"]
    async with Player() as player:
        for exchange, expected in recorded(api):
            found = await readings(player, exchange, ways)
            for way, reading in zip(ways, found or (), strict=False):
                wrong += [
                    f"{exchange.name} ({way}): {line}"
                    for line in check(exchange, reading, expected).wrong
                ]
    assert not wrong, "\n".join(wrong)


def event(**delta: Any) -> str:
    return f"data: {json.dumps({'choices': [{'delta': delta}]}, ensure_ascii=False)}\n\n"


BODY = (
    event(reasoning_content="Hmm, é")
    + event(content="漢字 😀")
    + event(tool_calls=[{"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x":1}'}}])
    + 'data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}],'
    '"usage":{"prompt_tokens":3,"completion_tokens":4}}\n\ndata: [DONE]\n\n'
)

MEANING = {
    "text": "漢字 😀",
    "reasoning": "Hmm, é",
    "refusal": "",
    "toolCalls": [{"id": "a", "name": "f", "args": {"x": 1}}],
    "finish": "tool_calls",
    "usage": {"input": 3, "output": 4, "total": 7, "cached": None},
}


def write(tmp_path: Path, *, status: int = 200, body: Any = BODY) -> Path:
    """A folder of one exchange and what is expected of it."""
    for kind in ("exchanges", "expected"):
        (tmp_path / kind).mkdir()
    kind = "text/event-stream" if status == 200 else "application/json"
    record = {
        "provider": "example",
        "api": "chat",
        "request": {"path": "/v1/chat/completions", "body": {"model": "example-1"}},
        "response": {"status": status, "contentType": kind, "retryAfter": None, "body": body},
    }
    (tmp_path / "exchanges" / "one.json").write_text(json.dumps(record), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("way", WAYS)
def test_the_program_writes_readings_in_the_expected_form(way: str, tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "expected" / "one.json").write_text(json.dumps(MEANING), encoding="utf-8")
    places = [str(tmp_path / name) for name in ("exchanges", "out", "expected")]
    assert main([*places[:2], "--expected", places[2], "--cut", way]) == 0
    reading = json.loads((tmp_path / "out" / "one.json").read_text(encoding="utf-8"))
    assert differences(MEANING, reading) == []


def test_the_program_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path)
    other = {**MEANING, "toolCalls": [{"id": "a", "name": "f", "args": {"x": 2}}]}
    (tmp_path / "expected" / "one.json").write_text(json.dumps(other), encoding="utf-8")
    places = [str(tmp_path / name) for name in ("exchanges", "out", "expected")]
    assert main([*places[:2], "--expected", places[2]]) == 1
    said = capsys.readouterr().out
    assert 'one  toolCalls[0].args: expected {"x": 2}, got {"x": 1}' in said


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (429, {"error": {"message": "Slow down", "code": "rate_limit"}}, 429),
        (200, event(content="So") + 'data: {"error":{"code":"odd","message":"No"}}\n\n', "odd"),
    ],
)
async def test_errors_have_the_status_that_the_sdk_shows(
    tmp_path: Path, status: int, body: Any, code: Any
) -> None:
    """Inside a stream there is only the code that the record gives."""
    exchange = Exchange.load(write(tmp_path, status=status, body=body) / "exchanges" / "one.json")
    async with Player() as player:
        (reading,) = await readings(player, exchange, ["whole"])
    assert reading["error"]["status"] == code


def test_documented_exceptions_must_still_be_some(tmp_path: Path) -> None:
    name, fields = next(iter(DOCUMENTED.items()))
    exchange = Exchange.load(write(tmp_path) / "exchanges" / "one.json")._replace(name=name)
    (tmp_path / "expected" / f"{name}.json").write_text(json.dumps(MEANING), encoding="utf-8")
    outcome = check(exchange, MEANING, tmp_path / "expected")
    assert outcome.wrong == [f"{field}: no longer an exception" for field in fields]


@pytest.mark.parametrize("way", WAYS)
def test_pieces_are_the_whole(way: str) -> None:
    body = BODY.encode() * 100
    joined = b"".join(cut(body, way))
    assert joined == (body.replace(b"\n", b"\r\n") if way == "crlf" else body)
