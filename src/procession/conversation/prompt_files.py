"""Files that a prompt names by URL: passed on where the model can fetch them, else downloaded."""

from __future__ import annotations

import asyncio
import base64
import importlib
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, cast
from urllib.parse import urlsplit

from ..errors import InputError
from .prompt_parts import is_url

__all__ = ["Download", "download_file", "has_urls", "resolve_files"]

Download = Callable[[str], Awaitable[Any] | Any]
"""Fetches a URL: returns bytes, or (bytes, media type). May be async."""

SupportedUrls = Mapping[str, Iterable[str | re.Pattern[str]]]
"""Media type, with `*`, to the URLs (regular expressions) that the model fetches by itself."""

MAX_BYTES = 64 * 1024 * 1024
TIMEOUT_SECONDS = 30.0


def has_urls(prompt: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a prompt names files by URL."""
    for entry in prompt:
        content = entry.get("content")
        if isinstance(content, list):
            for part in cast("list[dict[str, Any]]", content):
                if part["type"] == "file" and is_url(part.get("data")):
                    return True
    return False


def _url_parts(prompt: Iterable[Mapping[str, Any]]) -> Iterable[dict[str, Any]]:
    for entry in prompt:
        content = entry.get("content")
        if isinstance(content, list):
            for part in cast("list[dict[str, Any]]", content):
                if part.get("type") == "file" and is_url(part.get("data")):
                    yield part


async def resolve_files(
    prompt: list[dict[str, Any]],
    supported_urls: SupportedUrls | None = None,
    download: Download | None = None,
) -> list[dict[str, Any]]:
    """The prompt with every URL the model cannot fetch replaced by the file itself (R-362).

    `prompt` stays as it is; entries without such files are shared with the new one. Raises
    `InputError` when a download fails (R-363).
    """
    wanted = list(
        dict.fromkeys(
            part["data"]
            for part in _url_parts(prompt)
            if not _supported(part["data"], part.get("mediaType") or "", supported_urls or {})
        )
    )
    if not wanted:
        return prompt
    files = await _fetch_all(wanted, download or download_file)
    return [_inlined(entry, files, supported_urls or {}) for entry in prompt]


def _supported(url: str, media_type: str, supported: SupportedUrls) -> bool:
    for pattern, urls in supported.items():
        if pattern == "*" or fnmatchcase(media_type.lower(), pattern.lower()):
            if any(re.search(address, url) for address in urls):
                return True
    return False


async def _fetch_all(urls: list[str], download: Download) -> dict[str, tuple[str, str | None]]:
    tasks = [asyncio.ensure_future(_fetch(url, download)) for url in urls]
    try:
        return dict(zip(urls, await asyncio.gather(*tasks), strict=True))
    finally:
        for task in tasks:  # one failed: the others are of no use, and must not live on
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _fetch(url: str, download: Download) -> tuple[str, str | None]:
    try:
        found = download(url)
        if inspect.isawaitable(found):
            found = await found
        data, media_type = found if isinstance(found, tuple) else (found, None)  # pyright: ignore[reportUnknownVariableType]
        return base64.b64encode(cast("bytes", data)).decode("ascii"), cast("str | None", media_type)
    except Exception as error:
        raise InputError(
            f"the file at {_shown(url)} could not be downloaded ({type(error).__name__}: {error}); "
            f"give its bytes, or pass download=…"
        ) from error


def _shown(url: str) -> str:
    """The URL without its query, which may hold a signature."""
    return url.partition("?")[0][:200]


def _inlined(
    entry: dict[str, Any], files: Mapping[str, tuple[str, str | None]], supported: SupportedUrls
) -> dict[str, Any]:
    content = entry.get("content")
    if not isinstance(content, list):
        return entry
    parts = [_inlined_part(p, files, supported) for p in cast("list[dict[str, Any]]", content)]
    return {**entry, "content": parts}


def _inlined_part(
    part: dict[str, Any], files: Mapping[str, tuple[str, str | None]], supported: SupportedUrls
) -> dict[str, Any]:
    url = part.get("data")
    if part.get("type") != "file" or not isinstance(url, str) or url not in files:
        return part
    media_type: str = part.get("mediaType") or ""
    if _supported(url, media_type, supported):
        return part
    data, found = files[url]
    if found and ("*" in media_type or not media_type):
        media_type = found
    return {**part, "data": data, "mediaType": media_type}


async def download_file(url: str) -> tuple[bytes, str | None]:
    """Fetch an http(s) URL: the bytes and their media type.

    At most 64 MiB within 30 seconds. It goes wherever the URL says, private networks included:
    give `download=…` where strangers may name URLs.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise InputError(f"only http and https URLs can be downloaded, not {_shown(url)}")
    client = _http_client()
    if client is None:
        return await asyncio.to_thread(_read_plainly, url)
    async with asyncio.timeout(TIMEOUT_SECONDS), client as opened:
        async with opened.stream("GET", url) as response:
            response.raise_for_status()
            data = bytearray()
            async for piece in response.aiter_bytes():
                data += piece
                _bound(len(data))
            return bytes(data), _media_type(response.headers.get("content-type"))


def _http_client() -> Any:
    """An async client of whichever HTTP library is there; none is required."""
    for name in ("httpx2", "httpx"):
        try:
            library = importlib.import_module(name)
        except ImportError:
            continue
        return library.AsyncClient(follow_redirects=True, timeout=TIMEOUT_SECONDS)
    return None


def _read_plainly(url: str) -> tuple[bytes, str | None]:
    # Imported here: it takes longer than all the rest of the package.
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    request = Request(url, headers={"User-Agent": "procession"})
    try:
        with urlopen(request, timeout=TIMEOUT_SECONDS) as response:
            data: bytes = response.read(MAX_BYTES + 1)
            _bound(len(data))
            return data, _media_type(response.headers.get("content-type"))
    except HTTPError as refused:
        refused.close()  # it holds the connection
        raise


def _bound(size: int) -> None:
    if size > MAX_BYTES:
        raise InputError(f"the file is larger than {MAX_BYTES // 1024 // 1024} MiB")


def _media_type(header: str | None) -> str | None:
    return header.partition(";")[0].strip() or None if header else None
