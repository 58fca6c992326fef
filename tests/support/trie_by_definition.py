"""The root of a state trie (layout V1) written straight from the specification, without nodes or updates: an oracle."""

import hashlib


def blake2_256(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=32).digest()


def root(contents: dict[bytes, bytes]) -> bytes:
    if not contents:
        return blake2_256(b"\0")
    return blake2_256(node([(key.hex(), value) for key, value in sorted(contents.items())]))


def node(pairs: list[tuple[str, bytes]]) -> bytes:
    """The encoding of the node above these pairs of nibbles and values."""
    first, last = pairs[0][0], pairs[-1][0]
    shared = 0
    while shared < min(len(first), len(last)) and first[shared] == last[shared]:
        shared += 1
    below = [(key[shared:], value) for key, value in pairs]
    value = below[0][1] if below[0][0] == "" else None
    groups = [[(key[1:], held) for key, held in below if key[:1] == digit] for digit in "0123456789abcdef"]
    children = [node(group) for group in groups if group]
    bitmap = sum(1 << nibble for nibble, group in enumerate(groups) if group)
    out = header(shared, value, bool(children)) + bytes.fromhex("0" * (shared % 2) + first[:shared])
    if children:
        out += bitmap.to_bytes(2, "little")
    if value is not None:
        out += blake2_256(value) if len(value) > 32 else bytes([len(value) * 4]) + value
    for child in children:
        out += b"\x80" + blake2_256(child) if len(child) >= 32 else bytes([len(child) * 4]) + child
    return out


def header(length: int, value: bytes | None, is_branch: bool) -> bytes:
    hashed = value is not None and len(value) > 32
    prefix, bits = {
        (False, False): (0x40, 6),
        (False, True): (0x20, 5),
        (True, False): (0x80 if value is None else 0xC0, 6),
        (True, True): (0x10, 4),
    }[is_branch, hashed]
    room = 2**bits - 1
    if length < room:
        return bytes([prefix + length])
    rest = [prefix + room]
    length -= room
    while length >= 255:
        rest.append(255)
        length -= 255
    return bytes([*rest, length])
