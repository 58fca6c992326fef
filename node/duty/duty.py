"""The parts of a validator's node that a following node lacks: keys, author, heart, watches of keys and seats.

Invariant: the author seals with these keys. A state that disables the keys (a copied key, a database that was rolled
back) therefore stops votes and blocks alike.
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
    """The duty room of a validator. A node that only follows the chain has none."""

    keys: ValidatorKeys
    author: Author
    key_watch: KeyWatch
    seat_watch: SeatWatch
    listeners: tuple[Listener, ...] = ()
    """The watches of keys and seats, and the heart."""
