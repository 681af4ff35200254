"""Tools of MCP servers: a process over stdio, and streamable HTTP on loopback."""

from __future__ import annotations

import asyncio
import importlib.util
import socket
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn

from procession import (
    AbortController,
    Agent,
    ConfigurationError,
    ToolError,
    processor,
    tool,
)
from procession.mcp import MCPServer, MCPTools
from procession.testing import ScriptedModel, answer, tool_call

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

SCRIPT = Path(__file__).with_name("tool_server.py")
SECRET = "sk-very-secret-0123"


def program(*args: str, **options: Any) -> MCPServer:
    return MCPServer.stdio(sys.executable, [str(SCRIPT), *args], **options)


class Endpoint:
    """The same server behind HTTP, in this process; it can be stopped and started again."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.events: list[str] = []
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/mcp"

    async def start(self) -> None:
        spec = importlib.util.spec_from_file_location("tool_server", SCRIPT)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        app = module.make(self.events).streamable_http_app(**self.options)
        config = uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1)
        self.server = uvicorn.Server(config)
        self.task = asyncio.create_task(self.server.serve([self.socket.dup()]))
        while not self.server.started:  # noqa: ASYNC110  # there is no event for it
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        self.server.should_exit = True
        await self.task


@asynccontextmanager
async def endpoint(**options: Any) -> AsyncIterator[Endpoint]:
    served = Endpoint(**options)
    await served.start()
    try:
        yield served
    finally:
        await served.stop()
        served.socket.close()


WAYS = ["stdio", "http", "http-json"]


@pytest.fixture(params=WAYS)
async def server(request: pytest.FixtureRequest) -> AsyncGenerator[MCPServer, None]:
    """A server, open."""
    if request.param == "stdio":
        async with program(call_timeout=20) as opened:
            yield opened
        return
    async with endpoint(json_response=request.param == "http-json") as served:
        async with MCPServer.http(served.url, call_timeout=20) as opened:
            yield opened


async def call(tools: Any, name: str, args: Any = None, **options: Any) -> tuple[list[Any], Any]:
    """What a call of a tool delivers, and what the model is told of it."""
    model = ScriptedModel([answer(tool_calls=[tool_call(name, args, id="c")]), "Done."])
    run = await Agent(id="a", model=model, tools=tools, **options).stream("go")
    chunks = [chunk async for chunk in run]
    assert run.status == "success", run.error
    found = [c for c in chunks if c.type in ("tool-output", "tool-result", "tool-error")]
    return found, model.calls[1].prompt[-1]["content"][0]["output"]


async def named(server: MCPServer, name: str) -> Any:
    return next(tool for tool in await server.tools() if tool.name == name)


# ── calling ────────────────────────────────────────────────────────────────────────────────────


async def test_tools_are_listed_and_called(server: MCPServer) -> None:
    tools = await server.tools()
    assert {"add", "greet", "odd_name_here"} <= {tool.name for tool in tools}
    add = next(tool for tool in tools if tool.name == "add")
    assert add.description == "Add two numbers."
    assert sorted(add.input_schema["properties"]) == ["a", "b"]
    [chunk], told = await call(tools, "add", {"a": 1, "b": 2})
    assert chunk.payload.result == {"result": 3}
    assert told == {"type": "json", "value": {"result": 3}}
    [chunk], told = await call(tools, "greet", {"name": "Ada"})
    assert chunk.payload.result == "Hello, Ada!"
    assert told == {"type": "text", "value": "Hello, Ada!"}
    [chunk], _ = await call(tools, "odd_name_here")
    assert chunk.payload.result == {"result": "odd"}


async def test_the_server_is_a_function_of_the_request(server: MCPServer) -> None:
    [chunk], _ = await call(server, "add", {"a": 2, "b": 2})
    assert chunk.payload.result == {"result": 4}


async def test_contents_of_all_kinds(server: MCPServer) -> None:
    """The client gets all of it, the model what is for it, in the form that providers take."""
    [chunk], told = await call(server, "picture")
    kinds = [block["type"] for block in chunk.payload.result["content"]]
    assert kinds == ["text", "image", "resource_link", "resource", "text"]
    assert [part["type"] for part in told["value"]] == ["text", "media", "text", "text"]
    assert told["value"][1]["mediaType"] == "image/png"
    assert "for people" not in str(told)


async def test_what_fails_at_the_server_is_told_to_the_model(server: MCPServer) -> None:
    [chunk], told = await call(server, "fail", {"word": "luck"})
    assert chunk.type == "tool-error"
    assert told["type"] == "error-text"
    assert "no luck" in told["value"]


async def test_arguments_are_checked_before_they_are_sent(server: MCPServer) -> None:
    """R-532."""
    [chunk], told = await call(server, "add", {"a": "one"})
    assert chunk.payload.result["error"] is True
    assert told["value"]["validationErrors"]


async def test_progress_goes_to_the_stream(server: MCPServer) -> None:
    chunks, _ = await call(server, "steps")
    assert chunks[-1].type == "tool-result"
    if len(chunks) > 1:  # one JSON answer has no room for it
        messages = [chunk.payload.output["message"] for chunk in chunks[:-1]]
        assert messages == ["step 0", "step 1", "step 2"]


async def test_results_pass_process_tool_result(server: MCPServer) -> None:
    def mask(args: Any) -> None:
        masked = {"toolCallId": args.tool_call_id, "result": "masked"}
        args.message_list.update_tool_invocation({"toolInvocation": masked})

    hook = processor(id="mask", process_tool_result=mask)
    [chunk], told = await call(server, "greet", {"name": "Ada"}, output_processors=[hook])
    assert chunk.payload.result == "masked"
    assert told == {"type": "text", "value": "masked"}


async def test_what_a_processor_made_of_blocks_is_what_the_model_sees(server: MCPServer) -> None:
    def cut(args: Any) -> None:
        blocks = [block for block in args.result["content"] if block["type"] == "text"]
        made = {"toolCallId": args.tool_call_id, "result": {"content": blocks}}
        args.message_list.update_tool_invocation({"toolInvocation": made})

    hook = processor(id="cut", process_tool_result=cut)
    _, told = await call(server, "picture", output_processors=[hook])
    assert told["value"] == [{"type": "text", "text": "a pixel"}]


async def test_calls_side_by_side(server: MCPServer) -> None:
    calls = [tool_call("add", {"a": n, "b": 0}, id=f"c{n}") for n in range(8)]
    model = ScriptedModel([answer(tool_calls=calls), "Done."])
    result = await Agent(id="a", model=model, tools=server).generate("go")
    assert [chunk.payload.result["result"] for chunk in result.tool_results] == list(range(8))


# ── stopping ───────────────────────────────────────────────────────────────────────────────────


async def happened(server: MCPServer, *what: str) -> None:
    """Wait until the server says that these things have happened in it."""
    while True:
        [chunk], _ = await call(server, "happened")
        if chunk.payload.result["result"] == list(what):
            return
        await asyncio.sleep(0.01)


# (Not of one JSON answer: its server does not look whether anybody still waits for it.)
@pytest.mark.parametrize("server", WAYS[:2], indirect=True)
@pytest.mark.parametrize("how", ["signal", "closed"])
async def test_a_cancelled_call_is_cancelled_at_the_server(server: MCPServer, how: str) -> None:
    """R-558, law 6: the server hears of it, and the connection lives on."""
    controller = AbortController()
    model = ScriptedModel([answer(tool_calls=[tool_call("slow", id="c")]), "Done."])
    agent = Agent(id="a", model=model, tools=server)
    run = await agent.stream("go", abort_signal=controller.signal)
    reading = asyncio.create_task(run.consume_stream())
    await happened(server, "started")
    if how == "signal":
        controller.abort()
    else:
        await run.aclose()
    await reading
    assert run.status == "canceled"
    await happened(server, "started", "CancelledError")


async def test_a_call_that_takes_too_long_is_cancelled_there() -> None:
    async with program(call_timeout=0.5, name="tortoise") as server:
        chunks, told = await call(server, "slow")
        assert chunks[-1].type == "tool-error"
        assert "'tortoise', tool 'slow': no answer within 0.5 seconds" in told["value"]
        await happened(server, "started", "CancelledError")


# ── connections ────────────────────────────────────────────────────────────────────────────────


async def test_a_process_that_died_is_started_again() -> None:
    async with program() as server:
        _, told = await call(server, "die")
        assert "not known whether the call was carried out" in told["value"]
        [chunk], _ = await call(server, "add", {"a": 1, "b": 1})
        assert chunk.payload.result == {"result": 2}


async def test_a_call_that_may_be_repeated_is(tmp_path: Path) -> None:
    async with program() as server:
        [chunk], _ = await call(server, "die_once", {"path": str(tmp_path / "dead")})
        assert chunk.payload.result == {"result": "alive"}


@pytest.mark.parametrize("stateless", [False, True])
async def test_an_endpoint_that_was_started_again(stateless: bool) -> None:
    async with endpoint(stateless_http=stateless) as served:
        async with MCPServer.http(served.url) as server:
            await call(server, "add", {"a": 1, "b": 1})
            await served.stop()
            await served.start()
            [chunk], _ = await call(await server.tools(), "add", {"a": 2, "b": 1})
            assert chunk.payload.result == {"result": 3}


async def test_an_endpoint_that_is_away_is_an_error_of_the_call() -> None:
    served = Endpoint()
    await served.start()
    async with MCPServer.http(served.url, connect_timeout=5, name="away") as server:
        tools = await server.tools()
        await served.stop()
        served.socket.close()
        _, told = await call(tools, "add", {"a": 1, "b": 1})
        assert "MCP server 'away'" in told["value"]
        assert server.is_open
    assert len(asyncio.all_tasks()) == 1


async def test_connecting_fails_with_words() -> None:
    with pytest.raises(ToolError, match="No such file"):
        async with MCPServer.stdio("/no/such/program", env={"KEY": SECRET}):
            pass
    with pytest.raises(ToolError, match=r"'127\.0\.0\.1:9': no connection: ConnectError"):
        async with MCPServer.http(f"http://127.0.0.1:9/mcp?key={SECRET}"):
            pass
    with pytest.raises(ToolError, match=r"within 0\.2 seconds"):
        sleeper = ["-c", "import time; time.sleep(60)"]
        async with MCPServer.stdio(sys.executable, sleeper, connect_timeout=0.2):
            pass
    assert len(asyncio.all_tasks()) == 1


async def test_closing_leaves_nothing(server: MCPServer) -> None:
    await call(server, "greet", {"name": "Ada"})
    await server.aclose()
    with pytest.raises(ConfigurationError, match="not open"):
        await server.tools()


async def test_a_server_belongs_to_its_loop() -> None:
    async with program() as server:
        tools = await server.tools()
        agent = Agent(id="a", model=ScriptedModel(["Hi."]), tools=server)
        with pytest.raises(ConfigurationError, match="another event loop"):
            await asyncio.to_thread(agent.generate_sync, "go")
        with pytest.raises(ConfigurationError, match="open already"):
            await server.__aenter__()
        assert tools


# ── lists ──────────────────────────────────────────────────────────────────────────────────────


async def test_new_tools_are_found(server: MCPServer) -> None:
    before = {tool.name for tool in await server.tools()}
    await call(server, "learn")
    while "extra" not in {tool.name for tool in await server.tools()}:  # noqa: ASYNC110  # it has none
        await asyncio.sleep(0.01)
    assert "extra" not in before
    [chunk], _ = await call(server, "extra")
    assert chunk.payload.result == {"result": "extra"}


async def test_prefixes_and_choices() -> None:
    @tool
    def mine() -> str:
        return "mine"

    one = program(prefix="one_", only=["add", "greet"])
    two = program(only=["add"], name="two")
    async with MCPTools(one, two, mine) as tools:
        names = [found.name for found in await tools.tools()]
        assert names == ["one_add", "one_greet", "add", "mine"]
        [chunk], _ = await call(tools, "one_add", {"a": 1, "b": 5})
        assert chunk.payload.result == {"result": 6}
        with pytest.raises(ConfigurationError, match=r"'add', given by MCP server 'two'.*prefix"):
            await MCPTools(two, two).tools()
        assert one.is_open
    assert not one.is_open


async def test_servers_before_one_that_fails_are_closed() -> None:
    good = program()
    with pytest.raises(ToolError):
        async with MCPTools(good, MCPServer.stdio("/no/such/program")):
            pass
    assert not good.is_open
    assert len(asyncio.all_tasks()) == 1


async def test_approval_of_some_tools() -> None:
    async with program(require_approval=["greet"]) as server:
        calls = [tool_call("greet", {"name": "Ada"}, id="g"), tool_call("add", {"a": 1, "b": 1})]
        model = ScriptedModel([answer(tool_calls=calls), "Done."])
        agent = Agent(id="a", model=model, tools=server)
        waiting = await agent.generate("go")
        assert [chunk.payload.tool_name for chunk in waiting.waiting] == ["greet"]
        done = await agent.approve_tool_call_generate(waiting.run_id)
        assert done.tool_results[-1].payload.result == "Hello, Ada!"


# ── secrets ────────────────────────────────────────────────────────────────────────────────────


async def test_secrets_stand_in_no_error() -> None:
    """G-W: also what the server itself repeats of them."""
    async with program(env={"SECRET_KEY": SECRET}) as server:
        chunks, told = await call(server, "fail", {"word": "luck"})
        assert SECRET not in told["value"]
        assert SECRET not in str(chunks[0].to_json())
        assert "the key is …" in told["value"]
        assert SECRET not in repr(server)


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="list of arguments"):
        MCPServer.stdio("python", "server.py")
    with pytest.raises(ConfigurationError, match="https://host"):
        MCPServer.http("localhost")
    with pytest.raises(ConfigurationError, match="call_timeout"):
        MCPServer.http("http://127.0.0.1/mcp", call_timeout=0)
