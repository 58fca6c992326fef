"""The stored part of a branch, and the blocks that are read from disk for a peer."""

from __future__ import annotations

from pathlib import Path

import pytest

import node.ledger.chain
from block_maker import Maker, open_at
from node.ledger.chain import Chain
from node.ledger.storage import StoredBlock


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path / "maker")


def test_with_a_block_that_is_voted_for_the_blocks_below_it_are_kept(maker: Maker, tmp_path: Path) -> None:
    blocks = [maker.make()]
    for _ in range(2):
        blocks.append(maker.make(blocks[-1].facts.id))
    assert maker.chain.keep(blocks[-1].facts.id)
    maker.chain.storage.close()
    again = open_at(tmp_path / "maker")
    assert [stored.block_id for stored in again.storage.pending()] == [block.facts.id for block in blocks]


def test_the_certificate_is_that_of_the_newest_of_the_blocks_it_makes_final(maker: Maker, tmp_path: Path) -> None:
    first = maker.make()
    second = maker.make(first.facts.id)
    certificate = maker.certify(second)
    maker.chain.finalise((first.facts.id, second.facts.id), certificate)
    maker.chain.storage.close()
    again = open_at(tmp_path / "maker")
    assert again.final.facts.id == second.facts.id
    assert again.final_certificate == certificate


def heights_read(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the heights of the final blocks that are read from here on."""
    read: list[int] = []
    final_block = chain._final_block

    def noted(height: int) -> StoredBlock:
        read.append(height)
        return final_block(height)

    monkeypatch.setattr(chain, "_final_block", noted)
    return read


def test_no_more_of_the_disk_is_read_for_a_peer_than_an_answer_holds(
    maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node.ledger.chain, "BLOCKS_PER_ANSWER_MAX", 2)
    chain = maker.chain
    for _ in range(5):
        block = maker.make()
        chain.finalise((block.facts.id,), maker.certify(block))
    read = heights_read(chain, monkeypatch)
    assert len(chain.branch(chain.final.facts.id, 0)) == 2
    assert read == [1, 2]


def test_of_long_final_blocks_no_more_are_read_than_an_answer_holds_and_one(
    maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """64 full blocks were read, 18 MB, to send three of them."""
    chain = maker.chain
    for _ in range(5):
        block = maker.make()
        chain.finalise((block.facts.id,), maker.certify(block))
    tip = maker.make()
    read = heights_read(chain, monkeypatch)
    monkeypatch.setattr(node.ledger.chain, "ANSWER_BYTES_MAX", 2 * len(chain.final.stored.body))
    assert len(chain.branch(tip.facts.id, 0)) == 3, "and not the tip, which lies above what is left out"
    assert read == [1, 2, 3]


def test_a_peer_is_sent_no_more_blocks_than_an_answer_holds(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node.ledger.chain, "BLOCKS_PER_ANSWER_MAX", 3)
    blocks = [maker.make()]
    for _ in range(4):
        blocks.append(maker.make(blocks[-1].facts.id))
    oldest = [block.stored.header + block.stored.body for block in blocks[:3]]
    assert maker.chain.branch(blocks[-1].facts.id, 0) == oldest
