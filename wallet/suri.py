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


def keypair_from_suri(secret_text: str, scheme: Scheme = Scheme.SR25519) -> Keypair:
    """Return the key of a secret. Raise SuriError or PhraseError, whose messages contain no part of the secret."""
    parsed_suri = parse(secret_text)
    keypair = Keypair.from_seed(scheme, _seed(parsed_suri))
    for junction in parsed_suri.junctions:
        keypair = _child(keypair, junction)
    return keypair


def parse(secret_text: str) -> Suri:
    """Split a secret into its parts, without checking the phrase."""
    if len(secret_text) > MAX_CHARACTERS:
        raise SuriError(f"the secret has more than {MAX_CHARACTERS} characters", code="secret_too_long")
    suri_match = _FORM.fullmatch(secret_text)
    if suri_match is None or not suri_match["path"].isprintable():
        raise SuriError("the secret does not have the form phrase//hard/soft///password", code="secret_form")
    junctions = tuple(
        _junction(len(slashes) == 2, step_name) for slashes, step_name in _JUNCTION.findall(suri_match["path"])
    )
    # An empty file or pipe is a mistake of a script. Its key would be the development root, which everybody knows.
    if not secret_text.strip():
        raise SuriError("the secret is empty. Give a recovery phrase, or a path such as //Alice", code="secret_empty")
    if len(junctions) > MAX_JUNCTIONS:
        raise SuriError(f"the secret's path has more than {MAX_JUNCTIONS} steps", code="secret_too_long")
    return Suri(suri_match["root"].strip() or DEV_PHRASE, junctions, suri_match["password"])


def _junction(is_hard: bool, step_name: str) -> Junction:
    """Return a step: a number is u64, other text is SCALE; zero-padded to 32 bytes, or hashed if it is longer.

    Raise SuriError for a step of which public tools derive different keys.
    """
    if step_name.startswith("0x"):
        raise SuriError("a path step begins with 0x, which tools read in different ways", code="ambiguous_path")
    if step_name.isascii() and step_name.lstrip("+").isdigit():
        if step_name.startswith("+") or int(step_name) > _MAX_U64:
            raise SuriError(
                "a path step is a number with a plus sign, or 2^64 or more, which tools read in different ways",
                code="ambiguous_path",
            )
        chain_code = int(step_name).to_bytes(8, "little")
    else:
        name_bytes = step_name.encode()
        chain_code = _compact_length(len(name_bytes)) + name_bytes
    return Junction(
        blake2_256(chain_code) if len(chain_code) > _CHAIN_CODE_BYTES else chain_code.ljust(_CHAIN_CODE_BYTES, b"\0"),
        is_hard,
    )


def _compact_length(byte_count: int) -> bytes:
    """Return the SCALE compact form of a length below 2^14, a bound that MAX_CHARACTERS keeps."""
    return bytes([byte_count << 2]) if byte_count < 64 else (byte_count << 2 | 1).to_bytes(2, "little")


def _seed(parsed_suri: Suri) -> bytes:
    if parsed_suri.root == DEV_PHRASE and not parsed_suri.password:
        return _development_seed()
    if not parsed_suri.root.startswith("0x"):
        return mnemonic.mini_secret(parsed_suri.root, parsed_suri.password or "")
    if _SEED.fullmatch(parsed_suri.root) is None:
        raise SuriError("a seed is 0x and 64 hex digits", code="seed_form")
    if parsed_suri.password is not None:
        raise SuriError("a 0x seed takes no password", code="seed_with_password")
    return bytes.fromhex(parsed_suri.root[2:])


@cache
def _development_seed() -> bytes:
    """Return the public development seed: simulations and tests derive thousands of keys from it, at 1 ms each."""
    return mnemonic.mini_secret(DEV_PHRASE)


def _child(parent_keypair: Keypair, junction: Junction) -> Keypair:
    if parent_keypair.scheme is Scheme.SR25519:
        public_key, secret_key = derive_sr25519(
            parent_keypair.public_key, parent_keypair.secret_key, junction.chain_code, hard=junction.hard
        )
        return Keypair(Scheme.SR25519, public_key, secret_key)
    # Substrate has no soft derivation for ed25519, so no other tool could restore such a key.
    if not junction.hard:
        raise SuriError("an ed25519 path has hard steps only. Write // before each step", code="soft_step")
    mini_secret = parent_keypair.secret_key[:32]
    return Keypair.from_seed(Scheme.ED25519, blake2_256(_ED25519_HARD + mini_secret + junction.chain_code))
