"""What a chat model is told of a tool's outcome that holds more than text."""

from procession.models.chat_prompt import output_text


def test_files_in_an_outcome_are_named_not_spelt_out() -> None:
    """R-374: the texts stand as they are; a picture's bytes are no words."""
    parts = [
        {"type": "text", "text": "a pixel"},
        {"type": "media", "data": "iVBORw0KGgo=", "mediaType": "image/png"},
        {"type": "image-url", "url": "https://example.com/a.png"},
    ]
    told = output_text({"type": "content", "value": parts})
    first, second, third = told.split("\n")
    assert first == "a pixel"
    assert "image/png" in second
    assert "iVBORw0KGgo" not in told
    assert "https://example.com/a.png" in third
