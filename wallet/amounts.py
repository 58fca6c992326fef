"""Amounts as people write them (`1.5` oGPU) and as the chain counts them (150000000 grains), exactly, without floats.

Parts are written in per cent (`7.25`) and counted in millionths; durations are counted in seconds.
"""

import re

from wallet.errors import AmountError

DECIMALS = 8
GRAINS_PER_OGPU = 100_000_000
SYMBOL = "oGPU"
MAX_GRAINS = 21_000_000 * GRAINS_PER_OGPU

PPM_PER_PERCENT = 10_000
PPM = 100 * PPM_PER_PERCENT

# At most eight digits before the point: 21,000,000 oGPU exist.
_AMOUNT = re.compile(rf"([0-9]{{1,8}})(?:\.([0-9]{{1,8}}))?(?: *{SYMBOL})?", re.ASCII | re.IGNORECASE)
_GRAINS = re.compile(r"([0-9]{1,16}) *grains?", re.ASCII | re.IGNORECASE)
_DURATION_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))
_PERCENT = re.compile(r"([0-9]{1,3})(?:\.([0-9]{1,4}))?", re.ASCII)


def parse_amount(amount_text: str) -> int:
    """Return the grains of `0.05`, `0.05 oGPU` or `50 grains`: an amount without a unit is in oGPU.

    An amount has up to 8 digits after a point (not `1,5`, `.5` or `1e3`). Raise AmountError for other text, and for
    more than the 21,000,000 oGPU that exist.
    """
    if (amount_match := _AMOUNT.fullmatch(amount_text)) is not None:
        whole_digits, fraction_digits = amount_match.group(1), amount_match.group(2) or ""
        grains = int(whole_digits) * GRAINS_PER_OGPU + int(fraction_digits.ljust(DECIMALS, "0"))
    elif (grains_match := _GRAINS.fullmatch(amount_text)) is not None:
        grains = int(grains_match.group(1))
    else:
        raise AmountError(
            f"{amount_text!r} is not an amount. Write {SYMBOL}, such as 12 or 0.05, with at most {DECIMALS} decimals; "
            "or 50 grains",
            code="invalid_amount",
        )
    if grains > MAX_GRAINS:
        raise AmountError(
            f"{amount_text!r} is more than all {MAX_GRAINS // GRAINS_PER_OGPU:,} {SYMBOL}", code="amount_too_large"
        )
    return grains


def format_amount(grains: int) -> str:
    """Return the shortest text that `parse_amount` reads as `grains`, with a minus sign if it is negative."""
    whole_coins, fraction = divmod(abs(grains), GRAINS_PER_OGPU)
    decimals = f".{fraction:0{DECIMALS}}".rstrip("0").rstrip(".")
    return f"{'-' if grains < 0 else ''}{whole_coins}{decimals}"


def parse_percent(percent_text: str) -> int:
    """Return the millionths of a part in per cent: digits, and up to 4 after a point.

    Raise AmountError for other text, and for more than 100.
    """
    percent_match = _PERCENT.fullmatch(percent_text)
    if percent_match is None:
        raise AmountError(
            f"{percent_text!r} is not a percentage. Write 5 or 7.25, with at most 4 decimals", code="invalid_percentage"
        )
    ppm = int(percent_match.group(1)) * PPM_PER_PERCENT + int((percent_match.group(2) or "").ljust(4, "0"))
    if ppm > PPM:
        raise AmountError(f"{percent_text} % is more than 100 %", code="percentage_too_large")
    return ppm


def format_percent(ppm: int) -> str:
    """Return the shortest text that `parse_percent` reads as `ppm`, up to 100."""
    whole_percent, decimals = divmod(ppm, PPM_PER_PERCENT)
    return f"{whole_percent}.{decimals:04}".rstrip("0").rstrip(".")


def counted(count: int, noun: str = "unit", plural: str = "") -> str:
    """Return a count in words: `1 unit`, `2 units`."""
    return f"{count} {noun}" if count == 1 else f"{count} {plural or f'{noun}s'}"


def format_duration(seconds: int) -> str:
    """Return a duration in its largest unit with two or more: `90 s`, `2 min`."""
    for unit_name, unit_seconds in _DURATION_UNITS:
        if seconds >= 2 * unit_seconds:
            return f"{seconds // unit_seconds} {unit_name}"
    return f"{seconds} s"


class Grains(int):
    """An amount of money; shown in oGPU, and as a decimal string in JSON."""


class BareGrains(Grains):
    """An amount in a table with the unit in its title: twelve columns leave no room for it in each line."""
