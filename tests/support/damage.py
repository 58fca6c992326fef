"""Damages bytes the way lines, disks and attackers do."""

import random
from collections.abc import Callable

EXTREMES = (0x00, 0x01, 0x02, 0x03, 0x7F, 0x80, 0xFE, 0xFF)
Damage = Callable[[bytearray, random.Random], None]


def flip_bit(data: bytearray, chance: random.Random) -> None:
    place = chance.randrange(len(data))
    data[place] ^= 1 << chance.randrange(8)


def set_byte(data: bytearray, chance: random.Random) -> None:
    data[chance.randrange(len(data))] = chance.choice(EXTREMES)


def set_run(data: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(data))
    for place in range(start, min(len(data), start + chance.choice((2, 4, 8, 16, 32)))):
        data[place] = chance.choice(EXTREMES)


def cut(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(len(data)) :]


def leave_out(data: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(data))
    del data[start : start + chance.choice((1, 2, 4, 32))]


def insert(data: bytearray, chance: random.Random) -> None:
    place = chance.randrange(len(data) + 1)
    data[place:place] = chance.randbytes(chance.choice((1, 2, 4, 32)))


def repeat(data: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(data))
    piece = data[start : start + chance.choice((1, 8, 64))]
    data[start:start] = piece * chance.choice((1, 3))


DAMAGES: tuple[Damage, ...] = (flip_bit, flip_bit, set_byte, set_run, cut, leave_out, insert, repeat)


def damaged(data: bytes, chance: random.Random) -> bytes:
    """`data` with one to three damages."""
    made = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        if made:
            chance.choice(DAMAGES)(made, chance)
    return bytes(made)
