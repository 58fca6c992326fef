"""The subcommands of `ogpu-node` on a chain's specification and its database."""

from __future__ import annotations

import asyncio
import json
import shutil
from contextlib import suppress
from pathlib import Path

import click

from cli.prompts import require_agreement
from genesis.chain import changeable_parameters, genesis_block_header, genesis_numbers, genesis_state
from genesis.presets import raw_spec
from genesis.relations import RELATIONS
from genesis.spec import ChainSpec, to_json
from node.chain_options import chain_options
from node.config import Paths, chosen_spec, default_base_path
from node.durable import is_there
from node.errors import BadInputError, DatabaseError
from node.ledger.storage import Storage
from runtime.blocks.block import block_id
from wallet.errors import WalletError
from wallet.rpc import NodeUnreachableError, RpcConnection, RpcError


@click.command("build-spec")
@chain_options
@click.option("--raw", is_flag=True, help="Storage keys and values instead of one object for each pallet.")
def build_spec(chain: str | None, dev: bool, base_path: Path | None, raw: bool) -> None:
    """Print the chain specification."""
    del base_path
    spec = chosen_spec(chain, dev=dev)
    click.echo(to_json(raw_spec(spec) if raw else spec), nl=False)


@click.command("purge-chain")
@chain_options
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--with-sign-state", is_flag=True, help="Remove the sign-state too: only for a chain that starts over.")
def purge_chain(chain: str | None, dev: bool, base_path: Path | None, yes: bool, with_sign_state: bool) -> None:
    """Remove the chain's database; keys and sign-state stay."""
    paths = Paths(base_path or default_base_path(), chosen_spec(chain, dev=dev).id)
    if not is_there(paths.database):
        click.echo(f"{paths.database} does not exist: nothing to do")
        return
    _refuse_running(paths)
    if not yes:
        require_agreement(f"Remove {paths.database}?", "a program adds --yes", BadInputError)
    shutil.rmtree(paths.database)
    paths.preference.unlink(missing_ok=True)
    paths.rounds.unlink(missing_ok=True)
    click.echo(f"removed {paths.database}")
    if with_sign_state:
        paths.only_sign_state.unlink(missing_ok=True)
        shutil.rmtree(paths.sign_states, ignore_errors=True)
        click.echo(f"removed {paths.sign_states}")
    elif paths.sign_states.exists() or paths.only_sign_state.exists():
        click.echo(f"kept {paths.sign_states}: it stops this validator from signing twice")


@click.group()
def genesis() -> None:
    """Look at the genesis of a chain specification."""


@genesis.command("check")
@chain_options
def check_genesis(chain: str | None, dev: bool, base_path: Path | None) -> None:
    """Check every inequality between the numbers of the chain, and that its block 0 can be made."""
    del base_path
    spec = chosen_spec(chain, dev=dev)
    values, broken, changeable = genesis_numbers(spec), [], changeable_parameters(spec)
    for relation in RELATIONS:
        is_kept = relation.holds(values)
        click.echo(f"{'holds ' if is_kept else 'BROKEN'} {relation.explained(values)}")
        if not is_kept:
            named = " or ".join(name for name in relation.names() if name in changeable)
            place = f"; change {named}: chainParameters in the patch of the genesis gives it" if named else ""
            broken.append(f"{relation.explained(values)}, which must hold: {relation.reason}{place}")
    if broken:
        raise BadInputError("; ".join(broken))
    _check_boot_nodes(spec)
    click.echo(f"block 0 is 0x{block_id(genesis_block_header(genesis_state(spec))).hex()}")


def _check_boot_nodes(spec: ChainSpec) -> None:
    from node.p2p.addresses import AddressError, parse_address  # noqa: PLC0415  # the network stack takes a second

    for place, text in enumerate(spec.boot_nodes):
        try:
            parse_address(text)
        except (AddressError, ValueError) as error:
            raise BadInputError(f"bootNodes[{place}]: {error}") from error


def _refuse_running(paths: Paths) -> None:
    """`BadInputError` while a node has the database open; a damaged one may well be removed."""
    with suppress(DatabaseError):
        Storage(paths.database, free_bytes_floor=0).close()


@click.command("chain-info")
@chain_options
@click.option("--url", metavar="URL", help="Ask the node that runs at this JSON-RPC address, ws://127.0.0.1:9944 say.")
def chain_info(chain: str | None, dev: bool, base_path: Path | None, url: str | None) -> None:
    """Print number and hash of the last final block, as JSON: of a stopped node's database, or of a node that runs."""
    if url is not None:
        click.echo(json.dumps(asyncio.run(_asked(url))))
        return
    paths = Paths(base_path or default_base_path(), chosen_spec(chain, dev=dev).id)
    if not is_there(paths.database):
        raise BadInputError(
            f"{paths.database} does not exist: give the --base-path and --chain that the node runs with"
        )
    storage = Storage(paths.database, free_bytes_floor=0)
    try:
        info = {"finalized_number": storage.head_height, "finalized_hash": "0x" + storage.head_id.hex()}
    finally:
        storage.close()
    click.echo(json.dumps(info))


async def _asked(url: str) -> dict[str, object]:
    """What a node says of its last final block, believed as it is: it is one's own."""
    try:
        node = await RpcConnection.open(url)
        try:
            block = await node.call("chain_getFinalizedHead")
            header = await node.call("chain_getHeader", block)
        finally:
            await node.close()
        return {"finalized_number": int(header["number"], 16), "finalized_hash": block}
    except (WalletError, NodeUnreachableError, RpcError) as error:
        raise BadInputError(str(error)) from error
