"""Images and documents as Anthropic takes them: as data, by their address, or by an uploaded id."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from ..errors import InputError
from .anthropic_options import own_options, with_cache_control

__all__ = ["file_block"]

Json = dict[str, Any]


def file_block(part: Json, provider: str) -> Json:
    """The block of a file. Raises `InputError` for a type that this API has no place for."""
    own = own_options(provider, part.get("providerOptions"))
    media: str = part.get("mediaType") or "application/octet-stream"
    data = part.get("data")
    if data is not None and not isinstance(data, str):  # bytes, from a processor
        data = base64.b64encode(data).decode("ascii")
    source = _source(media, data or "", own.get("fileId"))
    if media.startswith("image/"):
        return with_cache_control({"type": "image", "source": source}, own)
    block: Json = {"type": "document", "source": source}
    title = own.get("title") or part.get("filename")
    for name, value in (
        ("title", title),
        ("context", own.get("context")),
        ("citations", own.get("citations")),
    ):
        if value:
            block[name] = value
    return with_cache_control(block, own)


def _source(media: str, data: str, file_id: str | None) -> Json:
    image, pdf = media.startswith("image/"), media == "application/pdf"
    if file_id:
        return {"type": "file", "file_id": file_id}
    if data.startswith(("http://", "https://")):
        if image or pdf:
            return {"type": "url", "url": data}
        raise InputError(f"a file of type {media!r} cannot be given to Anthropic by its address")
    if data.startswith("data:"):
        data = data.partition(",")[2]
    if image or pdf:
        shown = _image_type(data) if media == "image/*" else media
        return {"type": "base64", "media_type": shown, "data": data}
    if media.startswith("text/") or media in _TEXTS:
        return {"type": "text", "media_type": "text/plain", "data": _text(media, data)}
    raise InputError(
        f"a file of type {media!r} cannot be sent to Anthropic: it takes images, PDF and text; "
        f"other files have to be uploaded to it and named by the option fileId"
    )


_TEXTS = frozenset({"application/json", "application/xml", "application/yaml"})

_IMAGES = (("iVBORw0KGgo", "image/png"), ("R0lGOD", "image/gif"), ("UklGR", "image/webp"))
"""How the base64 text of an image begins."""


def _image_type(data: str) -> str:
    return next((media for start, media in _IMAGES if data.startswith(start)), "image/jpeg")


def _text(media: str, data: str) -> str:
    try:
        return base64.b64decode(data).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise InputError(
            f"a file of type {media!r} is no UTF-8 text, and Anthropic takes no other: convert it"
        ) from None
