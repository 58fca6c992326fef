"""Leaving stake: its epoch, its date, and whether a pending slash keeps it."""

from __future__ import annotations

import pytest

from cli.chain_time import ChainTime
from cli.output import Account
from cli.wallet.stakes_table import _is_idle, _waiting_row
from runtime.interface.staking_api import WaitingStake
from runtime.pallets.staking.stakers import Candidate
from wallet.amounts import Grains

WHO = b"w" * 32
TIME = ChainTime(301, 1_700_000_040_000, 60_000, 60, 60, 1)  # the first block of epoch 5


@pytest.mark.parametrize(
    ("until", "is_held", "free"),
    [
        (8, False, "about 2023-11-14 22:17 UTC"),
        (6, False, "about 2023-11-14 22:15 UTC"),
        (5, False, "now: `withdraw`"),
        (4, False, "now: `withdraw`"),
        (4, True, "once no slash waits, nor can be raised"),
        (8, True, "once no slash waits, nor can be raised, and not before about 2023-11-14 22:17 UTC"),
    ],
)
def test_when_a_part_is_free(until: int, is_held: bool, free: str) -> None:
    assert _waiting_row(WaitingStake(WHO, 7, until, is_held), TIME) == {
        "kind": "unstaking",
        "behind": Account(WHO),
        "amount": Grains(7),
        "until_epoch": until,
        "free": free,
        "slash_waits": is_held,
    }


OFFER = Candidate(bytes(32), bytes(32), bytes(32), 0)


@pytest.mark.parametrize(
    ("offer", "tombstone", "own", "is_idle"),
    [(OFFER, None, 10, False), (None, None, 10, True), (OFFER, 3, 10, True), (OFFER, None, 9, True)],
    ids=["elected", "chilled", "offended", "too little"],
)
def test_who_earns_nothing(offer: Candidate | None, tombstone: int | None, own: int, is_idle: bool) -> None:
    assert _is_idle(offer, tombstone, own, least_bond=10) is is_idle
