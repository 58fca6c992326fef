"""Units with an input larger than a blob: raced, claimed, and the cost of wrong pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from gpu_tasks.data.pieces import PIECE_BYTES, in_pieces
from gpu_tasks.data.sealing import CONTENT_BYTES_MAX, LARGE_CONTENT_BYTES_MAX, address_of, seal
from gpu_tasks.data.unit_input import commitment_of, encode_input
from gpu_tasks.market.inference.events import RaceMissed, UnitRefunded
from gpu_tasks.market.inference.units import Refund, UnitState
from gpu_tasks.provider.blobs.store import BlobKind, BlobStore
from provider_chain import CUSTOMER_SEAL, INPUT_SALT, Village, in_village

BIG = b"no request".ljust(60_000)
ASKED = [b"complete this", *[BIG] * 40, b"complete it"]
"""2.4 MB, most of which needs no computation."""


@in_village(2)
async def test_a_large_batch_is_raced_for_and_settled(village: Village) -> None:
    unit_id = await village.post(ASKED, tokens_max=128)
    while village.unit(unit_id).unit.state is not UnitState.CLAIMED:
        await village.block()
    assert not village.unit(unit_id).unit.declined_by
    for miner in village.miners:
        assert len(miner.daemon.parts.store._blobs) >= 5, (
            "who races keeps a copy of each piece, for checkers and voters"
        )
    assert (await village.run(unit_id)).unit.state is UnitState.SETTLED


@pytest.mark.parametrize("wrong", ["too large for its requests", "another length", "not what was committed to"])
@in_village(5)
async def test_wrong_pieces_are_their_customers_fault(village: Village, wrong: str) -> None:
    sealed = _sealed(village, 3 * PIECE_BYTES)
    blobs = in_pieces(sealed)
    if wrong == "another length":
        blobs[0] = blobs[0] + b"x"
        blobs[-1] = blobs[-1].replace(address_of(blobs[0][:-1]), address_of(blobs[0]))
    await _stored(village, blobs)
    requests = 4 if wrong == "too large for its requests" else len(ASKED) + 20
    changed: dict[str, Any] = {"input_root": address_of(blobs[-1]), "requests": requests}
    await village.run(await village.post(ASKED, tokens_max=128, is_stored=False, **changed))
    assert [refunded.refund for refunded in village.happened(UnitRefunded)] == [Refund.INPUT_BAD]
    assert not village.happened(RaceMissed)
    assert not any(miner.executor.runs for miner in village.miners)
    if wrong == "too large for its requests":
        assert all(len(_own(miner.daemon.parts.store)) <= 1 for miner in village.miners), "nothing was fetched"


@in_village(5)
async def test_a_piece_that_nobody_has_is_as_an_input_that_nobody_has(village: Village) -> None:
    content = encode_input(INPUT_SALT, CUSTOMER_SEAL.public, bytes(2 * PIECE_BYTES))
    blobs = in_pieces(_sealed(village, content=content))
    await _stored(village, [*blobs[:1], blobs[-1]])
    changed: dict[str, Any] = {"input_root": address_of(blobs[-1]), "input_commitment": commitment_of(content)}
    unit = await village.post(ASKED, racers=1, tokens_max=128, is_stored=False, **changed)
    await village.run(unit, blocks=200)
    assert [refunded.refund for refunded in village.happened(UnitRefunded)] == [Refund.INPUT_BAD]
    assert not village.happened(RaceMissed)
    assert any("hindered" in miner.heard.names() for miner in village.miners)


def _sealed(village: Village, size: int = 0, content: bytes = b"") -> bytes:
    assert size > CONTENT_BYTES_MAX or content
    keys = [CUSTOMER_SEAL.public, *(miner.daemon.parts.identity.seal_key.public for miner in village.miners)]
    return seal(content or bytes(size), keys, LARGE_CONTENT_BYTES_MAX)


async def _stored(village: Village, blobs: Sequence[bytes]) -> None:
    for blob in blobs:
        await village.blobs.put(blob, [village._endpoint(village.miners[0].keys).decode()])


def _own(store: BlobStore) -> list[str]:
    """Return a provider's blobs that no client stored."""
    return [name for name, stored in store._blobs.items() if stored.kind is not BlobKind.STRANGERS]
