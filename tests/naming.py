"""Names of test cases that are the same in every process."""

import re

__all__ = ["named"]


def named(value: object) -> str:
    """The value as Python shows it, without addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
