"""The form of an agent's notes: a text by a template, or an object by a schema (M-120, M-123)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

from ..errors import ConfigurationError, InputError, OptionError
from ..records import clean_json, clean_text
from ..schema import json_validator, problem_lines
from ..structured.forms import form_of

__all__ = ["DEFAULT_TEMPLATE", "NoteForm", "ObjectNotes", "TextNotes", "note_form"]

DEFAULT_TEMPLATE = """\
# About the user

- Name:
- Lives in:
- Work:
- Likes:
- Dislikes:
- Goals:
- Dates that matter:
- Open questions:
"""


class NoteForm(Protocol):
    """How notes are shown to a model, and how it writes them.

    `argument` is the JSON Schema of what it writes, `asks` says so in words, `outline` is what
    there is to be filled in.
    """

    argument: Mapping[str, Any]
    asks: str
    outline: str

    def changed(self, before: str | None, given: Any) -> str:
        """The notes after `given` was written; raises `InputError` for what does not fit."""
        ...


class TextNotes:
    """A text, usually Markdown, that is written anew each time."""

    argument: Mapping[str, Any] = {
        "type": "string",
        "description": "The whole text of the notes, which takes the place of the present one.",
    }
    asks = (
        "Write the whole text: what you leave out is forgotten. Keep to the outline, and add to it "
        "what does not fit anywhere."
    )

    def __init__(self, template: str) -> None:
        self.outline = template

    def changed(self, before: str | None, given: Any) -> str:
        """`given` in place of all there was."""
        if not isinstance(given, str):
            raise InputError(f"memory must be a text, not {type(given).__name__}")
        return clean_text(given)


class ObjectNotes:
    """An object: what is written is merged into what there is.

    Objects are merged key by key, lists are replaced, `null` takes a key away and what is left out
    stays. Values are checked against the schema; a key that is required may still be missing, for
    an agent learns one thing at a time.
    """

    asks = (
        "Write only what changes: keys that you leave out stay as they are, a list takes the place "
        "of the present one, and null removes a key."
    )

    def __init__(self, schema: Any) -> None:
        form = form_of(schema)
        if form.json_schema is None or form.wrapper is not None:
            raise ConfigurationError("the schema of working memory must describe an object")
        kept = _loose(form.json_schema, nullable=False)
        self.outline = json.dumps(form.json_schema, ensure_ascii=False)
        self.argument: Mapping[str, Any] = _loose(form.json_schema, nullable=True)
        self._problems = json_validator("working_memory", kept)

    def changed(self, before: str | None, given: Any) -> str:
        """`given` merged into what there was."""
        written = clean_json(given)
        if not isinstance(written, dict):
            raise InputError(f"memory must be an object, not {type(given).__name__}")
        merged = _merged(_object(before), cast("dict[str, Any]", written))
        problems = self._problems(merged)
        if problems:
            raise InputError(f"memory does not fit its schema. {problem_lines(problems, 'memory')}")
        return json.dumps(merged, ensure_ascii=False)


def note_form(owner: str, template: str | None, schema: Any) -> NoteForm:
    """The form that options ask for; raises `OptionError` for both, or for a bad schema (M-124)."""
    if schema is None:
        return TextNotes(template or DEFAULT_TEMPLATE)
    if template is not None:
        raise OptionError(f"{owner}: working_memory takes a template or a schema, not both")
    try:
        return ObjectNotes(schema)
    except ConfigurationError as error:
        raise OptionError(f"{owner}: working_memory: {error}") from None


def _object(before: str | None) -> dict[str, Any]:
    """What is stored, as an object; a text from before there was a schema is kept as a note."""
    if not before:
        return {}
    try:
        found: Any = json.loads(before)
    except ValueError:
        found = None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _merged(before: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(before)
    for key, value in given.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            known = merged.get(key)
            inner = cast("dict[str, Any]", known) if isinstance(known, dict) else {}
            merged[key] = _merged(inner, cast("dict[str, Any]", value))
        else:
            merged[key] = value
    return merged


_MAPS = ("properties", "$defs", "definitions", "patternProperties")
_LISTS = ("anyOf", "oneOf", "allOf")


def _loose(schema: Mapping[str, Any], *, nullable: bool) -> dict[str, Any]:
    """The schema with nothing required; with `nullable` each property may be null as well."""

    def around(value: Any) -> Any:
        return {"anyOf": [value, {"type": "null"}]} if nullable else value

    return _walked(schema, around)


def _walked(schema: Any, around: Callable[[Any], Any]) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    found = {k: v for k, v in cast("Mapping[str, Any]", schema).items() if k != "required"}
    for name in _MAPS:
        if isinstance(found.get(name), Mapping):
            inner = {key: _walked(value, around) for key, value in found[name].items()}
            if name == "properties":
                inner = {key: around(value) for key, value in inner.items()}
            found[name] = inner
    for name in _LISTS:
        if isinstance(found.get(name), list):
            found[name] = [_walked(value, around) for value in found[name]]
    return found
