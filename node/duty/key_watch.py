"""Keys that are added while the node runs: the node starts to use them, and proves its keys to peers.

Invariant: a key comes into use with the record of its signatures, or waits until `seat_watch` may begin one. An
unreadable keystore does not affect the keys in use. A proof to peers has room for a few keys, so seated and elected
keys come first.
"""

from __future__ import annotations

import logging

from node.config import Paths
from node.duty.key_proofs import new_keys, prove_stored
from node.duty.keystore import SESSION, VRF, KeyPair, Keystore
from node.duty.seat import by_use, stored
from node.duty.signing_key import SigningKey
from node.duty.signstate_file import SignStateFile
from node.duty.validator_keys import ValidatorKeys
from node.errors import BadInputError
from node.ledger.chain import Chain, ExecutedBlock
from node.ledger.listener import Listener
from node.p2p.frames import FrameKind
from node.peers.peers import Peers
from runtime.pallets.session_keys import KeysProof, SessionKeys

_LOG = logging.getLogger(__name__)


class KeyWatch(Listener):
    """A check of one node's keystore at each final block."""

    def __init__(self, validator_keys: ValidatorKeys, chain: Chain, paths: Paths, peers: Peers, peer_id: str) -> None:
        """Create the watch over `validator_keys`: those at the node's start, which the hello of `peer_id` proves."""
        self._validator_keys = validator_keys
        self._chain = chain
        self._paths = paths
        self._keystore = Keystore(paths.keystore)
        self._peers = peers
        self._peer_id = peer_id
        self._of_hello = self._shown_keys = validator_keys.shown()
        self._store_seen_at = self._keystore.changed_at()
        self._epoch = -1

    def on_final(self, blocks: list[ExecutedBlock]) -> None:
        """Load new keys after a change of the keystore, and at a new epoch, when other keys may have to be proved."""
        changed_at = self._keystore.changed_at()
        next_epoch = self._chain.parameters.epoch_of(blocks[-1].facts.height + 1)
        if (changed_at, next_epoch) != (self._store_seen_at, self._epoch):
            self._store_seen_at, self._epoch = changed_at, next_epoch
            self._take_up()

    def rotate(self, owner: bytes) -> tuple[SessionKeys, KeysProof]:
        """Create and load new keys, and return them with the proof with which `owner` registers them.

        Raise `BadInputError` if the keystore is full.
        """
        rotated_keys = new_keys(self._paths, self._chain.genesis)
        proof = prove_stored(self._keystore, rotated_keys, self._chain.genesis, owner)
        self._take_up()
        return rotated_keys, proof

    def tell(self, peer: str) -> None:
        """Prove to a newly connected peer the keys that the hello does not contain."""
        if self._shown_keys != self._of_hello:
            self._peers.transport.send(peer, FrameKind.KEYS, self._validator_keys.prove_peer(self._peer_id))

    # --- inside

    def _take_up(self) -> None:
        try:
            self._read_new_keys()
        except BadInputError as error:
            _LOG.error("new keys of the keystore are not used: %s", error)
        self._validator_keys.arrange(by_use(self._chain, self._validator_keys.sessions))
        if self._validator_keys.shown() != self._shown_keys:
            self._shown_keys = self._validator_keys.shown()
            self._peers.transport.broadcast(FrameKind.KEYS, self._validator_keys.prove_peer(self._peer_id))

    def _read_new_keys(self) -> None:
        for pair in stored(
            self._keystore, VRF
        ):  # VRF keys first: no session key may get a seat here without its VRF key
            self._validator_keys.take_up_vrf(pair)
        for pair in stored(self._keystore, SESSION):
            if pair.public not in self._validator_keys.sessions:
                self._validator_keys.take_up(self._with_record(pair))
                _LOG.info("found the new key 0x%s", pair.public.hex())

    def _with_record(self, pair: KeyPair) -> SigningKey:
        path = self._paths.sign_state(pair.public)
        return SigningKey(pair, SignStateFile.load(path, self._chain.genesis, pair.public))
