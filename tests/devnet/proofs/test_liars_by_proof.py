"""Lies in certificates and proofs: only a checking client can find each, and every checking client refuses it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from certified_blocks import BOB, CertifiedChain, payment
from devnet.proofs.liars import node_lies, state_lies
from devnet.proofs.liars.catalogue import LIES_BY_NAME
from devnet.proofs.liars.lie import NodeLie, NodeMessage, NodeQuestion
from node.rpc.block_reads import header_json
from runtime.blocks.block import block_id
from runtime.pallets.system import System
from runtime.state.trie_proof import InvalidProof, ProvedState
from wallet.proved.finality import final_header, trust_root
from wallet.proved.json_forms import certified_of, header_of, proof_of
from wallet.proved.refutation import RefutedError

BLOCKS = 40


class Scene:
    """A node with a certified chain, as liars ask it. Implements `LyingConnection`."""

    def __init__(self) -> None:
        self.memory: dict[str, Any] = {}
        self.chain = CertifiedChain()
        self.certified = {}
        for height in range(1, BLOCKS + 1):
            header = self.chain.author(payment(self.chain.chain, height))
            shown = {"header": header_json(header), "certificate": "0x" + self.chain.certificate().hex()}
            self.certified[height] = shown

    async def ask(self, method: str, *params: Any) -> Any:
        match method:
            case "chain_getBlockHash":
                header = self.chain.genesis_header if params[0] == 0 else self.chain.blocks[params[0] - 1][0].header
                return "0x" + block_id(header).hex()
            case "chain_getHeader":
                return self.certified[BLOCKS]["header"]
            case "ogpu_certifiedHeader":
                return self.certified[params[0] if params else BLOCKS]
            case "state_getReadProof":
                ids = ["0x" + block_id(block.header).hex() for block, _ in self.chain.blocks]
                return self.proof(params[0], ids.index(params[1]) + 1)
            case "state_getStorage":
                raw = self.chain.blocks[-1][1].get(bytes.fromhex(params[0][2:]))
                return None if raw is None else "0x" + raw.hex()
            case _:
                raise AssertionError(method)

    def proof(self, keys: list[str], at: int = BLOCKS) -> dict[str, Any]:
        nodes = self.chain.blocks[at - 1][1].prove([bytes.fromhex(key[2:]) for key in keys])
        return {"proof": ["0x" + node.hex() for node in nodes]}

    def say(self, reply: Any, after_seconds: float = 0.0) -> None:
        raise AssertionError("says nothing by itself")

    def hang_up(self) -> None:
        raise AssertionError("does not hang up")

    def told(self, name: str, method: str, params: list[Any], value: Any) -> Any:
        """Return the message that arrives in place of a value."""
        lie = LIES_BY_NAME[name]
        assert isinstance(lie, NodeLie)
        message = NodeMessage(NodeQuestion(method, params, 1), {"id": 1, "result": value}, is_item=False)
        replies = asyncio.run(lie.of_message(message, self))
        assert replies is not None, "the truth"
        reply: Any = replies[0]
        return reply["result"]


@pytest.fixture(scope="module")
def scene() -> Scene:
    return Scene()


def test_the_truth_is_believed(scene: Scene) -> None:
    final = final_header(scene.chain.root(), scene.chain.root().first_set, *certified_of(scene.certified[BLOCKS]))
    key = scene.chain.key(System.account, BOB)
    state = ProvedState(final.header.state_root, proof_of(scene.proof(["0x" + key.hex()])))
    assert state.get(key) == scene.chain.blocks[-1][1].get(key)


FALSE_HEADERS = (
    "signed_by_strangers", "signed_by_too_many", "certificate_of_before", "certificate_without_end",
    "header_of_another_state", "future_head", "header_without_digest",
)  # fmt: skip
"""The others are silent, or old and true. This chain has only one validator."""
FALSE_PROOFS = [lie.name for lie in node_lies.NODE_LIES if lie.name.startswith("proofs_")]


@pytest.mark.parametrize("name", FALSE_HEADERS)
def test_a_false_final_header_is_refuted(scene: Scene, name: str) -> None:
    told = scene.told(name, "ogpu_certifiedHeader", [], scene.certified[BLOCKS])
    with pytest.raises(RefutedError):
        final_header(scene.chain.root(), scene.chain.root().first_set, *certified_of(told))


def test_an_old_header_is_true_and_old(scene: Scene) -> None:
    for name in ("stale_head", "certified_goes_back", "anew_from_before"):
        told = scene.told(name, "ogpu_certifiedHeader", [], scene.certified[BLOCKS])
        assert (
            final_header(scene.chain.root(), scene.chain.root().first_set, *certified_of(told)).header.number < BLOCKS
        )


@pytest.mark.parametrize("name", [*FALSE_PROOFS, "rich", "poor"])
def test_a_false_proof_shows_nothing(scene: Scene, name: str) -> None:
    key = scene.chain.key(System.account, BOB)
    at, root = asyncio.run(scene.ask("chain_getBlockHash", BLOCKS)), scene.chain.blocks[-1][0].header.state_root
    told = scene.told(name, "state_getReadProof", [["0x" + key.hex()], at], scene.proof(["0x" + key.hex()]))
    with pytest.raises((InvalidProof, RefutedError)):
        ProvedState(root, proof_of(told)).get(key)


def test_the_other_chain_is_whole_and_in_order(scene: Scene) -> None:
    """Only the pinned genesis hash distinguishes it from the right chain."""
    name, genesis = "chain_of_strangers", state_lies.GENESIS
    assert scene.told(name, "chain_getBlockHash", [0], None) == genesis
    header = header_of(scene.told(name, "chain_getHeader", [genesis], None))
    proof = proof_of(scene.told(name, "state_getReadProof", [["0x00"], genesis], None))
    true = scene.chain.root()
    root = trust_root(bytes.fromhex(genesis[2:]), header, proof, scene.chain.chain.runtime, true.parameters)
    assert len(root.first_set.members) == state_lies.STRANGER_COUNT
    assert root.genesis != true.genesis
