"""The memory of an execution after its end."""

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from runtime.blocks.block import Block
from runtime.cryptography.signatures import verify
from runtime.execution import executive
from runtime.execution.executive import BlockExecution, execute_block
from runtime.frame.errors import InvalidBlock
from runtime.pallets.balances import Balances
from small_chain import ALICE, BOB, RUNTIME, SmallChain, sealed


@pytest.mark.parametrize("header", [{}, {"state_root": bytes(32)}])
def test_an_execution_lets_go_of_what_it_read_and_told(header: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pallets form reference cycles: events and values of whole blocks waited for the cycle collector."""
    chain = SmallChain()
    authoring = chain.begin()
    authoring.offer(chain.signed(ALICE, Balances.transfer_keep_alive(dest=BOB.account, value=1)), verify)
    built = authoring.finish()
    block = Block(sealed(replace(built.header, **header)), built.extrinsics)
    made: list[BlockExecution] = []

    class Noted(BlockExecution):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(executive, "BlockExecution", Noted)
    with pytest.raises(InvalidBlock) if header else nullcontext():
        execute_block(RUNTIME, chain.state, chain.trie, block, verify)
    overlay = made[0].bound.overlay
    assert overlay.reader is not chain.state
    assert not any((overlay.events, overlay._values, overlay._before, overlay._written, overlay._journal))
