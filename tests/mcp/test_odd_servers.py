"""MCP servers that say odd things, callers who misspell: nothing hangs, nothing is left open."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from procession import Agent, ConfigurationError, ToolError, processor
from procession.mcp import MCPServer
from procession.testing import ScriptedModel, answer, tool_call

SCRIPT = Path(__file__).with_name("raw_server.py")
SECRET = "sk-very-secret-0123"


def listed(*names: str, **more: Any) -> list[dict[str, Any]]:
    return [{"name": name, "inputSchema": {"type": "object"}, **more} for name in names]


def raw(options: dict[str, Any] | None = None, **how: Any) -> MCPServer:
    how.setdefault("tools", listed("read", "pay", "drop"))
    given: dict[str, Any] = options or {}
    return MCPServer.stdio(sys.executable, [str(SCRIPT), json.dumps(how)], **given)


async def names(server: MCPServer) -> list[str]:
    async with asyncio.timeout(10):
        return [tool.name for tool in await server.tools()]


async def asking(**options: Any) -> dict[str, Any]:
    """What is to be asked about each tool of a server."""
    async with raw(options) as server:
        return {tool.name: tool.require_approval for tool in await server.tools()}


# ── names ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "given",
    [
        ["日" * 64, "本" * 64, "語" * 64],
        ["a" * 70, "a" * 71, "a" * 72],
        ["日" * 9, "本" * 9, "語" * 9],
    ],
)
async def test_long_and_foreign_names_are_told_apart(given: list[str]) -> None:
    async with raw(tools=listed(*given)) as server:
        found = await names(server)
    assert len(set(found)) == 3
    assert max(map(len, found)) <= 64


async def test_a_name_that_needs_no_change_is_nobody_elses() -> None:
    """Also when the other one is listed first."""
    async with raw(tools=listed("x.y", "x_y", "x/y", "x_y_2")) as server:
        found = await names(server)
    assert sorted(found) == ["x_y", "x_y_2", "x_y_3", "x_y_4"]
    assert (found[1], found[3]) == ("x_y", "x_y_2")


async def test_of_two_tools_of_one_name_the_second_is_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tools = [*listed("read", description="first"), *listed("pay", "read", description="other")]
    async with raw(tools=tools) as server:
        found = await server.tools()
    assert [(tool.name, tool.description) for tool in found] == [
        ("read", "first"),
        ("pay", "other"),
    ]
    assert "lists two tools 'read'" in caplog.text


async def test_one_tool_with_a_schema_that_is_none_does_not_cost_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bad = [{"name": "bad", "inputSchema": {"type": "object", "properties": 3}}, "no tool at all"]
    async with raw(tools=[*listed("read"), *bad, *listed("pay")]) as server:
        assert await names(server) == ["read", "pay"]
    assert "number 1 of its list is no tool" in caplog.text


# ── lists ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("endless", ["same", "new"])
async def test_a_list_that_never_ends_is_an_error(endless: str) -> None:
    async with raw(endless=endless) as server:
        with pytest.raises(ToolError, match=r"'python.*', its list of tools: it does not end"):
            await names(server)
        assert server.is_open


async def test_a_list_of_many_pages_is_read_to_its_end() -> None:
    pages = [listed(f"t{number}") for number in range(60)]
    async with raw(pages=pages) as server:
        assert len(await names(server)) == 60


# ── choices ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("given", [["pay"], ["s_pay"], "pay", "s_pay", {"s_pay"}])
async def test_who_must_be_asked_is_named_with_or_without_prefix(given: Any) -> None:
    found = await asking(prefix="s_", require_approval=given)
    assert found == {"s_read": False, "s_pay": True, "s_drop": False}


@pytest.mark.parametrize("given", [["pay"], ["s_pay"], "pay", "s_pay"])
async def test_what_is_used_is_named_with_or_without_prefix(given: Any) -> None:
    assert list(await asking(prefix="s_", only=given)) == ["s_pay"]


@pytest.mark.parametrize("option", ["only", "require_approval"])
@pytest.mark.parametrize("given", [["pay", "reed"], ["Pay"], "paying", "x_pay"])
async def test_a_misspelt_name_opens_nothing(option: str, given: Any) -> None:
    options: dict[str, Any] = {"prefix": "s_", option: given}
    async with raw(options) as server:
        with pytest.raises(ConfigurationError, match=f"{option} names. Its tools: s_read, s_pay"):
            await server.tools()
        agent = Agent(id="a", model=ScriptedModel(["Hi."]), tools=server)
        with pytest.raises(ConfigurationError, match="has no tool"):
            await agent.generate("go")


@pytest.mark.parametrize("option", ["only", "require_approval"])
@pytest.mark.parametrize("given", [5, ["pay", 5]])
def test_names_are_texts(option: str, given: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"{option} must be the names"):
        raw({option: given})


# ── opening and closing ────────────────────────────────────────────────────────────────────────


def heard(log: Path) -> list[str]:
    """What the processes have written down."""
    return log.read_text().split("\n") if log.exists() else []


async def started(log: Path, times: int) -> int:
    """The id of the process that was started last, once it is being spoken to."""
    async with asyncio.timeout(10):
        while True:
            lines = heard(log)
            pids = [line.split()[1] for line in lines if line.startswith("pid")]
            if len(pids) == times and lines.count("initialize") >= times:
                return int(pids[-1])
            await asyncio.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_closing_stops_a_connection_that_is_being_made(tmp_path: Path) -> None:
    log = tmp_path / "log"
    server = raw(slow=5, log=str(log))
    opening = asyncio.create_task(server.__aenter__())
    pid = await started(log, 1)
    await server.aclose()
    assert not is_running(pid)
    with pytest.raises(ToolError, match="was closed while it was being connected to"):
        await opening
    assert not server.is_open
    assert len(asyncio.all_tasks()) == 1


async def test_closing_stops_a_connection_that_is_made_anew(tmp_path: Path) -> None:
    log = tmp_path / "log"
    server = raw(slow=0.5, log=str(log))
    await server.__aenter__()
    os.kill(await started(log, 1), signal.SIGTERM)
    listing = [asyncio.create_task(server.tools()) for _ in range(2)]
    pid = await started(log, 2)
    await server.aclose()
    assert not is_running(pid)
    for ended in await asyncio.gather(*listing, return_exceptions=True):
        assert isinstance(ended, ToolError)
        assert "was closed while" in str(ended)
    async with server:
        assert await names(server) == ["read", "pay", "drop"]
    assert len(asyncio.all_tasks()) == 1


async def test_who_is_cancelled_while_connecting_leaves_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    server = raw(slow=5, log=str(log))
    opening = asyncio.create_task(server.__aenter__())
    pid = await started(log, 1)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert not is_running(pid)
    assert not server.is_open


async def test_the_words_with_which_a_server_refuses_are_kept() -> None:
    """G-W: without what is secret."""
    with pytest.raises(ToolError, match="no connection: no such user, key …") as caught:
        async with raw({"env": {"KEY": SECRET}}, refuses=f"no such user, key {SECRET}"):
            pass
    assert SECRET not in str(caught.value)


# ── calls ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_verdict_on_progress_ends_the_call(tmp_path: Path) -> None:
    """Law 2: the hook is not asked again, and the server hears of it."""
    log = tmp_path / "log"
    offered: list[float] = []

    def guard(args: Any) -> Any:
        if args.part.type == "tool-output":
            offered.append(args.part.payload.output["progress"])
            if len(offered) == 3:
                args.abort("enough")
        return args.part

    async with raw(notes=8, log=str(log)) as server:
        model = ScriptedModel([answer(tool_calls=[tool_call("read", id="c")]), "Done."])
        hook = processor(id="guard", process_output_stream=guard)
        agent = Agent(id="a", model=model, tools=server, output_processors=[hook])
        result = await agent.generate("go")
        assert (result.status, offered) == ("tripwire", [0, 1, 2])
        async with asyncio.timeout(30):
            while "notifications/cancelled" not in heard(log):  # noqa: ASYNC110  # a process
                await asyncio.sleep(0.01)


async def test_numbers_that_json_does_not_know_become_null(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR)
    data = '{"content": [], "structuredContent": {"a": NaN, "b": [1e999, -1e999], "c": 0.5}}'
    async with raw(answers=data) as server:
        model = ScriptedModel([answer(tool_calls=[tool_call("read", id="c")]), "Done."])
        result = await Agent(id="a", model=model, tools=server).generate("go")
    made = {"a": None, "b": [None, None], "c": 0.5}
    assert result.tool_results[0].payload.result == made
    assert model.calls[1].prompt[-1]["content"][0]["output"] == {"type": "json", "value": made}
