"""Where the provider's own SDK reads an exchange in another way than its documentation says.

By name of the exchange and by field; the reason is what the documentation says.
"""

DOCUMENTED: dict[str, dict[str, str]] = {
    "groq-chat-stream-02da85d5": {
        "usage": "the usage of a stream is in `x_groq.usage` of its last event; "
        "the SDK looks for it only beside `choices`",
    },
    "deepseek-responses-stream-0983c3cd": {
        "reasoning": "`response.reasoning_text.delta` is the reasoning itself; the SDK's reading "
        "here is of summaries only",
    },
    "openrouter-responses-stream-ab488644": {
        "reasoning": "`response.reasoning_text.delta` is the reasoning itself; the SDK's reading "
        "here is of summaries only",
    },
}
