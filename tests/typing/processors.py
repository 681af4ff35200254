"""Anything with the right shape is a processor: no base class (R-001, R-006)."""

from typing import assert_type

from procession.messages import Message
from procession.processor import InputProcessor, OutputProcessor, ProcessInputArgs


class Shorten:
    """Keeps the last messages."""

    id = "shorten"

    def process_input(self, args: ProcessInputArgs) -> list[Message]:
        assert_type(args.messages, list[Message])
        return args.messages[-10:]


class Nothing:
    """Has no hook."""

    id = "nothing"


accepted: InputProcessor = Shorten()
not_for_output: OutputProcessor = Shorten()  # type: ignore[assignment] # no output hook
no_hook: InputProcessor = Nothing()  # type: ignore[assignment] # no hook at all
