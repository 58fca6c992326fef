"""The integers of `render-tile`: units, roots, unit vectors, sines and random numbers, in Python without NumPy.

Notation: a *unit* is the value of 1. Places are in units of 2**-16 (of the scene's unit of length), directions in units
of 2**-20, light in units of 2**-16. `>>` and `//` round towards minus infinity.

Bounds for every scene: each value is an integer below 2**63, so a backend may calculate in int64. With the parameters
below:

    places of the scene, radii      500 * 2**16 < 2**25
    origins of rays                 each coordinate at most WORLD_MAX = 2**26: a hit farther out is ignored
    directions d                    each coordinate at most 2**20 + 2**8, since `scaled` divides by 2**12 or more
    origin less a place             2**26 + 2**25 < 2**27
    products of it with d           three of 2**27 * (2**20 + 2**8): < 2**49; after the shift < 2**29
    that times d                    < 2**50; after the shift and with the first again < 2**30
    squares of it                   three of 2**60: < 2**62
    slabs of a box                  2**27 * 2**34 = 2**61, since no d is taken below 2**6
    planes                          three of 2**26 * 2**20, twice: < 2**49
    places of hits                  distance 2**28 * d: < 2**49
    vectors before they are scaled  2**30 each: squares < 2**62; their quotients by the root: 2**50 * (1 + 2**-12)
    light on a path                 a share of 2**16 times 100 * 2**16: < 2**39; shifted, 9 * 1,024 times: < 2**37
    random numbers                  32 bits times 31 bits: < 2**63
"""

from math import isqrt

Vector = tuple[int, int, int]

PLACE_BITS, DIRECTION_BITS, LIGHT_BITS = 16, 20, 16
ONE = 1 << DIRECTION_BITS
WHITE = 1 << LIGHT_BITS
WORLD_MAX = 1 << 26
HIT_MAX = WORLD_MAX - (1 << 9)
"""Hits beyond it are ignored, so that a ray which leaves a surface begins within `WORLD_MAX`."""
NEAREST, FARTHEST = 1 << 4, 1 << 28
"""The range of a hit's distance. A nearer hit is the surface that the ray leaves; a farther one is ignored."""
LIFT_SHIFT = 12
"""A ray leaves from 2**-8 above a surface, so that it does not hit the surface again where it starts."""
SHORTEST_ROOT = 1 << 12
SLAB_LEAST = 1 << 6
SLAB_BITS = 40
SCALED_BITS = 8
"""Extra bits for scaling a sum of unit vectors, so that a short sum keeps its direction."""
NORMAL_BITS = 4
SUN_SHIFT = 5
"""The sun is a disc: its rays come from directions up to 2**-5 from its centre's."""

ANGLES = 4_096
_SINE_BITS = 60
_SINE_STEP = 1768558744408523  # round(sin(2 pi / 4096) * 2**60)
_COSINE_STEP = 1152920148139012899  # round(cos(2 pi / 4096) * 2**60)

MASK = (1 << 32) - 1
GOLDEN = 0x9E3779B1
RECIPROCAL_BITS = 50


def mixed(value: int) -> int:
    """Return 32 mixed bits, each of which depends on all input bits, by odd multiplications and shifts."""
    # Each step can be undone, so different inputs give different bits.
    value = (value ^ value >> 17) * 0x24F4D2CD & MASK
    value = (value ^ value >> 15) * 0x1BA3B969 & MASK
    return value ^ value >> 16


def absorbed(key: int, value: int) -> int:
    """Return a 32-bit key from another key and a number; other numbers give other keys."""
    return mixed((key + (value + 1) * GOLDEN) & MASK)


def drawn(key: int, number: int) -> int:
    """Return 32 random bits: draw `draw_number` of a path."""
    return mixed((key + number * GOLDEN) & MASK)


def length(vector: Vector) -> int:
    """Return the root of the sum of squares, rounded down."""
    x, y, z = vector
    return isqrt(x * x + y * y + z * z)


def scaled(vector: Vector, otherwise: Vector) -> Vector:
    """Return a vector of coordinates up to 2**30 as a direction, or `otherwise` if it is too short to have one."""
    root = length(vector)
    if root < SHORTEST_ROOT:
        return otherwise
    inverse = (1 << RECIPROCAL_BITS) // root
    x, y, z = (part * inverse >> RECIPROCAL_BITS - DIRECTION_BITS for part in vector)
    return x, y, z


def direction_of(vector: Vector) -> Vector:
    """Return a vector of any length except 0 as a direction, with full precision, for values fixed by the scene."""
    root = length((vector[0] << 64, vector[1] << 64, vector[2] << 64))
    x, y, z = (((2 * part << 64 + DIRECTION_BITS) + root) // (2 * root) for part in vector)
    return x, y, z


def sines() -> list[int]:
    """Return the sine at each of `ANGLES` angles round a circle, in units of 2**-20."""
    sine, cosine, quarter = 0, 1 << _SINE_BITS, []
    for _ in range(ANGLES // 4):
        quarter.append(sine + (1 << _SINE_BITS - DIRECTION_BITS - 1) >> _SINE_BITS - DIRECTION_BITS)
        # Turned step by step in 60 bits: a library's sine may differ in its last bit between machines.
        sine, cosine = (
            sine * _COSINE_STEP + cosine * _SINE_STEP >> _SINE_BITS,
            cosine * _COSINE_STEP - sine * _SINE_STEP >> _SINE_BITS,
        )
    half = [*quarter, ONE, *reversed(quarter[1:])]
    return [*half, *(-value for value in half)]


def byte_of(channel: int) -> int:
    """Return a pixel's byte for some light: its root, from 0 to 255 at `WHITE` and above, halves rounded up."""
    return isqrt(min(channel, WHITE) * (2 * 255) ** 2 >> LIGHT_BITS) + 1 >> 1


def light_of(byte: int) -> int:
    """Return the light for a byte of a colour: its square."""
    return (2 * byte * byte * WHITE + 255 * 255) // (2 * 255 * 255)
