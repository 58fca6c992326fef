"""What a validator's node has that one which only follows does not: keys, author, heart, an eye on its seats.

Invariant: the author seals with these keys, so whatever silences them (a copied key, a database that was
rolled back) stops votes and blocks alike.
"""

from __future__ import annotations

from dataclasses import dataclass

from node.duty.author import Author
from node.duty.key_watch import KeyWatch
from node.duty.seat_watch import SeatWatch
from node.duty.validator_keys import ValidatorKeys
from node.ledger.listener import Listener


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatorDuty:
    """The duty room of a validator; a node that only follows has none."""

    keys: ValidatorKeys
    author: Author
    key_watch: KeyWatch
    seat_watch: SeatWatch
    listeners: tuple[Listener, ...] = ()
    """Its eyes on keys and seats, and its heart."""
