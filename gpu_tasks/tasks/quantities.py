"""Quantities as people write them (`2.5 oGPU`, `90m`, `0.5 oGPU/h`, `16Gi`), as exact integers without floats.

Invariant: a time or a size carries its unit, so it cannot be taken for another. An amount without a unit is in oGPU. A
value beyond a limit is refused, never cut.
"""

import re
from dataclasses import dataclass

from wallet.amounts import MAX_GRAINS, SYMBOL, parse_amount
from wallet.errors import AmountError, CodedError

_AMOUNT = r"[0-9]{1,8}(?:\.[0-9]{1,8})?(?: ?oGPU)?|[0-9]{1,16} ?grains?"
_DURATION = r"(?:[0-9]{1,9}(?:\.[0-9]{1,3})? ?[dhms] ?)+"
_SPAN = rf"{_DURATION}|[0-9]{{1,9}} ?blocks?"
AMOUNT_PATTERN = rf"^(?:{_AMOUNT})$"
SPAN_PATTERN = rf"^(?:{_SPAN})$"
RATE_PATTERN = rf"^(?:{_AMOUNT}) ?/ ?(?:[dhms]|block)$"
BYTES_UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
BYTES_PATTERN = "^[0-9]{1,9}(Ki|Mi|Gi|Ti)$"
CPU_PATTERN = r"^[0-9]{1,3}(\.[0-9]{1,3})?$"
CPU_THOUSANDTHS_MAX = 512_000
WHOLE_DIGITS_MAX = 12
PPM = 1_000_000

UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000}
_PARTS = re.compile(r"([0-9]+)(?:\.([0-9]+))? ?([dhms]) ?", re.ASCII)


class QuantityError(CodedError, ValueError):
    """The text is not such a quantity. The message continues a sentence after the text, with the right form."""


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """A length of time in the unit of the file: milliseconds, or blocks."""

    milliseconds: int = 0
    blocks: int = 0

    def in_blocks(self, slot_ms: int) -> int:
        """Return the number of whole blocks in it, one for each slot."""
        return self.blocks or self.milliseconds // slot_ms

    def blocks_for(self, slot_ms: int) -> int:
        """Return the number of blocks that last at least as long."""
        return self.blocks or -(-self.milliseconds // slot_ms)


@dataclass(frozen=True, slots=True)
class Rate:
    """Grains for a length of time."""

    grains: int
    span: TimeSpan

    def per_block(self, slot_ms: int) -> int:
        """Return the grains for a block of one slot, rounded down."""
        return self.grains if self.span.blocks else self.grains * slot_ms // self.span.milliseconds

    def price_with_fee(self, blocks: int, slot_ms: int, fee_ppm: int) -> int:
        """Return the price of `blocks` blocks that leaves this rate after the fee: rounded up, at least a grain."""
        time, period = (blocks, self.span.blocks) if self.span.blocks else (blocks * slot_ms, self.span.milliseconds)
        # The fee is a share of the price itself: price * (1 - fee) is at least rate * time.
        return max(1, -(-self.grains * time * PPM // (period * (PPM - fee_ppm))))


def amount(text: str) -> int:
    """Return the grains of `2.5 oGPU`, `2.5` or `250000000 grains`."""
    if re.fullmatch(_AMOUNT, text, re.ASCII) is None:
        raise QuantityError(
            f"is not an amount; write it like `2.5 {SYMBOL}`, with at most 8 decimals, or `50 grains`",
            code="invalid_amount",
        )
    try:
        return parse_amount(text)
    except AmountError:
        raise QuantityError(
            f"is more than all money, {MAX_GRAINS:,} grains; lower it", code="more_than_all_money"
        ) from None


def span(text: str) -> TimeSpan:
    """Parse `90m`, `1h 30m`, `1.5h`, `2d`, or `5400 blocks`: at least a millisecond or a block."""
    if re.fullmatch(_SPAN, text, re.ASCII) is None:
        raise QuantityError(
            "is not a time; write it like `90m`, `1h 30m`, `1.5h`, `2d` or `5400 blocks`", code="invalid_time"
        )
    if "block" in text:
        time_span = TimeSpan(blocks=int(re.split(r" ?b", text, maxsplit=1)[0]))
    else:
        parts = _PARTS.findall(text)
        units = [unit for _, _, unit in parts]
        if units != sorted(set(units), key=list(UNITS_MS).index):
            raise QuantityError(
                "repeats a unit or has them out of order; write d, h, m and s in this order: `1h 30m`",
                code="invalid_time",
            )
        time_span = TimeSpan(sum(_milliseconds(*part) for part in parts))
    if time_span == TimeSpan():
        raise QuantityError("is zero; give a positive time", code="zero_time")
    return time_span


def rate(text: str) -> Rate:
    """Parse `0.5 oGPU/h` or `200 grains/block`, for d, h, m, s or block."""
    value_text, slash, unit = text.partition("/")
    unit, value_text = unit.strip(), value_text.strip()
    is_amount = re.fullmatch(_AMOUNT, value_text, re.ASCII) is not None
    if not slash or unit not in (*UNITS_MS, "block") or not is_amount:
        raise QuantityError(
            f"is not an amount per time; write it like `0.5 {SYMBOL}/h`, per d, h, m, s or block", code="invalid_rate"
        )
    return Rate(amount(value_text), TimeSpan(blocks=1) if unit == "block" else TimeSpan(UNITS_MS[unit]))


def whole(text: str) -> int:
    """Parse a whole number in decimal digits."""
    if re.fullmatch(rf"[0-9]{{1,{WHOLE_DIGITS_MAX}}}", text, re.ASCII) is None:
        raise QuantityError("is not a whole number; write only digits", code="not_whole")
    return int(text)


def bytes_of(text: str) -> int:
    """Return the bytes of `512Mi` or `16Gi`."""
    if re.fullmatch(BYTES_PATTERN, text, re.ASCII) is None:
        raise QuantityError(
            f"is not a size; write it like `512Mi` or `16Gi`, in {', '.join(BYTES_UNITS)}", code="invalid_size"
        )
    size = int(text[:-2]) * BYTES_UNITS[text[-2:]]
    if not 1 << 20 <= size <= 4_096 << 30:
        raise QuantityError("is out of range; give 1Mi to 4096Gi", code="out_of_range")
    return size


def cpu_of(text: str) -> int:
    """Return `1` or `0.5` cores in thousandths."""
    if re.fullmatch(CPU_PATTERN, text, re.ASCII) is None:
        raise QuantityError("is not a number of cores; write it like `1`, `0.5` or `16`", code="invalid_cores")
    whole, _, fraction = text.partition(".")
    cpu_thousandths = int(whole) * 1_000 + int(fraction.ljust(3, "0") or 0)
    if not 10 <= cpu_thousandths <= CPU_THOUSANDTHS_MAX:
        raise QuantityError("is out of range; give 0.01 to 512 cores", code="out_of_range")
    return cpu_thousandths


def written_span(milliseconds: int) -> str:
    """Return whole seconds as a file writes them: `1h 30m`. Raise QuantityError below a second."""
    written, remaining_ms = [], milliseconds
    for unit, unit_ms in UNITS_MS.items():
        count, remaining_ms = divmod(remaining_ms, unit_ms)
        written += [f"{count}{unit}"] if count else []
    if not written:
        raise QuantityError("is shorter than a second", code="zero_time")
    return " ".join(written)


def _milliseconds(text: str, decimals: str, unit: str) -> int:
    """Return exact milliseconds: a unit is a multiple of 1,000 ms, and there are at most three decimals."""
    return (int(text) * 1_000 + int(decimals.ljust(3, "0"))) * (UNITS_MS[unit] // 1_000)
