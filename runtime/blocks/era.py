"""The lifetime of a transaction: unlimited, or a number of blocks after a birth block.

Encoding of `sp_runtime::generic::Era`: one zero byte, or two bytes that hold a period (a power of two) and the phase of
the birth block within it. The signature covers the hash of the birth block, so a mortal transaction is also valid on
one branch of the chain only.
"""

from dataclasses import dataclass
from typing import Annotated

from runtime.encoding import type_info as info
from runtime.encoding.codec import Codec
from runtime.encoding.scale import DecodeError
from runtime.encoding.type_info import TypeInfo, rust_path

PERIOD_MIN = 4
PERIOD_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class Era:
    """An era. `period` 0 is immortal. Otherwise birth heights are `phase` modulo `period`."""

    period: int = 0
    phase: int = 0

    def birth(self, height: int) -> int:
        """Return the height of the signed birth hash, for a block at `height`. 0 for the immortal era."""
        if not self.period:
            return 0
        return (max(height, self.phase) - self.phase) // self.period * self.period + self.phase

    def death(self, height: int) -> int | None:
        """Return the first height at which the transaction is invalid, None for the immortal era."""
        return self.birth(height) + self.period if self.period else None


IMMORTAL = Era()


def mortal(period: int, height: int) -> Era:
    """Return an era of about `period` blocks, born at `height`. The period is rounded up to a power of two."""
    period = min(max(1 << (period - 1).bit_length(), PERIOD_MIN), PERIOD_MAX)
    # The phase has 12 bits, so long periods store it in coarser steps, as in the SDK.
    quantum = max(period >> 12, 1)
    return Era(period, height % period // quantum * quantum)


def _encode(era: Era) -> bytes:
    if not era.period:
        return b"\0"
    exponent = era.period.bit_length() - 2
    return (min(max(exponent, 1), 15) | era.phase // max(era.period >> 12, 1) << 4).to_bytes(2, "little")


def _decode(data: bytes, start: int) -> tuple[Era, int]:
    first_byte = data[start]
    if first_byte == 0:
        return IMMORTAL, start + 1
    era_bits = first_byte | data[start + 1] << 8
    period = 2 << (era_bits & 15)
    phase = (era_bits >> 4) * max(period >> 12, 1)
    # Such bytes would be a second encoding of another era.
    if period < PERIOD_MIN or phase >= period:
        raise DecodeError("not an era", start)
    return Era(period, phase), start + 2


def _type_info() -> TypeInfo:
    """Return the shape: 256 variants, with the first byte as the tag.

    The second byte is the only field of all but the first variant.
    """
    # substrate-interface and async-substrate-interface read an era only as this enum of 256 variants.
    fields = (info.FieldInfo(None, info.U8, ""),)
    mortals = tuple(info.VariantInfo(f"Mortal{byte}", byte, fields) for byte in range(1, 256))
    return TypeInfo(
        info.VariantsShape((info.VariantInfo("Immortal", 0), *mortals)),
        rust_path("sp_runtime::generic::era::Era"),
    )


ERA = Codec(_encode, _decode, _type_info(), "Era")
EraField = Annotated[Era, ERA]
