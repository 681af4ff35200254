"""The head of a SKILL.md: what of YAML is read, and what is said of the rest."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procession import InputError
from procession.processors.workspace.front_matter import front_matter


def description(lines: str) -> str | None:
    return front_matter(f"---\n{lines}\n---\n")[0].get("description")


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ("description: Fill in forms", "Fill in forms"),
        ("description:   Fill in: forms  # a comment", "Fill in: forms"),
        ("description: about C# and #5", "about C# and"),
        ("description: Fill in\n  long forms\n  twice", "Fill in long forms twice"),
        ("description:\n  Fill in", "Fill in"),
        ('description: "Fill \\"in\\"\\n\\u00e4"  # so', 'Fill "in"\nä'),
        ("description: 'It''s: # good'", "It's: # good"),
        ("description: |\n  one\n    two\n\n  three", "one\n  two\n\nthree"),
        ("description: >-\n  one\n  two\n\n  three", "one two\n\nthree"),
        ("description: 填写表格", "填写表格"),
        ("description: https://example.com/x", "https://example.com/x"),
        ("# a comment\ndescription: a\ndescription: b", "a"),
        ("metadata:\n  author: acme\n  description: no\ndescription: yes", "yes"),
        ("allowed-tools:\n- one\n- two\ndescription: a", "a"),
        ("description:\n  - one", None),
        ("description: [one, two]", None),
        ("description: {a: b}", None),
        ("description:", ""),
        ("name: x", None),
    ],
)
def test_texts(lines: str, text: str | None) -> None:
    assert description(lines) == text


def test_what_comes_after_it() -> None:
    head, body = front_matter("---\r\nname: a\r\n---  \r\n\r\n# Do\r\n---\r\nmore\r\n")
    assert head == {"name": "a"}
    assert body == "# Do\n---\nmore"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "does not begin"),
        ("# Title\n---\n---\n", "does not begin"),
        ("---\nname: secret", "does not begin"),
        ("---\nname: a\nsecret words\n---\n", "line 3 "),
        ("---\nname: 'secret\n---\n", "does not end"),
        ('---\nname: "secret" and more\n---\n', "does not end"),
        ('---\nname: "secret\\q"\n---\n', "unknown escape"),
    ],
)
def test_what_cannot_be_read(text: str, said: str) -> None:
    """No word of the text is in the error."""
    with pytest.raises(InputError, match=said) as raised:
        front_matter(text)
    assert "secret" not in str(raised.value)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0\x7f"), max_size=60))
def test_a_quoted_text_comes_back(text: str) -> None:
    assert description(f"description: {json.dumps(text)}") == text


@given(st.text(alphabet="-:# \n'\"|>[{ab\\\t", max_size=80))
def test_nothing_but_an_input_error(text: str) -> None:
    for whole in (text, f"---\n{text}\n---\n"):
        try:
            front_matter(whole)
        except InputError:
            pass
