"""Lies about which block is final: certificates of others, of too few, of another block; headers changed, old, missing.

Always: what is changed is the answer of `ogpu_certifiedHeader`; what the header leads to is true.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from consensus.certificates import BITMAP_BYTES_MAX, CERTIFICATE, Certificate
from consensus.parameters import ACTIVE_VALIDATORS_MAX
from devnet.proofs.liars.heads import FOREIGN, FUTURE_BLOCKS, STALE_BLOCKS
from devnet.proofs.liars.lie import TRUTH, Mouth, NodeMessage, Noticed, Program, Replies, lie
from runtime.blocks.digest import CERTIFICATE_BYTES_MAX
from runtime.blocks.votes import ballot_payload
from runtime.cryptography.signatures import Scheme
from wallet.keypair import Keypair

WALLET, CUSTOMER, PROVIDER = Program
CERTIFIED = "ogpu_certifiedHeader"
NOT_BELIEVED: Final = ("do not believe",)
BLOCKS_BEFORE = 8
STRANGERS = tuple(Keypair.from_seed(Scheme.ED25519, bytes([number]) * 32) for number in range(ACTIVE_VALIDATORS_MAX))


def shows_certified(message: NodeMessage) -> bool:
    """Whether a message shows a final header."""
    return message.method == CERTIFIED and isinstance(message.value, dict)


def height_of(message: NodeMessage) -> int:
    """Of the header that it shows."""
    return int(message.value["header"]["number"], 16)


def _certificate(message: NodeMessage) -> Certificate:
    return CERTIFICATE.decode(bytes.fromhex(message.value["certificate"][2:]))


def _with_certificate(message: NodeMessage, certificate: Certificate | bytes) -> Replies:
    raw = certificate if isinstance(certificate, bytes) else CERTIFICATE.encode(certificate)
    return [message.saying({**message.value, "certificate": "0x" + raw.hex()})]


def _with_header(message: NodeMessage, **changed: str) -> Replies:
    return [message.saying({**message.value, "header": {**message.value["header"], **changed}})]


@lie(WALLET, CUSTOMER, PROVIDER, words=NOT_BELIEVED)
async def signed_by_strangers(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """The final block is certified by people who are no validators."""
    if not shows_certified(message):
        return TRUTH
    genesis = bytes.fromhex((await mouth.ask("chain_getBlockHash", 0))[2:])
    certificate = _certificate(message)
    payload = ballot_payload(genesis, certificate.ballot)
    forged = tuple(key.sign(payload) for key, _ in zip(STRANGERS, certificate.signatures, strict=False))
    return _with_certificate(message, replace(certificate, signatures=forged))


@lie(WALLET, CUSTOMER, PROVIDER, words=NOT_BELIEVED)
def signed_by_one(message: NodeMessage, _: Mouth) -> Replies | None:
    """The final block is certified by a single validator."""
    if not shows_certified(message):
        return TRUTH
    certificate = _certificate(message)
    bits = int.from_bytes(certificate.signers, "little")
    first = (bits & -bits).to_bytes(len(certificate.signers), "little")
    return _with_certificate(message, replace(certificate, signers=first, signatures=certificate.signatures[:1]))


@lie(WALLET, CUSTOMER, PROVIDER, words=NOT_BELIEVED)
def signed_by_too_many(message: NodeMessage, _: Mouth) -> Replies | None:
    """The certificate bears as many signatures as its form allows, the same one again and again."""
    if not shows_certified(message):
        return TRUTH
    certificate = _certificate(message)
    signatures = certificate.signatures[:1] * ACTIVE_VALIDATORS_MAX
    return _with_certificate(message, replace(certificate, signers=b"\xff" * BITMAP_BYTES_MAX, signatures=signatures))


@lie(WALLET, CUSTOMER, PROVIDER, words=NOT_BELIEVED)
async def certificate_of_before(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """The newest header comes with the certificate of an older one."""
    if not shows_certified(message):
        return TRUTH
    older = await mouth.ask(CERTIFIED, max(1, height_of(message) - STALE_BLOCKS))
    return [message.saying({**message.value, "certificate": older["certificate"]})]


@lie(WALLET, CUSTOMER, PROVIDER, words=NOT_BELIEVED)
def certificate_without_end(message: NodeMessage, _: Mouth) -> Replies | None:
    """The certificate is longer than any."""
    return _with_certificate(message, b"\x00" * (100 * CERTIFICATE_BYTES_MAX)) if shows_certified(message) else TRUTH


@lie(WALLET, CUSTOMER, PROVIDER, words=NOT_BELIEVED)
def header_of_another_state(message: NodeMessage, _: Mouth) -> Replies | None:
    """The final header commits to another state."""
    return _with_header(message, stateRoot=FOREIGN) if shows_certified(message) else TRUTH


@lie(WALLET, CUSTOMER, PROVIDER, words=NOT_BELIEVED)
def future_head(message: NodeMessage, _: Mouth) -> Replies | None:
    """The final block has a height that the chain will have in weeks."""
    if not shows_certified(message):
        return TRUTH
    return _with_header(message, number=hex(height_of(message) + FUTURE_BLOCKS))


@lie(WALLET, CUSTOMER, PROVIDER, words=NOT_BELIEVED)
def header_without_digest(message: NodeMessage, _: Mouth) -> Replies | None:
    """The final header says neither who made it nor when."""
    if not shows_certified(message):
        return TRUTH
    header = {**message.value["header"], "digest": {"logs": []}}
    return [message.saying({**message.value, "header": header})]


@lie(WALLET, CUSTOMER, words=("no block is final yet", *NOT_BELIEVED))
def nothing_is_certified(message: NodeMessage, _: Mouth) -> Replies | None:
    """No block has a certificate."""
    return [message.saying(None)] if shows_certified(message) else TRUTH


@lie(PROVIDER, words=NOT_BELIEVED)
def certificates_lost(message: NodeMessage, _: Mouth) -> Replies | None:
    """No block has a certificate any more."""
    return [message.saying(None)] if shows_certified(message) else TRUTH


@lie(WALLET, CUSTOMER, words=("old: what it shows", *NOT_BELIEVED))
async def stale_head(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """The newest final block is one of half a minute ago."""
    if not shows_certified(message):
        return TRUTH
    return [message.saying(await mouth.ask(CERTIFIED, max(1, height_of(message) - STALE_BLOCKS)))]


@lie(PROVIDER, noticed=Noticed.HARMLESS)
async def certified_goes_back(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """The newest final block is one of some blocks before: what was seen stays seen."""
    return await _of_before(message, mouth)


@lie(PROVIDER, words=("was final before",), is_met_anew=True)
async def anew_from_before(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """The node went away, and its newest final block is one of some blocks before when it comes back."""
    return await _of_before(message, mouth)


async def _of_before(message: NodeMessage, mouth: Mouth) -> Replies | None:
    if not shows_certified(message):
        return TRUTH
    return [message.saying(await mouth.ask(CERTIFIED, max(1, height_of(message) - BLOCKS_BEFORE)))]


LIES = (
    signed_by_strangers, signed_by_one, signed_by_too_many, certificate_of_before, certificate_without_end,
    header_of_another_state, future_head, header_without_digest, nothing_is_certified, certificates_lost, stale_head,
    certified_goes_back, anew_from_before,
)  # fmt: skip
