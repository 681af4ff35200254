"""Two texts compared: what is told is true, and what is withheld is not told."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from procession.recording.differences import Difference, difference, with_the_rest_withheld

TEXTS = st.lists(st.sampled_from(["a", "bb", "ccc", "d,", "e"]), max_size=25).map(" ".join)


def side(found: Difference, marks: str) -> str:
    return "".join(str(text) for mark, text in found if str(mark) in marks)


def size(found: Difference, marks: str) -> int:
    texts = [text for mark, text in found if str(mark) in marks]
    return sum(text if isinstance(text, int) else len(text) for text in texts)


@given(TEXTS, TEXTS)
def test_a_difference_holds_both_texts(before: str, after: str) -> None:
    found = difference(before, after)
    assert side(found, "=-") == before
    assert side(found, "=+") == after


@given(TEXTS, TEXTS, st.lists(TEXTS, max_size=3))
def test_what_is_told_was_let_through_and_nothing_is_lost(
    before: str, after: str, let_through: list[str]
) -> None:
    found = with_the_rest_withheld(before, after, let_through)
    assert size(found, "=+.") == len(after)
    told = [word for mark, text in found if str(mark) in "=+" for word in str(text).split()]
    assert any(set(told) <= set(text.split()) for text in [*let_through, ""]) or not told
    assert all(isinstance(text, int) for mark, text in found if str(mark) in "-.")
    if after in let_through:
        assert "." not in [mark for mark, _ in found]


def test_what_has_stayed_is_abridged_and_long_changes_are_told_as_a_whole() -> None:
    words = [f"w{number}" for number in range(5_000)]
    before, after = " ".join(words), " ".join(reversed(words))
    found = difference(f"{'same ' * 100}{before}", f"{'same ' * 100}{after}")
    assert [mark for mark, _ in found] == ["=", "-", "+"]
    assert len(str(found[0][1])) == 161


def test_a_text_that_is_new_or_gone() -> None:
    assert difference(None, "hello you") == [["+", "hello you"]]
    assert difference("hello you", None) == [["-", "hello you"]]
    assert with_the_rest_withheld("hello you", None, ["hello"]) == [["-", 9]]
    assert difference(None, None) == []
