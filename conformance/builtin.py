"""Built-in processors with the options of a scenario."""

from collections.abc import Callable, Mapping
from typing import Any

from .features import find
from .names import camel, snake, snake_keys
from .tools import build_tools
from .world import World


def build_builtin(world: World, processor: Mapping[str, Any]) -> Any:
    """The library's class of that name, made with the mapped options."""
    cls = find(processor["builtin"])
    options = processor.get("options")
    if processor["builtin"] == "ResponseCache":
        options = {"cache": "default", **(options or {})}
    given = {} if "cost" not in processor else {"store": CostStore(world, processor["cost"])}
    if options is None:
        return cls(**given)
    if not isinstance(options, Mapping):
        return cls(options, **given)
    return cls(**given, **dict(_option(world, key, value) for key, value in options.items()))


class CostStore:
    """A scenario's cost store: gives its values in turn, the last one again and again, or fails."""

    def __init__(self, world: World, described: Mapping[str, Any]) -> None:
        self._world = world
        self._values: list[float] = list(described.get("values", ()))
        self._fails = bool(described.get("fails"))

    def get_metric_aggregate(self, _query: Any) -> dict[str, Any]:
        """What has been spent; the question is noted."""
        self._world.event("cost_query")
        if self._fails:
            raise RuntimeError("the cost store was told to fail")
        value = self._values.pop(0) if len(self._values) > 1 else self._values[0]
        return {"estimated_cost": value, "cost_unit": "usd"}


def _option(world: World, key: str, value: Any) -> tuple[str, Any]:
    if key == "model":
        return key, world.model(value)
    if key == "tools":
        return key, build_tools(world, value)
    if key == "cache":
        return key, named_cache(world, value)
    if key == "key_fn":
        return "key", key_function(world, value)
    if key == "filter_deny":
        return "filter", lambda args: _tool_name(args) not in value
    return snake(key), snake_keys(value)


def _tool_name(args: Any) -> str:
    return args["tool_name"] if isinstance(args, Mapping) else args.tool_name


def named_cache(world: World, name: str) -> Any:
    """The scenario's cache of that name, in memory."""
    if name not in world.caches:
        world.caches[name] = find("InMemoryServerCache")()
    return world.caches[name]


def apply_cache_options(world: World, context: Any, options: Mapping[str, Any]) -> None:
    """Put the cache options of one call into its request context."""
    mapped = dict(_option(world, key, value) for key, value in options.items())
    find("ResponseCache").apply_context(context, **mapped)


def key_function(world: World, name: str) -> Callable[[Any], str]:
    """A cache key function by its name in scenarios; it notes what it was given."""

    def key(inputs: Any) -> str:
        fields = ("agent_id", "scope", "model", "prompt", "step_number")
        given = sorted(camel(field) for field in fields if hasattr(inputs, field))
        world.event(
            "cache_key_fn",
            inputs=given,
            stepNumber=inputs.step_number,
            scope=inputs.scope,
            agentId=inputs.agent_id,
        )
        return _KEYS[name](inputs)

    return key


def _throws(inputs: Any) -> str:
    raise RuntimeError("the key function was told to raise")


def _last_user_text(inputs: Any) -> str:
    users = [entry for entry in inputs.prompt if entry["role"] == "user"]
    texts = [part.get("text", "") for part in users[-1]["content"]] if users else []
    return "u:" + "".join(texts)


def _global_scope(inputs: Any) -> str:
    return find("build_response_cache_key")(inputs, scope="global")


_KEYS: dict[str, Callable[[Any], str]] = {
    "throws": _throws,
    "constant": lambda inputs: "constant-key",
    "last_user_text": _last_user_text,
    "rebuild_global_scope": _global_scope,
}
