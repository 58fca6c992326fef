"""Proofs that prove nothing: with holes, of something else, of an older state, cut, without end."""

from __future__ import annotations

from devnet.proofs.liars.certificates import BLOCKS_BEFORE, CERTIFIED, NOT_BELIEVED
from devnet.proofs.liars.lie import TRUTH, Mouth, NodeMessage, Program, Replies, lie

WALLET, CUSTOMER, PROVIDER = Program
PROVING = ("state_getReadProof", "ogpu_callProof")
NODES_TOO_MANY = 120_000


def proves(message: NodeMessage) -> bool:
    """Whether a message is a proof, be it the one of who the first validators are."""
    return message.method in PROVING and isinstance(message.value, dict)


def with_nodes(message: NodeMessage, nodes: list[str]) -> Replies:
    """The message with another proof."""
    return [message.saying({**message.value, "proof": nodes})]


@lie(*Program, words=NOT_BELIEVED)
def proofs_with_holes(message: NodeMessage, _: Mouth) -> Replies | None:
    """Every second node of a proof is left out."""
    return with_nodes(message, message.value["proof"][1::2]) if proves(message) else TRUTH


@lie(*Program, words=NOT_BELIEVED)
def proofs_of_nothing(message: NodeMessage, _: Mouth) -> Replies | None:
    """A proof has no node at all."""
    return with_nodes(message, []) if proves(message) else TRUTH


@lie(*Program, words=NOT_BELIEVED)
def proofs_cut(message: NodeMessage, _: Mouth) -> Replies | None:
    """The nodes of a proof end after their first bytes."""
    return with_nodes(message, [node[:10] for node in message.value["proof"]]) if proves(message) else TRUTH


@lie(*Program, words=NOT_BELIEVED)
def proofs_of_many(message: NodeMessage, _: Mouth) -> Replies | None:
    """A proof has more nodes than any."""
    return with_nodes(message, [*message.value["proof"], *["0x00"] * NODES_TOO_MANY]) if proves(message) else TRUTH


@lie(*Program, words=NOT_BELIEVED)
def proofs_of_odd_nodes(message: NodeMessage, _: Mouth) -> Replies | None:
    """The nodes of a proof are numbers."""
    return [message.saying({**message.value, "proof": [7, 8]})] if proves(message) else TRUTH


@lie(*Program, words=NOT_BELIEVED)
async def proofs_of_before(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """Proofs are right, of an older state than the one that was asked for."""
    if not proves(message):
        return TRUTH
    *asked, at = message.question.params
    if not isinstance(at, str):
        return TRUTH
    newer = await mouth.ask("chain_getHeader", at)
    height = int(newer["number"], 16)
    if not height:
        return TRUTH
    older = await mouth.ask(CERTIFIED, max(1, height - BLOCKS_BEFORE))
    block = await mouth.ask("chain_getBlockHash", int(older["header"]["number"], 16))
    true = await mouth.ask(message.method, *asked, block)
    return with_nodes(message, true["proof"])


LIES = (proofs_with_holes, proofs_of_nothing, proofs_cut, proofs_of_many, proofs_of_odd_nodes, proofs_of_before)
