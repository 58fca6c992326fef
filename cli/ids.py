"""Ids as users type them: whole, or their first digits as tables and logs print them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from wallet.errors import WalletError

MATCHES_SHOWN = 8
# Tables and logs cut ids with these marks, and people copy the marks too.
_DIGITS = re.compile(r"(?:0x)?([0-9a-fA-F]{0,64})(?:…|\.\.\.?)?")


class AmbiguousIdError(WalletError):
    """Several ids begin with the typed digits."""


def first_digits(text: str, least: int) -> str | None:
    """Return the hexadecimal digits of a typed id, of which `least` are needed; None for another text."""
    typed = _DIGITS.fullmatch(text)
    return None if typed is None or len(typed[1]) < least else typed[1].lower()


def only_match(text: str, digits: str, ids: Iterable[bytes]) -> bytes | None:
    """Return the id that begins with the digits; None if there is none. Raise AmbiguousIdError for several."""
    matching_ids = [known_id for known_id in ids if known_id.hex().startswith(digits)]
    if len(matching_ids) > 1:
        listed = ", ".join(f"0x{known_id.hex()}" for known_id in matching_ids[:MATCHES_SHOWN])
        raise AmbiguousIdError(
            f"{text!r} is the beginning of {len(matching_ids)} ids: {listed}. Type more digits", code="id_ambiguous"
        )
    return matching_ids[0] if matching_ids else None
