"""Mappings: what the next stage gets, chosen by a function or put together of sources (W-093)."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from ..errors import ConfigurationError, InputError, KindError
from .steps import Step

if TYPE_CHECKING:
    from .context import StepContext

__all__ = ["Sources", "mapping_step"]

_KINDS = ("step", "init_data", "value", "request_context_path", "fn")


def mapping_step(id: str, mapping: Any) -> Step:
    """A step that maps; raises `KindError` for what is neither a function nor a dict of sources."""
    if isinstance(mapping, Mapping):
        mapping = Sources(id, cast("Mapping[str, Any]", mapping))
    elif not callable(mapping):
        raise KindError(
            f"{id}: map takes a function, or a dict of sources, not {type(mapping).__name__}"
        )
    return Step(id, "mapping", mapping, mapping)


class Sources:
    """Puts a dict together of results, of the input, of the request context, of constants."""

    def __init__(self, id: str, sources: Mapping[str, Any]) -> None:
        self._id = id
        self._sources = {key: self._checked(key, source) for key, source in sources.items()}

    def _checked(self, key: str, source: Any) -> Mapping[str, Any]:
        if isinstance(source, Mapping):
            given = cast("Mapping[str, Any]", source)
            if sum(kind in given for kind in _KINDS) == 1:
                return given
        raise ConfigurationError(
            f"{self._id}: the source of {key!r} must be a dict with one of {', '.join(_KINDS)}"
        )

    async def __call__(self, context: StepContext) -> dict[str, Any]:
        """The dict; raises `InputError` for a path that leads nowhere."""
        return {key: await self._read(key, s, context) for key, s in self._sources.items()}

    async def _read(self, key: str, source: Mapping[str, Any], context: StepContext) -> Any:
        if "value" in source:
            return source["value"]
        if "fn" in source:
            found = source["fn"](context)
            return await found if inspect.isawaitable(found) else found
        if "request_context_path" in source:
            return self._at(key, dict(context.request_context.all), source["request_context_path"])
        if "init_data" in source:
            return self._at(key, context.get_init_data(), source.get("path", "."))
        return self._at(key, _result(source["step"], context), source.get("path", "."))

    def _at(self, key: str, value: Any, path: str) -> Any:
        for name in () if path in (".", "") else path.split("."):
            try:
                value = _member(value, name)
            except (KeyError, IndexError, ValueError, AttributeError):
                raise InputError(
                    f"{self._id}: the source of {key!r} has nothing at {path!r}"
                ) from None
        return value


def _member(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value)[name]
    if isinstance(value, list | tuple):
        return cast("Sequence[Any]", value)[int(name)]
    return getattr(value, name)


def _result(step: Any, context: StepContext) -> Any:
    """The result of a step, or of the one among several that has been executed."""
    if isinstance(step, list | tuple):
        results = [context.get_step_result(each) for each in cast("Sequence[Any]", step)]
        return next((result for result in results if result is not None), None)
    return context.get_step_result(step)
