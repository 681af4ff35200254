"""The comparator accepts what wildcards leave free, and nothing else."""

from typing import Any

import pytest

from conformance.compare import compare, main
from conformance.matching import Bindings, differences


def matches(expected: Any, found: Any) -> bool:
    return not list(differences(expected, found, "$", Bindings()))


def usage(tokens: int | None) -> dict[str, Any]:
    return dict.fromkeys(("inputTokens", "outputTokens", "totalTokens"), tokens)


def verdict(**more: Any) -> dict[str, Any]:
    return {"reason": "r", "processorId": "p", **more}


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ({"a": 1}, {"a": 1.0}),
        ({"a": None}, {}),
        ({}, {"a": None}),
        ({"a": "<any>"}, {}),
        ({"a": "<any>"}, {"a": [1]}),
        ({"a": 1, "<rest>": "<any>"}, {"a": 1, "b": 2}),
        ([1, "<rest>"], [1]),
        ([1, "<rest>"], [1, 2, 3]),
        ([1, {"<optional>": 2}, 3], [1, 3]),
        ([1, {"<optional>": 2}, 3], [1, 2, 3]),
        ([{"<unordered>": [1, 2]}, 3], [2, 1, 3]),
        ("<number>", 0.5),
        ("<unscripted text>", "x"),
        ("<unscripted text mentioning: bad | worse>", "Worse than BAD"),
        ("<processor feedback: too short>", "[Processor Feedback] It is too short."),
        ("msg_<id:1>", "anything"),
        (["<id:1>", "<id:2>", "<id:1>"], ["a", "b", "a"]),
        (["run <id:1>", "<id:1>"], ["run a", "a"]),
        ([{"<optional>": ["<id:1>", 1]}, ["<id:1>", 2]], [["a", 2]]),
        ({"usage": None}, {"usage": usage(0)}),
        ({"usage": usage(None)}, {}),
        ({"argNames": ["a", "b"]}, {"argNames": ["b", "c", "a"]}),
        ({"role": "user", "parts": [], "content": "a"}, {"role": "user", "parts": []}),
        (
            {"type": "tool-result", "output": 1},
            {"type": "tool-result", "output": 1, "input": {}},
        ),
        ({"modelSettings": {"topP": 1}}, {"modelSettings": {"topP": 1, "maxRetries": 0}}),
        ({"kind": "a", "cause": 1}, {"kind": "b"}),
        (verdict(), verdict(retry=False)),
        (
            {"detail": {"strategy": "warn", "messageId": 1, "phase": "processInput"}},
            {"detail": {"strategy": "warn", "message_id": 1, "phase": "process_input"}},
        ),
    ],
)
def test_equal(expected: Any, found: Any) -> None:
    assert matches(expected, found)


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {"a": "1"}),
        ({"a": 1}, {}),
        ({}, {"a": 1}),
        ({"a": 0}, {}),
        ([1], [1, 2]),
        ([1, 2], [1]),
        ([None], []),
        ([1, {"<optional>": 2}, 3], [1, 4, 3]),
        ([{"<unordered>": [1, 2]}], [2, 2]),
        ([{"<unordered>": [1, 2]}], [1]),
        ("<number>", True),
        ("<number>", "3"),
        ("<unscripted text>", " "),
        ("<unscripted text>", None),
        ("<unscripted text mentioning: bad | worse>", "bad"),
        ("<processor feedback: too short>", "It is too short."),
        ("<processor feedback: too short>", "[Processor Feedback] too long"),
        ("msg_<id:1>", ""),
        ("<id:1>", ""),
        ("<id:1>", 5),
        (["<id:1>", "<id:2>"], ["a", "a"]),
        (["<id:1>", "<id:1>"], ["a", "b"]),
        ({"usage": None}, {"usage": usage(1)}),
        ({"usage": usage(1)}, {"usage": None}),
        ({"argNames": ["a", "b"]}, {"argNames": ["a"]}),
        ({"role": "user", "content": "a"}, {"role": "user", "content": "b"}),
        (verdict(), verdict(retry=True)),
        (verdict(retry=True), verdict(retry=False)),
        ({"metadata": {"customData": 1}}, {"metadata": {"custom_data": 1}}),
        ({"args": {"strategy": 1, "maxCost": 1}}, {"args": {"strategy": 1, "max_cost": 1}}),
    ],
)
def test_different(expected: Any, found: Any) -> None:
    assert not matches(expected, found)


def delta(text: str) -> dict[str, Any]:
    return {"type": "text-delta", "payload": {"id": "t1", "text": text}}


def seen(text: str, processor: str = "p") -> dict[str, Any]:
    return {"event": "hook", "processor": processor, "fields": {"part": delta(text)}}


@pytest.mark.parametrize(
    ("section", "expected", "found", "same"),
    [
        ("chunks", [delta("ab"), delta("c")], [delta("a"), delta("bc")], True),
        ("chunks", [delta("ab")], [delta("a")], False),
        ("log", [seen("ab")], [seen("a"), seen("b")], True),
        ("log", [seen("ab")], [seen("a"), seen("b", "q")], False),
        ("messages", [delta("ab")], [delta("a"), delta("b")], False),
    ],
)
def test_joined_text(section: str, expected: Any, found: Any, same: bool) -> None:
    want = {"compare": {"text": "joined"}, "calls": [{section: expected}]}
    assert (compare(want, {"calls": [{section: found}]}) == []) is same


@pytest.mark.parametrize(
    ("found", "same"),
    [
        ({"calls": [{"log": []}]}, True),
        ({"calls": [{"log": [], "chunks": [1]}]}, True),
        ({"calls": [{"log": [], "threw": {"message": "x"}}]}, False),
        ({"calls": [{"log": [], "stream_threw": {"message": "x"}}]}, False),
        ({"calls": [{}]}, False),
        ({"calls": ["x"]}, False),
        ({"calls": []}, False),
        ({}, False),
        (None, False),
    ],
)
def test_sections(found: Any, same: bool) -> None:
    """A section that nobody expects is free, but for exceptions."""
    assert (compare({"calls": [{"log": []}]}, found) == []) is same


def test_ids_hold_for_the_whole_trace() -> None:
    expected = {"calls": [{"log": ["<id:1>"]}, {"messages": ["<id:1>"]}]}
    assert compare(expected, {"calls": [{"log": ["a"]}, {"messages": ["b"]}]})


def test_mismatches_name_their_place() -> None:
    [mismatch] = compare({"calls": [{"log": [{"a": 1}]}]}, {"calls": [{"log": [{"a": 2}]}]})
    assert str(mismatch) == "calls[0].log[0].a  expected 1  got 2"


def test_the_program_counts(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    expected, found = tmp_path / "expected", tmp_path / "found"
    for directory in (expected, found):
        directory.mkdir()
        (directory / "good.json").write_text('{"calls": []}')
    assert main([str(expected), str(found)]) == 0
    (expected / "lost.json").write_text('{"calls": []}')
    assert main([str(expected), str(found)]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 1 failed"
