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
    secret_phrase = mnemonic.generate(int(words))
    _show_fields(_describe(secret_phrase, SCHEMES[scheme]) | {"secretPhrase": secret_phrase}, output_type)


def inspect(uri: str, scheme: str, output_type: str) -> None:
    """Print the account of a secret."""
    _show_fields(_describe(uri, SCHEMES[scheme]), output_type)


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
    click.echo(_peer_id_of(seed), err=True)


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
    click.echo(_peer_id_of(seed))


def insert(base_path: Path | None, chain: str | None, key_type: str, suri: str | None, suri_file: Path | None) -> None:
    """Put a key into a chain's keystore."""
    secret_uri = _secret_uri(suri, suri_file)
    paths = _chain_paths(base_path, chain)[0]
    public = Keystore(paths.keystore).insert(
        KEY_TYPES[key_type], _key_pair_of(secret_uri, Scheme.ED25519).secret_key[:SEED_BYTES]
    )
    click.echo("0x" + public.hex())


def rotate(base_path: Path | None, chain: str | None, owner: str, keyring: Path) -> None:
    """Make and print session and VRF keys with their proof."""
    paths, spec = _chain_paths(base_path, chain)
    genesis = genesis_of(spec)
    owner_account = _owner_account(owner, keyring)  # before keys are made for nobody
    require_folder(paths.keystore)
    rotated_keys = new_keys(paths, genesis)
    proof = prove_stored(Keystore(paths.keystore), rotated_keys, genesis, owner_account)
    click.echo(NodeKeys(rotated_keys, proof).as_json())


def prove(
    base_path: Path | None, chain: str | None, owner: str, keyring: Path, session: str | None, vrf: str | None
) -> None:
    """Print the stored keys with their proof."""
    paths, spec = _chain_paths(base_path, chain)
    keystore = Keystore(paths.keystore)
    keys = stored_keys(keystore, _public_key(session), _public_key(vrf))
    proof = prove_stored(keystore, keys, genesis_of(spec), _owner_account(owner, keyring))
    click.echo(NodeKeys(keys, proof).as_json())


def genesis_of(spec: ChainSpec) -> bytes:
    """Return the id of a chain's block 0."""
    return block_id(genesis_block_header(genesis_state(spec)))


def _chain_paths(base_path: Path | None, chain_name: str | None) -> tuple[Paths, ChainSpec]:
    """Return a chain's files and specification; without `chain_name`, of the only chain of the base path.

    Raise BadInputError if the base path holds several chains, or one that needs its specification file.
    """
    base_folder = base_path or default_base_path()
    chain_folders = sorted(
        chain_folder.name for chain_folder in (base_folder / "chains").glob("*") if chain_folder.is_dir()
    )
    if chain_name is None and len(chain_folders) > 1:
        raise BadInputError(
            f"{base_folder} holds the chains {', '.join(chain_folders)}. Choose with --chain", code="several_chains"
        )
    preset_name = chain_name
    if preset_name is None and chain_folders:
        presets_by_id = {chosen_spec(preset, dev=False).id: preset for preset in PRESETS}
        preset_name = presets_by_id.get(chain_folders[0])
        if preset_name is None:
            raise BadInputError(
                f"{base_folder} holds the chain {chain_folders[0]}. Give its specification file with --chain",
                code="chain_needed",
            )
    spec = chosen_spec(preset_name, dev=False)
    if preset_name is None:
        note(f"{base_folder} holds no chain: the keys are for {spec.id}. Choose another chain with --chain")
    return Paths(base_folder, spec.id), spec


def _secret_uri(secret_uri: str | None, suri_file: Path | None) -> str:
    """Return the secret of `--suri` or `--suri-file`."""
    if (secret_uri is None) == (suri_file is None):
        raise BadInputError("give the secret with --suri-file, or with --suri", code="secret_needed")
    if suri_file is None:
        return secret_uri or ""
    if suri_file == STANDARD_INPUT:
        return sys.stdin.readline(SECRET_BYTES_MAX).strip()
    return read_passwords(suri_file, SECRET_BYTES_MAX, what="secret")[0].strip()


def _owner_account(owner_text: str, keyring: Path) -> bytes:
    """Return the account of a stash."""
    from cli.session import account_named  # noqa: PLC0415  # other commands need no wallet

    try:
        return account_named(Keyring(keyring), owner_text)
    except WalletError as error:
        raise BadInputError(f"--owner: {error}", code=error.code) from error


def _account_of(account_text: str) -> bytes:
    try:
        return ss58.account_from_text(account_text)
    except ValueError as error:
        raise BadInputError(f"{account_text!r} is not a key: {error}", code="not_a_key") from error


def _public_key(key_text: str | None) -> bytes | None:
    return None if key_text is None else _account_of(key_text)


def _describe(secret_uri: str, scheme: Scheme) -> dict[str, str]:
    pair = _key_pair_of(secret_uri, scheme)
    return {
        "publicKey": "0x" + pair.public_key.hex(),
        "accountId": "0x" + pair.public_key.hex(),
        "ss58Address": pair.address,
    }


def _key_pair_of(secret_uri: str, scheme: Scheme) -> Keypair:
    try:
        return keypair_from_suri(secret_uri, scheme)
    except WalletError as error:
        raise BadInputError(f"this is not a usable secret: {error}", code=error.code) from error


def _show_fields(fields: dict[str, str], output_type: str) -> None:
    if output_type == "json":
        click.echo(json.dumps(fields))
        return
    for name, value in fields.items():
        click.echo(f"{name + ':':<15}{value}")


def _peer_id_of(seed: bytes) -> str:
    from node.p2p.identity import identity_from_seed  # noqa: PLC0415  # the network stack takes a second to import

    return identity_from_seed(seed).peer_id
