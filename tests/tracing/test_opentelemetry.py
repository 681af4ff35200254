"""OpenTelemetry: a receiver on loopback decodes what is sent, as a collector does (O-055)."""

from __future__ import annotations

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode

from procession import Agent, OptionError, processor
from procession.testing import ScriptedModel, answer
from procession.tracing import (
    InMemoryExporter,
    MaskingSpanExporter,
    OpenTelemetryExporter,
    Tracing,
)
from tests.tracing.kit import look, weather

if TYPE_CHECKING:
    from collections.abc import Iterator


class Receiver:
    """Takes OTLP over HTTP; keeps what it was sent."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self.headers: list[Any] = []
        self.status = 200
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                request = ExportTraceServiceRequest()
                request.ParseFromString(body)
                receiver.requests.append(request)
                receiver.headers.append(dict(self.headers))
                self.send_response(receiver.status)
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}/v1/traces"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def spans(self) -> dict[str, Any]:
        """The spans by name, the last of each."""
        return {
            span.name: span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        }


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


def attributes(span: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry in span.attributes:
        kind = entry.value.WhichOneof("value")
        value = getattr(entry.value, kind)
        found[entry.key] = (
            [v.string_value for v in value.values] if kind == "array_value" else value
        )
    return found


async def test_a_run_arrives_with_the_conventions(receiver: Receiver) -> None:
    """Names, kinds and attributes as the conventions for generative AI have them."""
    kept = InMemoryExporter()
    exporter = OpenTelemetryExporter(
        receiver.endpoint,
        headers={"x-key": "k"},
        service_name="shop",
        resource_attributes={"deployment.environment": "test"},
    )
    async with Tracing([kept, exporter]) as tracing:
        agent = Agent(
            id="desk",
            name="Front desk",
            model=ScriptedModel(weather()),
            tools=[look],
            output_processors=[processor(id="p", process_output_step=lambda args: None)],
            observer=tracing,
        )
        result = await agent.generate(
            "Weather?",
            model_settings={"temperature": 0.5},
            memory={"thread": "t1", "resource": "r"},
        )
    spans = receiver.spans()
    assert set(spans) == {
        "invoke_agent Front desk",
        "step: 0",
        "step: 1",
        "chat mock-1",
        "execute_tool look",
        "output step processor: p",
    }
    root, chat = spans["invoke_agent Front desk"], spans["chat mock-1"]
    assert root.trace_id.hex() == result.trace_id
    assert not root.parent_span_id
    assert chat.parent_span_id == spans["step: 1"].span_id
    told = attributes(root)
    assert told["gen_ai.operation.name"] == "invoke_agent"
    assert told["gen_ai.agent.id"] == "desk"
    assert told["gen_ai.conversation.id"] == "t1"
    assert json.loads(told["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "Weather?"}]}
    ]
    assert json.loads(told["gen_ai.output.messages"])[0]["parts"][0]["content"] == "It is sunny."
    told = attributes(chat)
    assert told["gen_ai.operation.name"] == "chat"
    assert told["gen_ai.provider.name"] == "mock"
    assert told["gen_ai.request.model"] == told["gen_ai.response.model"] == "mock-1"
    assert told["gen_ai.request.temperature"] == 0.5
    assert told["gen_ai.response.finish_reasons"] == ["stop"]
    assert (told["gen_ai.usage.input_tokens"], told["gen_ai.usage.output_tokens"]) == (3, 2)
    told = attributes(spans["execute_tool look"])
    assert told["gen_ai.tool.name"] == "look"
    assert told["gen_ai.tool.call.id"] == "c1"
    assert json.loads(told["gen_ai.tool.call.arguments"]) == {"city": "Oslo"}
    assert json.loads(told["gen_ai.tool.call.result"]) == "sunny in Oslo"
    # G-P4: who adds up tokens by name counts each once.
    counting = [s for s in spans.values() if "gen_ai.usage.input_tokens" in attributes(s)]
    assert counting == [chat]
    resource = receiver.requests[0].resource_spans[0].resource
    said = {entry.key: entry.value.string_value for entry in resource.attributes}
    assert (said["service.name"], said["deployment.environment"]) == ("shop", "test")
    assert receiver.headers[0]["x-key"] == "k"
    begun = {span.id: span.start_time for span in kept.spans}
    assert root.start_time_unix_nano == int(begun[root.span_id.hex()].timestamp() * 1e6) * 1000


async def test_what_has_failed_is_an_error_and_a_verdict_is_none(receiver: Receiver) -> None:
    def block(args: Any) -> None:
        if "bad" in args.messages[0].text:
            args.abort("No.")
        raise ValueError("sk-123")

    async with Tracing([OpenTelemetryExporter(receiver.endpoint)]) as tracing:
        guard = processor(id="p", process_input=block)
        agent = Agent(
            id="a", model=ScriptedModel([answer("Ok.")]), input_processors=[guard], observer=tracing
        )
        await agent.generate("bad")
        assert await tracing.flush()
        blocked = receiver.spans()["input processor: p"]
        with pytest.raises(ValueError, match="sk-123"):
            await agent.generate("good")
    failed = receiver.spans()["input processor: p"]
    assert blocked.status.code == 0
    assert "No." in attributes(blocked)["procession.tripwire_abort"]
    assert (failed.status.code, failed.status.message) == (2, "ValueError")
    assert attributes(failed)["error.type"] == "ValueError"
    assert b"sk-123" not in b"".join(r.SerializeToString() for r in receiver.requests)


async def test_a_backend_that_refuses_is_counted(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.status = 400
    async with Tracing([OpenTelemetryExporter(receiver.endpoint)]) as tracing:
        agent = Agent(id="a", model=ScriptedModel([answer("Ok.")]), observer=tracing)
        await agent.generate("go")
        assert await tracing.flush()
        assert tracing.counts["opentelemetry"].failed == 3
    assert "exporter 'opentelemetry' failed" in caplog.text


def test_spans_of_other_libraries_are_masked_too() -> None:
    """G-W1: the mask is where spans leave, not where they are made; both numbers are told."""
    inner = InMemorySpanExporter()
    masking = MaskingSpanExporter(inner, lambda text: text.replace("sk-123", "[KEY]"))
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(masking))
    with provider.get_tracer("other").start_as_current_span("call sk-123") as span:
        span.set_attribute("header", "Bearer sk-123")
        span.set_attribute("several", ["sk-123", "b"])
        span.add_event("sent sk-123", {"body": "sk-123"})
        span.set_status(Status(StatusCode.ERROR, "refused sk-123"))
    provider.shutdown()
    (made,) = inner.get_finished_spans()
    assert "sk-123" not in made.to_json()
    assert made.to_json().count("[KEY]") == 6
    assert (masking.exported, masking.masked) == (1, 6)
    assert made.attributes is not None
    assert list(made.attributes["several"]) == ["[KEY]", "b"]  # type: ignore[call-overload]


def test_wrong_options() -> None:
    for options, told in (
        ({"endpoint": "localhost:4318"}, "endpoint"),
        ({"endpoint": "http://127.0.0.1:9", "exporter": InMemorySpanExporter()}, "exporter"),
        ({"end_point": "x"}, "endpoint"),
    ):
        with pytest.raises(OptionError, match=told):
            OpenTelemetryExporter(**options)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="mask"):
        MaskingSpanExporter(InMemorySpanExporter(), None)  # type: ignore[arg-type]
