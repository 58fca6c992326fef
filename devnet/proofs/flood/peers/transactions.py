"""Transactions that are refused only after much work, or leave memory behind."""

from __future__ import annotations

import os
from dataclasses import dataclass

from devnet.proofs.flood.attack import attack
from devnet.proofs.flood.peers.intruder import FloodMessage, HostilePeer, assail, flooding
from devnet.proofs.flood.scene import Scene
from genesis import dev_accounts
from genesis.chain import runtime_for
from node.p2p.frames import FrameKind
from runtime.blocks.era import IMMORTAL, Era
from runtime.blocks.extrinsic import Additional, Extra, MultiSignature, encode_signed, payload_head, signing_payload
from runtime.cryptography.signatures import Scheme
from runtime.frame.call import Call
from runtime.frame.runtime import Runtime
from runtime.pallets.system import System
from runtime.pallets.utility import Utility
from wallet.keypair import Keypair

BATCHES, REMARKS_PER_BATCH = 1_000, 19
REMARK_BYTES = 59_000
MARK = b"\xa5" * 64
BAD_TRANSACTIONS_RULE = "transactions of which none is valid"


@dataclass(frozen=True, slots=True)
class FloodSigner:
    """Signs extrinsics for the devnet's chain."""

    genesis: bytes
    runtime: Runtime

    @staticmethod
    def of(scene: Scene) -> FloodSigner:
        """For the chain of this scene."""
        return FloodSigner(scene.genesis, runtime_for("devnet", is_development=True))

    def signed(
        self, call: Call, key: Keypair, nonce: int, tip: int = 0, era: Era = IMMORTAL, birth: bytes = b""
    ) -> bytes:
        """A signed extrinsic; `birth` is the hash of the block that `era` begins with, genesis for the immortal."""
        extra = Extra(era, nonce, tip)
        version = self.runtime.version
        additional = Additional(version.spec_version, version.transaction_version, self.genesis, birth or self.genesis)
        payload = signing_payload(payload_head(self.runtime, call, extra), additional)
        signature = MultiSignature(key.scheme, key.sign(payload))
        return encode_signed(self.runtime, call, extra, key.account, signature)

    def unsigned(self, call: Call, account: bytes) -> bytes:
        """A signed extrinsic whose signature is `MARK`."""
        return encode_signed(self.runtime, call, Extra(), account, MultiSignature(Scheme.SR25519, MARK))


@attack("C2", rule=BAD_TRANSACTIONS_RULE, messages_max=10_000)
async def remark_batches(scene: Scene) -> None:
    """Extrinsics of 60 kB, a thousand batches of 19 remarks under a rich account's name, each with a random signature.

    To decode one took 26 ms of the loop, and 256 were decoded in one turn; 40 a second to each validator.
    """
    inner = Utility.batch(calls=(System.remark(remark=b""),) * REMARKS_PER_BATCH)
    raw = FloodSigner.of(scene).unsigned(Utility.batch(calls=(inner,) * BATCHES), dev_accounts.stash("Alice"))
    head, _, tail = raw.partition(MARK)

    def make(_: HostilePeer, __: int) -> FloodMessage:
        return FrameKind.TX, head + os.urandom(64) + tail

    await assail(scene, scene.validators, flooding(scene, 40, make, at_once=20))


@attack("N2", messages_max=12_000)
async def refused_extrinsics(scene: Scene) -> None:
    """Extrinsics of 60 kB with good signatures of an account that has nothing, 100 a second to each validator.

    Each is refused; what was kept for the refusal was not given back. It breaks no rule: a node that is behind refuses
    good ones for the same reason, so it listens less to who brings them, and bans nobody for it.
    """
    signer, key = FloodSigner.of(scene), Keypair.from_seed(Scheme.ED25519, os.urandom(32))

    def make(_: HostilePeer, number: int) -> FloodMessage:
        return FrameKind.TX, signer.signed(System.remark(remark=os.urandom(REMARK_BYTES)), key, number)

    await assail(scene, scene.validators, flooding(scene, 100, make, at_once=16))
