"""`ogpu-node key`: make, look at and store keys, with Substrate's subcommand names."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

import click

from cli.options import keyring_option
from genesis.chain import genesis_block_header, genesis_state
from genesis.spec import ChainSpec
from node.config import Paths, chosen_spec, default_base_path
from node.durable import is_there, require_folder, write_durably
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
from wallet.suri import keypair_from_suri

SCHEMES = {"sr25519": Scheme.SR25519, "ed25519": Scheme.ED25519}
SCHEME = click.option("--scheme", type=click.Choice(list(SCHEMES)), default="sr25519", show_default=True)
OUTPUT = click.option("--output-type", type=click.Choice(["text", "json"]), default="text", show_default=True)


@click.group()
def key() -> None:
    """Make, look at and store keys."""


@key.command()
@SCHEME
@OUTPUT
@click.option("--words", type=click.Choice(["12", "15", "18", "21", "24"]), default="12", show_default=True)
def generate(scheme: str, output_type: str, words: str) -> None:
    """Make a new secret phrase and show its account."""
    phrase = mnemonic.generate(int(words))
    _show(_describe(phrase, SCHEMES[scheme]) | {"secretPhrase": phrase}, output_type)


@key.command()
@SCHEME
@OUTPUT
@click.argument("uri")
def inspect(uri: str, scheme: str, output_type: str) -> None:
    """Show the account of a secret URI: a phrase or 0x seed, and a path."""
    _show(_describe(uri, SCHEMES[scheme]), output_type)


@key.command("generate-node-key")
@click.option("--file", "path", type=click.Path(path_type=Path), help="Write it there instead of printing it.")
def generate_node_key(path: Path | None) -> None:
    """Make the key that names a node on the network; its peer id goes to stderr."""
    seed = secrets.token_bytes(SEED_BYTES)
    click.echo(_peer_id(seed), err=True)
    if path is None:
        click.echo(seed.hex())
    elif is_there(path):
        raise BadInputError(f"{path} exists already: a key file is never overwritten")
    else:
        write_durably(path, seed.hex().encode() + b"\n")


@key.command("inspect-node-key")
@click.option("--file", "path", type=click.File("r"), default="-", help="The key file; default: stdin.")
def inspect_node_key(path: Any) -> None:
    """Show the peer id of a node key."""
    try:
        seed = bytes.fromhex(path.read(2 * SEED_BYTES + 3).strip().removeprefix("0x"))
    except ValueError as error:
        raise BadInputError("that is not a node key: 64 hex digits are expected") from error
    if len(seed) != SEED_BYTES:
        raise BadInputError(f"a node key has {SEED_BYTES} bytes, this has {len(seed)}")
    click.echo(_peer_id(seed))


@key.command()
@click.option("--base-path", "-d", type=click.Path(path_type=Path), help="Folder for this node's files.")
@click.option("--chain", metavar="CHAIN", default="local", show_default=True, help="A preset, or a chain spec file.")
@click.option("--key-type", type=click.Choice(list(KEY_TYPES)), required=True, help="ogpu: session key; ogvr: VRF key.")
@click.option("--suri", required=True, help="The secret: a phrase or 0x seed, and a path.")
def insert(base_path: Path | None, chain: str, key_type: str, suri: str) -> None:
    """Put an ed25519 key into the keystore of a chain."""
    paths = Paths(base_path or default_base_path(), chosen_spec(chain, dev=False).id)
    public = Keystore(paths.keystore).insert(
        KEY_TYPES[key_type], _keypair(suri, Scheme.ED25519).secret_key[:SEED_BYTES]
    )
    click.echo("0x" + public.hex())


OWNER = click.option(
    "--owner", required=True, metavar="STASH", help="The stash: a keyring name, an address, or a path like //Eve."
)
BASE_PATH = click.option("--base-path", "-d", type=click.Path(path_type=Path), help="Folder for this node's files.")
CHAIN = click.option(
    "--chain", metavar="CHAIN", default="local", show_default=True, help="A preset, or a chain spec file."
)


@key.command()
@BASE_PATH
@CHAIN
@OWNER
@keyring_option
def rotate(base_path: Path | None, chain: str, owner: str, keyring: Path) -> None:
    """Make new session and VRF keys for this node, and show them with their proof.

    A node that runs takes them up by itself. Then register them: `ogpu-wallet set-keys FILE`, or `validate FILE
    PROVIDER_KEY` at first. Keep the old keys: they sign until the next set that is elected.
    """
    spec = chosen_spec(chain, dev=False)
    paths, genesis = Paths(base_path or default_base_path(), spec.id), genesis_of(spec)
    account = _owner(owner, keyring)  # before keys are made for nobody
    require_folder(paths.keystore)
    keys = new_keys(paths, genesis)
    proof = prove_stored(Keystore(paths.keystore), keys, genesis, account)
    click.echo(NodeKeys(keys, proof).as_json())


@key.command()
@BASE_PATH
@CHAIN
@OWNER
@keyring_option
@click.option("--session", metavar="KEY", help="The session key, 0x.., if the keystore holds several.")
@click.option("--vrf", metavar="KEY", help="The VRF key, 0x.., if the keystore holds several.")
def prove(base_path: Path | None, chain: str, owner: str, keyring: Path, session: str | None, vrf: str | None) -> None:
    """Show the session and VRF key of this node, with the proof by which STASH registers them."""
    spec = chosen_spec(chain, dev=False)
    store = Keystore(Paths(base_path or default_base_path(), spec.id).keystore)
    keys = stored_keys(store, _public(session), _public(vrf))
    proof = prove_stored(store, keys, genesis_of(spec), _owner(owner, keyring))
    click.echo(NodeKeys(keys, proof).as_json())


def genesis_of(spec: ChainSpec) -> bytes:
    """The id of block 0 of a chain."""
    return block_id(genesis_block_header(genesis_state(spec)))


def _owner(text: str, keyring: Path) -> bytes:
    """Return the stash, named as for `--stash` of `ogpu-provider`."""
    from cli.session import account_named  # noqa: PLC0415  # other commands need no wallet

    try:
        return account_named(Keyring(keyring), text)
    except WalletError as error:
        raise BadInputError(f"--owner: {error}") from error


def _account(text: str) -> bytes:
    try:
        return ss58.account_from_text(text)
    except ValueError as error:
        raise BadInputError(f"{text!r} is no address: {error}") from error


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
        raise BadInputError(f"that is no usable secret: {error}") from error


def _show(fields: dict[str, str], output_type: str) -> None:
    if output_type == "json":
        click.echo(json.dumps(fields))
        return
    for name, value in fields.items():
        click.echo(f"{name + ':':<15}{value}")


def _peer_id(seed: bytes) -> str:
    from node.p2p.identity import identity_from_seed  # noqa: PLC0415  # the network stack takes a second to import

    return identity_from_seed(seed).peer_id
