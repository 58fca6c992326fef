"""The node's answers to the RPC process: submissions, proofs, blocks too old for its copy, figures of the node.

Invariant: a request changes only the pools (`Submit`, `SubmitMany`, `SubmitAttestation`) and the keystore
(`RotateKeys`). A request that cannot be answered raises `PoolRefusalError` with the client's code.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from node.errors import BadInputError
from node.feed import messages as feed
from node.feed.view import NodeView
from node.ledger.listener import Listener
from node.p2p.transport import PeerInfo
from node.pool.refusal import PoolRefusalError, Refusal
from runtime.blocks.block import BLOCK
from runtime.blocks.evidence import EVIDENCE, DoubleHeader
from runtime.encoding.codec import codec
from runtime.pallets.session_keys import KeysProof, SessionKeys

OFFENCES_KEPT = 64
PROOF_KEYS_MAX = 1_024  # 35 us for each
INVALID_PARAMS = -32602
STATE_DISCARDED = 4003
NO_KEYS = -32000
ACCOUNT_BYTES = 32
Rotate = Callable[[bytes], tuple[SessionKeys, KeysProof]]
"""A function that makes new keys for an account."""


class Answers(Listener):
    """The answers to requests, and recent evidence of offences for reports."""

    def __init__(
        self, view: NodeView, recent_polls: Callable[[], list[feed.Value]], rotate_keys: Rotate | None = None
    ) -> None:
        """Create it; `recent_polls` returns the last polls, `rotate_keys` makes new keys.

        A node that only follows has no `rotate_keys`.
        """
        self._node_view = view
        self._recent_polls = recent_polls
        self._rotate_keys = rotate_keys
        self._offences: deque[dict[str, feed.Value]] = deque(maxlen=OFFENCES_KEPT)

    def on_offence(self, author: bytes, slot: int, first: bytes, second: bytes) -> None:
        """Keep the evidence of two headers."""
        evidence = EVIDENCE.encode(DoubleHeader(first, second))
        self._offences.append({"author": author, "slot": slot, "evidence": evidence})

    def on_evidence(self, accused: bytes, evidence: bytes) -> None:
        """Keep the evidence of conflicting proposals or votes."""
        self._offences.append({"author": accused, "evidence": evidence})

    async def answer(self, request: feed.Request) -> feed.Value:  # noqa: C901, PLR0912  # one case for each request
        """Answer a request of the RPC process. Raise `PoolRefusalError` if it cannot be answered."""
        view = self._node_view
        match request:
            case feed.Submit(_, extrinsic):
                return await view.pools.transactions.submit(extrinsic)
            case feed.SubmitMany(_, extrinsics):
                submit_outcomes = await view.pools.transactions.submit_many(extrinsics)
                return [
                    list(submit_outcome) if isinstance(submit_outcome, Refusal) else submit_outcome
                    for submit_outcome in submit_outcomes
                ]
            case feed.SubmitAttestation(_, attestation):
                return view.pools.attestations.submit(attestation)
            case feed.Pending():
                return list(view.pools.transactions.pending())
            case feed.NextNonce(_, account, nonce):
                return view.pools.transactions.next_nonce(account, nonce)
            case feed.ListPeers():
                return [self._peer_fields(info) for info in view.network.transport.peers()]
            case feed.BlockAt(_, block):
                return self._block_value(block)
            case feed.IdAt(_, height):
                return view.chain.storage.id_at(height)
            case feed.CertificateAt(_, height):
                return self._certificate(height)
            case feed.HandoffsFrom(_, epoch, count):
                return self._handoffs(epoch, count)
            case feed.Prove(_, block, keys):
                return self._read_proof(block, keys)
            case feed.Inspect(_, topic):
                return self._inspected_topic(topic)
            case feed.RotateKeys(_, owner):
                return self._rotated_keys(owner)

    # --- inside

    def _peer_fields(self, info: PeerInfo) -> dict[str, feed.Value]:
        standing = self._node_view.sync.standing(info.peer.encode())
        peer_fields: dict[str, feed.Value] = {"peerId": info.peer, "roles": info.role.name}
        if standing is None:
            return peer_fields | {"bestHash": self._node_view.chain.genesis, "bestNumber": 0}
        return peer_fields | {"bestHash": standing.tip, "bestNumber": standing.tip_height}

    def _block_value(self, block_id: bytes) -> feed.Value:
        stored = self._node_view.chain.stored(block_id)
        if stored is None:
            return None
        return [stored.header, list(BLOCK.decode(stored.header + stored.body).extrinsics)]

    def _certificate(self, height: int) -> feed.Value:
        storage = self._node_view.chain.storage
        certified_block = storage.certificate_at(height)
        if certified_block is None:
            return None
        certified_height, certificate = certified_block
        certified = storage.id_at(certified_height)
        return [certified, certificate, storage.header(certified) if certified is not None else None]

    def _handoffs(self, first_epoch: int, epoch_count: int) -> feed.Value:
        """Return handoffs without a gap: a chain that an older program began lacks the first ones."""
        handoffs: list[feed.Value] = []
        for epoch in range(first_epoch, first_epoch + min(epoch_count, feed.HANDOFFS_MAX)):
            handoff = self._node_view.chain.storage.handoff(epoch)
            if handoff is None:
                break
            handoffs.append(handoff)
        return handoffs

    def _read_proof(self, block_id: bytes, keys: list[bytes]) -> feed.Value:
        if len(keys) > PROOF_KEYS_MAX:
            raise PoolRefusalError(INVALID_PARAMS, "Invalid params", f"at most {PROOF_KEYS_MAX} keys")
        proof = self._node_view.chain.prove(block_id, keys)
        if proof is None:
            raise PoolRefusalError(STATE_DISCARDED, "State already discarded", f"for 0x{block_id.hex()}")
        return list(proof)

    def _rotated_keys(self, owner_account: bytes) -> feed.Value:
        if self._rotate_keys is None:
            raise PoolRefusalError(NO_KEYS, "No keys", "this node only follows the chain: start it with --validator")
        if len(owner_account) != ACCOUNT_BYTES:
            raise PoolRefusalError(INVALID_PARAMS, "Invalid params", f"an account has {ACCOUNT_BYTES} bytes")
        try:
            rotated_keys, proof = self._rotate_keys(owner_account)
        except BadInputError as error:
            raise PoolRefusalError(NO_KEYS, "No keys", str(error)) from error
        return [codec(SessionKeys).encode(rotated_keys), codec(KeysProof).encode(proof)]

    def _inspected_topic(self, topic_name: str) -> feed.Value:
        match topic_name:
            case "consensus":
                return self._consensus()
            case "polls":
                return self._recent_polls()
            case "pool":
                queue = self._node_view.pools.transactions.queue
                return {
                    "ready": queue.ready_count,
                    "future": queue.future_count,
                    "bytes": queue.bytes_used,
                }
            case "network":
                return [_traffic_fields(info) for info in self._node_view.network.transport.peers()]
            case "offences":
                return list(self._offences)
            case _:
                raise PoolRefusalError(INVALID_PARAMS, "Invalid params", f"topic {topic_name} is unknown")

    def _consensus(self) -> feed.Value:
        machine = self._node_view.machine
        epoch, round_ = machine.gadget_round
        return {"epoch": epoch, "round": round_, "tip": machine.tip.id, "leaves": self._node_view.chain.leaves()}


def _traffic_fields(info: PeerInfo) -> feed.Value:
    return {
        "peer": info.peer,
        "address": info.address,
        "received": info.received_bytes,
        "sent": info.sent_bytes,
    }
