"""Keccak-256 as Ethereum uses it; `hashlib` has only the later standard with another padding."""

from __future__ import annotations

__all__ = ["keccak_256"]

MASK = (1 << 64) - 1
RATE = 136  # bytes of the state that take in data


def rotated(lane: int, by: int) -> int:
    """The 64-bit lane rotated to the left."""
    return ((lane << by) | (lane >> (64 - by))) & MASK if by else lane


def constants() -> tuple[int, ...]:
    """The 24 round constants, from their shift register."""
    found: list[int] = []
    register = 1
    for _ in range(24):
        constant = 0
        for bit in range(7):
            if register & 1:
                constant |= 1 << ((1 << bit) - 1)
            register <<= 1
            if register & 0x100:
                register ^= 0x171
        found.append(constant)
    return tuple(found)


def offsets() -> tuple[int, ...]:
    """By how much each lane is rotated."""
    found = [0] * 25
    x, y = 1, 0
    for step in range(24):
        found[x + 5 * y] = (step + 1) * (step + 2) // 2 % 64
        x, y = y, (2 * x + 3 * y) % 5
    return tuple(found)


CONSTANTS = constants()
OFFSETS = offsets()


def permuted(lanes: list[int]) -> list[int]:
    """The state after 24 rounds."""
    for constant in CONSTANTS:
        columns = [
            lanes[x] ^ lanes[x + 5] ^ lanes[x + 10] ^ lanes[x + 15] ^ lanes[x + 20]
            for x in range(5)
        ]
        mixed = [columns[x - 1] ^ rotated(columns[(x + 1) % 5], 1) for x in range(5)]
        moved = [0] * 25
        for x in range(5):
            for y in range(5):
                lane = lanes[x + 5 * y] ^ mixed[x]
                moved[y + 5 * ((2 * x + 3 * y) % 5)] = rotated(lane, OFFSETS[x + 5 * y])
        lanes = [
            moved[at] ^ (~moved[at - at % 5 + (at + 1) % 5] & moved[at - at % 5 + (at + 2) % 5])
            for at in range(25)
        ]
        lanes[0] ^= constant
    return lanes


def keccak_256(data: bytes) -> bytes:
    """The digest of 32 bytes."""
    padded = bytearray(data) + b"\x01" + bytes(-(len(data) + 1) % RATE)
    padded[-1] |= 0x80
    lanes = [0] * 25
    for block in range(0, len(padded), RATE):
        for at in range(RATE // 8):
            chunk = padded[block + 8 * at : block + 8 * at + 8]
            lanes[at] ^= int.from_bytes(chunk, "little")
        lanes = permuted(lanes)
    return b"".join(lane.to_bytes(8, "little") for lane in lanes[:4])
