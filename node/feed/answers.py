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

    def __init__(self, view: NodeView, polls: Callable[[], list[feed.Value]], rotate: Rotate | None = None) -> None:
        """Create it; `polls` returns the last polls, `rotate` makes new keys (None for a node that only follows)."""
        self._view = view
        self._polls = polls
        self._rotate = rotate
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
        view = self._view
        match request:
            case feed.Submit(_, extrinsic):
                return await view.pools.transactions.submit(extrinsic)
            case feed.SubmitMany(_, extrinsics):
                outcomes = await view.pools.transactions.submit_many(extrinsics)
                return [list(outcome) if isinstance(outcome, Refusal) else outcome for outcome in outcomes]
            case feed.SubmitAttestation(_, attestation):
                return view.pools.attestations.submit(attestation)
            case feed.Pending():
                return list(view.pools.transactions.pending())
            case feed.NextNonce(_, account, nonce):
                return view.pools.transactions.next_nonce(account, nonce)
            case feed.ListPeers():
                return [self._peer(info) for info in view.network.transport.peers()]
            case feed.BlockAt(_, block):
                return self._block(block)
            case feed.IdAt(_, height):
                return view.chain.storage.id_at(height)
            case feed.CertificateAt(_, height):
                return self._certificate(height)
            case feed.HandoffsFrom(_, epoch, count):
                return self._handoffs(epoch, count)
            case feed.Prove(_, block, keys):
                return self._prove(block, keys)
            case feed.Inspect(_, topic):
                return self._inspect(topic)
            case feed.RotateKeys(_, owner):
                return self._rotated(owner)

    # --- inside

    def _peer(self, info: PeerInfo) -> dict[str, feed.Value]:
        standing = self._view.sync.standing(info.peer.encode())
        shown: dict[str, feed.Value] = {"peerId": info.peer, "roles": info.role.name}
        if standing is None:
            return shown | {"bestHash": self._view.chain.genesis, "bestNumber": 0}
        return shown | {"bestHash": standing.tip, "bestNumber": standing.tip_height}

    def _block(self, block: bytes) -> feed.Value:
        stored = self._view.chain.stored(block)
        if stored is None:
            return None
        return [stored.header, list(BLOCK.decode(stored.header + stored.body).extrinsics)]

    def _certificate(self, height: int) -> feed.Value:
        storage = self._view.chain.storage
        found = storage.certificate_at(height)
        if found is None:
            return None
        certified_height, certificate = found
        certified = storage.id_at(certified_height)
        return [certified, certificate, storage.header(certified) if certified is not None else None]

    def _handoffs(self, epoch: int, count: int) -> feed.Value:
        """Return handoffs without a gap: a chain that an older program began lacks the first ones."""
        found: list[feed.Value] = []
        for number in range(epoch, epoch + min(count, feed.HANDOFFS_MAX)):
            handoff = self._view.chain.storage.handoff(number)
            if handoff is None:
                break
            found.append(handoff)
        return found

    def _prove(self, block: bytes, keys: list[bytes]) -> feed.Value:
        if len(keys) > PROOF_KEYS_MAX:
            raise PoolRefusalError(INVALID_PARAMS, "Invalid params", f"at most {PROOF_KEYS_MAX} keys")
        proof = self._view.chain.prove(block, keys)
        if proof is None:
            raise PoolRefusalError(STATE_DISCARDED, "State already discarded", f"for 0x{block.hex()}")
        return list(proof)

    def _rotated(self, owner: bytes) -> feed.Value:
        if self._rotate is None:
            raise PoolRefusalError(NO_KEYS, "No keys", "this node only follows the chain: start it with --validator")
        if len(owner) != ACCOUNT_BYTES:
            raise PoolRefusalError(INVALID_PARAMS, "Invalid params", f"an account has {ACCOUNT_BYTES} bytes")
        try:
            keys, proof = self._rotate(owner)
        except BadInputError as error:
            raise PoolRefusalError(NO_KEYS, "No keys", str(error)) from error
        return [codec(SessionKeys).encode(keys), codec(KeysProof).encode(proof)]

    def _inspect(self, topic: str) -> feed.Value:
        match topic:
            case "consensus":
                return self._consensus()
            case "polls":
                return self._polls()
            case "pool":
                queue = self._view.pools.transactions.queue
                return {"ready": queue.ready_count, "future": queue.future_count, "bytes": queue.bytes_used}
            case "network":
                return [_traffic(info) for info in self._view.network.transport.peers()]
            case "offences":
                return list(self._offences)
            case _:
                raise PoolRefusalError(INVALID_PARAMS, "Invalid params", f"topic {topic} is unknown")

    def _consensus(self) -> feed.Value:
        machine = self._view.machine
        epoch, round_ = machine.gadget_round
        return {"epoch": epoch, "round": round_, "tip": machine.tip.id, "leaves": self._view.chain.leaves()}


def _traffic(info: PeerInfo) -> feed.Value:
    return {"peer": info.peer, "address": info.address, "received": info.received_bytes, "sent": info.sent_bytes}
