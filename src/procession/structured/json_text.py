"""The value of a JSON text as models write it: in a code fence, perhaps, with words around it."""

from __future__ import annotations

import json
import re
from math import isinf
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import InputError
from ..records import clean_json

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FENCE", "decoded", "read_json", "unwrapped"]

FENCE = "```"
MOST_FENCES = 16
_INFO = re.compile(r"[\w+.-]*\s*")


def unwrapped(value: Any, wrapper: str | None) -> Any:
    """What stands under the key `wrapper`; a value that was not wrapped is taken as it is."""
    if wrapper is not None and value.__class__ is dict and wrapper in value:
        return value[wrapper]
    return value


def read_json(text: str) -> Any:
    """The value of a complete JSON text, which may stand in a code fence.

    Raises `InputError`, whose text repeats nothing of the text.
    """
    try:
        return decoded(text.strip())
    except InputError:
        fenced = _fenced(text)
        if fenced is None:
            raise
        return fenced[0]


def _fenced(text: str) -> tuple[Any] | None:
    """The first value behind the beginning of a fence."""
    at = -1
    for _ in range(MOST_FENCES):
        at = text.find(FENCE, at + 1)
        if at < 0:
            break
        info = _INFO.match(text, at + len(FENCE))
        begin = info.end() if info else at
        try:
            return (_checked(lambda begin=begin: _DECODER.raw_decode(text, begin)[0]),)
        except InputError:
            continue
    return None


def decoded(text: str) -> Any:
    """The value of a text that is JSON and nothing else; raises `InputError`."""
    return _checked(lambda: _DECODER.decode(text))


def _checked(decode: Callable[[], Any]) -> Any:
    try:
        return clean_json(decode())
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"not valid JSON: {error.msg} ({place})") from None
    except RecursionError:
        raise InputError("not valid JSON: nested too deeply") from None
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError("not valid JSON: a number is out of range") from None


def _no_number(_word: str) -> NoReturn:
    raise InputError("not valid JSON: NaN and Infinity are no numbers there")


def _finite(word: str) -> float:
    number = float(word)
    if isinf(number):
        raise InputError("not valid JSON: a number is out of range")
    return number


_DECODER = json.JSONDecoder(strict=False, parse_constant=_no_number, parse_float=_finite)
"""Line breaks within texts are taken: models write them."""
