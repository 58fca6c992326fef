"""The bytes of commitments by the page for authors of other clients, without this project's codec."""

from hashlib import blake2b
from pathlib import Path

import pytest

from gpu_tasks.market.budgets.records import budget_account, budget_id_of
from gpu_tasks.market.claims.claim_closing import dispute_id_of as claim_dispute_id_of
from gpu_tasks.market.claims.findings import (
    Finding,
    ItemSample,
    ItemVote,
    Verdict,
    finding_commitment,
    seed_of,
    vote_commitment,
)
from gpu_tasks.market.devices.records import device_id_of
from gpu_tasks.market.inference.units import dispute_id_of, result_commitment, unit_id_of
from gpu_tasks.market.training.bids import BidOffer, auction_id, bid_commitment
from gpu_tasks.market.training.replicas import replica_commitment
from gpu_tasks.market.training.tasks import TaskResult, slot_case, task_id_of
from gpu_tasks.market.training.tasks import dispute_id_of as dispute_id_of_task

PAGE = (Path(__file__).parents[3] / "docs" / "commitments.md").read_text(encoding="utf-8")
GENESIS, ONE, TWO, SALT = (bytes((number,)) * 32 for number in (0xA0, 0xA1, 0xA2, 0xA5))


def little(number: int, length: int) -> bytes:
    return number.to_bytes(length, "little")


def hashed(data: bytes) -> bytes:
    return blake2b(data, digest_size=32).digest()


def message(kind: bytes, body: bytes) -> bytes:
    return hashed(b"ogpu/1/" + kind.ljust(8, b"\0") + GENESIS + body)


SAMPLE = ItemSample(3, 5, ONE[:16])
SAMPLE_BYTES = little(3, 4) + little(5, 8) + ONE[:16]

ROWS = {
    "unit": (unit_id_of(GENESIS, ONE, 7), message(b"unit", ONE + little(7, 4))),
    "task": (task_id_of(GENESIS, ONE, 7), message(b"task", ONE + little(7, 4))),
    "budget": (budget_id_of(GENESIS, TWO, ONE, 7), message(b"budget", TWO + ONE + little(7, 4))),
    "account of a budget": (budget_account(ONE), hashed(b"ogpu/budget-account" + ONE)),
    "device": (device_id_of(ONE, TWO), hashed(b"ogpu/device" + ONE + TWO)),
    "auction": (auction_id(ONE, 2), hashed(b"ogpu/auction" + ONE + little(2, 1))),
    "slot": (slot_case(ONE, 3), hashed(b"ogpu/slot" + ONE + little(3, 1))),
    "dispute of a claim": (
        claim_dispute_id_of(ONE, 2),
        hashed(b"ogpu/claim-dispute" + ONE + little(2, 4)),
    ),
    "dispute of a task": (dispute_id_of_task(ONE, 2), hashed(b"ogpu/task-dispute" + ONE + little(2, 4))),
    "dispute of a unit": (
        dispute_id_of(ONE, 1),
        hashed(b"ogpu/unit-dispute" + ONE + little(1, 4)),
    ),
    "seed of samples": (seed_of(SALT, ONE, TWO), hashed(b"ogpu/sample-seed" + SALT + ONE + TWO)),
    "result": (
        result_commitment(GENESIS, ONE, 1, TWO, ONE, SALT),
        message(b"result", ONE + little(1, 4) + TWO + ONE + SALT),
    ),
    "finding": (
        finding_commitment(GENESIS, ONE, 1, TWO, Finding(Verdict.RIGHT, 0, (SAMPLE,)), SALT),
        message(b"finding", ONE + little(1, 1) + TWO + bytes((0, 0, 4)) + SAMPLE_BYTES + SALT),
    ),
    "vote": (
        vote_commitment(GENESIS, ONE, 1, TWO, ItemVote(Verdict.WRONG, ONE, (SAMPLE,)), SALT),
        message(b"vote", ONE + little(1, 1) + TWO + bytes((1,)) + ONE + bytes((4,)) + SAMPLE_BYTES + SALT),
    ),
    "bid": (
        bid_commitment(GENESIS, ONE, TWO, ONE, BidOffer(10**8, 40, 21 * 10**8), SALT),
        message(b"bid", ONE + TWO + ONE + little(10**8, 16) + little(40, 4) + little(21 * 10**8, 16) + SALT),
    ),
    "replica": (
        replica_commitment(GENESIS, ONE, 2, TWO, TaskResult(ONE, TWO, 7), SALT),
        message(b"replica", ONE + little(2, 1) + TWO + ONE + TWO + little(7, 8) + SALT),
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_what_is_committed_to_is_as_the_page_says(name: str) -> None:
    made, by_hand = ROWS[name]
    assert made == by_hand
    assert f"| {name} | `0x{made.hex()}` |" in PAGE
