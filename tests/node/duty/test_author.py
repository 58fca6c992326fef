"""Block building: refused transactions leave the pool, crashing ones are quarantined, the block always completes."""

from __future__ import annotations

from pathlib import Path

import pytest

import node.duty.author
from block_maker import Maker
from consensus.events import Build
from consensus.signstate import SigningRefusedError
from genesis import dev_accounts
from runtime.blocks.block import HEADER_BYTES_MAX
from runtime.execution.executive import BlockExecution
from runtime.pallets.balances import Balances

PAY = Balances.transfer_keep_alive(dest=dev_accounts.stash("Bob"), value=1)


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path)


def test_extrinsics_go_in_in_order_and_invalid_ones_are_dropped(maker: Maker) -> None:
    good = [maker.transfer(PAY, nonce) for nonce in range(3)]
    stale, early = maker.transfer(PAY, 0), maker.transfer(PAY, 9)
    forged = bytearray(maker.transfer(PAY, 3))
    forged[40] ^= 1
    block = maker.make(None, *good, stale, early, bytes(forged))
    assert block.extrinsics[1:] == tuple(good)
    assert maker.pool.dropped == ["stale", "bad_proof"]


def test_a_sender_who_cannot_pay_costs_one_look(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[object] = []
    apply = BlockExecution.apply_signed

    def counted(self: BlockExecution, extrinsic: object, verify: object) -> bool:
        looks.append(extrinsic)
        return apply(self, extrinsic, verify)  # type: ignore[arg-type]

    monkeypatch.setattr(BlockExecution, "apply_signed", counted)
    poor = [maker.transfer(PAY, nonce, tip=10**30) for nonce in range(50)]
    assert maker.make(None, *poor).extrinsics[1:] == ()
    assert (len(looks), maker.pool.dropped) == (1, ["payment"])


def test_an_extrinsic_that_breaks_us_is_quarantined(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    good, evil = maker.transfer(PAY, 0), maker.transfer(PAY, 1)
    apply = BlockExecution.apply_signed

    def fragile(self: BlockExecution, extrinsic: object, verify: object) -> bool:
        if getattr(extrinsic, "raw", b"") == evil:
            raise ZeroDivisionError
        return apply(self, extrinsic, verify)  # type: ignore[arg-type]

    monkeypatch.setattr(BlockExecution, "apply_signed", fragile)
    assert maker.make(None, good, evil).extrinsics[1:] == (good,)
    assert maker.pool.dropped == ["quarantined"]


def test_a_block_fits_into_a_message(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    raws = [maker.transfer(PAY, nonce) for nonce in range(10)]
    room = 4 * (len(raws[0]) + 4) + 10
    monkeypatch.setattr(node.duty.author, "BLOCK_BYTES_MAX", HEADER_BYTES_MAX + room)
    assert len(maker.make(None, *raws).extrinsics) == 1 + 4
    assert maker.pool.dropped == []


def test_an_empty_block_is_made_for_a_heartbeat_only(maker: Maker) -> None:
    final = maker.chain.final.facts
    assert maker.author.build(Build(maker.slot + 1, final.id, 1, 0, None, heartbeat=False)) is None
    assert maker.author.build(Build(maker.slot + 1, final.id, 1, 0, None, heartbeat=True)) is not None


def test_two_blocks_for_one_slot_are_refused_by_the_sign_state(maker: Maker) -> None:
    maker.make()
    maker.slot -= 1
    with pytest.raises(SigningRefusedError):
        maker.make(None, maker.transfer(PAY, 0))
    assert len(maker.chain.above_final()) == 1
