"""Finding tools by their words: B-321."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procession import Tool
from procession.processors.tools.tool_index import ToolIndex
from procession.processors.tools.tool_words import compact, words_of


def library(**descriptions: str) -> dict[str, Tool]:
    return {name: Tool(name=name, description=text) for name, text in descriptions.items()}


LIBRARY = library(
    create_issue="Create a GitHub issue in a repository",
    send_email="Send an email message to a recipient",
    get_forecast="Get the weather forecast for a city",
    listHTTPRequests="Requests of the last hour",
    meteo="Météo d\u2019une ville",
    chaxun="查询城市的天气预报",
    nalssi="도시의 날씨를 알려줍니다",
    tenki="都市の天気予報を取得する",
    taqs="عرض الطقس في مدينة",
    mausam="शहर का मौसम बताएं",
    akat="พยากรณ์อากาศของเมือง",
    teploe="Прогноз погоды в городе",
)
LIBRARY["billing.invoices.list"] = Tool(name="billing.invoices.list", description="All of a year")


def found(query: str, tools: dict[str, Tool] = LIBRARY) -> list[str]:
    return [name for name, _ in ToolIndex(tools).ranked(query)]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("email message recipient", "send_email"),
        ("sendEmail", "send_email"),
        ("SEND-EMAIL", "send_email"),
        ("mail", "send_email"),
        ("issues", "create_issue"),
        ("github", "create_issue"),
        ("git hub", "create_issue"),
        ("repositories", "create_issue"),
        ("getforecast", "get_forecast"),
        ("http", "listHTTPRequests"),
        ("list requests", "listHTTPRequests"),
        ("invoice", "billing.invoices.list"),
        ("Billing", "billing.invoices.list"),
        ("METEO", "meteo"),
        ("me\u0301te\u0301o", "meteo"),
        ("天气", "chaxun"),
        ("请问明天的天气怎么样", "chaxun"),
        ("天気を教えて", "tenki"),
        ("날씨", "nalssi"),
        ("오늘 날씨가 어때?", "nalssi"),
        ("طقس", "taqs"),
        ("الطَّقْس", "taqs"),
        ("मौसम", "mausam"),
        ("อากาศ", "akat"),
        ("погода в городе", "teploe"),
        ("ＥＭＡＩＬ", "send_email"),  # noqa: RUF001 - full width is what is tested
    ],
)
def test_a_query_finds_the_tool(query: str, name: str) -> None:
    """B-321: names in any style, words in any form and script."""
    assert found(query)[0] == name


def test_one_character_of_chinese_is_a_word() -> None:
    assert found("雨", library(umbrella="雨伞", sun="太阳")) == ["umbrella"]


@pytest.mark.parametrize("query", ["", "   ", "!?", "zebra", "\ud800", "🦄"])
def test_what_fits_nothing_finds_nothing(query: str) -> None:
    """B-321."""
    assert found(query) == []
    assert ToolIndex({}).ranked(query) == []


def test_words_that_say_nothing_count_only_alone() -> None:
    tools = library(use="Does something", other="Use of the thing for a mail")
    assert found("please use the mail", tools) == ["other"]
    assert found("use", tools) == ["use", "other"]


def test_words_in_common_with_all_do_not_hide_the_right_one() -> None:
    tools = library(read_mail="Read a mail", send_mail="Send a mail", delete_mail="Delete a mail")
    assert found("send a mail", tools)[0] == "send_mail"
    assert sorted(found("mail", tools)) == sorted(tools)


def test_a_name_counts_more_than_a_description() -> None:
    """B-321: a bonus for hits in the name, and the name itself comes first."""
    tools = library(notes="Search notes, a search of the search kind", search="Look for something")
    assert found("search", tools) == ["search", "notes"]
    tools = library(search_all="Search", search="Look it up in the index of everything there is")
    assert found("search", tools)[0] == "search"


def test_equal_scores_keep_the_order_of_the_tools() -> None:
    tools = library(b="mail", a="mail", c="mail")
    assert found("mail", tools) == ["b", "a", "c"]


def test_words() -> None:
    assert words_of("getHTTPPage2 snake_case dotted.name") == [
        *("gethttppage2", "get", "http", "page", "2"),
        *("snake", "case", "dotted", "name"),
    ]
    assert words_of("AI助手 날씨를") == ["ai", "助手", "날씨", "씨를"]
    assert words_of("ÉCOLE straße ﬁx") == ["ecole", "strasse", "fix"]
    assert compact("send_Email.v2") == compact("sendEmailV2")


@given(
    st.text(max_size=60), st.dictionaries(st.text(min_size=1, max_size=12), st.text(max_size=40))
)
def test_any_text_can_be_looked_for(query: str, texts: dict[str, str]) -> None:
    """B-321: each name once, best first, all scores above 0."""
    tools: dict[str, Any] = {name: Tool(name="t", description=text) for name, text in texts.items()}
    ranked = ToolIndex(tools).ranked(query)
    scores = [score for _, score in ranked]
    assert scores == sorted(scores, reverse=True)
    assert all(score > 0 for score in scores)
    assert len({name for name, _ in ranked}) == len(ranked)


@given(st.text(max_size=30))
def test_each_word_of_a_description_finds_it(text: str) -> None:
    """B-321: also in upper case, where that is the same word."""
    tools = library(one=text, two="something else")
    for word in words_of(text):
        assert "one" in found(word, tools)
        assert words_of(word.upper()) != [word] or "one" in found(word.upper(), tools)


def test_only_so_much_is_looked_at() -> None:
    """B-321: of a query 1,000 characters and 32 words, of a description 10,000 characters."""
    assert found("z " * 500 + "email") == []
    assert found(" ".join(f"x{n}" for n in range(31)) + " email") == ["send_email"]
    assert found(" ".join(f"x{n}" for n in range(32)) + " email") == []
    assert found("end", library(one="y" * 9_990 + " end")) == ["one"]
    assert found("end", library(one="y" * 10_000 + " end")) == []


def test_long_queries_and_texts_cost_little() -> None:
    """B-321: a model may write what it likes; all of it looked at would take minutes."""
    tools = library(**{f"tool_{n}": f"does thing {n} with item{n}" for n in range(500)})
    tools["long"] = Tool(name="long", description="x" * 1_000_000)
    index = ToolIndex(tools)
    words = " ".join(f"itemx{n}" for n in range(500_000))
    assert [bool(index.ranked(query)) for query in ("a" * 1_000_000, words, "天" * 1_000_000)] == [
        False,
        True,
        False,
    ]
