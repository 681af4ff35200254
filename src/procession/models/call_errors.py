"""What goes wrong between us and a provider, as one kind of error."""

from __future__ import annotations

import json
import re
import ssl
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import msgspec

from ..addresses import public_url
from ..errors import APICallError
from ..records import clean_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx2

__all__ = [
    "broken_off",
    "call_failure",
    "conceal",
    "cut_short",
    "is_retryable_status",
    "public_headers",
    "refused",
    "streamed_error",
    "unreached",
    "wrong_answer",
]


def call_failure(provider: str, error: Any, key: str, *, use_proxies: bool) -> APICallError:
    """A refused call (with the provider's words), or one that reached nobody.

    `error` is an `APIError` of the provider's client.
    """
    if getattr(error, "status_code", None) is None:
        return unreached(provider, error, str(error.request.url), use_proxies=use_proxies)
    return refused(provider, error.response, error.body, key)


def unreached(provider: str, error: Exception, url: str, *, use_proxies: bool) -> APICallError:
    """A call that reached nobody: where, and whether a proxy of the environment was to carry it."""
    cause = error.__cause__ or error
    distrusted = _is_distrusted(error)
    hint = ": is it the right address, and are its certificates known here?" if distrusted else ""
    place = f" at {public_url(url)}"
    if use_proxies and _has_proxy(url):
        place += ", through the proxy of the environment"
    return APICallError(
        f"{provider} could not be reached{place}: "
        f"{_words(cause, error).replace(url, public_url(url))}{hint}",
        is_retryable=not distrusted,
        url=public_url(url),
        provider=provider,
    )


def _has_proxy(url: str) -> bool:
    """Whether the environment names a proxy for an address."""
    from urllib.request import getproxies, proxy_bypass  # only where a call has failed

    parts = urlsplit(url)
    proxies = getproxies()
    named = proxies.get(parts.scheme) or proxies.get("all")
    return bool(named) and not proxy_bypass(parts.hostname or "")


def _is_distrusted(error: BaseException | None) -> bool:
    """Whether a certificate was not accepted: trying again does not help."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


def refused(provider: str, response: httpx2.Response, said: Any, key: str) -> APICallError:
    """A refused call; `said` is the error record in the body, or the text of the body."""
    body = _without(key, response.text)
    message = _without(key, _provider_words(said)) or _no_words(provider, response, body)
    return APICallError(
        message,
        status_code=response.status_code,
        is_retryable=is_retryable_status(response.status_code),
        response_body=body,
        response_headers=public_headers(response.headers),
        url=public_url(str(response.request.url)),
        provider=provider,
    )


def broken_off(provider: str, error: Exception, *, begun: bool) -> APICallError:
    """A connection lost after the provider had accepted the call."""
    when = "before its answer was complete" if begun else "before its answer began"
    return APICallError(
        f"the connection to {provider} broke off {when}: {_words(error, error)}",
        is_retryable=True,
        provider=provider,
    )


def cut_short(provider: str) -> APICallError:
    """An answer that ended in good order, but neither said why nor sent the end mark.

    That is what a client sees of a provider, or of a proxy before it, that gave up on the way.
    """
    told = f"{provider} ended its answer before it was complete"
    return APICallError(told, is_retryable=True, provider=provider)


def wrong_answer(provider: str, response: httpx2.Response) -> APICallError:
    """A successful answer of the wrong kind: most often a web page, from a wrong address."""
    kind = response.headers.get("content-type", "nothing")
    return APICallError(
        f"{provider} answered with {kind} instead of an event stream, at "
        f"{public_url(str(response.url))}: check the base URL",
        provider=provider,
        status_code=response.status_code,
        response_headers=public_headers(response.headers),
        url=public_url(str(response.url)),
    )


_PRIVATE = ("cookie", "authoriz", "authentic", "secret", "api-key", "organization", "project")


def public_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Response headers without cookies, credentials and account names."""
    return {
        name: value
        for name, value in headers.items()
        if not any(word in name.lower() for word in _PRIVATE)
    }


def conceal(error: BaseException, key: str) -> None:
    """Take the key out of the text of an error that repeats the provider's words."""
    error.args = tuple(_without(key, a) if isinstance(a, str) else a for a in error.args)
    for name in ("message", "response_body"):
        text = getattr(error, name, None)
        if isinstance(text, str):
            setattr(error, name, _without(key, text))


def _without(key: str, text: str) -> str:
    return text.replace(key, "…") if len(key) > 4 else text


def _words(cause: BaseException, error: BaseException) -> str:
    return str(cause) or f"{type(cause).__name__}" or str(error)


def _provider_words(body: Any) -> str:
    """The message in an error body; some clients have already taken off an outer `error`."""
    if isinstance(body, str):
        return "" if body.lstrip().startswith("<") else body.strip()[:2000]
    if not isinstance(body, dict):
        return ""
    record = cast("dict[str, Any]", body)
    if "message" not in record and isinstance(record.get("error"), dict):
        record = cast("dict[str, Any]", record["error"])
    message = next((record[k] for k in ("message", "detail", "error") if record.get(k)), "")
    if not isinstance(message, str):
        return json.dumps(message)
    metadata: Any = record.get("metadata")
    inner = cast("dict[str, Any]", metadata).get("raw") if isinstance(metadata, dict) else None
    # A router's own message says little; that of the provider behind it is what helps.
    return f"{message}: {inner}" if isinstance(inner, str) and inner else message


def _no_words(provider: str, response: httpx2.Response, body: str) -> str:
    shown = body.strip()
    if shown.startswith("<"):  # a page of a proxy, which is written for people with browsers
        title = re.search(r"<title>([^<]{1,200})</title>", shown[:10_000], re.IGNORECASE)
        shown = f"a web page: {title[1].strip()}" if title else "a web page"
    return f"{provider} answered with status {response.status_code}" + (
        f": {shown[:200]}" if shown else ""
    )


def is_retryable_status(status: int | None) -> bool:
    """Whether the same call may succeed later: time-outs, conflicts, limits, server faults."""
    return status is not None and (status in (408, 409, 429) or status >= 500)


def streamed_error(value: Any) -> APICallError:
    """An error record inside a stream as an exception."""
    value = clean_json(value)  # half a character in it would be no JSON
    text = msgspec.json.encode(value).decode()
    if not isinstance(value, dict):
        return APICallError(str(value), response_body=text)
    error = cast("dict[str, Any]", value)
    status = next(
        (error[key] for key in ("status_code", "code", "status") if type(error.get(key)) is int),
        None,
    )
    message = error.get("message") or error.get("type") or "the provider reported an error"
    names = (error.get("type"), error.get("code"))
    retryable = is_retryable_status(status) or any(
        isinstance(name, str) and name in _PASSING for name in names
    )
    return APICallError(
        str(message), status_code=status, is_retryable=retryable, response_body=text
    )


_PASSING = frozenset(
    "server_error api_error overloaded_error rate_limit_error rate_limit_exceeded timeout_error "
    "timeout".split()
)
