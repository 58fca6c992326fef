"""Keys that come to a node while it runs: it takes them up, and shows its peers which keys it has.

Invariant: a key is taken up with the record of what it has signed, or waits until one may be begun
(`seat_watch`); a keystore that cannot be read changes nothing of what the node does with the keys that it has; peers
know the keys that sit or are elected first, since a proof has room for a few.
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
    """Looks into the keystore of one node, at each final block."""

    def __init__(self, keys: ValidatorKeys, chain: Chain, paths: Paths, peers: Peers, peer_id: str) -> None:
        """`keys` are those that the node started with, which its hello proves to peers called `peer_id`."""
        self._keys = keys
        self._chain = chain
        self._paths = paths
        self._store = Keystore(paths.keystore)
        self._peers = peers
        self._peer_id = peer_id
        self._of_hello = self._shown = keys.shown()
        self._seen = self._store.changed_at()
        self._epoch = -1

    def on_final(self, blocks: list[ExecutedBlock]) -> None:
        """Take up what has come; in another epoch other keys may be those that peers have to know."""
        changed_at = self._store.changed_at()
        epoch = self._chain.parameters.epoch_of(blocks[-1].facts.height + 1)
        if (changed_at, epoch) != (self._seen, self._epoch):
            self._seen, self._epoch = changed_at, epoch
            self._take_up()

    def rotate(self, owner: bytes) -> tuple[SessionKeys, KeysProof]:
        """Make new keys and take them up, with the proof by which `owner` registers them. Raise `BadInputError`."""
        keys = new_keys(self._paths, self._chain.genesis)
        proof = prove_stored(self._store, keys, self._chain.genesis, owner)
        self._take_up()
        return keys, proof

    def tell(self, peer: str) -> None:
        """Show a peer that has just connected what the hello does not say."""
        if self._shown != self._of_hello:
            self._peers.transport.send(peer, FrameKind.KEYS, self._keys.prove_peer(self._peer_id))

    # --- inside

    def _take_up(self) -> None:
        try:
            self._read()
        except BadInputError as error:
            _LOG.error("keys of the keystore are not taken up: %s", error)
        self._keys.arrange(by_use(self._chain, self._keys.sessions))
        if self._keys.shown() != self._shown:
            self._shown = self._keys.shown()
            self._peers.transport.broadcast(FrameKind.KEYS, self._keys.prove_peer(self._peer_id))

    def _read(self) -> None:
        for pair in stored(self._store, VRF):  # before the session keys, so that none sits without it
            self._keys.take_up_vrf(pair)
        for pair in stored(self._store, SESSION):
            if pair.public not in self._keys.sessions:
                self._keys.take_up(self._with_record(pair))
                _LOG.info("took up the key 0x%s", pair.public.hex())

    def _with_record(self, pair: KeyPair) -> SigningKey:
        path = self._paths.sign_state(pair.public)
        return SigningKey(pair, SignStateFile.load(path, self._chain.genesis, pair.public))
