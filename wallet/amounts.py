"""Amounts between people (`1.5` oGPU) and the chain (150000000 grains), exactly: no float comes near money."""

import re

from wallet.errors import AmountError

DECIMALS = 8
GRAINS_PER_OGPU = 100_000_000
SYMBOL = "oGPU"
MAX_GRAINS = 21_000_000 * GRAINS_PER_OGPU

_AMOUNT = re.compile(r"([0-9]{1,8})(?:\.([0-9]{1,8}))?", re.ASCII)


def parse_amount(text: str) -> int:
    """Grains of an amount in oGPU: digits, and up to 8 after a point; nothing else (`1.5`, not `1,5`, `.5` or `1e3`).

    Raises AmountError, also above the 21,000,000 oGPU that exist.
    """
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise AmountError(f"{text!r} is not an amount: write it like 12 or 0.05, with at most {DECIMALS} decimals")
    whole, fraction = match.group(1), match.group(2) or ""
    grains = int(whole) * GRAINS_PER_OGPU + int(fraction.ljust(DECIMALS, "0"))
    if grains > MAX_GRAINS:
        raise AmountError(f"{text} {SYMBOL} is more than the {MAX_GRAINS // GRAINS_PER_OGPU:,} that exist")
    return grains


def format_amount(grains: int) -> str:
    """The shortest text that `parse_amount` turns back into `grains`; a minus sign before a negative one."""
    whole, fraction = divmod(abs(grains), GRAINS_PER_OGPU)
    decimals = f".{fraction:0{DECIMALS}}".rstrip("0").rstrip(".")
    return f"{'-' if grains < 0 else ''}{whole}{decimals}"
