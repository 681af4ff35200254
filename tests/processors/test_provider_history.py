"""ProviderHistoryCompat: what one provider has left, fit for another."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procession import (
    Agent,
    APICallError,
    InputError,
    Message,
    MessageList,
    ModelRequest,
    ProcessLLMRequestArgs,
    tool,
)
from procession.models.anthropic_prompt import message_body
from procession.models.chat_prompt import chat_body
from procession.models.responses_prompt import responses_body
from procession.processors import (
    HistoryRule,
    PrefillErrorHandler,
    ProviderHistoryCompat,
    RulePrompt,
)
from procession.processors.history.history_repairs import REPAIRS, mend_call_ids
from procession.processors.history.prompt_rules import PROMPT_RULES
from procession.testing import ScriptedModel, answer, collect, hook_args, tool_call

USER = {"role": "user", "content": [{"type": "text", "text": "q"}]}
PLAIN = {"type": "reasoning", "text": "plain"}
SIGNED = {"anthropic": {"signature": "s", "signedText": "x"}}
OWN = {"type": "reasoning", "text": "own", "providerOptions": SIGNED}
HIDDEN = {
    "type": "reasoning",
    "text": "",
    "providerOptions": {"anthropic": {"redactedData": "d"}},
}
GEMINIS = {
    "type": "reasoning",
    "text": "gemini",
    "providerOptions": {"google": {"thoughtSignature": "g"}},
}
UNSIGNED = {
    "type": "reasoning",
    "text": "own?",
    "providerOptions": {"anthropic": {"signature": ""}},
}
EMPTIED = {
    "type": "reasoning",
    "text": " ",
    "providerOptions": {"anthropic": {"signature": "s"}},
}
OMITTED = {"type": "reasoning", "text": "", "providerOptions": SIGNED}
TEXT = {"type": "text", "text": "a"}


def model_of(provider: str, *answers: Any) -> ScriptedModel:
    return ScriptedModel(answers or ["ok"], provider=provider, model_id="example-1")


def said(*parts: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(parts)}


def sent(provider: str, *entries: Any, rules: Any = (), messages: Any = None) -> list[Any]:
    """The prompt as the processor leaves it for a provider."""
    args = hook_args(ProcessLLMRequestArgs, model=model_of(provider), message_list=messages)
    args.prompt = deepcopy(list(entries))
    result = ProviderHistoryCompat(additional_rules=rules).process_llm_request(args)
    return args.prompt if result is None else result.prompt  # type: ignore[return-value]


def parts_of(prompt: list[Any]) -> list[Any]:
    return [part for entry in prompt if entry["role"] == "assistant" for part in entry["content"]]


def asks(prompt: list[Any]) -> ModelRequest:
    return ModelRequest(prompt=prompt, settings={})


# ── thoughts ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("provider", ["cerebras", "Cerebras.chat"])
def test_b443_cerebras_takes_no_thoughts(provider: str) -> None:
    """B-443 cerebras-strip-reasoning-content: none is left, and no empty message."""
    prompt = sent(provider, USER, said(PLAIN, OWN, TEXT), USER, said(PLAIN), USER)
    assert prompt == [USER, said(TEXT), USER, USER]
    body, _ = chat_body("m", "cerebras", asks(prompt))
    assert "plain" not in str(body)


def test_b443_others_keep_them() -> None:
    """B-443: for a provider without rules nothing is returned at all."""
    args = hook_args(ProcessLLMRequestArgs, model=model_of("mock"))
    args.prompt = [USER, said(PLAIN, TEXT), USER]
    assert ProviderHistoryCompat().process_llm_request(args) is None


def test_b443_anthropic_takes_only_its_own_thoughts() -> None:
    """B-443 anthropic-strip-foreign-…: plain ones, another one's, unsigned ones go."""
    prompt = sent("anthropic", USER, said(PLAIN, GEMINIS, UNSIGNED, OWN, HIDDEN, TEXT), USER)
    assert parts_of(prompt) == [OWN, HIDDEN, TEXT]
    assert parts_of(sent("google", USER, said(PLAIN, GEMINIS, OWN, TEXT), USER)) == [
        *(PLAIN, GEMINIS, OWN, TEXT)
    ]


def test_b443_the_anthropic_adapter_has_nothing_left_to_leave_out() -> None:
    """B-443: before the rule it warns of thoughts it does not send, after it no more."""
    conversation = [USER, said(PLAIN, GEMINIS, TEXT), USER]
    _, warnings = message_body("m", "anthropic", asks(conversation))
    assert "thoughts" in str(warnings)
    body, warnings = message_body("m", "anthropic", asks(sent("anthropic", *conversation)))
    assert warnings == []
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]


def test_b443_thoughts_that_have_lost_their_text() -> None:
    """B-443: in earlier turns; those that came without a text stay, and the turn under way does."""
    prompt = sent("anthropic", USER, said(EMPTIED, OMITTED, TEXT), USER, said(EMPTIED, TEXT))
    assert [entry["content"] for entry in prompt if entry["role"] == "assistant"] == [
        [OMITTED, TEXT],
        [EMPTIED, TEXT],
    ]


# ── reminders ──────────────────────────────────────────────────────────────────────────────────


async def test_b443_azure_gets_reminders_by_another_name() -> None:
    """B-443 azure-system-reminder-transform: a real signal, sent and stored as ever."""

    class Remind:
        id = "remind"

        async def process_input_step(self, args: Any) -> None:
            await args.send_signal(
                {"type": "reactive", "contents": "a < b", "attributes": {"why": "x>y"}}
            )

    model = model_of("azure")
    agent = Agent(id="a", model=model, input_processors=[Remind(), ProviderHistoryCompat()])
    run = await agent.stream("what is a <system-reminder>?")
    await collect(run)
    first, last = model.calls[0].text.split("\n")
    assert first == "what is a <system-reminder>?"
    assert last == '<reminder why="x&gt;y">a &lt; b</reminder>'
    [signal] = [m for m in run.message_list.get.all.db() if m.role == "signal"]
    assert signal.type == "system-reminder"


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("<system-reminder>x\ny</system-reminder>", "<reminder>x\ny</reminder>"),
        ("<system-reminder />", "<reminder />"),
        ('<system-reminder a="1" />', '<reminder a="1" />'),
        ("<system-reminder-of-mine>x</system-reminder-of-mine>", None),
        ("see <system-reminder>x</system-reminder>", None),
    ],
)
def test_b443_only_whole_reminders_are_renamed(text: str, made: str | None) -> None:
    """B-443: a user may talk about them; other providers get them as they are."""
    entry = {"role": "user", "content": [{"type": "text", "text": text}]}
    assert sent("azure-openai", entry)[0]["content"][0]["text"] == (made or text)
    assert sent("openai", entry) == [entry]


# ── tools of providers ─────────────────────────────────────────────────────────────────────────


def executed(id: str, **options: Any) -> list[dict[str, Any]]:
    """A call that a provider has executed, and its result, as they stand in a prompt."""
    more: dict[str, Any] = {"providerOptions": options} if options else {}
    named = {"toolCallId": id, "toolName": "web_search"}
    output = {"type": "json", "value": {"found": 1}}
    return [
        {"type": "tool-call", **named, "input": {}, "providerExecuted": True, **more},
        {"type": "tool-result", **named, "output": output, **more},
    ]


OPENAIS = executed("ws_1", openai={"itemId": "ws_1"})
ANTHROPICS = executed("srvtoolu_1")
NOBODYS = executed("x")


def test_b443_tools_that_another_provider_has_executed() -> None:
    """B-443: call and result go together; the target's own stay, and those of nobody known."""
    conversation = [USER, said(*OPENAIS, *ANTHROPICS, *NOBODYS, TEXT), USER]
    assert parts_of(sent("openai", *conversation)) == [*OPENAIS, *NOBODYS, TEXT]
    assert parts_of(sent("azure", *conversation)) == [*OPENAIS, *NOBODYS, TEXT]
    assert parts_of(sent("anthropic", *conversation)) == [*ANTHROPICS, *NOBODYS, TEXT]
    assert sent("google", USER, said(*OPENAIS), USER) == [USER, USER]


def test_b443_the_message_tells_who_has_executed_a_tool() -> None:
    """B-443, R-305: where the part says nothing, the label of its message does."""
    call = {"toolCallId": "c", "toolName": "search", "state": "result", "args": {}, "result": 1}
    parts = [{"type": "tool-invocation", "toolInvocation": call, "providerExecuted": True}]
    content = {"format": 2, "parts": parts, "metadata": {"provider": "openai"}}
    messages = MessageList().add({"id": "m", "role": "assistant", "content": content}, "memory")
    prompt = messages.provider_prompt()
    assert parts_of(sent("anthropic", *prompt, messages=messages)) == []
    assert len(parts_of(sent("openai", *prompt, messages=messages))) == 2


def test_b443_the_adapters_send_no_half_of_a_foreign_tool() -> None:
    """B-443: none of ours names the call of another provider after the rule."""
    conversation = [USER, said(*OPENAIS, TEXT), USER]
    body, _ = message_body("m", "anthropic", asks(sent("anthropic", *conversation)))
    assert "ws_1" not in str(body)
    body, _ = chat_body("m", "mistral", asks(sent("mistral", *conversation)))
    assert "ws_1" not in str(body)
    conversation = [USER, said(*ANTHROPICS, TEXT), USER]
    body, _ = responses_body("m", "openai", asks(sent("openai", *conversation)))
    assert "srvtoolu_1" not in str(body)


# ── the law ────────────────────────────────────────────────────────────────────────────────────


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Turns with thoughts, texts, calls with results, calls that a provider has executed."""
    prompt: list[dict[str, Any]] = []
    for turn in range(draw(st.integers(1, 4))):
        prompt.append(deepcopy(USER))
        parts: list[Any] = []
        results: list[Any] = []
        for place in range(draw(st.integers(0, 5))):
            id = f"c{turn}.{place}"
            kind = draw(st.sampled_from(["said", "call", "executed"]))
            if kind == "said":
                parts.append(draw(st.sampled_from([PLAIN, OWN, GEMINIS, EMPTIED, OMITTED, TEXT])))
            elif kind == "call":
                named = {"toolCallId": id, "toolName": "t"}
                parts.append({"type": "tool-call", **named, "input": {}})
                results.append(
                    {"type": "tool-result", **named, "output": {"type": "text", "value": "x"}}
                )
            else:
                by = draw(st.sampled_from(["openai", "anthropic", "google", ""]))
                parts += executed(id, **({by: {"id": id}} if by else {}))
        if parts:
            prompt.append(said(*parts))
        if results:
            prompt.append({"role": "tool", "content": results})
    return prompt


PROVIDERS = st.sampled_from(["anthropic", "cerebras", "azure", "openai", "google", "mock"])


@given(conversations(), PROVIDERS)
def test_b443_no_rule_takes_a_call_from_its_result(prompt: list[Any], provider: str) -> None:
    """B-443: every call has its result and every result its call, no message is empty, and what is
    kept is in order; applied twice, the rules do what they do once.
    """
    made = sent(provider, *prompt)
    parts = [p for entry in made if entry["role"] != "user" for p in entry["content"]]
    calls = [p["toolCallId"] for p in parts if p["type"] == "tool-call"]
    results = [p["toolCallId"] for p in parts if p["type"] == "tool-result"]
    assert sorted(calls) == sorted(results)
    assert all(entry["content"] for entry in made)
    before = iter([p for entry in prompt for p in entry["content"]])
    kept = [p for entry in made for p in entry["content"]]
    assert all(part in before for part in kept)
    assert sent(provider, *made) == made


# ── repairs ────────────────────────────────────────────────────────────────────────────────────

BAD_ID = (
    "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
    "messages.2.content.0.tool_result.tool_use_id: String should match pattern '^[a-zA-Z0-9_-]+$'",
)
ORPHAN = (
    "Item 'msg_1' of type 'message' was provided without its required 'reasoning' item: 'rs_1'."
)


def refused(message: str, **more: Any) -> APICallError:
    return APICallError(message, **{"status_code": 400, **more})


def called(*ids: str) -> dict[str, Any]:
    """A stored answer with calls of these ids."""
    parts = [
        {
            "type": "tool-invocation",
            "toolInvocation": {
                "toolCallId": id,
                "toolName": "look",
                "state": "result",
                "args": {},
                "result": id,
            },
        }
        for id in ids
    ]
    return {"id": "m1", "role": "assistant", "content": {"format": 2, "parts": parts}}


def compat(model: ScriptedModel, **options: Any) -> Agent:
    both = ProviderHistoryCompat(**options)
    return Agent(id="a", model=model, input_processors=[both], error_processors=[both])


def ids_in(prompt: list[Any]) -> tuple[list[str], list[str]]:
    parts = [
        p for entry in prompt if entry["role"] in ("assistant", "tool") for p in entry["content"]
    ]
    return (
        [p["toolCallId"] for p in parts if p["type"] == "tool-call"],
        [p["toolCallId"] for p in parts if p["type"] == "tool-result"],
    )


@pytest.mark.parametrize("message", BAD_ID)
async def test_b443_ids_that_anthropic_refuses(message: str) -> None:
    """B-443 anthropic-tool-id-format: the same in call and result, and never two alike."""
    model = model_of("anthropic", refused(message), "ok")
    given_message = called("a:1", "a.1", "a_1", "b-2", "ü")
    talk = ["q", given_message, "go on"]
    result = await compat(model).generate(deepcopy(talk))
    assert result.text == "ok"
    calls, results = ids_in(model.calls[1].prompt)
    assert calls == results == ["a_1_2", "a_1_3", "a_1", "b-2", "_"]
    body, _ = message_body("m", "anthropic", asks(model.calls[1].prompt))
    blocks = [block for entry in body["messages"] for block in entry["content"]]
    assert [b["id"] for b in blocks if b["type"] == "tool_use"] == calls
    assert [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"] == calls


async def test_b443_calls_of_this_very_run_are_repaired_too() -> None:
    """B-443, R-114: what the failed attempt leaves behind does not undo the repair."""

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    first = answer(tool_calls=[tool_call("look", id="a:1")])
    model = model_of("anthropic", first, refused(BAD_ID[0]), "ok")
    both = ProviderHistoryCompat()
    agent = Agent(id="a", model=model, tools=[look], error_processors=[both])
    result = await agent.generate("q")
    assert result.text == "ok"
    assert ids_in(model.calls[2].prompt) == (["a_1"], ["a_1"])


async def test_b443_the_callers_own_messages_stay() -> None:
    """B-443: what is repaired is the run's copy."""
    message = Message.from_json(called("a:1"))
    model = model_of("anthropic", refused(BAD_ID[0]), "ok")
    await compat(model).generate([message, "go on"])
    assert message.content.parts[0].tool_invocation.tool_call_id == "a:1"
    assert ids_in(model.calls[1].prompt)[0] == ["a_1"]


async def test_b442_a_repair_of_remembered_messages_is_stored() -> None:
    """B-442, R-114: the next call does not fail for the same reason."""

    class Remember:
        id = "remember"

        def process_input(self, args: Any) -> None:
            args.message_list.add([called("a:1"), {**called("b"), "id": "m2"}], "memory")

    model = model_of("anthropic", refused(BAD_ID[0]), "ok")
    both = ProviderHistoryCompat()
    agent = Agent(id="a", model=model, input_processors=[Remember()], error_processors=[both])
    run = await agent.stream("q")
    await collect(run)
    assert run.status == "success"
    [stored] = run.message_list.stored_changes.replaced.values()
    assert (stored.id, stored.content.parts[0].tool_invocation.tool_call_id) == ("m1", "a_1")


@given(st.lists(st.text(alphabet="a_.:2é", max_size=4), max_size=8, unique=True))
def test_b443_ids_stay_apart(ids: list[str]) -> None:
    """B-443: as many ids as before, all of letters, digits, `_` and `-`; good ones unchanged."""
    message = Message.from_json(called(*ids))
    changed = mend_call_ids([message])
    made = [part.tool_invocation.tool_call_id for part in message.content.parts]
    assert len(set(made)) == len(ids)
    assert all(re.fullmatch("[A-Za-z0-9_-]+", id) for id in made)
    kept = [
        (old, new) for old, new in zip(ids, made, strict=True) if re.fullmatch(r"[\w-]+", old, re.A)
    ]
    assert all(old == new for old, new in kept)
    assert changed == (made != ids)
    assert not mend_call_ids([message])


def item(text: str, id: str, after: str = "") -> dict[str, Any]:
    own = {"itemId": id, **({"afterReasoning": after} if after else {})}
    return {"type": "text", "text": text, "providerMetadata": {"openai": own}}


def thought(id: str) -> dict[str, Any]:
    own = {"itemId": id, "reasoningEncryptedContent": "e"}
    metadata = {"openai": own}
    return {"type": "reasoning", "reasoning": "t", "details": [], "providerMetadata": metadata}


async def test_b443_items_without_their_reasoning() -> None:
    """B-443 openai-orphan-item-id: ids go where the thought is gone, and stay where it is."""
    steps = [
        *(item("one", "msg_1"), {"type": "step-start"}),
        *(thought("rs_2"), item("two", "msg_2"), {"type": "step-start"}),
        *(item("three", "msg_3", "rs_2"), item("four", "msg_4", "rs_9")),
    ]
    stored = {"id": "m", "role": "assistant", "content": {"format": 2, "parts": steps}}
    model = model_of("openai", refused(ORPHAN), "ok")
    assert (await compat(model).generate(["q", stored, "go on"])).text == "ok"
    texts = [p for p in parts_of(model.calls[1].prompt) if p["type"] == "text"]
    kept = {p["text"]: "providerOptions" in p for p in texts}
    assert kept == {"one": False, "two": True, "three": True, "four": False}
    body, _ = responses_body("m", "openai", asks(model.calls[1].prompt))
    assert re.findall("'id': '(.*?)'", str(body)) == ["rs_2", "msg_2"]


async def test_b442_an_error_in_the_response_body() -> None:
    """B-441: patterns are looked for there as well."""
    model = model_of("openai", refused("Bad Request", response_body=ORPHAN), "ok")
    stored = {
        "id": "m",
        "role": "assistant",
        "content": {"format": 2, "parts": [item("a", "msg_1")]},
    }
    assert (await compat(model).generate(["q", stored, "go on"])).text == "ok"


async def test_b442_no_retry_when_nothing_could_be_repaired() -> None:
    """B-442: the original error is final."""
    model = model_of("anthropic", refused(BAD_ID[0]), "never")
    with pytest.raises(APICallError):
        await compat(model).generate(["q", called("fine"), "go on"])
    assert len(model.calls) == 1


async def test_b442_repairs_are_for_the_first_failure() -> None:
    """B-442: with `retry_count` above 0 nothing is touched."""
    prefill = refused("This model does not support assistant message prefill.")
    model = model_of("anthropic", prefill, refused(BAD_ID[0]), "never")
    both = ProviderHistoryCompat()
    agent = Agent(id="a", model=model, error_processors=[PrefillErrorHandler(), both])
    with pytest.raises(APICallError, match="tool_use"):
        await agent.generate(["q", called("a:1"), "go on"])
    assert ids_in(model.calls[1].prompt)[0] == ["a:1"]


async def test_r116_nothing_is_repaired_when_no_retry_follows() -> None:
    """R-116: the messages stay as they are."""
    model = model_of("anthropic", refused(BAD_ID[0]), "never")
    run = await compat(model).stream(["q", called("a:1"), "go on"], max_processor_retries=0)
    await collect(run)
    [message] = [m for m in run.message_list.get.all.db() if m.id == "m1"]
    assert message.content.parts[0].tool_invocation.tool_call_id == "a:1"


async def test_b444_each_place_has_its_half() -> None:
    """B-440, B-444: in `error_processors` alone no prompt is rewritten."""
    model = model_of("cerebras")
    agent = Agent(id="a", model=model, error_processors=[ProviderHistoryCompat()])
    parts = [{"type": "reasoning", "reasoning": "t", "details": []}, TEXT]
    stored = {"id": "m", "role": "assistant", "content": {"format": 2, "parts": parts}}
    await agent.generate(["q", stored, "go on"])
    assert len(parts_of(model.calls[0].prompt)) == 2


# ── rules of one's own ─────────────────────────────────────────────────────────────────────────


async def test_b441_additional_rules_come_last() -> None:
    """B-441: they see what the built-in ones have left, the model, and the conversation."""
    told: list[RulePrompt] = []

    def shout(about: RulePrompt) -> Any:
        told.append(about)
        about.prompt[-1]["content"][0]["text"] += "!"
        return about.prompt

    def forget(messages: list[Message]) -> bool:
        messages[0].content.parts[0].text = "short"
        return True

    rules: Any = [
        {"name": "shout", "apply_to_prompt": shout},
        HistoryRule(name="forget", error_patterns=["too LONG", re.compile("a^")], fix=forget),
    ]
    model = model_of("cerebras", refused("it is Too long"), "ok")
    prompts = [{"role": "user", "content": "a very long story"}, "go on"]
    result = await compat(model, additional_rules=rules).generate(prompts)
    assert result.text == "ok"
    assert [call.text for call in model.calls] == ["a very long story\ngo on!", "short\ngo on!"]
    assert told[0].model is model
    assert told[0].message_list.get.all.db()[-1].text == "ok"
    assert parts_of(sent("cerebras", USER, said(PLAIN, TEXT), USER, rules=rules)) == [TEXT]


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        ("x", "must be a HistoryRule"),
        ({"apply_to_prompt": print}, "needs a name"),
        ({"name": "x"}, "does nothing"),
        ({"name": "x", "fix": print}, "both fix and error_patterns"),
        ({"name": "x", "error_patterns": ["a"], "apply_to_prompt": print}, "both fix and"),
        ({"name": "x", "error_patterns": "a", "fix": print}, "must be a list"),
        ({"name": "x", "error_patterns": ["("], "fix": print}, "no regular expression"),
        ({"name": "x", "error_patterns": [3], "fix": print}, "must be a text"),
        ({"name": "x", "fix": 3, "error_patterns": ["a"]}, "fix must be callable"),
        ({"name": "x", "apply_to_promt": print}, "did you mean 'apply_to_prompt'"),
        ({"name": "x", "apply_to_prompt": collect}, "plain function"),
    ],
)
def test_wrong_rules_fail_at_once(rule: Any, named: str) -> None:
    """B-014: when the processor is made, with the rule's place."""
    with pytest.raises(InputError, match=r"additional_rules\[0\].*" + re.escape(named)):
        ProviderHistoryCompat(additional_rules=[rule])


def test_additional_rules_are_a_list() -> None:
    """B-014: one rule alone is none."""
    with pytest.raises(InputError, match="additional_rules must be a list"):
        ProviderHistoryCompat(additional_rules={"name": "x"})  # type: ignore[arg-type]


def test_b443_the_names_of_the_built_in_rules() -> None:
    """B-443: each is there once; the page and the docstring list them all."""
    names = [rule.name for rule in (*REPAIRS, *PROMPT_RULES)]
    assert len(set(names)) == len(names) == 8
    assert ProviderHistoryCompat.__doc__ is not None
    assert all(f"`{name}`" in ProviderHistoryCompat.__doc__ for name in names)
