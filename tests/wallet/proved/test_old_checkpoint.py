"""A checkpoint without its state on any node: its ancestors' headers name the validators."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from consensus.handoffs import seats_log, seats_of
from consensus.parameters import DEVNET
from genesis.chain import apis_for
from handed_sets import root_of, set_of, walk
from node.rpc.block_reads import header_json
from runtime.blocks.block import Header, block_id
from runtime.blocks.digest import consensus_item
from wallet.proved import chain as proved_chain
from wallet.proved.chain import ProvedChain
from wallet.proved.finality import FinalHeader
from wallet.proved.refutation import NodeRefutedError
from wallet.proved.sets import KnownSets
from wallet.proved.view import STATE_IS_GONE, ProvedView
from wallet.rpc import RpcError

APIS = apis_for("devnet", is_development=True)
SETS = [(1, 2, 3, 4), (1, 2, 3, 5), (1, 2, 6, 5), (7, 2, 6, 5)]
EPOCH = DEVNET.epoch_blocks


class OldBlocks:
    """A node with a chain's headers and none of its states. `liar_sets` are those of its handoffs."""

    def __init__(self, liar_sets: Sequence[Sequence[int]] = SETS) -> None:
        self.headers: list[Header] = [Header(bytes(32), 0, bytes(32), bytes(32), ())]
        while len(self.headers) <= len(SETS) * EPOCH:
            number, parent = len(self.headers), block_id(self.headers[-1])
            named = number // EPOCH if number % EPOCH == 0 else len(SETS)
            digest = (consensus_item(seats_log(seats_of(set_of(named, SETS[named])))),) if named < len(SETS) else ()
            self.headers.append(Header(parent, number, bytes(32), bytes(32), digest))
        self.handing = walk(liar_sets)
        self.asked = 0
        self.shown: dict[bytes, Any] = {block_id(header): header_json(header) for header in self.headers}

    async def ask(self, method: str, *parameters: Any) -> Any:
        """Its JSON-RPC."""
        if method == "chain_getHeader":
            self.asked += 1
            return self.shown.get(bytes.fromhex(parameters[0][2:]))
        if method == "state_getReadProof":
            raise RpcError(-32000, f"Client error: UnknownBlock: {STATE_IS_GONE} for {parameters[-1]}")
        return await self.handing.ask(method, *parameters)

    def compare(self, height: int, told: list[str] | None = None) -> KnownSets:
        """Compare the validators at a block of this height. Return the followed sets."""
        root, header = root_of(set_of(0, SETS[0])), self.headers[height]
        sets = KnownSets("ws://node", self.ask, root)
        chain = ProvedChain("ws://node", self.ask, APIS, root, sets)
        view = ProvedView("ws://node", self.ask, APIS, FinalHeader(block_id(header), header, height))
        asyncio.run(chain.require_validators(view, ([] if told is None else told).append))
        return sets


@pytest.mark.parametrize("height", [1, EPOCH, EPOCH + 1, 2 * EPOCH, 2 * EPOCH + 7, 4 * EPOCH])
def test_the_header_with_which_its_epoch_began_says_who_validates(height: int) -> None:
    node = OldBlocks()
    epoch = DEVNET.epoch_of(height)
    sets = node.compare(height)
    assert node.asked == (height - epoch * EPOCH if epoch else 0), "no header more than the way there"
    assert asyncio.run(sets.of(epoch)) == set_of(epoch, SETS[epoch])


def test_handoffs_of_another_history_are_refuted_and_forgotten() -> None:
    node = OldBlocks([SETS[0], SETS[1], (1, 2, 8, 9), (8, 9, 1)])
    node.compare(EPOCH + 5)
    with pytest.raises(NodeRefutedError, match=r"ws://node about who validates .* others than the handoffs lead to"):
        node.compare(2 * EPOCH + 5)


@pytest.mark.parametrize("how", ["none", "another", "rubbish"])
def test_a_header_that_is_not_shown_is_no_agreement(how: str) -> None:
    node = OldBlocks()
    node.shown[block_id(node.headers[2 * EPOCH + 3])] = {
        "none": None,
        "another": header_json(node.headers[2 * EPOCH + 2]),
        "rubbish": {"number": "0x1"},
    }[how]
    node.compare(2 * EPOCH + 2)
    with pytest.raises(NodeRefutedError, match="who validates at block 0x"):
        node.compare(2 * EPOCH + 5)


def test_other_errors_of_the_node_are_no_agreement_either(monkeypatch: pytest.MonkeyPatch) -> None:
    node = OldBlocks()
    honest = node.ask

    async def busy(method: str, *parameters: Any) -> Any:
        if method == "state_getReadProof":
            raise RpcError(-32000, "busy")
        return await honest(method, *parameters)

    monkeypatch.setattr(node, "ask", busy)
    with pytest.raises(RpcError, match="busy"):
        node.compare(EPOCH + 5)


def test_a_long_way_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proved_chain, "WALK_TOLD_FROM", 20)
    told: list[str] = []
    OldBlocks().compare(EPOCH + 19, told)
    assert told == []
    OldBlocks().compare(EPOCH + 20, told)
    assert [f"block {EPOCH + 20:,} no longer: following 20 headers" in text for text in told] == [True]
