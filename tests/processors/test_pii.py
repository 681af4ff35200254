"""`PIIDetector` without a model: options, strategies, redaction, events."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procession import Agent
from procession.processor import ProcessInputArgs, ProcessorViolation, ProcessOutputResultArgs
from procession.processors import PIIDetectionEvent, PIIDetector
from procession.testing import ScriptedModel, hook_args

MAIL = "joe@example.com"
CARD = "4111 1111 1111 1111"


def texts(messages: Any) -> list[str]:
    """The texts of messages."""
    return [message.text for message in messages]


def redacted(text: str, **options: Any) -> str:
    """The text as the detector leaves it in a message."""
    args = hook_args(ProcessInputArgs, messages=text)
    made = PIIDetector(**options).process_input(args)
    return text if made is None else made[0].text


# ── construction ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"strategy": "rewrite"}, "strategy must be"),
        ({"strategy": "redcat"}, "did you mean 'redact'"),
        ({"redaction_method": "maskk"}, "did you mean 'mask'"),
        ({"threshold": 1.5}, "threshold"),
        ({"threshold": "high"}, "threshold"),
        ({"preserve_format": "yes"}, "preserve_format"),
        ({"include_detections": 1}, "include_detections"),
        ({"buffer_size": 0}, "buffer_size"),
        ({"on_detection": "log"}, "on_detection"),
        ({"last_message_only": None}, "last_message_only"),
        ({"error_strategy": "loose"}, "error_strategy"),
        ({"instructions": 3}, "instructions"),
        ({"structured_output_options": {"jsonPromptInjection": True}}, "json_prompt_injection"),
        ({"provider_options": 3}, "provider_options"),
        ({"detection_types": []}, "detection_types must not be empty"),
        ({"detection_types": "email"}, "detection_types must be a list"),
        ({"detection_types": ["emial"]}, "did you mean 'email'"),
        ({"detection_types": ["credit_card"]}, "did you mean 'credit-card'"),
        ({"detection_types": ["name"], "model": False}, "'name' takes judgement"),
        ({"regions": ["XX"]}, "XX"),
    ],
)
def test_options_are_checked(options: dict[str, Any], words: str) -> None:
    """B-014: what cannot work fails when it is built, with the option's name."""
    with pytest.raises(ValueError, match=words):
        PIIDetector(**options)


def test_what_is_looked_for() -> None:
    """B-021, B-122: what takes judgement is looked for when there is a model, or it is named."""
    local = PIIDetector().detection_types
    assert set(local) == {
        *("email", "phone", "credit-card", "ssn", "api-key", "ip-address", "url", "uuid"),
        *("crypto-wallet", "iban"),
    }
    judged = ("name", "address", "date-of-birth")
    assert PIIDetector(model="openai/gpt-5").detection_types == (*local, *judged)
    assert PIIDetector(model=False).detection_types == local
    own = PIIDetector(detection_types=["email", "badge number"])
    assert own.detection_types == ("email", "badge number")
    assert "fr-nir" in PIIDetector(detection_types=["national-id"]).detection_types


# ── without a model ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("model", [None, False])
async def test_local_types_cost_no_call(model: Any) -> None:
    """Types that can be found locally never cost a call of a judge unless a model is given."""
    asked = ScriptedModel([f"Write to {MAIL}."])
    agent = Agent(
        id="a",
        model=asked,
        input_processors=[PIIDetector(model=model, redaction_method="placeholder")],
        output_processors=[PIIDetector(model=model, redaction_method="placeholder")],
    )
    out = await agent.generate(f"I am {MAIL}, card {CARD}")
    assert len(asked.calls) == 1
    assert asked.calls[0].text.splitlines()[-1] == "I am [EMAIL], card [CREDIT-CARD]"
    assert out.text == "Write to [EMAIL]."
    assert out.processor_usage.total_tokens in (None, 0)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "Mail b*b@*******.com now"),
        ({"preserve_format": False}, "Mail ******** now"),
        ({"redaction_method": "hash"}, "Mail [HASH:5ff860bf] now"),
        ({"redaction_method": "remove"}, "Mail  now"),
        ({"redaction_method": "placeholder"}, "Mail [EMAIL] now"),
    ],
)
def test_redaction_methods(options: dict[str, Any], expected: str) -> None:
    """B-126."""
    assert redacted("Mail bob@example.com now", **options) == expected


def test_cards_pass_the_luhn_check() -> None:
    """B-136: digits that only look like a card are none."""
    types = {"detection_types": ["credit-card"]}
    assert redacted(CARD, **types) == "**** **** **** 1111"
    assert redacted("4111 1111 1111 1112", **types) == "4111 1111 1111 1112"


def test_the_threshold() -> None:
    """B-024, B-121: a confidence equal to it counts, a lower one does not."""
    found = PIIDetector(threshold=0).find(f"{MAIL} 192.168.0.1")
    least = min(one.confidence for one in found)
    assert len(PIIDetector(threshold=least).find(f"{MAIL} 192.168.0.1")) == len(found)
    above = PIIDetector(threshold=min(1.0, least + 0.001)).find(f"{MAIL} 192.168.0.1")
    assert len(above) < len(found)


@given(
    st.lists(
        st.sampled_from(
            [
                MAIL,
                CARD,
                "555-867-5309",
                "123-45-6789",
                "192.168.0.1",
                "Ada",
                "GB82 WEST 1234 5698 7654 32",
            ]
        ),
        max_size=4,
    ),
    st.sampled_from(["mask", "hash", "remove", "placeholder"]),
    st.booleans(),
)
def test_redacting_twice_changes_nothing(words: list[str], method: Any, keeps: bool) -> None:
    """B-125."""
    detector = PIIDetector(redaction_method=method, preserve_format=keeps)
    once = detector.redacted_text(" and ".join(words))
    assert detector.redacted_text(once) == once


# ── strategies ─────────────────────────────────────────────────────────────────────────────────

DETAIL = {"processor_id": "pii-detector", "phase": "process_input", "types": ["email"], "count": 2}


async def test_block() -> None:
    """B-007, B-031, B-128: types and a number, and never the values."""
    told: list[ProcessorViolation] = []
    detector = PIIDetector(strategy="block", include_detections=True, on_violation=told.append)
    model = ScriptedModel(["ok"])
    agent = Agent(id="a", model=model, input_processors=[detector])
    out = await agent.generate(f"{MAIL} or ada@example.org")
    assert out.tripwire is not None
    assert model.calls == []
    metadata = dict(out.tripwire.metadata)
    assert metadata.pop("message_id")
    assert metadata == {**DETAIL, "strategy": "block"}
    assert not out.tripwire.retry
    assert out.tripwire.processor_id == "pii-detector"
    assert out.tripwire.reason == "Personal data found: email (2 in all)"
    assert [v.detail for v in told] == [out.tripwire.metadata]


@pytest.mark.parametrize("strategy", ["redact", "warn", "filter"])
def test_what_goes_on(strategy: Any, caplog: pytest.LogCaptureFixture) -> None:
    """2.1, B-005, B-006: replaced, kept or removed; told once for the message."""
    told: list[ProcessorViolation] = []
    detector = PIIDetector(strategy=strategy, on_violation=told.append)
    given_ = [{"role": "user", "content": f"{MAIL} or ada@example.org"}, "hello"]
    args = hook_args(ProcessInputArgs, messages=given_)
    with caplog.at_level(logging.WARNING, "procession"):
        made = detector.process_input(args)
    expected: Any = {
        "redact": ["j*e@*******.com or a*a@*******.org", "hello"],
        "filter": ["hello"],
        "warn": None,
    }
    assert (made if made is None else texts(made)) == expected[strategy]
    assert [{k: v for k, v in t.detail.items() if k != "message_id"} for t in told] == [
        {**DETAIL, "strategy": strategy}
    ]
    assert ("email" in caplog.text) == (strategy == "warn")
    assert MAIL not in caplog.text


def test_only_the_last_message() -> None:
    """B-023: earlier ones pass unchanged."""
    args = hook_args(ProcessInputArgs, messages=[f"first {MAIL}", f"last {MAIL}"])
    made = PIIDetector(last_message_only=True).process_input(args)
    assert texts(made) == [f"first {MAIL}", "last j*e@*******.com"]


async def test_all_input_filtered_away() -> None:
    """B-033: the model is asked with what is left."""
    model = ScriptedModel(["ok"])
    agent = Agent(id="a", model=model, input_processors=[PIIDetector(strategy="filter")])
    assert (await agent.generate(MAIL)).text == "ok"
    assert MAIL not in str(model.calls[0].prompt)


def test_the_answer_at_the_end() -> None:
    """What others have added since the stream is found, and a flagged answer removed."""
    answered = [{"id": "m", "role": "assistant", "content": f"at {MAIL}"}]
    cases: list[Any] = [("redact", ["at j*e@*******.com"]), ("filter", [])]
    for strategy, expected in cases:
        args = hook_args(ProcessOutputResultArgs, messages=answered)
        made = PIIDetector(strategy=strategy).process_output_result(args)
        assert texts(made) == expected


# ── events ─────────────────────────────────────────────────────────────────────────────────────


def test_events() -> None:
    """B-127: one for every message; here the text and the values stand, but in no `repr`."""
    heard: list[PIIDetectionEvent] = []
    detector = PIIDetector(on_detection=heard.append, redaction_method="placeholder")
    detector.process_input(hook_args(ProcessInputArgs, messages=["clean", f"at {MAIL}"]))
    clean, found = heard
    assert (clean.input, clean.flagged, clean.strategy_applied) == ("clean", False, "none")
    assert clean.detection_result.detections == []
    assert (found.input, found.flagged, found.strategy_applied) == (f"at {MAIL}", True, "redact")
    one = found.detection_result.detections[0]
    assert (one.type, one.value, one.start, one.end) == ("email", MAIL, 3, 18)
    assert one.redacted_value == "[EMAIL]"
    assert found.detection_result.categories[0].type == "email"
    assert found.input[one.start : one.end] == MAIL
    assert MAIL not in repr(found)


@pytest.mark.parametrize("strategy", ["redact", "block", "warn", "filter"])
async def test_events_in_a_stream(strategy: Any) -> None:
    """B-127: in a stream when something was found; plain or async, whatever it raises."""
    heard: list[Any] = []

    async def listen(event: PIIDetectionEvent) -> None:
        heard.append((event.flagged, event.strategy_applied, event.detection_result.detections))
        raise RuntimeError("listener")

    detector = PIIDetector(strategy=strategy, on_detection=listen)
    agent = Agent(
        id="a", model=ScriptedModel([f"It is {MAIL}. Bye."]), output_processors=[detector]
    )
    out = await agent.generate("go")
    flagged = [event for event in heard if event[0]]
    assert len(flagged) == 1
    assert flagged[0][1] == strategy
    assert [one.value for one in flagged[0][2]] == [MAIL]
    assert (out.tripwire is not None) == (strategy == "block")
