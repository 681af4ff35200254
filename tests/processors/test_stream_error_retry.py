"""StreamErrorRetryProcessor: a call that failed for a while is made again."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from procession import (
    AbortController,
    Agent,
    APICallError,
    Chunk,
    InputError,
    MissingKeyError,
    ModelError,
    ProcessAPIErrorArgs,
    processor,
)
from procession.chunks import ErrorPayload
from procession.processors import (
    RetryMatcher,
    StreamErrorRetryProcessor,
    is_bad_request_error,
    is_retryable_openai_responses_stream_error,
)
from procession.retry_after import asked_pause
from procession.retrying import Retries
from procession.testing import ScriptedModel, collect, hook_args
from tests.models.conftest import DATA, connections, plays, provider, refuses
from tests.models.formats import FORMATS, said, written

if TYPE_CHECKING:
    from collections.abc import Coroutine

__all__ = ["connections", "provider"]  # fixtures: a provider on loopback, and its connections


def down(**more: Any) -> APICallError:
    return APICallError("down", **{"status_code": 500, "is_retryable": True, **more})


def asked_too_often(**headers: str) -> APICallError:
    return down(status_code=429, response_headers=headers)


async def decides(error: Exception, retry: StreamErrorRetryProcessor, **args: Any) -> bool:
    made = hook_args(ProcessAPIErrorArgs, error=error, **args)
    result = await retry.process_api_error(made)
    return result is not None and result.retry


async def calls_made(*answers: Any, retry: StreamErrorRetryProcessor, **options: Any) -> int:
    model = ScriptedModel(answers)
    run = await Agent(id="a", model=model, error_processors=[retry], **options).stream("q")
    await collect(run)
    return len(model.calls)


# ── how often ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("most", "calls"), [(0, 1), (1, 2), (2, 3), (20, 11)])
async def test_b420_so_many_attempts(most: int, calls: int) -> None:
    """B-420, B-426: `max_retries` by default 1; without a limit of the agent's, 10 at most."""
    retry = StreamErrorRetryProcessor(max_retries=most)
    assert await calls_made(*[down()] * 12, retry=retry) == calls


async def test_b420_the_default_is_one_and_each_call_counts_anew() -> None:
    """B-420: one processor serves many runs."""
    retry = StreamErrorRetryProcessor()
    assert await calls_made(down(), "ok", retry=retry) == 2
    assert await calls_made(down(), down(), "never", retry=retry) == 2


async def test_b420_the_agents_limit_holds() -> None:
    """B-420: the smaller of the two numbers decides."""
    retry = StreamErrorRetryProcessor(max_retries=5)
    assert await calls_made(*[down()] * 9, retry=retry, max_processor_retries=2) == 3


async def test_b420_only_its_own_attempts_count() -> None:
    """B-420: what another error processor had mended does not use up its number."""
    medic = processor(
        id="medic",
        process_api_error=lambda args: {"retry": True} if "odd" in str(args.error) else None,
    )
    model = ScriptedModel([APICallError("odd"), down(), "ok"])
    agent = Agent(id="a", model=model, error_processors=[medic, StreamErrorRetryProcessor()])
    assert (await agent.generate("q")).text == "ok"


async def test_b425_messages_stay_as_they_are() -> None:
    """B-425: the second call is given what the first one was."""
    model = ScriptedModel([down(), "ok"])
    agent = Agent(id="a", model=model, error_processors=[StreamErrorRetryProcessor()])
    await agent.generate("q")
    assert model.calls[0].prompt == model.calls[1].prompt


# ── which errors ───────────────────────────────────────────────────────────────────────────────


def caused(by: Any, how: str) -> Exception:
    outer = RuntimeError("the call failed")
    setattr(outer, how, by)
    return outer


@pytest.mark.parametrize("how", ["__cause__", "__context__", "cause"])
async def test_b421_causes_are_looked_at(how: str) -> None:
    """B-421: wrapped once, twice, in a group."""
    retry = StreamErrorRetryProcessor()
    assert await decides(caused(down(), how), retry)
    assert await decides(caused(caused(down(), how), how), retry)
    assert await decides(ExceptionGroup("several", [ValueError("x"), caused(down(), how)]), retry)
    assert not await decides(caused(ValueError("x"), how), retry)


async def test_b421_a_context_that_was_suppressed_is_no_cause() -> None:
    """B-421: `raise … from None` says that what was handled has nothing to do with it."""
    error = caused(down(), "__context__")
    error.__suppress_context__ = True
    assert not await decides(error, StreamErrorRetryProcessor())


async def test_b421_a_chain_that_bites_its_tail_ends() -> None:
    """B-421: cycles, and chains without end, which only a property can make."""
    one, two = RuntimeError("one"), RuntimeError("two")
    one.__cause__, two.__context__ = two, one

    class Endless(Exception):
        @property
        def cause(self) -> Exception:
            return Endless()

    for error in (one, Endless()):
        assert not await decides(error, StreamErrorRetryProcessor())
        assert await decides(error, StreamErrorRetryProcessor(retry_unknown_errors=True))


EVENTS = [
    {"type": "error", "code": "server_error", "message": "x"},
    {"type": "error", "error": {"type": "too_many_requests", "code": "slow_down"}},
    {"type": "response.failed", "response": {"error": {"code": "rate_limit_exceeded"}}},
    {"type": "error", "code": None, "message": "Oops. You can retry your request, or contact us."},
    {"message": "Our servers are busy, please try again later."},
]
LASTING = [
    {"type": "error", "code": "invalid_prompt", "message": "You can retry your request."},
    {"type": "response.failed", "response": {"error": {"code": "insufficient_quota"}}},
    {"type": "error", "message": "Mend the schema and try again."},
    {"type": "response.failed", "response": None},
    "server_error",
    None,
]


@pytest.mark.parametrize("event", EVENTS)
async def test_b421_transient_errors_of_streams(event: dict[str, Any]) -> None:
    """B-421, B-425: as the event itself, in a response body, and as a cause."""
    body = APICallError("failed", response_body=json.dumps(event))
    for error in (event, body, caused(event, "cause")):
        assert is_retryable_openai_responses_stream_error(error)
    assert await decides(body, StreamErrorRetryProcessor())


@pytest.mark.parametrize("event", LASTING)
def test_b421_lasting_errors_of_streams(event: Any) -> None:
    """B-421: a permanent code weighs more than a text."""
    assert not is_retryable_openai_responses_stream_error(event)


def test_b421_a_rejected_request_is_no_stream_error() -> None:
    """B-421: its text may say what it likes."""
    error = APICallError("You can retry your request.", status_code=400)
    assert not is_retryable_openai_responses_stream_error(error)
    assert is_bad_request_error(error)
    assert is_bad_request_error(caused(error, "__cause__"))
    assert not is_bad_request_error(down())
    assert not is_bad_request_error(ValueError("400"))


async def test_b421_an_error_chunk_of_plain_data() -> None:
    """B-421: a model of one's own may report what its provider sent."""
    event = {"type": "error", "code": "server_error", "message": "x"}
    chunk = Chunk(type="error", payload=ErrorPayload(error=event))
    assert await calls_made([chunk], "ok", retry=StreamErrorRetryProcessor()) == 2
    run = await Agent(id="a", model=ScriptedModel([[chunk]])).stream("q")
    await collect(run)
    assert isinstance(run.error, ModelError)
    assert run.error.cause == event


REFUSED = [
    APICallError("x", status_code=401),
    APICallError("x", status_code=403),
    APICallError("x", response_body='{"error": {"code": "invalid_api_key"}}'),
    APICallError("x", response_body='{"error": {"status": "PERMISSION_DENIED"}}'),
    MissingKeyError("acme", "ACME_API_KEY"),
    caused(APICallError("x", status_code=401), "__cause__"),
]


@pytest.mark.parametrize("error", REFUSED, ids=repr)
async def test_b423_unknown_errors_but_no_refused_keys(error: Exception) -> None:
    """B-423: off by default; a key does not get better."""
    assert not await decides(error, StreamErrorRetryProcessor(retry_unknown_errors=True))
    for unknown in (ValueError("x"), APICallError("bad", status_code=400)):
        assert not await decides(unknown, StreamErrorRetryProcessor())
        assert await decides(unknown, StreamErrorRetryProcessor(retry_unknown_errors=True))


# ── matchers ───────────────────────────────────────────────────────────────────────────────────


async def test_b422_the_first_that_matches_decides() -> None:
    """B-422: its own number where it has one, else the processor's; plain or async."""
    told: list[Any] = []

    async def is_odd(error: Any) -> bool:
        return "odd" in str(error)

    def on_retry(args: Any) -> None:
        told.append(args.error)

    thrice: RetryMatcher = {"match": is_odd, "max_retries": 3, "on_retry": on_retry}
    matchers: list[Any] = [thrice, lambda error: "od" in str(error), is_bad_request_error]
    retry = StreamErrorRetryProcessor(matchers=matchers)
    odd, od = APICallError("odd"), APICallError("od")
    assert await calls_made(*[odd] * 9, retry=retry) == 4
    assert [str(error) for error in told] == ["odd"] * 3
    assert await calls_made(*[od] * 9, retry=retry) == 2
    assert await calls_made(*[APICallError("x", status_code=400)] * 9, retry=retry) == 2
    assert await calls_made(*[APICallError("x", status_code=418)] * 9, retry=retry) == 1
    assert await decides(caused(odd, "__cause__"), retry)


async def test_b422_a_matcher_may_forbid() -> None:
    """B-422: it goes before what the provider says."""
    never: RetryMatcher = {"match": lambda error: "down" in str(error), "max_retries": 0}
    assert not await decides(down(), StreamErrorRetryProcessor(matchers=[never]))


async def test_b422_what_a_matcher_raises_declines(caplog: pytest.LogCaptureFixture) -> None:
    """R-117: the next processor is asked, and the original error is final."""

    def broken(error: Any) -> bool:
        raise KeyError("secret-word")

    retry = StreamErrorRetryProcessor(matchers=[broken])
    assert await calls_made(down(), "never", retry=retry) == 1
    assert "KeyError" in caplog.text
    assert "secret-word" not in caplog.text


# ── waiting ────────────────────────────────────────────────────────────────────────────────────


class Clock:
    """How long was waited, in seconds, while no time passes."""

    def __init__(self) -> None:
        self.passed = 0.0

    async def sleep(self, seconds: float) -> None:
        self.passed += seconds

    async def wait_for(self, signal: Coroutine[Any, Any, None], seconds: float) -> None:
        signal.close()
        self.passed += seconds
        raise TimeoutError

    async def takes(self, error: Exception, **options: Any) -> float:
        """How long is waited before another attempt, be there a signal or not."""
        retry, begun = StreamErrorRetryProcessor(**options), self.passed
        assert await decides(error, retry)
        took, begun = self.passed - begun, self.passed
        assert await decides(error, retry, abort_signal=AbortController().signal)
        assert self.passed - begun == pytest.approx(took)
        return took


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    module = "procession.processors.history.stream_error_retry"
    stand_in = SimpleNamespace(sleep=made.sleep, wait_for=made.wait_for)
    monkeypatch.setattr(f"{module}.asyncio", stand_in)
    return made


async def test_b424_it_waits(clock: Clock) -> None:
    """B-424: a number, a function, an async one, one of the matcher's; each of milliseconds."""

    async def later(args: Any) -> float:
        return 30.0 if args.error.status_code == 500 else 0.0

    for delay in (30, lambda args: 30, later):
        assert await clock.takes(down(), delay_ms=delay) == pytest.approx(0.03)
    own: RetryMatcher = {"match": lambda error: True, "delay_ms": 30}
    assert await clock.takes(down(), matchers=[own]) == pytest.approx(0.03)


@pytest.mark.parametrize("delay", [-5, float("nan"), float("inf"), lambda args: -float("inf")])
async def test_b424_no_time_to_wait(delay: Any, clock: Clock) -> None:
    """B-424: negative and non-finite delays are none."""
    assert await clock.takes(down(), delay_ms=delay) == 0


def http_date(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(
    "headers",
    [
        {"retry-after": "3600"},
        {"Retry-After": http_date(3600)},
        {"Retry-After-Ms": "90000"},
        {"retry-after-ms": "60000", "retry-after": "0"},
    ],
)
async def test_b424_the_server_is_listened_to_up_to_a_limit(
    headers: dict[str, str], clock: Clock
) -> None:
    """B-424: seconds, dates, milliseconds, capped; the longer of both waits counts."""
    error = asked_too_often(**headers)
    for asked in (error, caused(error, "__cause__")):
        assert await clock.takes(asked) == pytest.approx(30)
        assert await clock.takes(asked, max_retry_after_ms=25) == pytest.approx(0.025)
        both = {"max_retry_after_ms": 5, "delay_ms": 40}
        assert await clock.takes(asked, **both) == pytest.approx(0.04)


BAD = ["", "soon", "-3", "nan", "inf", "1e999", http_date(-60), "Mon, 99 Foo 2026", None, b"3"]


@pytest.mark.parametrize("value", BAD, ids=range(len(BAD)))
async def test_b424_bad_and_past_wishes_are_ignored(value: Any, clock: Clock) -> None:
    """B-424: and so they are by the model's own retries, which take their own pause (R-216)."""
    wishes = {"retry-after": value}
    assert asked_pause(wishes) is None or value == b"3"
    if value != b"3":
        assert await clock.takes(asked_too_often(**wishes)) == 0
        assert Retries(1).pause_after(asked_too_often(**wishes)) == 0.25


@given(st.one_of(st.text(), st.floats(), st.integers(), st.none(), st.binary()))
def test_b424_no_header_breaks_it(value: Any) -> None:
    """B-424: whatever stands there, the pause is a number of seconds or nothing."""
    for name in ("retry-after", "retry-after-ms"):
        pause = asked_pause({name: value})
        assert pause is None or 0 <= pause < float("inf")
    assert asked_pause(value) is None


def test_r216_the_models_own_retries_take_every_form() -> None:
    """R-216: a date and milliseconds are heard there too, within a minute."""
    assert Retries(1).pause_after(asked_too_often(**{"retry-after-ms": "1500"})) == 1.5
    assert Retries(1).pause_after(asked_too_often(**{"retry-after": "7"})) == 7
    pause = Retries(1).pause_after(asked_too_often(**{"retry-after": http_date(50)}))
    assert pause is not None
    assert 1 < pause <= 50
    assert Retries(1).pause_after(asked_too_often(**{"retry-after": http_date(4000)})) == 60


async def test_b424_no_wait_where_no_retry_follows() -> None:
    """B-424, R-116: the last answer is asked for at once."""
    retry = StreamErrorRetryProcessor(delay_ms=60_000)
    assert not await asyncio.wait_for(decides(down(), retry, may_retry=False), 5)
    error = asked_too_often(**{"retry-after": "3600"})
    calls = calls_made(error, "never", retry=retry, max_processor_retries=0)
    assert await asyncio.wait_for(calls, 5) == 1


async def test_b424_a_stop_ends_the_wait() -> None:
    """B-424: the run ends as aborted, not as failed, and nobody is called again."""
    controller = AbortController()
    told: list[Any] = []
    mark: RetryMatcher = {"match": lambda error: True, "on_retry": told.append}
    retry = StreamErrorRetryProcessor(delay_ms=60_000, matchers=[mark])
    model = ScriptedModel([down(), "never"])
    agent = Agent(id="a", model=model, error_processors=[retry])
    run = await agent.stream("q", abort_signal=controller.signal)
    reading = asyncio.ensure_future(collect(run))
    while not model.calls:  # noqa: ASYNC110 - the call has no event
        await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.02, controller.abort)
    chunks = await asyncio.wait_for(reading, 5)
    assert run.status == "canceled"
    assert [c.type for c in chunks][-2:] == ["abort", "finish"]
    assert (len(model.calls), told) == (1, [])
    fired = hook_args(ProcessAPIErrorArgs, error=down(), abort_signal=controller.signal)
    assert await asyncio.wait_for(retry.process_api_error(fired), 5) is None
    assert await StreamErrorRetryProcessor().process_api_error(fired) is None  # without a wait


async def test_b424_a_cancelled_reader_ends_the_wait() -> None:
    """B-424: nothing of the wait is left behind when the caller goes."""
    retry = StreamErrorRetryProcessor(delay_ms=60_000)
    agent = Agent(id="a", model=ScriptedModel([down(), "never"]), error_processors=[retry])
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(agent.generate("q"), 0.05)
    assert asyncio.all_tasks() == {asyncio.current_task()}


# ── options ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_retries": -1}, "max_retries"),
        ({"max_retries": 1.0}, "max_retries"),
        ({"delay_ms": "3"}, "delay_ms"),
        ({"delay_ms": True}, "delay_ms"),
        ({"max_retry_after_ms": -1}, "max_retry_after_ms"),
        ({"retry_unknown_errors": "yes"}, "retry_unknown_errors"),
        ({"matchers": is_bad_request_error}, "matchers"),
        ({"matchers": ["x"]}, r"matchers\[0\]"),
        ({"matchers": [{"max_retries": 1}]}, "needs 'match'"),
        ({"matchers": [{"match": 3}]}, "match must be callable"),
        ({"matchers": [{"match": bool, "max_retry": 1}]}, "did you mean 'max_retries'"),
        ({"matchers": [{"match": bool, "delay_ms": None}]}, "delay_ms"),
    ],
)
def test_wrong_options_fail_at_once(options: dict[str, Any], named: str) -> None:
    """B-014: when the processor is made, by the option's name."""
    with pytest.raises(InputError, match=named):
        StreamErrorRetryProcessor(**options)


# ── real adapters ──────────────────────────────────────────────────────────────────────────────


FAILING_STREAMS = {
    "chat": [{"error": {"message": "x", "type": "server_error"}}],
    "responses": [
        {
            "type": "response.failed",
            "response": {"status": "failed", "error": {"code": "slow_down"}},
        }
    ],
    "anthropic": [{"type": "error", "error": {"type": "overloaded_error", "message": "x"}}],
    "google": [{"error": {"code": 503, "message": "x", "status": "UNAVAILABLE"}}],
}


def answer_of(name: str) -> bytes:
    """A whole answer of nothing but text, in this format."""
    if name == "google":
        candidate = {**said("Hello")["candidates"][0], "finishReason": "STOP"}
        return written([{"candidates": [candidate]}])
    return FORMATS[name].recorded("text")


@pytest.mark.parametrize("name", FORMATS)
async def test_errors_inside_streams_of_our_adapters(provider: Any, name: str) -> None:
    """B-421: the answer has begun, the stream reports an error; the next attempt is whole."""
    form = FORMATS[name]
    broken = plays([written([*form.begun, *FAILING_STREAMS[name]])])
    whole = plays([answer_of(name)])
    text = await asked(provider, name, broken, whole)
    assert text
    assert "Half" not in text
    assert len(provider.exchanges) == 2


@pytest.mark.parametrize("name", FORMATS)
async def test_refusals_and_lost_connections_of_our_adapters(provider: Any, name: str) -> None:
    """B-421, B-424: a limit with `Retry-After`, then a connection that breaks off."""
    form = FORMATS[name]
    busy = refuses("429 Too Many Requests", {"error": {"message": "x"}}, retry_after="3600")
    lost = plays([written(form.begun)], ends=False)
    whole = plays([answer_of(name)])
    retry = StreamErrorRetryProcessor(max_retries=2, max_retry_after_ms=20)
    assert await asked(provider, name, busy, lost, whole, retry=retry)
    assert len(provider.exchanges) == 3


async def test_a_recorded_failure_of_responses(provider: Any) -> None:
    """B-421: `response.failed` with `server_error`, as it was recorded."""
    failed = (DATA.parent / "openai_responses" / "failed.txt").read_bytes()
    whole = plays([FORMATS["responses"].recorded("text")])
    assert await asked(provider, "responses", plays([failed]), whole)


async def test_a_lasting_failure_of_responses(provider: Any) -> None:
    """B-421: `invalid_prompt` is final at once."""
    flat = (DATA.parent / "openai_responses" / "error_flat.txt").read_bytes()
    with pytest.raises(APICallError, match="Not allowed"):
        await asked(provider, "responses", plays([flat]), plays([flat]))
    assert len(provider.exchanges) == 1


async def asked(provider: Any, name: str, *answers: Any, retry: Any = None) -> str:
    """The text that a model of this format gives, whose provider answers so."""
    waiting = list(answers)

    async def answer(exchange: Any, writer: Any) -> None:
        await waiting.pop(0)(exchange, writer)

    provider.answer = answer
    form = FORMATS[name]
    model = form.model(base_url=provider.url, **form.keys)
    agent = Agent(id="a", model=model, error_processors=[retry or StreamErrorRetryProcessor()])
    return (await agent.generate("q")).text


def test_an_sdks_error_is_read_too() -> None:
    """B-421: the official client's own exception, without an adapter."""
    request = httpx2.Request("POST", "https://llm.example.com/v1/responses")
    body = {"code": "server_error", "message": "x", "type": None}
    error = openai.APIError("x", request=request, body=body)
    assert is_retryable_openai_responses_stream_error(error)
