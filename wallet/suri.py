"""Secrets as text, in the form that Substrate's tools share: `phrase//hard/soft///password`.

The phrase may be a 0x-prefixed 32-byte seed instead. Without a phrase the development phrase is used, so `//Alice` is
the same Alice in every tool. Reference: https://docs.polkadot.com/polkadot-protocol/parachain-basics/accounts/.
"""

import re
from dataclasses import dataclass, field
from functools import cache

from genesis.dev_accounts import DEV_PHRASE
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import Scheme, derive_sr25519
from wallet import mnemonic
from wallet.errors import SuriError
from wallet.keypair import Keypair

MAX_CHARACTERS = 1024
MAX_JUNCTIONS = 16

_FORM = re.compile(r"(?P<root>[^/]*)(?P<path>(?://?[^/]+)*)(?:///(?P<password>.*))?", re.DOTALL)
_JUNCTION = re.compile(r"(//?)([^/]+)")
_SEED = re.compile(r"0x[0-9a-fA-F]{64}", re.ASCII)
_CHAIN_CODE_BYTES = 32
_MAX_U64 = 2**64 - 1
# Substrate's hard derivation for ed25519: blake2-256 over SCALE ("Ed25519HDKD", seed, chain code).
_ED25519_HARD = bytes([len("Ed25519HDKD") << 2]) + b"Ed25519HDKD"  # the SCALE text


@dataclass(frozen=True, slots=True)
class Junction:
    """One step of a path: a 32-byte chain code; `hard` if the parent's public key cannot derive the child's."""

    chain_code: bytes
    hard: bool


@dataclass(frozen=True, slots=True)
class Suri:
    """The parts of a secret; `root` is a phrase or a 0x seed."""

    root: str = field(repr=False)
    junctions: tuple[Junction, ...] = field(repr=False)
    password: str | None = field(repr=False)


def keypair_from_suri(text: str, scheme: Scheme = Scheme.SR25519) -> Keypair:
    """Return the key of a secret. Raise SuriError or PhraseError, whose messages contain no part of the secret."""
    suri = parse(text)
    keypair = Keypair.from_seed(scheme, _seed(suri))
    for junction in suri.junctions:
        keypair = _child(keypair, junction)
    return keypair


def parse(text: str) -> Suri:
    """Split a secret into its parts, without checking the phrase."""
    if len(text) > MAX_CHARACTERS:
        raise SuriError(f"the secret has more than {MAX_CHARACTERS} characters", code="secret_too_long")
    match = _FORM.fullmatch(text)
    if match is None or not match["path"].isprintable():
        raise SuriError("the secret does not have the form phrase//hard/soft///password", code="secret_form")
    junctions = tuple(_junction(len(slashes) == 2, name) for slashes, name in _JUNCTION.findall(match["path"]))
    if len(junctions) > MAX_JUNCTIONS:
        raise SuriError(f"the secret's path has more than {MAX_JUNCTIONS} steps", code="secret_too_long")
    return Suri(match["root"].strip() or DEV_PHRASE, junctions, match["password"])


def _junction(hard: bool, name: str) -> Junction:
    """Return a step: a number is u64, other text is SCALE; zero-padded to 32 bytes, or hashed if it is longer.

    Raise SuriError for a step of which public tools derive different keys.
    """
    if name.startswith("0x"):
        raise SuriError("a path step begins with 0x, which tools read in different ways", code="ambiguous_path")
    if name.isascii() and name.lstrip("+").isdigit():
        if name.startswith("+") or int(name) > _MAX_U64:
            raise SuriError(
                "a path step is a number with a plus sign, or 2^64 or more, which tools read in different ways",
                code="ambiguous_path",
            )
        code = int(name).to_bytes(8, "little")
    else:
        raw = name.encode()
        code = _compact_length(len(raw)) + raw
    return Junction(blake2_256(code) if len(code) > _CHAIN_CODE_BYTES else code.ljust(_CHAIN_CODE_BYTES, b"\0"), hard)


def _compact_length(length: int) -> bytes:
    """Return the SCALE compact form of a length below 2^14, a bound that MAX_CHARACTERS keeps."""
    return bytes([length << 2]) if length < 64 else (length << 2 | 1).to_bytes(2, "little")


def _seed(suri: Suri) -> bytes:
    if suri.root == DEV_PHRASE and not suri.password:
        return _development_seed()
    if not suri.root.startswith("0x"):
        return mnemonic.mini_secret(suri.root, suri.password or "")
    if _SEED.fullmatch(suri.root) is None:
        raise SuriError("a seed is 0x and 64 hex digits", code="seed_form")
    if suri.password is not None:
        raise SuriError("a 0x seed takes no password", code="seed_with_password")
    return bytes.fromhex(suri.root[2:])


@cache
def _development_seed() -> bytes:
    """Return the public development seed: simulations and tests derive thousands of keys from it, at 1 ms each."""
    return mnemonic.mini_secret(DEV_PHRASE)


def _child(parent: Keypair, junction: Junction) -> Keypair:
    if parent.scheme is Scheme.SR25519:
        public_key, secret_key = derive_sr25519(
            parent.public_key, parent.secret_key, junction.chain_code, hard=junction.hard
        )
        return Keypair(Scheme.SR25519, public_key, secret_key)
    if not junction.hard:
        raise SuriError("an ed25519 path has hard steps only. Write // before each step", code="soft_step")
    seed = parent.secret_key[:32]
    return Keypair.from_seed(Scheme.ED25519, blake2_256(_ED25519_HARD + seed + junction.chain_code))
