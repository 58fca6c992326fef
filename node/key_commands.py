"""The bodies of `ogpu-node key`: make, show and store keys."""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path

import click

from cli.messages import note
from genesis.chain import genesis_block_header, genesis_state
from genesis.preset_names import PRESETS
from genesis.spec import ChainSpec
from node.config import Paths, chosen_spec, default_base_path
from node.durable import require_folder
from node.duty.key_proofs import new_keys, prove_stored, stored_keys
from node.duty.keystore import KEY_TYPES, Keystore
from node.errors import BadInputError
from runtime.blocks.block import block_id
from runtime.cryptography import ss58
from runtime.cryptography.signatures import SEED_BYTES, Scheme
from wallet import mnemonic
from wallet.calls.node_keys import NodeKeys
from wallet.errors import WalletError
from wallet.keypair import Keypair
from wallet.keyring import Keyring
from wallet.password_file import read_passwords
from wallet.private_file import read_plain, write_new
from wallet.suri import keypair_from_suri

NETWORK_KEY_BYTES_MAX = 128
SECRET_BYTES_MAX = 4_096
STANDARD_INPUT = Path("-")
SCHEMES = {"sr25519": Scheme.SR25519, "ed25519": Scheme.ED25519}


def generate(scheme: str, output_type: str, words: str) -> None:
    """Print a new secret phrase and its account."""
    phrase = mnemonic.generate(int(words))
    _show(_describe(phrase, SCHEMES[scheme]) | {"secretPhrase": phrase}, output_type)


def inspect(uri: str, scheme: str, output_type: str) -> None:
    """Print the account of a secret."""
    _show(_describe(uri, SCHEMES[scheme]), output_type)


def generate_node_key(path: Path | None) -> None:
    """Print or write a new network key."""
    seed = secrets.token_bytes(SEED_BYTES)
    if path is None:
        click.echo(seed.hex())
    else:
        try:
            write_new(path, seed.hex().encode() + b"\n")
        except FileExistsError:
            raise BadInputError(f"{path} exists already. Name a new file", code="file_exists") from None
    click.echo(_peer_id(seed), err=True)


def inspect_node_key(path: Path) -> None:
    """Print the peer id of a network key."""
    if path == STANDARD_INPUT:
        text = sys.stdin.read(NETWORK_KEY_BYTES_MAX)
    else:
        text = read_plain(path, NETWORK_KEY_BYTES_MAX).decode("ascii", "replace")
    try:
        seed = bytes.fromhex(text.strip().removeprefix("0x"))
    except ValueError as error:
        raise BadInputError("this is not a network key. Give 64 hex digits", code="not_a_network_key") from error
    if len(seed) != SEED_BYTES:
        raise BadInputError(f"a network key has {SEED_BYTES} bytes, and this has {len(seed)}", code="not_a_network_key")
    click.echo(_peer_id(seed))


def insert(base_path: Path | None, chain: str | None, key_type: str, suri: str | None, suri_file: Path | None) -> None:
    """Put a key into a chain's keystore."""
    secret = _secret(suri, suri_file)
    paths = _paths(base_path, chain)[0]
    public = Keystore(paths.keystore).insert(
        KEY_TYPES[key_type], _keypair(secret, Scheme.ED25519).secret_key[:SEED_BYTES]
    )
    click.echo("0x" + public.hex())


def rotate(base_path: Path | None, chain: str | None, owner: str, keyring: Path) -> None:
    """Make and print session and VRF keys with their proof."""
    paths, spec = _paths(base_path, chain)
    genesis = genesis_of(spec)
    account = _owner(owner, keyring)  # before keys are made for nobody
    require_folder(paths.keystore)
    keys = new_keys(paths, genesis)
    proof = prove_stored(Keystore(paths.keystore), keys, genesis, account)
    click.echo(NodeKeys(keys, proof).as_json())


def prove(
    base_path: Path | None, chain: str | None, owner: str, keyring: Path, session: str | None, vrf: str | None
) -> None:
    """Print the stored keys with their proof."""
    paths, spec = _paths(base_path, chain)
    store = Keystore(paths.keystore)
    keys = stored_keys(store, _public(session), _public(vrf))
    proof = prove_stored(store, keys, genesis_of(spec), _owner(owner, keyring))
    click.echo(NodeKeys(keys, proof).as_json())


def genesis_of(spec: ChainSpec) -> bytes:
    """Return the id of a chain's block 0."""
    return block_id(genesis_block_header(genesis_state(spec)))


def _paths(base_path: Path | None, chain: str | None) -> tuple[Paths, ChainSpec]:
    """Return a chain's files and specification; without `chain`, of the only chain of the base path.

    Raise BadInputError if the base path holds several chains, or one that needs its specification file.
    """
    base = base_path or default_base_path()
    found = sorted(folder.name for folder in (base / "chains").glob("*") if folder.is_dir())
    if chain is None and len(found) > 1:
        raise BadInputError(f"{base} holds the chains {', '.join(found)}. Choose with --chain", code="several_chains")
    name = chain
    if name is None and found:
        presets = {chosen_spec(preset, dev=False).id: preset for preset in PRESETS}
        name = presets.get(found[0])
        if name is None:
            raise BadInputError(
                f"{base} holds the chain {found[0]}. Give its specification file with --chain", code="chain_needed"
            )
    spec = chosen_spec(name, dev=False)
    if name is None:
        note(f"{base} holds no chain: the keys are for {spec.id}. Choose another chain with --chain")
    return Paths(base, spec.id), spec


def _secret(suri: str | None, suri_file: Path | None) -> str:
    """Return the secret of `--suri` or `--suri-file`."""
    if (suri is None) == (suri_file is None):
        raise BadInputError("give the secret with --suri-file, or with --suri", code="secret_needed")
    if suri_file is None:
        return suri or ""
    if suri_file == STANDARD_INPUT:
        return sys.stdin.readline(SECRET_BYTES_MAX).strip()
    return read_passwords(suri_file, SECRET_BYTES_MAX, what="secret")[0].strip()


def _owner(text: str, keyring: Path) -> bytes:
    """Return the account of a stash."""
    from cli.session import account_named  # noqa: PLC0415  # other commands need no wallet

    try:
        return account_named(Keyring(keyring), text)
    except WalletError as error:
        raise BadInputError(f"--owner: {error}", code=error.code) from error


def _account(text: str) -> bytes:
    try:
        return ss58.account_from_text(text)
    except ValueError as error:
        raise BadInputError(f"{text!r} is not a key: {error}", code="not_a_key") from error


def _public(text: str | None) -> bytes | None:
    return None if text is None else _account(text)


def _describe(uri: str, scheme: Scheme) -> dict[str, str]:
    pair = _keypair(uri, scheme)
    return {
        "publicKey": "0x" + pair.public_key.hex(),
        "accountId": "0x" + pair.public_key.hex(),
        "ss58Address": pair.address,
    }


def _keypair(uri: str, scheme: Scheme) -> Keypair:
    try:
        return keypair_from_suri(uri, scheme)
    except WalletError as error:
        raise BadInputError(f"this is not a usable secret: {error}", code=error.code) from error


def _show(fields: dict[str, str], output_type: str) -> None:
    if output_type == "json":
        click.echo(json.dumps(fields))
        return
    for name, value in fields.items():
        click.echo(f"{name + ':':<15}{value}")


def _peer_id(seed: bytes) -> str:
    from node.p2p.identity import identity_from_seed  # noqa: PLC0415  # the network stack takes a second to import

    return identity_from_seed(seed).peer_id
