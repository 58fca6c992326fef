"""The keys and the author of one seat.

What always holds: the author seals with these keys, so whatever silences them (a copied key, a database that was
rolled back) stops votes and blocks alike.
"""

from __future__ import annotations

from dataclasses import dataclass

from node.duty.author import Author
from node.duty.validator_keys import ValidatorKeys


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatorDuty:
    """The duty room of a validator; a node that only follows has none."""

    keys: ValidatorKeys
    author: Author
