"""A whole other chain: its genesis, its validators, the proof of them, all in order; but not the one that is known."""

from __future__ import annotations

from typing import Final

from devnet.proofs.liars.certificates import STRANGERS
from devnet.proofs.liars.lie import TRUTH, Mouth, NodeMessage, Program, Replies, lie
from devnet.proofs.liars.values import RUNTIME
from genesis.chain import GENESIS_KEYS
from node.rpc.block_reads import header_json
from runtime.blocks.block import Header, block_id, extrinsics_root
from runtime.cryptography.hashing import HASH_BYTES
from runtime.pallets.staking.stakers import Seat
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.state.trie import Trie

MEMBERS = 4
WEIGHT = 10**12

_MEMBERS: Final = sorted(STRANGERS[:MEMBERS], key=lambda key: key.account)
_SEATS: Final = tuple(Seat(key.account, key.public_key, key.public_key, WEIGHT) for key in _MEMBERS)
_SEATS_KEY, _SUDO_KEY = GENESIS_KEYS
_STATE: Final = Trie(
    {_SEATS_KEY: RUNTIME.item(TrustStake.seats).value_codec.encode(_SEATS), _SUDO_KEY: _MEMBERS[0].account}
)
_BLOCK_ZERO: Final = Header(bytes(HASH_BYTES), 0, _STATE.root, extrinsics_root(()), ())
GENESIS: Final = "0x" + block_id(_BLOCK_ZERO).hex()


@lie(*Program, words=("another chain",), is_met_anew=True)
def chain_of_strangers(message: NodeMessage, _: Mouth) -> Replies | None:
    """The node serves another chain, and proves who its validators are."""
    asked = list(message.question.params)
    match message.method:
        case "chain_getBlockHash" if asked == [0]:
            return [message.saying(GENESIS)]
        case "chain_getHeader" if asked == [GENESIS]:
            return [message.saying(header_json(_BLOCK_ZERO))]
        case "state_getReadProof" if asked[1:] == [GENESIS]:
            nodes = ["0x" + node.hex() for node in _STATE.prove(list(GENESIS_KEYS))]
            return [message.saying({"at": GENESIS, "proof": nodes})]
        case _:
            return TRUTH


LIES = (chain_of_strangers,)
