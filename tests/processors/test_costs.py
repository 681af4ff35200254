"""What calls of models cost: own prices, the price list, and nothing that is not known (B-279)."""

import logging
import sys
from typing import Any

import pytest

from procession.chunks import Usage
from procession.processors import ModelPrice, Prices
from procession.processors.costs.costs import used_by
from procession.results import ModelCall

OWN = {"acme/small": ModelPrice(input=2, output=8, cached_input=0.5, cache_write=3)}


def call(**values: Any) -> ModelCall:
    known: dict[str, Any] = {
        "id": "call-1",
        "run_id": "run-1",
        "step_number": 0,
        "provider": "acme",
        "model_id": "small",
        "usage": Usage(),
        "answered": True,
        "from_cache": False,
        "prompt": [],
        "text": "",
    }
    return ModelCall(**{**known, **values})


def test_own_prices_are_for_a_million_tokens() -> None:
    prices = Prices(OWN)
    usage = Usage(input_tokens=1_000_000, output_tokens=500_000)
    assert prices.cost("acme", "small", usage) == 2 + 4


def test_what_a_cache_held_has_its_own_price() -> None:
    """B-279: input counts all of it, and the parts of the cache are taken out."""
    usage = Usage(
        input_tokens=1_000_000, cached_input_tokens=600_000, cache_creation_input_tokens=100_000
    )
    assert Prices(OWN).cost("acme", "small", usage) == pytest.approx(0.6 + 0.3 + 0.3)
    plain = Prices({"small": {"input": 2, "output": 8}})
    assert plain.cost("acme", "small", usage) == pytest.approx(2)


def test_own_prices_come_before_the_list() -> None:
    usage = Usage(input_tokens=1000, output_tokens=1000)
    known = Prices().cost("openai", "gpt-4o", usage)
    assert known is not None
    assert known > 0
    assert Prices({"openai/gpt-4o": {"input": 0, "output": 0}}).cost("openai", "gpt-4o", usage) == 0
    assert Prices({"gpt-4o": {"input": 1000, "output": 0}}).cost("openai", "gpt-4o", usage) == 1


def test_the_list_knows_what_reading_from_a_cache_costs() -> None:
    prices = Prices()
    fresh = prices.cost("anthropic", "claude-sonnet-4-5", Usage(input_tokens=10_000))
    read = prices.cost(
        "anthropic",
        "claude-sonnet-4-5",
        Usage(input_tokens=10_000, cached_input_tokens=9_000, cache_creation_input_tokens=0),
    )
    assert fresh is not None
    assert read is not None
    assert 0 < read < fresh


def test_counts_that_do_not_fit_together_still_cost() -> None:
    usage = Usage(input_tokens=10, output_tokens=10, cached_input_tokens=900)
    cost = Prices().cost("openai", "gpt-4o", usage)
    assert cost is not None
    assert cost > 0


@pytest.mark.parametrize("name", [("acme", "huge"), ("openai", "gpt-99-unheard"), ("", "")])
def test_an_unknown_price_is_told_once(
    name: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """B-279: and counts as nothing."""
    prices = Prices()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert prices.cost(*name, Usage(input_tokens=5)) is None
    assert len(caplog.records) == 1
    assert f"{name[0]}/{name[1]}" in caplog.records[0].getMessage()


def test_the_local_model_is_free(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert Prices().cost("local", "smollm2", Usage(input_tokens=5)) == 0
    assert not caplog.records


def test_without_the_extra_only_own_prices_are_known(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    prices = Prices(OWN)
    assert prices.cost("acme", "small", Usage(input_tokens=1)) == 0.000002
    with caplog.at_level(logging.WARNING):
        assert prices.cost("openai", "gpt-4o", Usage(input_tokens=1)) is None
    assert "extra 'costs'" in caplog.text


@pytest.mark.parametrize(
    ("price", "problem"),
    [
        ({"input": -1, "output": 1}, "input must be a number from 0 on"),
        ({"input": 1, "output": float("inf")}, "output must be"),
        ({"input": 1, "output": 1, "cached_input": True}, "cached_input must be"),
        ({"input": 1}, "'acme/x' needs 'output'"),
        ({"input": 1, "output": 1, "cached": 1}, "cached_input"),
    ],
)
def test_a_price_that_is_none_is_refused(price: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Prices({"acme/x": price})


def test_what_the_provider_told_counts() -> None:
    usage = Usage(input_tokens=7, output_tokens=0)
    assert used_by(call(usage=usage, text="much " * 100)) is usage


def test_a_call_that_was_cut_off_is_estimated() -> None:
    """What was sent and said by then is paid, though no provider has told."""
    prompt = [{"role": "user", "content": [{"type": "text", "text": "word " * 100}]}]
    usage = used_by(call(prompt=prompt, text="word " * 50))
    assert 100 <= (usage.input_tokens or 0) <= 120
    assert 50 <= (usage.output_tokens or 0) <= 60
