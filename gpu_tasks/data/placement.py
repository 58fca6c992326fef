"""Which blob stores keep a blob: the same answer for whoever writes it and whoever looks for it.

Rendezvous hashing (Thaler, Ravishankar: A name-based mapping scheme for rendezvous, 1996): every store has a number for
every blob, and the lowest hold it. So a reader needs no directory, load spreads evenly, and a store that leaves moves
no other store's blobs.
"""

from __future__ import annotations

from collections.abc import Iterable

from runtime.cryptography.hashing import blake2_256

COPIES = 4
"""Stores that a customer puts each input into."""
STORES_ASKED_MAX = 16
"""Stores that anybody tries for one blob: some may be away, but a search ends."""


def stores_for(address: bytes, endpoints: Iterable[str]) -> list[str]:
    """The endpoints to try for the blob `address`, best first."""
    ranked = sorted(set(endpoints), key=lambda endpoint: (blake2_256(address + endpoint.encode()), endpoint))
    return ranked[:STORES_ASKED_MAX]
