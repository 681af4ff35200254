"""What leaves the process: values cut to size, sensitive keys and secrets taken out (O-053, O-054).

This is the one place before every exporter, whoever has made the span (G-W1, G-W3).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import replace

from ..errors import InputError, OptionError
from ..records import clean_text, plain
from ..stores.option_checks import count
from .option_checks import checked, is_texts

if TYPE_CHECKING:
    from ..trace_store import ExportedSpan

__all__ = ["REDACTED", "Cut", "Mask", "Outgoing", "SensitiveDataFilter"]

REDACTED = "[REDACTED]"
Mask = Callable[[str], str]
"""What a text becomes; it sees every text of a span, keys and long numbers included."""

_SENSITIVE = (
    "password",
    "passwd",
    "secret",
    "token",
    "authorization",
    "apikey",
    "credential",
    "privatekey",
    "cookie",
    "bearer",
    "accesskey",
    "connectionstring",
)
_COUNTS = re.compile(r"tokens$|^max.*token|tokencount$")
"""Numbers of tokens are no secret."""
_SEPARATORS = re.compile(r"[^a-z0-9]")


class SensitiveDataFilter:
    """Takes out what stands under keys such as `password`, `token`, `authorization`, `api_key`.

    `keys` are more words, beside these; a key is sensitive when it holds one of the words, however
    it is written.
    """

    name = "sensitive-data-filter"

    def __init__(self, keys: Sequence[str] = ()) -> None:
        checked("SensitiveDataFilter", "keys", keys, "a list of texts", is_texts)
        self._words = (*_SENSITIVE, *(_bare(key) for key in keys))
        self._known: dict[str, bool] = {}

    def __call__(self, span: ExportedSpan) -> ExportedSpan:
        """The span without them."""
        return replace(
            span,
            input=self._value(span.input),
            output=self._value(span.output),
            attributes=self._value(span.attributes),
            metadata=self._value(span.metadata),
            request_context=self._value(span.request_context),
        )

    def _value(self, value: Any) -> Any:
        if isinstance(value, dict):
            entries = cast("dict[str, Any]", value).items()
            return {k: REDACTED if self._is_sensitive(k, v) else self._value(v) for k, v in entries}
        if isinstance(value, list):
            return [self._value(entry) for entry in cast("list[Any]", value)]
        return value

    def _is_sensitive(self, key: str, value: Any) -> bool:
        if value is None or isinstance(value, bool):
            return False
        found = self._known.get(key)
        if found is None:
            bare = _bare(key)
            found = any(word in bare for word in self._words) and not _COUNTS.search(bare)
            if len(self._known) < 10_000:
                self._known[key] = found
        return found


def _bare(key: str) -> str:
    return _SEPARATORS.sub("", key.lower())


class Cut(Struct, frozen=True, kw_only=True):
    """How much of a value leaves (O-054): characters of a text, depth, entries of a container."""

    text: int = 131_072
    depth: int = 8
    entries: int = 50

    @classmethod
    def of(cls, options: Mapping[str, Any] | None) -> Cut:
        """From `serialization_options`, checked."""
        names = {"max_string_length": "text", "max_depth": "depth"}
        found: dict[str, int] = {}
        for name, value in (options or {}).items():
            if name in names:
                found[names[name]] = count("Tracing", name, value, least=1)
            elif name in ("max_array_length", "max_object_keys", "max_entries"):
                found["entries"] = count("Tracing", name, value, least=1)
            else:
                raise OptionError(
                    f"Tracing: serialization_options has no option {name!r}; there are "
                    f"max_string_length, max_depth, max_entries"
                )
        return cls(**found)

    def value(self, value: Any, depth: int = 0) -> Any:
        """JSON data, no larger than allowed."""
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, bytes | bytearray | memoryview):
            size = len(cast("bytes", value))
            return f"[{size} bytes]"
        if isinstance(value, Mapping):
            return self._entries(cast("Mapping[Any, Any]", value), depth)
        if isinstance(value, list | tuple | set | frozenset):
            entries: list[Any] = [*cast("Any", value)]
            return self._items(entries, depth)
        return self._other(value, depth)

    def _text(self, value: str) -> str:
        if not value.isascii() or "\0" in value:  # a shorter way for most
            value = clean_text(value)
        if len(value) <= self.text:
            return value
        return f"{value[: self.text]}…[{len(value) - self.text} more characters]"

    def _entries(self, value: Mapping[Any, Any], depth: int) -> Any:
        if depth >= self.depth:
            return f"[{len(value)} entries]"
        items = list(value.items())
        made = {self._text(str(k)): self.value(v, depth + 1) for k, v in items[: self.entries]}
        if len(items) > self.entries:
            made["…"] = f"[{len(items) - self.entries} more entries]"
        return made

    def _items(self, value: list[Any], depth: int) -> Any:
        if depth >= self.depth:
            return f"[{len(value)} entries]"
        made = [self.value(entry, depth + 1) for entry in value[: self.entries]]
        if len(value) > self.entries:
            made.append(f"[{len(value) - self.entries} more entries]")
        return made

    def _other(self, value: Any, depth: int) -> Any:
        """What knows its JSON form is told in it; of anything else only what it is."""
        if isinstance(value, datetime):
            return value.isoformat()
        if hasattr(value, "to_json") or hasattr(value, "model_dump") or isinstance(value, Struct):
            try:
                return self.value(plain(value), depth)
            except (InputError, ValueError, TypeError):
                pass
        return f"[{type(value).__name__}]"


_LONG = 100_000
"""Numbers from here on may be somebody's."""


class Outgoing:
    """A mask over all texts of a span; one that fails takes the whole content out."""

    __slots__ = ("_mask", "masked")

    def __init__(self, mask: Mask | None) -> None:
        self._mask = mask
        self.masked = 0
        """How many texts have been changed."""

    def masked_span(self, span: ExportedSpan) -> ExportedSpan:
        """The span as it may leave."""
        if self._mask is None:
            return span
        try:
            return replace(
                span,
                name=self._value(span.name),
                entity_id=self._value(span.entity_id),
                entity_name=self._value(span.entity_name),
                input=self._value(span.input),
                output=self._value(span.output),
                attributes=self._value(span.attributes),
                metadata=self._value(span.metadata),
                request_context=self._value(span.request_context),
                tags=self._value(span.tags),
                error_info=self._value(span.error_info),
            )
        except Exception:
            return replace(
                span,
                name=span.type,
                entity_id=None,
                entity_name=None,
                input=None,
                output=None,
                attributes={"mask": "failed"},
                metadata=None,
                request_context=None,
                tags=None,
                error_info=None,
            )

    def value(self, value: Any) -> Any:
        """A value with all its texts masked; one whose mask fails is left out."""
        try:
            return self._value(value)
        except Exception:
            return REDACTED if isinstance(value, str) else {}

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            assert self._mask is not None
            made: Any = self._mask(value)
            if not isinstance(made, str):
                raise TypeError
            self.masked += made != value
            return made
        if isinstance(value, dict):
            return {
                self._value(k): self._value(v) for k, v in cast("dict[str, Any]", value).items()
            }
        if isinstance(value, list | tuple):
            return [self._value(entry) for entry in cast("list[Any]", value)]
        if isinstance(value, int | float) and abs(value) >= _LONG:
            made = self._value(str(value))
            return value if made == str(value) else made
        return value
