"""Every operation, selection, condition and field of scenarios, those that none uses yet too."""

from typing import Any

import pytest

from conformance.run import run_scenario

TEXT = [
    {"type": "text-start", "id": "t1"},
    {"type": "text-delta", "id": "t1", "delta": "Hel"},
    {"type": "text-delta", "id": "t1", "delta": "lo"},
    {"type": "text-end", "id": "t1"},
]
FINISH = {"type": "finish", "finishReason": "stop", "usage": {"inputTokens": 3}}


async def run(
    *calls: dict[str, Any], parts: list[dict[str, Any]] | None = None, **agent: Any
) -> list[dict[str, Any]]:
    """The calls of the trace of a scenario with one model answer."""
    answer = {"parts": [*(TEXT if parts is None else parts), FINISH]}
    scenario = {
        "name": "made here",
        "models": {"main": {"calls": [answer]}},
        "agent": agent,
        "calls": calls or [{"method": "stream", "input": "Hi"}],
    }
    trace = await run_scenario(scenario)
    return trace["calls"]


async def fields(hook: str, *ops: dict[str, Any], record: str, **where: Any) -> Any:
    """A field recorded after some operations of a hook."""
    hooks = {hook: [*ops, {"op": "record", "fields": [record], **where}]}
    side = "output" if "Output" in hook else "input"
    [call] = await run(**{f"{side}_processors": [{"id": "p", "hooks": hooks}]})
    assert "threw" not in call, call["threw"]
    [*_, last] = [event for event in call["log"] if event["event"] == "hook"]
    return last["fields"][record]


def user(*texts: str) -> list[dict[str, Any]]:
    return [{"role": "user", "parts": [f"text:{text}"]} for text in texts]


@pytest.mark.parametrize(
    ("ops", "record", "expected"),
    [
        ([{"op": "set_state", "key": "a", "value": [1]}], "state", {"a": [1]}),
        ([{"op": "inc_state", "key": "a", "by": 2}], "state", {"a": 2}),
        ([{"op": "append_state", "key": "a", "value": 1}], "state", {"a": [1]}),
        ([{"op": "append_state", "key": "a", "from": "hook"}], "state", {"a": ["processInput"]}),
        ([{"op": "set_state", "key": "__own", "value": 1}], "state", {}),
        ([{"op": "retype_parts", "from": "text", "to": "odd"}], "list.all.ui", ["odd"]),
        ([{"op": "transform_text", "transform": {"uppercase": True}}], "messages", user("HI")),
        (
            [{"op": "transform_text", "transform": {"set": "x"}, "source": "list.all"}],
            "list.input",
            user("x"),
        ),
        ([{"op": "set_metadata", "metadata": {"k": 1}}], "messageMetadata", [{"k": 1}]),
        ([{"op": "push_message", "role": "user", "text": "b"}], "messages", user("Hi", "b")),
        (
            [{"op": "add_message", "role": "user", "text": "b", "source": "context"}],
            "list.all",
            user("Hi", "b"),
        ),
        ([{"op": "remove_messages", "select": {"role": "user"}}], "list.all", []),
        ([{"op": "sleep", "ms": 1}], "hasWriter", False),
        ([], "argNames", None),
        ([], "list.remembered", []),
        ([], "request_context.mode", None),
        ([], "hasAbortSignal", False),
        ([], "stepNumber", "undefined"),
    ],
)
async def test_operations_on_the_input(ops: list[Any], record: str, expected: Any) -> None:
    found = await fields("processInput", *ops, record=record)
    if record == "argNames":
        assert {"abort", "messages", "messageList", "systemMessages", "state"} <= set(found)
    elif record == "list.all.ui":
        assert [message["parts"] for message in found] == [expected]
    else:
        assert found == expected


async def test_system_messages_are_tagged() -> None:
    op = {"op": "add_system", "text": "Be brief.", "tag": "style"}
    hooks = {"processInput": [op]}
    [call] = await run(input_processors=[{"id": "p", "hooks": hooks}])
    texts = [entry["content"] for entry in call["model_calls"][0]["prompt"]]
    assert texts[:2] == ["Be helpful.", "Be brief."]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("same", ["Hi"]),
        ("copy", ["Hi"]),
        ("empty", []),
        ({"filter": "all"}, ["Hi"]),
        ({"filter": {"index": -1}}, ["Hi"]),
        ({"filter": {"not_role": "user"}}, []),
        ({"filter": {"not_text_contains": "Hi"}}, []),
        ({"reverse": True}, ["Hi"]),
        ({"transform_text": {"prefix": "> "}}, ["> Hi"]),
        ({"transform_text": {"prefix": "> "}, "select": {"text_contains": "no"}}, ["Hi"]),
        ({"append": [{"role": "user", "text": "b"}, {"role": "user", "text": "c"}]}, "Hi b c"),
        ({"prepend": [{"role": "user", "text": "b"}, {"role": "user", "text": "c"}]}, "b c Hi"),
        ({"literal": [{"role": "user", "parts": [{"type": "text", "text": "b"}]}]}, ["b"]),
    ],
)
async def test_returned_messages(value: Any, expected: Any) -> None:
    hooks = {"processInput": [{"op": "return", "value": {"messages": value}}]}
    [call] = await run(input_processors=[{"id": "p", "hooks": hooks}])
    prompt = [entry for entry in call["model_calls"][0]["prompt"] if entry["role"] == "user"]
    found = [entry["content"][0]["text"] for entry in prompt]
    assert found == (expected.split() if isinstance(expected, str) else expected)


async def test_returned_metadata_goes_to_the_clients() -> None:
    value = {"messages": {"set_metadata": {"seen": True}}}
    hooks = {"processOutputResult": [{"op": "return", "value": value}]}
    [call] = await run(
        {"method": "generate", "input": "Hi", "record_ui_metadata": True},
        output_processors=[{"id": "p", "hooks": hooks}],
    )
    assert call["result"]["uiMetadata"] == [{"role": "assistant", "metadata": {"seen": True}}]
    assert call["messages"][-1]["metadata"] == {"seen": True}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("same", ["Be helpful."]),
        ("empty", []),
        ({"append": ["And brief."]}, ["Be helpful.", "And brief."]),
        ({"set": ["Only this."]}, ["Only this."]),
    ],
)
async def test_returned_system_messages(value: Any, expected: list[str]) -> None:
    both = {"messages": "same", "systemMessages": value}
    hooks = {"processInput": [{"op": "return", "value": both}]}
    [call] = await run(input_processors=[{"id": "p", "hooks": hooks}])
    prompt = call["model_calls"][0]["prompt"]
    assert [entry["content"] for entry in prompt if entry["role"] == "system"] == expected


async def test_returned_prompt() -> None:
    changes = {
        "drop_role": "system",
        "append_system": "End.",
        "append_user": "Now.",
        "transform_text": {"uppercase": True},
    }
    hooks = {"processLLMRequest": [{"op": "return", "value": {"prompt": changes}}]}
    [call] = await run(input_processors=[{"id": "p", "hooks": hooks}])
    prompt = call["model_calls"][0]["prompt"]
    assert [entry["role"] for entry in prompt] == ["user", "system", "user"]
    assert [prompt[0]["content"][0]["text"], prompt[1]["content"]] == ["HI", "END."]


async def test_returned_response() -> None:
    chunks = [
        {"type": "text-delta", "payload": {"id": "t", "text": "cached"}},
        {"type": "finish", "payload": {"stepResult": {"reason": "stop"}, "output": {"usage": {}}}},
    ]
    value = {"response": {"chunks": chunks}}
    hooks = {
        "processLLMRequest": [{"op": "return", "value": value}],
        "processLLMResponse": [{"op": "record", "fields": ["fromCache"]}],
    }
    [call] = await run(input_processors=[{"id": "p", "hooks": hooks}])
    assert call["model_calls"] == []
    assert call["result"]["text"] == "cached"
    assert call["log"][0]["fields"] == {"fromCache": True}


async def test_returned_step() -> None:
    step = {
        "tools": {"set": {"b": {"returns": 1}}, "add": {"c": {"client": True}}, "remove": ["b"]},
        "toolChoice": "required",
        "activeTools": ["c"],
        "systemMessages": {"set": ["Step."]},
        "modelSettings": {"maxOutputTokens": 7},
        "providerOptions": {"mock": {"keepMe": 1}},
        "messageList": True,
    }
    hooks = {"processInputStep": [{"op": "return", "value": {"step": step}}]}
    [call] = await run(input_processors=[{"id": "p", "hooks": hooks}], tools={"a": {}})
    [asked] = call["model_calls"]
    assert asked["tools"] == ["c"]
    assert asked["toolChoice"] == {"type": "required"}
    assert asked["settings"] == {"maxOutputTokens": 7}
    assert asked["providerOptions"] == {"mock": {"keepMe": 1}}
    assert asked["prompt"][0]["content"] == "Step."


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ({"op": "mutate_part", "transform": {"uppercase": True}}, "HELLO"),
        ({"op": "replace_part", "part": {"transform_text": {"prefix": "-"}}}, "-Hel-lo"),
        ({"op": "return", "value": {"part": {"set_payload": {"text": "x"}}}}, "xx"),
        ({"op": "return", "value": "nothing"}, ""),
        ({"op": "return", "value": "part"}, "Hello"),
    ],
)
async def test_parts_of_the_stream(op: dict[str, Any], expected: str) -> None:
    hooks = {"processOutputStream": [{**op, "when": {"part_type": "text-delta"}}]}
    [call] = await run(output_processors=[{"id": "p", "hooks": hooks}])
    assert call["result"]["text"] == expected


async def test_data_parts() -> None:
    writer = {"op": "writer_custom", "chunk": {"type": "data-a", "data": 1, "id": "d"}}
    change = {"op": "return", "value": {"part": {"set_data": 2}}, "when": {"part_type": "data-a"}}
    literal = {"op": "replace_part", "part": {"literal": {"type": "data-b", "data": 0}}}
    keep = {"op": "append_state", "key": "data", "from": "partData"}
    record = {"op": "record", "fields": ["state", "part"]}
    [call] = await run(
        input_processors=[{"id": "w", "hooks": {"processInputStep": [writer]}}],
        output_processors=[
            {"id": "a", "process_data_parts": True, "hooks": {"processOutputStream": [change]}},
            {
                "id": "b",
                "process_data_parts": True,
                "hooks": {
                    "processOutputStream": [
                        {**literal, "when": {"part_text_contains": "lo"}},
                        {**keep, "when": {"any": [{"part_type": ["data-a", "data-b"]}]}},
                        {**record, "when": {"part_type": "data-b"}},
                    ]
                },
            },
        ],
    )
    assert {"type": "data-a", "data": 2, "id": "d"} in call["chunks"]
    [seen] = [event["fields"] for event in call["log"] if event["event"] == "hook"]
    assert seen == {"state": {"data": [2, 0]}, "part": {"type": "data-b", "data": 0}}


async def test_notes_and_violations() -> None:
    ops = [{"op": "note", "text": "hello"}, {"op": "abort", "reason": "no", "metadata": {"aB": 1}}]
    processor = {"id": "p", "on_violation": "throw", "hooks": {"processInput": ops}}
    [call] = await run(input_processors=[processor])
    assert call["log"] == [
        {"event": "note", "processor": "p", "text": "hello"},
        {"event": "violation", "processor": "p", "message": "no", "detail": {"aB": 1}},
    ]
    assert call["result"]["tripwire"] == {
        "reason": "no",
        "processorId": "p",
        "metadata": {"aB": 1},
    }


async def test_tools() -> None:
    call_of = {"type": "tool-call", "toolCallId": "c", "toolName": "t", "input": '{"a": 1}'}
    data = {"type": "data-t", "data": {"x": 1}}
    tool = {"input": {"a": "number", "b?": "any"}, "emit": [data], "echo": True, "sleep_ms": 1}
    [call] = await run(
        {"method": "stream", "input": "Hi", "options": {"max_steps": 1}},
        parts=[call_of],
        tools={"t": {**tool, "model_output": {"type": "text", "value": "shown"}}},
    )
    assert call["log"][1] == {"event": "tool_execute", "tool": "t", "args": {"a": 1}}
    assert data in call["chunks"]
    assert call["result"]["toolResults"][0]["result"] == {"echo": {"a": 1}}
    part = call["messages"][1]["parts"][0]
    assert part["providerMetadata"]["mastra"]["modelOutput"]["value"] == "shown"


async def test_calls() -> None:
    """What calls may be given besides a text."""
    spy = {"id": "p", "hooks": {"processInput": [{"op": "record", "fields": ["messages"]}]}}
    first, second, third = await run(
        {
            "method": "generate",
            "input": [{"db": {"role": "user", "text": "a", "metadata": {"k": 1}}}],
            "options": {
                "context": [{"role": "user", "content": "c"}],
                "system": "More.",
                "model_settings": {"topP": 0.5},
                "prepare_step": [{"op": "record", "fields": ["stepNumber"]}],
            },
        },
        {"method": "stream", "input": "Hi", "options": {"abort_after_chunks": 0}},
        {"method": "stream", "input": "Hi", "options": {"max_steps": 0}},
        input_processors=[spy],
    )
    assert first["messages"][1]["id"] == "made-1" or first["messages"][0]["id"] == "made-1"
    assert first["model_calls"][0]["settings"] == {"topP": 0.5}
    assert first["log"][1]["processor"] == "prepareStep"
    assert [chunk["type"] for chunk in second["chunks"]] == ["start", "abort", "finish"]
    assert "max_steps" in third["threw"]["message"]
