"""What a `MessageList` is made of, and the prompt that is made of it."""
