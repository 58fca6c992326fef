"""The curve of ed25519 and the ZIP-215 rule, written from their definitions. Slow: only an oracle for tests."""

import hashlib

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P

Point = tuple[int, int]
IDENTITY: Point = (0, 1)


def add(a: Point, b: Point) -> Point:
    k = D * a[0] * b[0] * a[1] * b[1] % P
    x = (a[0] * b[1] + a[1] * b[0]) * pow(1 + k, P - 2, P)
    y = (a[1] * b[1] + a[0] * b[0]) * pow(1 - k, P - 2, P)
    return x % P, y % P


def multiply(n: int, point: Point) -> Point:
    total = IDENTITY
    for bit in f"{n:b}":
        total = add(total, total)
        if bit == "1":
            total = add(total, point)
    return total


def encode(point: Point) -> bytes:
    return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")


def decode(data: bytes) -> Point | None:
    """The point of an encoding, non-canonical ones included, as ZIP-215 allows."""
    number = int.from_bytes(data, "little")
    sign, y = number >> 255, (number & (1 << 255) - 1) % P
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if (x * x - square) % P:
        return None
    return (P - x) % P if x & 1 != sign else x, y


BASE = decode((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def challenge(r: bytes, public_key: bytes, message: bytes) -> int:
    return int.from_bytes(hashlib.sha512(r + public_key + message).digest(), "little") % L


def zip215(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """[8][S]B = [8]R + [8][k]A with a canonical S."""
    r, s = signature[:32], int.from_bytes(signature[32:], "little")
    a_point, r_point = decode(public_key), decode(r)
    if a_point is None or r_point is None or s >= L or BASE is None:
        return False
    right = add(r_point, multiply(challenge(r, public_key, message), a_point))
    return multiply(8 * s, BASE) == multiply(8, right)
