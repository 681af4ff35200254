"""Keccak-256 with the padding of Ethereum."""

import pytest

from procession.detection.keccak import keccak_256
from procession.detection.money import is_ethereum


def test_known_digests() -> None:
    """The empty text, a short one, and one of two blocks whose padding is one byte."""
    empty = "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
    assert keccak_256(b"").hex() == empty
    short = "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45"
    assert keccak_256(b"abc").hex() == short
    assert len({keccak_256(b"a" * size) for size in range(130, 280)}) == 150


@pytest.mark.parametrize(
    "digits",
    [
        "5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
        "fB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
        "dbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
        "D1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
        "52908400098527886E0F7030069857D2E4169EE7",
        "de709f2102306220921060314715629080e2fb77",
    ],
)
def test_addresses_of_the_standard(digits: str) -> None:
    """The examples of EIP-55, and each with one letter in the other case."""
    assert is_ethereum(digits)
    mixed = digits not in (digits.lower(), digits.upper())
    at = next(index for index, char in enumerate(digits) if char.isalpha())
    assert not (mixed and is_ethereum(digits[:at] + digits[at].swapcase() + digits[at + 1 :]))
