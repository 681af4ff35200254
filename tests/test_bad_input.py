"""What cannot work gives an error of ours that names place and remedy; all else works."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable  # noqa: TC003  # the signature of a tool is read
from typing import Any

import msgspec
import pytest

from procession import (
    Agent,
    APICallError,
    MessageList,
    ProcessorError,
    Tool,
    UnknownModelError,
    tool,
)
from procession.errors import ConfigurationError, InputError, ModelError, ProcessionError
from procession.processor import HOOKS
from tests.laws.kit import (
    METADATA,
    Hook,
    PlayedModel,
    Tap,
    agent_with,
    call,
    echo,
    end,
    in_all_lists,
    others_done,
    said,
)
from tests.naming import named

ANSWER = [METADATA, *said("fine"), end()]
WITH_TOOL = [[call("echo", '{"value": "x"}'), end("tool-calls")], ANSWER]
DIRTY = "ab \ud83d\ude00 \ud800c"
CLEAN = "ab 😀 \ufffdc"


async def failure_of(agent: Agent, given: Any = "go", **options: Any) -> ProcessionError:
    """The error a call fails with: one of ours, and the stream's last chunk if there is one."""
    with pytest.raises(ProcessionError) as raised:
        await agent.generate(given, **options)
    assert str(raised.value)
    return raised.value


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def endless() -> dict[str, Any]:
    value: dict[str, Any] = {"name": "loop"}
    value["self"] = value
    return value


def sendable(value: Any) -> str:
    """The value as JSON text, which it must have."""
    return msgspec.json.encode(value).decode()


# ── what hooks return ──────────────────────────────────────────────────────────────────────────

WRONG: list[tuple[str, Any]] = [
    *[("process_input", bad) for bad in ("text", 7, {"bogus": 1}, [7], [{"role": "user"}])],
    *[("process_input_step", bad) for bad in ("text", 7, [7], {"tools": 7}, {"messages": 7})],
    *[("process_input_step", {"system_messages": bad}) for bad in (7, [7], "text")],
    *[("process_llm_request", bad) for bad in ("text", 7, {"bogus": 1}, {"prompt": "text"})],
    *[("process_llm_request", {"prompt": bad}) for bad in ([7], [{"role": "user"}], 7)],
    *[("process_llm_request", {"response": bad}) for bad in (7, "text", {"chunks": [7]}, {})],
    *[("process_output_stream", bad) for bad in ("text", 7, {"type": "text-delta"}, [])],
    *[("process_output_step", bad) for bad in ("text", 7, {"bogus": 1}, [7])],
    *[("process_tool_result", bad) for bad in ("text", 7, {"bogus": 1}, [7])],
    *[("process_output_result", bad) for bad in ("text", 7, {"bogus": 1}, [7])],
]


@pytest.mark.parametrize(("hook", "bad"), WRONG)
async def test_wrong_returns(hook: str, bad: Any) -> None:
    """R-067, R-078, R-097, R-130, R-137, R-149, R-154, R-189: named by processor and hook."""
    if bad == {}:
        bad = {"chunks": "text"}
    if hook == "process_llm_request" and bad == {"response": {}}:
        bad = {"response": {"chunks": None}}
    for returned in (lambda args: bad, _later(bad)):
        model = PlayedModel(WITH_TOOL)
        error = await failure_of(agent_with(model, Tap(), Hook(hook, returned, "broken one")))
        assert isinstance(error, ProcessorError)
        assert (error.processor_id, error.hook) == ("broken one", hook)
        assert "'broken one'" in str(error) and hook in str(error)
        assert model.open == 0


def _later(value: Any) -> Any:
    async def hook(args: Any) -> Any:
        return value

    return hook


FOREIGN = ["process_input", "process_input_step", "process_output_step", "process_tool_result"]


@pytest.mark.parametrize("hook", [*FOREIGN, "process_output_result"])
@pytest.mark.parametrize("inside", [False, True])
async def test_another_message_list(hook: str, inside: bool) -> None:
    """R-077, R-240: also inside an object; both keys at once are an error too (R-076)."""
    if inside and hook != "process_input_step":
        return
    foreign: Any = {"message_list": MessageList()} if inside else MessageList()
    error = await failure_of(agent_with(PlayedModel(WITH_TOOL), Hook(hook, lambda args: foreign)))
    assert isinstance(error, ProcessorError) and "MessageList" in str(error)
    both = {"messages": [], "message_list": None}
    error = await failure_of(
        agent_with(PlayedModel(WITH_TOOL), Hook("process_input_step", lambda args: both))
    )
    assert "both" in str(error)


async def test_wrong_answers_to_failed_calls() -> None:
    """R-117: an error processor's own mistakes count as declined; the call's error stays."""
    refusal = APICallError("out of stock", status_code=400)
    for bad in ("text", 7, [True]):
        agent = agent_with(
            PlayedModel([[refusal]]), Hook("process_api_error", lambda args, bad=bad: bad)
        )
        with pytest.raises(APICallError, match="out of stock"):
            await agent.generate("go")


async def test_what_the_response_hook_returns_is_ignored() -> None:
    """R-103."""
    agent = agent_with(PlayedModel([ANSWER]), Hook("process_llm_response", lambda args: 7))
    assert (await agent.generate("go")).text == "fine"


@pytest.mark.parametrize("bad", [None, 7, "text", object(), type("NoId", (), {})()])
def test_entries_that_are_no_processors(bad: Any) -> None:
    """R-011: refused when the agent is built, with the list's name."""
    for kind in ("input_processors", "output_processors", "error_processors"):
        with pytest.raises(ConfigurationError, match=kind):
            Agent(id="a", **{kind: [bad]})


class _Hooks:
    """Hooks as methods, bound or not."""

    def without_self() -> None:  # type: ignore[misc]
        """Its author forgot both."""

    def without_args(self) -> None:
        """Its author forgot the arguments."""

    def two(self, args: Any, more: Any) -> None:
        """Wants more than there is."""

    def named(self, args: Any, *, must: int) -> None:
        """Wants what nobody gives."""

    def good(self, args: Any, more: int = 1, *, may: int = 2) -> None:
        """Can be called."""

    def any_way(*given: Any) -> None:  # type: ignore[misc]
        """Takes what comes."""

    @staticmethod
    def static(args: Any) -> None:
        """Not bound."""

    @classmethod
    def of_class(cls, args: Any) -> None:
        """Bound to the class."""

    def yields(self, args: Any) -> Any:
        yield args

    async def yields_later(self, args: Any) -> Any:
        yield args

    def __call__(self, args: Any) -> None:
        """The object itself is the hook."""


class _YieldingCall:
    def __call__(self, args: Any) -> Any:
        yield args


class _StaticCall:
    @staticmethod
    def __call__(args: Any) -> None:
        """Called as it is."""


def _taking(*names: str) -> Any:
    def hook(args: Any, *more: Any, **named: Any) -> None:
        """A wrapper that takes more than what it wraps."""

    return functools.wraps(_Hooks.without_args)(hook)


UNCALLABLE = {
    "no self": _Hooks().without_self,
    "no arguments": _Hooks().without_args,
    "two": _Hooks().two,
    "a keyword": _Hooks().named,
    "a function of none": lambda: None,
    "a full partial": functools.partial(_Hooks().good, 1, 2),
    "a partial of two": functools.partial(lambda one, two, three: None, 1),
}
YIELDING = {
    "generator": _Hooks().yields,
    "async generator": _Hooks().yields_later,
    "partial": functools.partial(_Hooks().yields),
    "callable object": _YieldingCall(),
}
CALLABLE = {
    "method": _Hooks().good,
    "any": _Hooks().any_way,
    "static": _Hooks().static,
    "of the class": _Hooks().of_class,
    "object": _Hooks(),
    "static call": _StaticCall(),
    "partial": functools.partial(lambda one, args: None, 1),
    "partial of keywords": functools.partial(_Hooks().named, must=1),
    "wrapper": _taking(),
    "builtin": [].append,
    "type": type,
}


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("bad", UNCALLABLE)
def test_hooks_that_cannot_be_called(hook: str, bad: str) -> None:
    """R-008: one argument; told when the agent is built, with processor, hook and remedy."""
    with pytest.raises(ConfigurationError, match=rf"'judge': {hook} must .*def {hook}\("):
        Agent(id="a", **in_all_lists(Hook(hook, UNCALLABLE[bad], "judge")))


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("bad", YIELDING)
def test_hooks_that_would_never_run(hook: str, bad: str) -> None:
    """A `yield` left in a hook makes calling it do nothing: no guard may be lost like that."""
    with pytest.raises(ConfigurationError, match=rf"'judge': {hook} has a `yield`"):
        Agent(id="a", **in_all_lists(Hook(hook, YIELDING[bad], "judge")))


@pytest.mark.parametrize("hook", [hook for hook in HOOKS if hook != "process_output_stream"])
async def test_generators_that_could_not_be_seen(hook: str) -> None:
    """R-189: the same behind a wrapper, found when the hook is called."""

    def wrapper(args: Any) -> Any:
        return _Hooks().yields(args)

    answers = [[ConnectionError("lost")]] if hook == "process_api_error" else WITH_TOOL
    agent = agent_with(PlayedModel(answers), Hook(hook, wrapper, "judge"))
    if hook == "process_api_error":  # there it counts as declined
        with pytest.raises(ConnectionError):
            await agent.generate("go")
        return
    error = await failure_of(agent)
    assert isinstance(error, ProcessorError) and error.processor_id == "judge"
    assert "yield" in str(error)


@pytest.mark.parametrize("good", CALLABLE)
def test_hooks_of_all_kinds(good: str) -> None:
    """R-006: whatever can be called with one argument may be a hook."""
    for hook in HOOKS:
        Agent(id="a", **in_all_lists(Hook(hook, CALLABLE[good])))


NO_IDS = [7, "", None, ["x"]]


@pytest.mark.parametrize("bad", NO_IDS, ids=repr)
def test_agents_whose_id_is_no_text(bad: Any) -> None:
    """R-232."""
    with pytest.raises(ConfigurationError, match="id"):
        Agent(id=bad)


@pytest.mark.parametrize("bad", NO_IDS, ids=repr)
def test_processors_whose_id_is_no_text(bad: Any) -> None:
    """R-001, R-011."""
    with pytest.raises(ConfigurationError, match="id"):
        Agent(id="a", input_processors=[Hook("process_input", print, bad)])


@pytest.mark.parametrize("bad", NO_IDS, ids=repr)
def test_tools_whose_name_is_no_text(bad: Any) -> None:
    """A tool's name is what the model calls it by."""
    with pytest.raises(ConfigurationError, match="name"):
        Tool(name=bad)


@pytest.mark.parametrize("bad", [7, "tap", Tap()])
def test_lists_that_are_no_lists(bad: Any) -> None:
    """A single processor, or a text, in the place of a list."""
    with pytest.raises(ConfigurationError):
        Agent(id="a", input_processors=bad)


# ── models ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("bad", ["nobody/large", "large", "/", "a/", "/b", ""])
async def test_unknown_model_ids(bad: str) -> None:
    """R-083: like a failed call; says what an id looks like."""
    error = await failure_of(Agent(id="a", model=bad))
    assert "provider" in str(error) or "model" in str(error)
    assert isinstance(error, UnknownModelError) or bad == ""


@pytest.mark.parametrize("bad", [7, object(), {"id": "x"}, {"id": "a/b", "url": "x", "key": 1}, []])
async def test_things_that_are_no_models(bad: Any) -> None:
    """A clear error, at the latest when the model is needed."""
    await failure_of(Agent(id="a", model=bad))


async def test_no_model_at_all() -> None:
    """R-232: an agent without a model says so."""
    assert "model" in str(await failure_of(Agent(id="lonely")))
    agent = agent_with(PlayedModel([ANSWER]), Hook("process_input_step", lambda a: {"model": 7}))
    await failure_of(agent)
    agent = agent_with(
        PlayedModel([ANSWER]), Hook("process_input_step", lambda a: {"model": "nobody/x"})
    )
    assert isinstance(await failure_of(agent), UnknownModelError)


class Odd:
    """A model that yields what it is told to."""

    provider = "example"
    model_id = "odd-1"

    def __init__(self, *reads: Any) -> None:
        self.reads = reads

    async def stream(self, request: Any) -> Any:
        for read in self.reads:
            yield read


@pytest.mark.parametrize("bad", [7, None, [7], [None], ["text"], [{"type": "text-delta"}], "text"])
async def test_models_that_yield_no_chunks(bad: Any) -> None:
    """G-A10: an error that says what a model must yield, and which model it was."""
    error = await failure_of(agent_with(Odd(bad)))
    assert isinstance(error, ModelError) and "odd-1" in str(error)


async def test_a_model_whose_stream_is_no_stream() -> None:
    """A coroutine or a list in the place of an async generator."""

    class Wrong(Odd):
        async def stream(self, request: Any) -> Any:  # type: ignore[override]
            return []

    class Plain(Odd):
        def stream(self, request: Any) -> Any:  # type: ignore[override]
            return []

    for model in (Wrong(), Plain()):
        error = await failure_of(agent_with(model))
        assert "odd-1" in str(error)


async def test_nothing_at_all() -> None:
    """R-520: a stream without anything is a step without text and without a reason."""
    for model in (Odd(), Odd([]), Odd([], [])):
        output = await agent_with(model).generate("go")
        assert (output.text, output.finish_reason, len(output.steps)) == ("", None, 1)


@pytest.mark.parametrize("after", range(6))
async def test_a_provider_that_dies(after: int) -> None:
    """R-551, R-552: what came stays, the exception is the original, nothing is left open."""
    died = ConnectionResetError("gone")
    parts = [METADATA, *said("fi", "ne"), end()]
    model = PlayedModel([[*parts[:after], died]])
    run = await agent_with(model, Tap()).stream("go")
    kinds = [chunk.type async for chunk in run]
    assert kinds[-3:] == ["error", "step-finish", "finish"] and run.error is died
    assert await run.text == "".join(["", "", "", "fi", "fine", "fine"][after])
    assert await run.finish_reason == "error" and model.open == 0


async def test_two_calls_with_one_id() -> None:
    """R-534: refused as a model's mistake."""
    parts = [call("echo", id="same"), call("echo", id="same"), end("tool-calls")]
    assert isinstance(await failure_of(agent_with(PlayedModel([parts]))), ModelError)


# ── messages ───────────────────────────────────────────────────────────────────────────────────

NO_MESSAGES = [
    "", None, [], 7, 1.5, True, b"bytes", {}, [{}], [None], [[]], {"role": "user"},
    {"content": "no role"}, {"role": "nobody", "content": "x"}, {"role": "user", "content": 7},
    {"role": 7, "content": "x"}, [7], {"role": "user", "content": [7]},
    {"role": "user", "content": [{"no": "type"}]}, {"role": "user", "content": [{"type": 7}]},
    {"role": "user", "content": None}, object(),
]  # fmt: skip


@pytest.mark.parametrize("bad", NO_MESSAGES, ids=lambda bad: named(bad)[:40])
async def test_input_that_is_no_message(bad: Any) -> None:
    """R-319 to R-334: refused before the model is asked."""
    model = PlayedModel([ANSWER])
    await failure_of(agent_with(model), bad)
    assert model.prompts == []


@pytest.mark.parametrize("bad", [(), [None, None], iter([]), iter([None])], ids=named)
async def test_input_that_holds_nothing(bad: Any) -> None:
    """Lists and iterators without a message: the error says that they are empty."""
    assert "empty" in str(await failure_of(agent_with(PlayedModel([ANSWER])), bad))


async def test_empty_texts_work() -> None:
    """A message may be empty beside others, and a model may say nothing."""
    model = PlayedModel([[*said(""), end()]])
    output = await agent_with(model).generate(["", {"role": "user", "content": "go"}])
    assert output.text == "" and output.finish_reason == "stop"


# ── text that no store accepts ─────────────────────────────────────────────────────────────────


async def test_dirty_text_in_prompts() -> None:
    """Cleaned where it enters: input, instructions, context, history and its metadata."""
    model = PlayedModel([ANSWER])
    agent = agent_with(model, Tap(), instructions=f"be {DIRTY}")
    stored = {"role": "assistant", "content": [{"type": "text", "text": f"said {DIRTY}"}]}
    output = await agent.generate(
        [{"role": "user", "content": f"old {DIRTY}"}, stored, f"new {DIRTY}"],
        system=f"system {DIRTY}",
        context=[{"role": "user", "content": f"context {DIRTY}"}],
    )
    text = json.loads(sendable(model.prompts[0]))
    found = json.dumps(text, ensure_ascii=False)
    for name in ("be", "old", "said", "new", "system", "context"):
        assert f"{name} {CLEAN}" in found
    sendable([message.to_json() for message in output.messages])


_SOURCE = {"type": "source", "id": "s", "sourceType": "url"}
FROM_MODELS: dict[str, list[Any]] = {
    "text": said(DIRTY, "\ud83d", "\ude00"),
    "reasoning": said(DIRTY, "\ud83d", "\ude00", kind="reasoning", id="r"),
    "source": [{**_SOURCE, "url": f"https://docs.example.com/{DIRTY}", "title": DIRTY}],
    "file": [{"type": "file", "data": "YQ==", "mediaType": "text/plain", "filename": DIRTY}],
    "arguments": [call("echo", json.dumps({"value": DIRTY}))],
    "raw arguments": [call("echo", '{"value": "' + DIRTY + '"}')],
    "argument deltas": [
        {"type": "tool-input-start", "id": "c1", "toolName": "echo"},
        {"type": "tool-input-delta", "id": "c1", "delta": '{"value": "\ud83d'},
        {"type": "tool-input-delta", "id": "c1", "delta": '\ude00"}'},
        {"type": "tool-input-end", "id": "c1"},
        call("echo", '{"value": "😀"}'),
    ],
    "tool name": [call(DIRTY)],
    "call id": [call("echo", id=DIRTY)],
    "provider result": [
        call("search", id="p", providerExecuted=True),
        {"type": "tool-result", "toolCallId": "p", "toolName": "search", "result": [DIRTY],
         "providerExecuted": True},
    ],
    "metadata": [{"type": "text-start", "id": "t", "providerMetadata": {"example": {"k": DIRTY}}},
                 {"type": "text-delta", "id": "t", "delta": "x"}, {"type": "text-end", "id": "t"}],
    "response id": [{"type": "response-metadata", "id": DIRTY, "modelId": DIRTY}],
}  # fmt: skip


@pytest.mark.parametrize("what", FROM_MODELS)
async def test_dirty_text_from_models(what: str) -> None:
    """Cleaned wherever a model writes; halves that were cut apart are joined."""
    parts = FROM_MODELS[what]
    asks = any(part["type"] == "tool-call" for part in parts)
    model = PlayedModel([[*parts, end("tool-calls" if asks else "stop")], ANSWER])
    run = await agent_with(model, Tap()).stream("go")
    chunks = [chunk async for chunk in run]
    assert run.status == "success"
    sendable([m.to_json() for m in run.message_list.messages()])
    sendable(model.prompts)
    sendable([chunk.to_json() for chunk in chunks])
    if what == "text":
        assert await run.text == f"{CLEAN}😀"
    if what == "reasoning":
        assert await run.reasoning_text == f"{CLEAN}😀"
    if what == "arguments":
        assert (await run.tool_results)[0].payload.result == f"echo {CLEAN}"


FROM_TOOLS: dict[str, Any] = {
    "result": lambda context: {DIRTY: [DIRTY]},
    "data": lambda context: context.writer.custom({"type": "data-note", "data": {DIRTY: DIRTY}}),
    "data id": lambda context: context.writer.custom({"type": "data-n", "data": 1, "id": DIRTY}),
    "write": lambda context: context.writer.write([DIRTY]),
    "error": lambda context: int(DIRTY),
}


@pytest.mark.parametrize("what", FROM_TOOLS)
async def test_dirty_text_from_tools(what: str) -> None:
    """Cleaned in results, errors, data chunks and what tools write."""

    async def dirty(arguments: Any, context: Any) -> Any:
        made = FROM_TOOLS[what](context)
        return await made if what not in ("result", "error") else made

    model = PlayedModel([[call("dirty"), end("tool-calls")], ANSWER])
    run = await agent_with(model, Tap(), tools=[Tool(name="dirty", execute=dirty)]).stream("go")
    chunks = [chunk async for chunk in run]
    assert run.status == "success"
    sendable(model.prompts)
    sendable([m.to_json() for m in run.message_list.messages()])
    sendable([chunk.to_json() for chunk in chunks])


def _reject(args: Any) -> None:
    if args.retry_count == 0:
        args.abort(f"feedback {DIRTY}", retry=True, metadata={DIRTY: DIRTY})


FROM_HOOKS: dict[str, tuple[str, Any]] = {
    "feedback": ("process_output_step", _reject),
    "verdict": ("process_output_step", lambda a: a.abort(DIRTY, metadata={DIRTY: DIRTY})),
    "message": ("process_input", lambda a: [*a.messages, {"role": "user", "content": DIRTY}]),
    "system": ("process_input_step", lambda a: {
        "system_messages": [{"role": "system", "content": DIRTY}]}),
    "list": ("process_input_step", lambda a: a.message_list.add_system(DIRTY) and None),
    "answer": ("process_output_result", lambda a: [{"role": "assistant", "content": DIRTY}]),
    "chunk": ("process_output_stream", lambda a: a.part if a.part.type != "text-delta" else
              a.part.replace(payload=a.part.payload.replace(text=DIRTY))),
    "prompt": ("process_llm_request", lambda a: {
        "prompt": [{"role": "user", "content": [{"type": "text", "text": DIRTY}]}]}),
}  # fmt: skip


@pytest.mark.parametrize("what", FROM_HOOKS)
async def test_dirty_text_from_hooks(what: str) -> None:
    """Cleaned in messages, system messages, chunks and feedback."""
    hook, function = FROM_HOOKS[what]
    model = PlayedModel([ANSWER])
    run = await agent_with(model, Hook(hook, function)).stream("go", max_processor_retries=1)
    chunks = [chunk async for chunk in run]
    assert run.status == ("tripwire" if what == "verdict" else "success")
    sendable(model.prompts)
    sendable([m.to_json() for m in run.message_list.messages()])
    sendable([chunk.to_json() for chunk in chunks])


async def test_dirty_text_edited_in_place() -> None:
    """R-033: what a hook writes into a part is sendable too."""

    def edit(args: Any) -> None:
        args.messages[-1].content.parts[-1].text = f"edited {DIRTY}"

    model = PlayedModel([ANSWER])
    output = await agent_with(model, Hook("process_input_step", edit)).generate("go")
    assert f"edited {CLEAN}" in json.dumps(json.loads(sendable(model.prompts)), ensure_ascii=False)
    assert output.text == "fine"


# ── size and depth ─────────────────────────────────────────────────────────────────────────────

BIG = "0123456789" * 1_000_000


async def test_ten_megabytes() -> None:
    """In the input, in a delta, in arguments, results and data chunks: nothing is lost."""

    async def big(arguments: Any, context: Any) -> str:
        await context.writer.custom({"type": "data-big", "data": BIG})
        return arguments["value"]

    parts = [call("big", json.dumps({"value": BIG})), end("tool-calls")]
    model = PlayedModel([parts, [*said(BIG, "!"), end()]])
    agent = agent_with(model, Tap(), tools=[Tool(name="big", execute=big)])
    run = await agent.stream(BIG)
    chunks = [chunk async for chunk in run]
    assert await run.text == f"{BIG}!"
    assert [c.data for c in chunks if c.type == "data-big"] == [BIG]
    assert (await run.tool_results)[0].payload.result == BIG
    assert model.prompts[0][-1]["content"][0]["text"] == BIG


async def test_ten_thousand_tools() -> None:
    """All of them are offered, the last one can be called, `active_tools` picks one."""

    async def execute(arguments: Any, context: Any) -> str:
        return context.tool_call_id

    tools = [Tool(name=f"tool-{i}", execute=execute) for i in range(10_000)]
    model = PlayedModel([[call("tool-9999"), end("tool-calls")], ANSWER])
    output = await agent_with(model, Tap(), tools=tools).generate("go")
    assert output.tool_results[0].payload.result == "c1"
    model = PlayedModel([[call("nobody"), end("tool-calls")], ANSWER])
    output = await agent_with(model, tools=tools).generate("go")
    assert output.text == "fine"


DEEP = 100_000


@pytest.mark.parametrize("text", ["[" * DEEP, "[" * DEEP + "]" * DEEP, '{"value":' * DEEP])
async def test_deep_arguments(text: str) -> None:
    """R-531: arguments no parser takes are a tool error, and the run goes on."""
    model = PlayedModel([[call("echo", text), end("tool-calls")], ANSWER])
    output = await agent_with(model, Tap()).generate("go")
    assert output.text == "fine" and len(model.prompts) == 2


@pytest.mark.parametrize("depth", [100, 400, 900])
async def test_nested_arguments_and_results(depth: int) -> None:
    """Deep, yet within what JSON libraries take: arrives, or is a tool error; the run goes on."""

    async def same(arguments: Any, context: Any) -> Any:
        return arguments["value"]

    text = '{"value": ' + "[" * depth + "]" * depth + "}"
    model = PlayedModel([[call("same", text), end("tool-calls")], ANSWER])
    agent = agent_with(model, Tap(), tools=[Tool(name="same", execute=same)])
    run = await agent.stream("go")
    chunks = [chunk async for chunk in run]
    assert await run.text == "fine"
    for chunk in chunks:
        chunk.to_json()


@pytest.mark.parametrize("make", [lambda: nested(DEEP), endless], ids=["deep", "endless"])
async def test_results_without_json_form(make: Any) -> None:
    """A tool's result that no JSON can hold is the tool's error."""

    async def bad(arguments: Any, context: Any) -> Any:
        return make()

    model = PlayedModel([[call("bad"), end("tool-calls")], ANSWER])
    run = await agent_with(model, tools=[Tool(name="bad", execute=bad)]).stream("go")
    chunks = [chunk async for chunk in run]
    errors = [c.payload.error for c in chunks if c.type == "tool-error"]
    assert len(errors) == 1 and isinstance(errors[0], InputError)
    assert await run.text == "fine"


@pytest.mark.parametrize("make", [lambda: nested(DEEP), endless], ids=["deep", "endless"])
@pytest.mark.parametrize("where", ["data", "metadata", "write"])
async def test_written_values_without_json_form(make: Any, where: str) -> None:
    """A data chunk that no JSON can hold is refused where it is written."""
    refused: list[Exception] = []

    async def writes(arguments: Any, context: Any) -> str:
        try:
            if where == "write":
                await context.writer.write(make())
            else:
                await context.writer.custom({"type": "data-x", "data": 1, where: make()})
        except InputError as error:
            refused.append(error)
        return "ok"

    model = PlayedModel([[call("writes"), end("tool-calls")], ANSWER])
    run = await agent_with(model, tools=[Tool(name="writes", execute=writes)]).stream("go")
    chunks = [chunk async for chunk in run]
    assert len(refused) == 1
    for chunk in chunks:
        chunk.to_json()


@pytest.mark.parametrize("make", [lambda: nested(DEEP), endless], ids=["deep", "endless"])
async def test_verdicts_with_metadata_without_json_form(make: Any) -> None:
    """A verdict holds whatever its metadata is; dumping its chunk does not overflow the stack."""
    metadata = make()
    agent = agent_with(
        PlayedModel([ANSWER]),
        Hook("process_output_step", lambda args: args.abort("no", metadata=metadata)),
    )
    run = await agent.stream("go")
    chunks = [chunk async for chunk in run]
    assert run.tripwire is not None and run.tripwire.metadata is metadata
    try:
        chunks[-1].to_json()
    except InputError as error:
        assert "nested" in str(error)


@pytest.mark.parametrize("make", [lambda: nested(DEEP), endless], ids=["deep", "endless"])
async def test_messages_without_json_form(make: Any) -> None:
    """Input with metadata or tool arguments that contain themselves: refused, or it works."""
    part = {
        "type": "tool-invocation",
        "toolInvocation": {
            "toolCallId": "c", "toolName": "t", "state": "result", "args": {}, "result": make(),
        },
    }  # fmt: skip
    metadata = {"format": 2, "parts": [{"type": "text", "text": "x"}], "metadata": {"m": make()}}
    for message in (
        {"id": "1", "role": "assistant", "content": {"format": 2, "parts": [part]}},
        {"id": "1", "role": "user", "content": metadata},
    ):
        agent = agent_with(PlayedModel([ANSWER]), Tap())
        try:
            output = await agent.generate([message, "go"])
        except InputError as error:
            assert "nested" in str(error)
        else:
            assert output.text == "fine"


# ── options and tools ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("option", "near"),
    [("max_step", "max_steps"), ("processors", "processors"), ("abortsignal", "abort_signal")],
)
async def test_unknown_options(option: str, near: str) -> None:
    """The nearest option is named."""
    error = await failure_of(agent_with(PlayedModel([ANSWER])), **{option: 1})
    assert isinstance(error, ConfigurationError)
    assert option in str(error) and near in str(error)
    with pytest.raises((ConfigurationError, TypeError), match=option):
        Agent(id="a", **{option: 1})


BUDGETS = ("max_processor_retries", "max_retries", "max_steps")


@pytest.mark.parametrize("bad", [-1, 1.5, math.inf, math.nan, "3", True, [], None])
@pytest.mark.parametrize("name", BUDGETS)
async def test_budgets(name: str, bad: Any) -> None:
    """R-214, G-G6: whole finite numbers, on the call and on the agent."""
    if bad is None:
        return
    error = await failure_of(agent_with(PlayedModel([ANSWER])), **{name: bad})
    assert isinstance(error, ConfigurationError) and name in str(error)
    if name != "max_steps":
        with pytest.raises(ConfigurationError, match=name):
            Agent(id="a", **{name: bad})


@pytest.mark.parametrize("bad", ["sometimes", 7, {"type": "tool"}, {"toolName": "echo"}, []])
async def test_tool_choices(bad: Any) -> None:
    """R-085, R-528: the forms that exist are named."""
    error = await failure_of(agent_with(PlayedModel([ANSWER])), tool_choice=bad)
    assert "tool_choice" in str(error)


@pytest.mark.parametrize(
    "options",
    [
        {"abort_signal": 7},
        {"active_tools": 7},
        {"active_tools": "echo"},
        {"model_settings": 7},
        {"model_settings": {"max_retries": -1}},
        {"request_context": 7},
        {"memory": 7},
        {"stop_when": 7},
        {"prepare_step": 7},
        {"on_chunk": 7},
        {"structured_output": 7},
        {"system": 7},
        {"input_processors": 7},
        {"output_processors": [7]},
        {"observer": 7},
        {"active_tools": [7]},
        {"stop_when": [7]},
        {"memory": {"thread": 7}},
        {"memory": {"resource": "a\ud800"}},
        {"request_context": [1]},
        {"run_id": ""},
        {"hide_signals": "reactive"},
        {"include_raw_chunks": "yes"},
        {"provider_options": 7},
        {"structured_output": {"schema": 7}},
        {"instructions": 7},
        {"context": 7},
    ],
    ids=str,
)
async def test_options_of_the_wrong_kind(options: dict[str, Any]) -> None:
    """Each is refused by name before the model is asked."""
    model = PlayedModel([ANSWER])
    error = await failure_of(agent_with(model), **options)
    assert next(iter(options)).split("_")[0] in str(error).lower(), str(error)
    assert model.prompts == []


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_steps", "sk-secret"),
        ("model_settings", {"headers": {"key": "sk-secret"}, "max_retries": "sk-secret"}),
        ("provider_options", "sk-secret"),
        ("structured_output", ["sk-secret"]),
        ("tool_choice", {"type": "sk-secret"}),
        ("memory", {"thread": ["sk-secret"]}),
        ("request_context", ["sk-secret"]),
    ],
)
async def test_refused_values_are_not_repeated(option: str, value: Any) -> None:
    """G-W2."""
    error = await failure_of(agent_with(PlayedModel([ANSWER])), **{option: value})
    assert "sk-secret" not in str(error)


@pytest.mark.parametrize(
    "options",
    [
        {"run_id": None},
        {"memory": {"thread": {"title": "no id"}}},
        {"structured_output": {}},
        {"active_tools": ("echo",)},
        {"stop_when": None},
        {"observer": None},
    ],
    ids=str,
)
async def test_options_that_are_odd(options: dict[str, Any]) -> None:
    """An error of ours, or it works."""
    try:
        output = await agent_with(PlayedModel([ANSWER])).generate("go", **options)
    except ProcessionError as error:
        assert str(error)
    else:
        assert output.text == "fine"


async def test_message_ids_that_are_no_texts() -> None:
    """An error of ours, or a text from then on."""
    try:
        output = await agent_with(PlayedModel([ANSWER])).generate(
            {"id": 7, "role": "user", "content": "x"}
        )
    except ProcessionError as error:
        assert "id" in str(error)
    else:
        assert [type(message.id) for message in output.messages] == [str, str]


def test_tool_names() -> None:
    """Two of one name, none, or of the wrong kind."""
    with pytest.raises(ConfigurationError, match="echo"):
        Agent(id="a", tools=[echo, echo])


@pytest.mark.parametrize("bad", [[7], 7, "echo", [None], {"x": 7}], ids=repr)
def test_things_that_are_no_tools(bad: Any) -> None:
    """Refused when the agent is built."""
    with pytest.raises(ConfigurationError):
        Agent(id="a", tools=bad)


SCHEMAS = [{"type": "array"}, {"type": "nonsense"}, "text", 7, None, []]


@pytest.mark.parametrize("bad", SCHEMAS, ids=repr)
def test_schemas_that_are_no_objects(bad: Any) -> None:
    """Refused when the tool is made, by its name."""
    with pytest.raises(ConfigurationError, match="odd"):
        Tool(name="odd", input_schema=bad)


@pytest.mark.parametrize(
    "bad",
    [
        {"type": "object", "properties": {"a": {"type": "nonsense"}}},
        {"type": "object", "properties": 7},
        {"type": "object", "required": "a"},
        {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}},
        {"type": "object", "properties": {"a": {"pattern": "("}}},
    ],
    ids=str,
)
async def test_schemas_that_are_wrong_inside(bad: Any) -> None:
    """Told when the tool is made, or to the model when it is called; never a crash of the run."""

    async def execute(arguments: Any, context: Any) -> str:
        return "ran"

    try:
        made = Tool(name="odd", input_schema=bad, execute=execute)
    except ConfigurationError as error:
        assert "odd" in str(error)
        return
    model = PlayedModel([[call("odd", '{"a": "x"}'), end("tool-calls")], ANSWER])
    run = await agent_with(model, tools=[made]).stream("go")
    errors = [c.payload.error async for c in run if c.type == "tool-error"]
    assert len(errors) == 1 and "odd" in str(errors[0]) and "Schema" in str(errors[0])
    assert await run.text == "fine"


@pytest.mark.parametrize(
    "fields",
    [
        {"execute": 7},
        {"to_model_output": 7},
        {"input_model": 7},
        {"description": 7},
        {"provider_options": 7},
        {"name": "a\ud800b"},
    ],
    ids=str,
)
def test_fields_of_tools(fields: dict[str, Any]) -> None:
    """Refused when the tool is made; the field is named."""
    with pytest.raises(ConfigurationError, match=next(iter(fields))):
        Tool(**{"name": "odd", **fields})


async def test_a_check_of_arguments_that_fails() -> None:
    """G-W2: the model is told that it failed, not what was in it; the run goes on."""

    def check(arguments: Any) -> Any:
        raise KeyError(arguments["value"])

    made = Tool(name="echo", input_model=check, execute=lambda arguments, context: 1)
    parts = [call("echo", '{"value": "sk-secret"}'), end("tool-calls")]
    output = await agent_with(PlayedModel([parts, ANSWER]), tools=[made]).generate("go")
    (told,) = output.tool_results
    assert "KeyError" in told.payload.result["message"] and output.text == "fine"
    assert "sk-secret" not in str(told.payload.result)


@pytest.mark.parametrize("place", ["https://example.com/schema.json", "file:///schema.json"])
async def test_references_are_not_fetched(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A schema that names another one by its address is told to the model as one without."""
    import urllib.request

    monkeypatch.setattr(urllib.request, "urlopen", lambda *a, **k: pytest.fail("was fetched"))
    schema = {"type": "object", "properties": {"a": {"$ref": place}}}
    made = Tool(name="odd", input_schema=schema, execute=lambda arguments, context: 1)
    model = PlayedModel([[call("odd", '{"a": 1}'), end("tool-calls")], ANSWER])
    run = await agent_with(model, tools=[made]).stream("go")
    errors = [str(c.payload.error) async for c in run if c.type == "tool-error"]
    assert len(errors) == 1 and "'odd'" in errors[0] and place in errors[0]


def test_functions_that_are_no_tools() -> None:
    """A parameter that JSON cannot carry, or that cannot be named: refused, the tool is named."""

    def positional(a: int, /) -> int:
        return a

    def many(*values: int) -> int:
        return len(values)

    def strange(value: object_without_schema) -> str:  # type: ignore[name-defined]  # noqa: F821
        return str(value)

    def called(back: Callable[[], int]) -> str:
        return str(back)

    for bad in (positional, many, strange, called, int):
        with pytest.raises(ConfigurationError, match=bad.__name__):
            tool(bad)


async def test_a_schema_recursing_for_ever() -> None:
    """A schema that refers to itself without end does not take the run down."""

    async def execute(arguments: Any, context: Any) -> str:
        return "ran"

    schema = {"type": "object", "$ref": "#"}
    model = PlayedModel([[call("odd", "{}"), end("tool-calls")], ANSWER])
    agent = agent_with(model, tools=[Tool(name="odd", input_schema=schema, execute=execute)])
    assert (await agent.generate("go")).text == "fine"


@pytest.mark.parametrize("bad", ["note", {"type": "text-delta"}, {"data": 1}, 7, None, {"type": 7}])
async def test_chunks_that_may_not_be_written(bad: Any) -> None:
    """R-196: the error says how a type must begin, and fails the run as any error of a hook."""

    async def writes(args: Any) -> None:
        await args.writer.custom(bad)

    model = PlayedModel([ANSWER])
    error = await failure_of(agent_with(model, Hook("process_input_step", writes)))
    assert isinstance(error, InputError)
    assert model.prompts == []


async def test_ids_from_models_that_are_no_texts() -> None:
    """A call id or name of another kind is a model's mistake, or is taken as text."""
    import asyncio

    before = set(asyncio.all_tasks())
    for bad in (call("echo", id=7), call(7, id="c1")):  # type: ignore[arg-type]
        model = PlayedModel([[bad, end("tool-calls")], ANSWER])
        run = await agent_with(model).stream("go")
        await run.consume_stream()
        assert run.status in ("success", "failed")
        assert run.error is None or isinstance(run.error, ModelError)
        assert model.open == 0
    await others_done(before)


async def test_options_of_all_lists_at_once() -> None:
    """R-017: lists given on the call are checked like those of the agent."""
    agent = agent_with(PlayedModel([ANSWER]))
    error = await failure_of(agent, **in_all_lists(7))
    assert isinstance(error, ConfigurationError)
