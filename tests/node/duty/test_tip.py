"""The node's catch-up, judged by the age of its last final block and by its operator's checkpoint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from block_maker import FIRST_SLOT, open_at
from consensus.headers import TrustedBlock
from node.duty.heart import TIP_SLOTS, is_at_tip

SLOTS = TIP_SLOTS + 3  # an idle devnet makes a block each slot


@pytest.mark.parametrize(("slots", "is_new"), [(-5, True), (SLOTS, True), (SLOTS + 1, False)])
@pytest.mark.parametrize(("checkpoint", "is_reached"), [(None, True), (6, True), (7, True), (8, False)])
def test_the_tip(tmp_path: Path, slots: int, checkpoint: int | None, *, is_new: bool, is_reached: bool) -> None:
    chain = open_at(tmp_path)
    trusted = None if checkpoint is None else TrustedBlock(checkpoint, b"c" * 32)
    chain.rules = replace(chain.rules, checkpoint=trusted)
    final = replace(chain.final.facts, height=7, slot=FIRST_SLOT)
    assert is_at_tip(chain, final, (FIRST_SLOT + slots) * 1_000) is (is_new and is_reached)
