"""Wrong answers to who sits: another chain from block 0 on; handoffs with other members, of others, missing, too many.

Always: another chain is whole and in order, but not the one that is known. Of handoffs what is changed is the answer of
`ogpu_handoffs`, which a program needs that has not followed the sets before; whatever else it hears is true.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from consensus.handoffs import HANDOFF, Handoff
from devnet.proofs.liars.certificates import NOT_BELIEVED, STRANGERS
from devnet.proofs.liars.lie import TRUTH, Mouth, NodeMessage, Program, Replies, lie
from devnet.proofs.liars.values import RUNTIME
from genesis.chain import GENESIS_KEYS
from node.rpc.block_reads import header_json
from runtime.blocks.block import Header, block_id, extrinsics_root
from runtime.blocks.votes import ballot_payload
from runtime.cryptography.hashing import HASH_BYTES
from runtime.pallets.staking.stakers import Seat
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.state.trie import Trie

WALLET, CUSTOMER, _ = Program
HANDOFFS: Final = "ogpu_handoffs"
TOO_MANY = 1_000
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


def _shown(message: NodeMessage) -> list[Handoff]:
    """The handoffs that a message shows."""
    if message.method != HANDOFFS or not isinstance(message.value, list):
        return []
    return [HANDOFF.decode(bytes.fromhex(text[2:])) for text in message.value]


def _showing(message: NodeMessage, handoffs: list[Handoff]) -> Replies:
    return [message.saying(["0x" + HANDOFF.encode(handoff).hex() for handoff in handoffs])]


@lie(WALLET, CUSTOMER, words=NOT_BELIEVED)
def strangers_are_elected(message: NodeMessage, _: Mouth) -> Replies | None:
    """The next validators vote with keys of the liar's."""
    shown = _shown(message)
    if not shown:
        return TRUTH
    first = shown[0]
    seats = tuple(replace(seat, session_key=key.public_key) for seat, key in zip(first.seats, STRANGERS, strict=False))
    return _showing(message, [replace(first, seats=seats), *shown[1:]])


@lie(WALLET, CUSTOMER, words=NOT_BELIEVED)
def one_validator_alone_is_elected(message: NodeMessage, _: Mouth) -> Replies | None:
    """The next set has a single member."""
    shown = _shown(message)
    if not shown:
        return TRUTH
    return _showing(message, [replace(shown[0], seats=shown[0].seats[:1]), *shown[1:]])


@lie(WALLET, CUSTOMER, words=NOT_BELIEVED)
async def handed_on_by_strangers(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """An epoch's last block is certified by people who are no validators."""
    shown = _shown(message)
    if not shown:
        return TRUTH
    genesis = bytes.fromhex((await mouth.ask("chain_getBlockHash", 0))[2:])
    certificate = shown[0].certificate
    payload = ballot_payload(genesis, certificate.ballot)
    forged = tuple(key.sign(payload) for key, _ in zip(STRANGERS, certificate.signatures, strict=False))
    return _showing(message, [replace(shown[0], certificate=replace(certificate, signatures=forged)), *shown[1:]])


@lie(WALLET, CUSTOMER, words=NOT_BELIEVED)
async def an_epoch_is_left_out(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """The handoffs begin an epoch later than they were asked for."""
    if not _shown(message):
        return TRUTH
    first, count = message.question.params
    return [message.saying(await mouth.ask(HANDOFFS, first + 1, count))]


@lie(WALLET, CUSTOMER, words=NOT_BELIEVED)
def no_handoffs(message: NodeMessage, _: Mouth) -> Replies | None:
    """No epoch has ended."""
    return _showing(message, []) if _shown(message) else TRUTH


@lie(WALLET, CUSTOMER, words=NOT_BELIEVED)
def handoffs_without_end(message: NodeMessage, _: Mouth) -> Replies | None:
    """The same handoff, again and again."""
    shown = _shown(message)
    return _showing(message, shown[:1] * TOO_MANY) if shown else TRUTH


@lie(WALLET, CUSTOMER, words=NOT_BELIEVED)
def handoffs_that_are_none(message: NodeMessage, _: Mouth) -> Replies | None:
    """Bytes in place of handoffs."""
    return [message.saying(["0x" + "ab" * 400])] if _shown(message) else TRUTH


LIES = (
    chain_of_strangers, strangers_are_elected, one_validator_alone_is_elected, handed_on_by_strangers,
    an_epoch_is_left_out, no_handoffs, handoffs_without_end, handoffs_that_are_none,
)  # fmt: skip
