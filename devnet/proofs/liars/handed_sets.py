"""Wrong answers to who sits: handoffs with other members, of others, of another epoch, missing, without end.

Always: what is changed is the answer of `ogpu_handoffs`, which a program needs that has not followed the sets before;
whatever else it hears is true.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from consensus.handoffs import HANDOFF, Handoff
from devnet.proofs.liars.certificates import NOT_BELIEVED, STRANGERS
from devnet.proofs.liars.lie import TRUTH, Mouth, NodeMessage, Program, Replies, lie
from runtime.blocks.votes import ballot_payload

WALLET, CUSTOMER, _ = Program
HANDOFFS: Final = "ogpu_handoffs"
TOO_MANY = 1_000


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
    strangers_are_elected, one_validator_alone_is_elected, handed_on_by_strangers, an_epoch_is_left_out, no_handoffs,
    handoffs_without_end, handoffs_that_are_none,
)  # fmt: skip
