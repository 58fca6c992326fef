"""The money of checks and votes, read from the events of final blocks."""

import asyncio
from types import SimpleNamespace
from typing import Any

from gpu_tasks.market.claims.claim_events import ClaimEnded
from gpu_tasks.market.claims.claims import CHECKER_BOND, DISPUTE_BOND, ClaimOutcome
from gpu_tasks.market.claims.dispute_events import DisputeEnded
from gpu_tasks.market.claims.disputes import VOTER_BOND
from gpu_tasks.market.inference.units import UNIT_MONEY
from gpu_tasks.provider.chain.claim_money import ClaimMoney, ClaimMoneyRead, claim_money
from gpu_tasks.provider.chain.side_pay import LOOKED_BACK_MAX
from runtime.pallets.staking.trust_lock import Paid

ME, OTHER, CHECKED, VOTED, DISPUTE, FOREIGN = (bytes([letter]) * 32 for letter in b"mocjdf")
LAST = 100
EVENTS: dict[int, list[object]] = {
    90: [Paid(OTHER, UNIT_MONEY, CHECKED, ME, 1)],
    95: [
        Paid(OTHER, UNIT_MONEY, CHECKED, ME, 2), Paid(OTHER, UNIT_MONEY, CHECKED, OTHER, 3),
        Paid(OTHER, UNIT_MONEY, FOREIGN, ME, 4), Paid(ME, CHECKER_BOND, CHECKED, OTHER, 5),
        Paid(ME, CHECKER_BOND, CHECKED, None, 6), Paid(ME, UNIT_MONEY, CHECKED, OTHER, 7),
        Paid(OTHER, UNIT_MONEY, VOTED, ME, 8),
    ],
    96: [
        Paid(ME, VOTER_BOND, DISPUTE, None, 9), Paid(OTHER, DISPUTE_BOND, DISPUTE, ME, 10),
        Paid(OTHER, CHECKER_BOND, VOTED, ME, 11), Paid(ME, VOTER_BOND, FOREIGN, None, 12), DisputeEnded(DISPUTE, None),
        DisputeEnded(FOREIGN, None),
    ],
    97: [ClaimEnded(CHECKED, ClaimOutcome.PASSED)],
}  # fmt: skip


class Blocks:
    """Final blocks of a chain without tasks, with their heights as ids."""

    runtime = SimpleNamespace(pallets=())

    async def finalized(self) -> bytes:
        return bytes([LAST])

    async def height(self, block: bytes) -> int:
        return block[0]

    async def final_ids(self, first: int, last: int) -> list[bytes]:
        return [bytes([height]) for height in range(first, last + 1)]

    async def events(self, block: bytes) -> list[SimpleNamespace]:
        return [SimpleNamespace(event=event) for event in EVENTS.get(block[0], [])]


def read(since: int) -> ClaimMoneyRead:
    client: Any = Blocks()
    return asyncio.run(claim_money(client, ME, {CHECKED}, {DISPUTE: VOTED}, since))


def test_own_fees_and_losses_are_read_and_no_other_payment() -> None:
    found = read(90)
    assert found.moved == (ClaimMoney(95, CHECKED, None, 2, 11), ClaimMoney(96, VOTED, DISPUTE, 21, 9))
    assert found.ended == {DISPUTE, FOREIGN, CHECKED}
    assert (found.until, found.is_whole) == (LAST, True)


def test_a_block_is_read_once() -> None:
    assert [money.block for money in read(89).moved] == [90, 95, 96]
    assert read(95).moved == (ClaimMoney(96, VOTED, DISPUTE, 21, 9),)
    assert read(96).ended == {CHECKED}
    assert read(LAST).until == LAST
    assert read(LAST + 3).until == LAST + 3


def test_blocks_that_were_left_out_are_told() -> None:
    assert read(LAST - LOOKED_BACK_MAX - 1).is_whole
    assert not read(LAST - LOOKED_BACK_MAX - 2).is_whole
