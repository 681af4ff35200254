"""Files named by URL: passed on, or downloaded and inlined (R-362, R-363)."""

import asyncio
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from procession.conversation import prompt_files
from procession.conversation.prompt_files import download_file, has_urls, resolve_files
from procession.errors import InputError
from procession.message_list import MessageList


def prompt(*urls: str, media_type: str = "image/png") -> list[dict[str, Any]]:
    parts = [{"type": "file", "mediaType": media_type, "data": url} for url in urls]
    return [{"role": "system", "content": "s"}, {"role": "user", "content": parts}]


def data_of(found: list[dict[str, Any]]) -> list[str]:
    return [part["data"] for part in found[1]["content"]]


@pytest.mark.parametrize(
    ("supported", "passed"),
    [
        ({"image/*": [r"^https://x\.test/"]}, True),
        ({"*": [re.compile("x.test")]}, True),
        ({"image/png": ["x"]}, True),
        ({"IMAGE/PNG": ["x"]}, True),
        ({"image/jpeg": ["x"]}, False),
        ({"image/*": ["^https://other/"]}, False),
        ({}, False),
        (None, False),
    ],
)
async def test_urls_the_model_supports_are_passed_on(supported: Any, passed: bool) -> None:
    """R-362"""
    given = prompt("https://x.test/a")
    found = await resolve_files(given, supported, lambda url: b"\x01")
    assert data_of(found) == (["https://x.test/a"] if passed else ["AQ=="])
    assert data_of(given) == ["https://x.test/a"]
    assert (found is given) is passed


async def test_each_url_is_downloaded_once_and_entries_are_shared() -> None:
    """R-362"""
    asked: list[str] = []

    async def download(url: str) -> tuple[bytes, str]:
        asked.append(url)
        return url.encode()[-1:], "image/webp"

    given = prompt("http://h/a", "http://h/b", "http://h/a", media_type="image/*")
    found = await resolve_files(given, None, download)
    assert data_of(found) == ["YQ==", "Yg==", "YQ=="]
    assert [part["mediaType"] for part in found[1]["content"]] == ["image/webp"] * 3
    assert asked == ["http://h/a", "http://h/b"]
    assert found[0] is given[0]


async def test_a_failed_download_raises_without_secrets() -> None:
    """R-363"""

    def fail(url: str) -> bytes:
        raise OSError("gone")

    with pytest.raises(InputError, match=r"http://h/a .*gone") as caught:
        await resolve_files(prompt("http://h/a?signature=secret"), None, fail)
    assert "secret" not in str(caught.value)


async def test_the_other_downloads_end_when_one_fails() -> None:
    """Law 6"""
    ended: list[str] = []

    async def download(url: str) -> bytes:
        if url.endswith("bad"):
            await asyncio.sleep(0)
            raise OSError("no")
        try:
            await asyncio.sleep(30)
        finally:
            ended.append(url)
        return b""

    with pytest.raises(InputError):
        await resolve_files(prompt("http://h/slow", "http://h/bad"), None, download)
    assert ended == ["http://h/slow"]


def test_has_urls() -> None:
    assert has_urls(prompt("https://x.test/a"))
    assert not has_urls(prompt("AQ=="))
    assert not has_urls([])


async def test_llm_prompt_resolves_files() -> None:
    """R-321, R-362"""
    image = {"type": "image", "image": "https://x.test/a"}
    messages = MessageList().add({"role": "user", "content": [image]}, "input")
    supported = await messages.get.all.llm_prompt({"image/*": ["."]})
    assert supported[0]["content"][0]["data"] == "https://x.test/a"
    inlined = await messages.get.all.llm_prompt(download=lambda url: b"\x01")
    assert inlined[0]["content"] == [{"type": "file", "mediaType": "image/jpeg", "data": "AQ=="}]
    assert messages.provider_prompt()[0]["content"][0]["data"] == "https://x.test/a"


# -- the default download, against a server on loopback ------------------------------------------


class Files(BaseHTTPRequestHandler):
    """Serves a file, a redirect to it, and errors."""

    def do_GET(self) -> None:
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("location", "/file")
            self.end_headers()
        elif self.path == "/file":
            self.send_response(200)
            self.send_header("content-type", "image/webp; charset=x")
            self.end_headers()
            self.wfile.write(b"\x01\x02")
        else:
            self.send_error(404)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Files) as served:
        thread = threading.Thread(target=served.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{served.server_address[1]}"
        served.shutdown()
        thread.join()


@pytest.fixture(params=["with a client", "without"])
def plainly(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to fetch: with an HTTP library, and with the standard library alone."""
    if request.param == "without":
        monkeypatch.setattr(prompt_files, "_http_client", lambda: None)


@pytest.mark.usefixtures("plainly")
async def test_default_download(server: str) -> None:
    """R-362"""
    for path in ("/file", "/moved"):
        assert await download_file(server + path) == (b"\x01\x02", "image/webp")


@pytest.mark.usefixtures("plainly")
async def test_default_download_fails_before_the_provider_is_called(server: str) -> None:
    """R-363"""
    with pytest.raises(InputError, match="could not be downloaded"):
        await resolve_files(prompt(server + "/nothing"))


@pytest.mark.usefixtures("plainly")
async def test_default_download_is_bounded(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_files, "MAX_BYTES", 1)
    with pytest.raises(InputError, match="larger"):
        await download_file(server + "/file")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://h/a", "gs://b/a"])
async def test_only_http_is_fetched(url: str) -> None:
    """R-363"""
    with pytest.raises(InputError, match="http"):
        await resolve_files(prompt(url))
