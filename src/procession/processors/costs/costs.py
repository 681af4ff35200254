"""What a call of a model costs: an application's own prices, else those of a list (B-279)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from math import isfinite
from typing import TYPE_CHECKING, Any, cast

from ...chunks import Usage
from ...errors import OptionError
from ...keywords import TakesOptions, check_keywords
from ..tokens.token_counting import Tokens
from ..tokens.token_texts import ESTIMATE

if TYPE_CHECKING:
    from ...results import ModelCall

__all__ = ["ModelPrice", "Prices", "estimated", "used_by"]

_log = logging.getLogger("procession.processors")

_MILLION = 1_000_000
_FREE = frozenset({"local"})
"""Providers that nobody pays."""
_MOST_TOLD = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelPrice(TakesOptions):
    """US dollars for a million tokens.

    What is read from a provider's cache costs `cached_input`, what is written there `cache_write`;
    both cost as much as other input where nothing is said.
    """

    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            name, value = field.name, getattr(self, field.name)
            optional = name.startswith("cache") and value is None
            if not optional and not _is_price(value):
                raise OptionError(f"ModelPrice: {name} must be a number from 0 on")

    def cost(self, usage: Usage) -> float:
        """What these tokens cost, in US dollars."""
        read = usage.cached_input_tokens or 0
        written = usage.cache_creation_input_tokens or 0
        fresh = max(0, (usage.input_tokens or 0) - read - written)
        cached = self.input if self.cached_input is None else self.cached_input
        write = self.input if self.cache_write is None else self.cache_write
        spent = fresh * self.input + read * cached + written * write
        return (spent + (usage.output_tokens or 0) * self.output) / _MILLION


def _is_price(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and isfinite(value) and value >= 0


class Prices(TakesOptions):
    """Prices by model: `Prices({"acme/small": ModelPrice(input=0.2, output=0.8)})`.

    A key is `provider/model`, or the name of a model alone, of any provider. Models that are not in
    the table are looked up in the prices that come with the package `genai-prices` (the extra
    `costs`), where it is installed; nothing is ever fetched. Raises `OptionError` for a table that
    is none.
    """

    def __init__(self, table: Mapping[str, ModelPrice | Mapping[str, float]] | None = None) -> None:
        self._table: dict[str, ModelPrice] = {}
        self._told: set[str] = set()
        self._calculate: Any = _calculator()
        for name, price in (table or {}).items():
            self.set(name, price)

    def set(self, name: str, price: ModelPrice | Mapping[str, float]) -> None:
        """Give a model's price, or another one."""
        if not isinstance(price, ModelPrice):
            price = _price(name, price)
        self._table[name] = price

    def cost(self, provider: str, model_id: str, usage: Usage) -> float | None:
        """US dollars, or `None` where nobody knows, which is logged once for each model."""
        price = self._table.get(f"{provider}/{model_id}") or self._table.get(model_id)
        if price is not None:
            return price.cost(usage)
        if provider in _FREE:
            return 0.0
        found = self._look_up(provider, model_id, usage)
        if found is None:
            self._tell_unknown(f"{provider}/{model_id}")
        return found

    def _look_up(self, provider: str, model_id: str, usage: Usage) -> float | None:
        if self._calculate is None or not provider or not model_id:
            return None
        counts: dict[str, int | None] = {
            "input_tokens": usage.input_tokens or 0,
            "output_tokens": usage.output_tokens or 0,
            "cache_read_tokens": usage.cached_input_tokens,
            "cache_write_tokens": usage.cache_creation_input_tokens,
        }
        known = {name: count for name, count in counts.items() if count}
        try:
            return float(self._calculate(known, model_id, provider))
        except LookupError:
            return None
        except Exception as error:  # counts that do not fit together: without those of the cache
            _log.debug("no price with tokens of a cache: %s", type(error).__name__)
        try:
            plain = {name: known[name] for name in known if not name.startswith("cache")}
            return float(self._calculate(plain, model_id, provider))
        except Exception:
            return None

    def _tell_unknown(self, name: str) -> None:
        if name in self._told or len(self._told) >= _MOST_TOLD:
            return
        self._told.add(name)
        hint = "" if self._calculate else ", or install the extra 'costs', which knows many"
        _log.warning(
            "the price of model %r is not known, so its calls count as free: "
            "give one with Prices({%r: ModelPrice(input=…, output=…)})%s",
            name,
            name,
            hint,
        )


def _price(model: str, given: Any) -> ModelPrice:
    """The price that a mapping is."""
    owner = f"the price of {model!r}"
    if not isinstance(given, Mapping):
        kind = type(given).__name__
        raise OptionError(f"{owner} must be a ModelPrice or a mapping of its fields, not {kind}")
    price = cast("Mapping[str, Any]", given)
    check_keywords(owner, price, [field.name for field in fields(ModelPrice)])
    for name in ("input", "output"):
        if name not in price:
            raise OptionError(f"{owner} needs {name!r}: US dollars for a million tokens")
    try:
        return ModelPrice(**price)
    except OptionError as error:
        raise OptionError(f"{owner}: {error}") from None


def _calculator() -> Any:
    """The function of the price list, `None` without it."""
    try:
        library: Any = import_module("genai_prices")
    except ImportError:
        return None

    def calculate(counts: dict[str, int], model_id: str, provider: str) -> Any:
        usage = library.Usage(**counts)
        found = library.calc_price(usage, model_ref=model_id, provider_id=provider)
        return found.total_price

    return calculate


def used_by(call: ModelCall) -> Usage:
    """The tokens of a call; estimated where the provider has not told.

    It tells with the end of an answer, so not when that was cut off, by a verdict for instance.
    What it has read and said by then is paid all the same.
    """
    usage = call.usage
    if usage.input_tokens is not None or usage.output_tokens is not None:
        return usage
    return estimated(call.prompt, call.text)


def estimated(prompt: Sequence[Mapping[str, Any]], text: str) -> Usage:
    """About how many tokens a prompt has, and what was said to it."""
    tokens = Tokens(ESTIMATE)
    sent = tokens.per_conversation + tokens.entries(cast("list[Any]", prompt))
    return Usage(input_tokens=sent, output_tokens=round(ESTIMATE.count(text)))
