"""G-W: what guards take out, and what was blocked, is in no trace, whatever sink it goes to."""

from __future__ import annotations

import io
import json
import logging
import re
from typing import TYPE_CHECKING, Any

import pytest

from procession import TripWire, processor, tool
from procession.processors import PIIDetector, RegexFilterProcessor
from procession.stores import SQLiteStore
from procession.testing import ScriptedModel, answer, tool_call
from procession.tracing import (
    ConsoleExporter,
    InMemoryExporter,
    JsonlExporter,
    OpenTelemetryExporter,
    SensitiveDataFilter,
    StoreExporter,
    Tracing,
)
from tests.tracing.kit import look, traced

if TYPE_CHECKING:
    from pathlib import Path

    from procession.tracing import ExportedSpan

MAIL = "ada.secret@example.com"
KEY = "sk-abcdefghijklmnop1234"


def shown(kept: InMemoryExporter) -> str:
    """Everything that was exported, as text."""
    return json.dumps([span.to_json() for span in kept.spans], default=str)


def redacting() -> Any:
    """A guard that takes mail addresses out, wherever it stands."""
    return RegexFilterProcessor(
        rules=[{"name": "mail", "pattern": r"[\w.]+@example\.com", "replacement": "[MAIL]"}],
        strategy="redact",
    )


def clean_result(args: Any) -> None:
    """Takes them out of what tools return."""
    clean = args.result.replace(MAIL, "[MAIL]")
    call = {"toolCallId": args.tool_call_id, "result": clean}
    args.message_list.update_tool_invocation({"toolInvocation": call})


@pytest.mark.parametrize("waits", [True, False])
async def test_what_is_redacted_on_the_way_is_nowhere(waits: bool) -> None:
    """Input, answer in pieces, arguments of tools and their results (G-W, law 2)."""

    @tool
    def find(who: str) -> str:
        """Look somebody up."""
        return f"{who} writes from {MAIL}"

    guard = redacting()
    script = [
        answer(
            "Ask ada.sec", "ret@exam", "ple.com. ", tool_calls=[tool_call("find", {"who": MAIL})]
        ),
        answer("It is ", MAIL, "."),
    ]
    agent, kept = traced(
        script=script,
        tools=[find],
        input_processors=[guard],
        output_processors=[guard, processor(id="results", process_tool_result=clean_result)],
    )
    if waits:
        run = await agent.stream(f"Who is {MAIL}?")
        await run.consume_stream()
        text = await run.text
    else:
        text = (await agent.generate(f"Who is {MAIL}?")).text
    assert MAIL not in shown(kept)
    (root,) = kept.of_type("agent_run")
    assert root.output == {"text": text}
    assert "[MAIL]" in text
    assert "[MAIL]" in json.dumps(root.input)
    (call,) = kept.of_type("tool_call")
    assert call.input == {"who": "[MAIL]"}
    assert call.output == "[MAIL] writes from [MAIL]"


async def test_pii_is_nowhere() -> None:
    """The built-in guard, on both sides."""
    guard = PIIDetector(
        detection_types=["email"], strategy="redact", redaction_method="placeholder"
    )
    agent, kept = traced(
        script=[answer("Mail ", "ada.secret", "@example.com")],
        input_processors=[guard],
        output_processors=[guard],
    )
    await agent.generate(f"I am {MAIL}")
    assert MAIL not in shown(kept)
    assert "secret" not in shown(kept)


@pytest.mark.parametrize(
    "hook",
    [
        "process_input",
        "process_input_step",
        "process_llm_request",
        "process_llm_response",
        "process_output_stream",
        "process_output_step",
        "process_tool_result",
        "process_output_result",
    ],
)
async def test_nothing_of_a_run_that_was_blocked(hook: str) -> None:
    """Law 4: blocked in whatever hook, at the last moment, with a run within that had ended."""
    from procession import Agent

    helper = Agent(id="helper", model=ScriptedModel([answer(f"helped {MAIL}")]))

    @tool
    async def find(who: str) -> str:
        """Look somebody up."""
        return (await helper.generate(f"who is {MAIL}")).text

    def block(args: Any) -> Any:
        part = getattr(args, "part", None)
        last = hook in ("process_input", "process_output_result") or getattr(
            args, "step_number", 1 if agent.model.calls[1:] else 0
        )
        if last or hook == "process_tool_result":
            args.abort("Blocked.")
        return part

    guard = processor(id="guard", **{hook: block})
    side = "input" if hook in ("process_input", "process_input_step") or "llm" in hook else "output"
    agent, kept = traced(
        script=[
            answer(f"Let me see, {MAIL}", tool_calls=[tool_call("find", {"who": MAIL})]),
            answer(f"It is {MAIL}"),
        ],
        tools=[find],
        **{f"{side}_processors": [guard]},
    )
    result = await agent.generate(f"Who is {MAIL}?")
    assert result.tripwire is not None
    assert MAIL not in shown(kept)
    assert kept.of_type("agent_run")[-1].input is None


async def test_nothing_of_a_run_in_which_a_hook_failed() -> None:
    """R-190: nothing is stored of it, so nothing is shown; the error is told by its kind."""

    def broken(args: Any) -> None:
        raise ValueError(f"cannot read {MAIL}")

    agent, kept = traced(output_processors=[processor(id="p", process_output_result=broken)])
    with pytest.raises(ValueError, match="cannot read"):
        await agent.generate(f"Who is {MAIL}?")
    assert MAIL not in shown(kept)
    (root,) = kept.of_type("agent_run")
    assert root.error_info == {"name": "ValueError"}


async def test_errors_quote_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """G-W2: tools, models, processors' own spans, and policies."""
    caplog.set_level(logging.DEBUG)

    @tool
    def broken(who: str) -> str:
        """Never works."""
        raise RuntimeError(f"no {KEY}")

    def own(args: Any) -> None:
        span = args.tracing_context.current_span
        try:
            with span.create_child_span(name="own"):
                raise RuntimeError(KEY)
        except RuntimeError:
            pass

    agent, kept = traced(
        script=[answer(tool_calls=[tool_call("broken", {"who": "x"})]), RuntimeError(KEY)],
        tools=[broken],
        input_processors=[processor(id="p", process_input=own)],
    )
    with pytest.raises(RuntimeError):
        await agent.generate("go")
    told = shown(kept)
    assert KEY not in told
    assert told.count('"RuntimeError"') >= 4
    assert KEY not in caplog.text


async def test_a_result_that_is_hidden_from_the_client_is_not_shown() -> None:
    """A stream guard that drops, or replaces, the chunk of a result."""

    def hide(args: Any) -> Any:
        return None if args.part.type == "tool-result" else args.part

    def replaced(args: Any) -> Any:
        part = args.part
        if part.type == "tool-result":
            return part.replace(payload=part.payload.replace(result="[hidden]"))
        return part

    for hook in (hide, replaced):
        agent, kept = traced(output_processors=[processor(id="p", process_output_stream=hook)])
        run = await agent.stream("go")
        await run.consume_stream()
        (span,) = kept.of_type("tool_call")
        assert "sunny" not in json.dumps(span.output)


async def test_levels_of_content() -> None:
    """`none` shows no text, `raw` what hooks were given."""
    secret = f"Who is {MAIL}?"
    agent, kept = traced(content="none", script=[answer(f"It is {MAIL}")])
    await agent.generate(secret)
    assert MAIL not in shown(kept)
    assert all(span.input is None and span.output is None for span in kept.spans)
    guard = redacting()
    agent, kept = traced(content="raw", script=[answer("Hm.")], input_processors=[guard])
    await agent.generate(secret)
    span = next(s for s in kept.spans if s.entity_id == guard.id)
    assert MAIL in json.dumps(span.input)
    assert MAIL not in json.dumps(span.output)
    (root,) = kept.of_type("agent_run")
    assert root.output == {"text": "Hm."}


async def test_verdicts_show_no_words_where_there_is_no_content() -> None:
    """O-028: a reason is a text, too."""

    def block(args: Any) -> None:
        raise TripWire(f"found {MAIL}", metadata={"found": MAIL})

    guard = processor(id="p", process_input=block)
    agent, kept = traced(content="none", input_processors=[guard])
    await agent.generate("go")
    assert MAIL not in shown(kept)
    (root,) = kept.of_type("agent_run")
    assert root.attributes["tripwire_abort"] == {"processor_id": "p", "retry": False}


# ── masks ──────────────────────────────────────────────────────────────────────────────────────


def mask(text: str) -> str:
    """What looks like a key, a mail or a card number."""
    return re.sub(r"sk-\w+|[\w.]+@example\.com|\b4\d{15}\b", "[MASKED]", text)


@tool
def leaky(who: str) -> dict[str, Any]:
    """Give everything away."""
    return {KEY: [MAIL, {"deep": {"card": 4111111111111111}}], "who": who}


def read_all(folder: Path) -> str:
    """Everything in the files of a folder."""
    return b"".join(p.read_bytes() for p in folder.iterdir()).decode(errors="replace")


def leaking(args: Any) -> None:
    """Put secrets wherever a span takes something."""
    span = args.tracing_context.current_span
    child = span.create_child_span(
        name=f"look up {MAIL}",
        input={"k": KEY},
        attributes={KEY: MAIL, "n": [KEY]},
        metadata={"m": MAIL},
    )
    child.end(output=(KEY, {"x": MAIL}))


async def test_secrets_planted_everywhere_reach_no_sink(tmp_path: Path) -> None:
    """G-W1, G-W3: one mask, in one place, for every sink; and it is counted."""
    kept, console, sent = InMemoryExporter(), io.StringIO(), []
    path = tmp_path / "spans.jsonl"

    class Sent(OpenTelemetryExporter):
        def export(self, spans: Any) -> None:
            sent.extend(self._readable(span).to_json() for span in spans)

    store = SQLiteStore(tmp_path / "traces.db")
    exporters = [
        kept,
        ConsoleExporter(console),
        JsonlExporter(path),
        StoreExporter(store),
        Sent("http://127.0.0.1:9/v1/traces"),
    ]
    tracing = Tracing(exporters, mask=mask, request_context_keys=["who"], content="raw")
    agent, _ = traced(
        script=[
            answer(f"I use {KEY}", tool_calls=[tool_call("leaky", {"who": MAIL})]),
            answer(f"It is {MAIL}"),
        ],
        tools=[leaky],
        input_processors=[processor(id="p", process_input=leaking)],
    )
    options: Any = {"metadata": {"m": KEY}, "tags": [MAIL], "root_span_name": f"ask {MAIL}"}
    await agent.generate(
        f"I am {MAIL}, card 4111111111111111",
        observer=tracing,
        request_context={"who": MAIL},
        tracing_options=options,
    )
    assert await tracing.shutdown()
    traces = store.get_store("observability")
    (root,) = kept.of_type("agent_run")
    saved = [span.to_json() for span in await traces.get_trace(root.trace_id)]
    listed = repr(await traces.list_traces())
    await store.close()
    raw = read_all(tmp_path)
    sinks = {
        "in memory": shown(kept),
        "console": console.getvalue(),
        "JSONL": path.read_text(),
        "files": raw,
        "store": json.dumps(saved) + listed,
        "OpenTelemetry": "".join(sent),
    }
    for sink, text in sinks.items():
        assert "[MASKED]" in text, sink
        for secret in (KEY, MAIL, "4111111111111111"):
            assert secret not in text, (sink, secret)
    for counts in tracing.counts.values():
        assert counts.exported == len(kept.spans)
        assert counts.masked > 10
        assert counts.failed == counts.dropped == 0


async def test_a_mask_that_fails_shows_nothing() -> None:
    """Fail closed: the span is there, without what it said."""

    def broken(text: str) -> str:
        raise ValueError(text)

    agent, kept = traced(mask=broken, script=[answer(f"It is {MAIL}")])
    await agent.generate(f"Who is {MAIL}?")
    assert kept.spans
    assert MAIL not in shown(kept)
    assert all(span.input is None and span.output is None for span in kept.spans)
    agent, kept = traced(mask=lambda text: 7, script=[answer(f"It is {MAIL}")])
    await agent.generate(f"Who is {MAIL}?")
    assert MAIL not in shown(kept)


async def test_sensitive_keys() -> None:
    """O-053: values under telling keys are taken out by default, however these are written."""

    def tell(args: Any) -> None:
        values = {
            "password": "1",
            "api_key": "2",
            "API-Key": "3",
            "accessToken": "4",
            "Authorization": "5",
            "deep": [{"client_secret": {"a": "6"}}],
            "inputTokens": 7,
            "maxTokens": 8,
            "author": "9",
            "token": None,
        }
        span = args.tracing_context.current_span.create_child_span(name="x", input=values)
        span.end(attributes=values, metadata=values)

    guard = processor(id="p", process_input=tell)
    agent, kept = traced(input_processors=[guard])
    await agent.generate("go")
    span = next(s for s in kept.spans if s.name == "x")
    red = "[REDACTED]"
    for value in (span.input, span.attributes, span.metadata):
        assert value == {
            "password": red,
            "api_key": red,
            "API-Key": red,
            "accessToken": red,
            "Authorization": red,
            "deep": [{"client_secret": red}],
            "inputTokens": 7,
            "maxTokens": 8,
            "author": "9",
            "token": None,
        }
    kept = InMemoryExporter()
    more = SensitiveDataFilter(["author"])
    observer = Tracing([kept], sensitive_data_filter=more)
    await agent.generate("go", observer=observer)
    span = next(s for s in kept.spans if s.name == "x")
    assert span.input["author"] == red
    kept = InMemoryExporter()
    await agent.generate("go", observer=Tracing([kept], sensitive_data_filter=False))
    span = next(s for s in kept.spans if s.name == "x")
    assert span.input["password"] == "1"


async def test_span_processors_change_and_drop() -> None:
    """O-053: in order; one that raises drops the span, for it was to take something out."""
    from msgspec.structs import replace

    def rename(span: ExportedSpan) -> ExportedSpan:
        return replace(span, name=span.name.upper())

    def drop_tools(span: ExportedSpan) -> ExportedSpan | None:
        if span.name.startswith("LLM"):
            raise ValueError
        return None if span.type == "tool_call" else span

    agent, kept = traced(span_output_processors=[rename, drop_tools])
    await agent.generate("go")
    assert {span.name for span in kept.spans} == {"AGENT RUN: 'DESK'", "STEP: 0", "STEP: 1"}
    assert look.name == "look"
