"""Several ways of tracing under one roof (O-050)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self, cast

from ..errors import OptionError
from ..keywords import TakesOptions, check_keywords
from .harmless import log
from .option_checks import checked, function
from .tracing import Tracing

if TYPE_CHECKING:
    from types import TracebackType

    from ..host import Host
    from ..spans import Span

__all__ = ["Observability"]


class Observability(TakesOptions):
    """Tracings by name, of which each run takes one: `Agent(observer=Observability(configs={…}))`.

    A config is a `Tracing`, or a mapping of its options. `config_selector(run)` gives the name for
    a run that begins a trace, from its `agent_id`, `run_id` and `request_context`; without one, or
    for a name that is not there, the first is taken. `sensitive_data_filter=False` is the default
    of configs that do not say themselves. Raises `OptionError` for options that cannot be used.
    """

    def __init__(
        self,
        configs: Mapping[str, Tracing | Mapping[str, Any]],
        *,
        config_selector: Callable[[Any], str] | None = None,
        sensitive_data_filter: bool = True,
    ) -> None:
        words = "a mapping with at least one entry"
        checked("Observability", "configs", configs, words, _is_filled)
        self._select = function("Observability", "config_selector", config_selector)
        self.tracings = {
            name: _made(name, given, sensitive_data_filter) for name, given in configs.items()
        }

    def span(self, _span: Span, /) -> None:
        """Nothing: what is told of a run goes to what `begin_run` gives."""

    def begin_run(self, run: Any, parent: Any, options: Mapping[str, Any]) -> Any:
        """What is told of one run; `None` if it is not sampled."""
        return self._chosen(run).begin_run(run, parent, options)

    def _chosen(self, run: Any) -> Tracing:
        first = next(iter(self.tracings.values()))
        if self._select is None:
            return first
        try:
            return self.tracings.get(self._select(run), first)
        except Exception as error:
            log.warning("config_selector raised %s: the first is taken", type(error).__name__)
            return first

    def register_app(self, app: Host) -> None:
        """See `Tracing.register_app`."""
        for tracing in self.tracings.values():
            tracing.register_app(app)

    async def flush(self, within: float = 30.0) -> bool:
        """See `Tracing.flush`."""
        return all([await tracing.flush(within) for tracing in self.tracings.values()])

    async def shutdown(self, within: float = 30.0) -> bool:
        """See `Tracing.shutdown`."""
        return all([await tracing.shutdown(within) for tracing in self.tracings.values()])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.shutdown()


def _made(name: str, given: Any, filtered: bool) -> Tracing:
    if isinstance(given, Tracing):
        return given
    if not isinstance(given, Mapping):
        raise OptionError(f"Observability: configs[{name!r}] must be a Tracing or its options")
    options: dict[str, Any] = dict(cast("Mapping[str, Any]", given))
    check_keywords(f"Observability: configs[{name!r}]", options, _OPTIONS)
    options.setdefault("sensitive_data_filter", filtered)
    return Tracing(**options)


def _is_filled(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(cast("Any", value))


_OPTIONS = (
    "exporters",
    "sampling",
    "content",
    "mask",
    "sensitive_data_filter",
    "span_output_processors",
    "span_filter",
    "exclude_span_types",
    "include_internal_spans",
    "request_context_keys",
    "serialization_options",
    "queue_size",
    "export_timeout",
)
