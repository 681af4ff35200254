"""Whose cost it is that a guard looks at, and what to say where a request does not tell (B-272)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...request_context import MASTRA_RESOURCE_ID_KEY, MASTRA_THREAD_ID_KEY

if TYPE_CHECKING:
    from ...processor import ProcessInputArgs, ProcessInputStepArgs
    from ...request_context import RequestContext

__all__ = ["SCOPES", "ids_of", "why_missing"]

_KEYS = {
    "resource": MASTRA_RESOURCE_ID_KEY,
    "thread": MASTRA_THREAD_ID_KEY,
    "user": "userId",
    "organization": "organizationId",
    "session": "sessionId",
}
"""Where in the request context an id stands."""
SCOPES = ("run", *_KEYS)


def ids_of(args: ProcessInputArgs | ProcessInputStepArgs) -> dict[str, str]:
    """The ids of all scopes that this request has; an empty one is none."""
    context: RequestContext = args.request_context
    messages: Any = args.message_list  # none in a workflow
    found = {"run": args.run_id} | {scope: context.get(key) for scope, key in _KEYS.items()}
    if messages is not None:
        found["resource"] = found["resource"] or messages.resource_id
        found["thread"] = found["thread"] or messages.thread_id
    return {scope: str(id) for scope, id in found.items() if id is not None and id != ""}


def why_missing(scope: str, context: RequestContext) -> str:
    """Why a request has no id for a scope, and how to give one; no value is repeated."""
    key = _KEYS[scope]
    if scope in ("resource", "thread"):
        remedy = f"give the call memory={{{scope!r}: …}}"
    else:
        remedy = f"set {key!r} in the request context"
    if context.has(key):
        return f"the request context's {key!r} is empty: {remedy}"
    alike = {_plain(key), f"{scope}id", scope}
    near = [other for other in map(str, context.keys()) if _plain(other) in alike]
    hint = f" (there is {near[0][:40]!r}, which is another key)" if near else ""
    return f"the request names no {scope}{hint}: {remedy}"


def _plain(key: str) -> str:
    return key.replace("_", "").replace("-", "").lower()
