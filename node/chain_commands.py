"""The bodies of `ogpu-node`'s commands on a chain's specification and database."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from cli.messages import note
from cli.prompts import require_agreement
from genesis.chain import changeable_parameters, genesis_block_header, genesis_numbers, genesis_state
from genesis.presets import raw_spec
from genesis.relations import RELATIONS
from genesis.spec import ChainSpec, to_json
from node.config import Paths, chosen_spec, default_base_path
from node.durable import is_there
from node.errors import BadInputError, DatabaseError
from node.ledger.storage import Storage
from runtime.blocks.block import block_id
from wallet.errors import WalletError, code_of
from wallet.rpc import NodeUnreachableError, RpcConnection, RpcError


def build_spec(chain: str | None, dev: bool, base_path: Path | None, raw: bool) -> None:
    """Print a chain specification."""
    del base_path
    spec = chosen_spec(chain, dev=dev)
    click.echo(to_json(raw_spec(spec) if raw else spec), nl=False)


def purge_chain(chain: str | None, dev: bool, base_path: Path | None, yes: bool, with_sign_state: bool) -> None:
    """Remove a chain's database."""
    paths = Paths(base_path or default_base_path(), chosen_spec(chain, dev=dev).id)
    if not is_there(paths.database):
        click.echo(f"{paths.database} does not exist: nothing to do")
        return
    _refuse_running(paths)
    if not yes:
        require_agreement(f"Remove {paths.database}?", "add --yes", BadInputError)
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


def check_genesis(chain: str | None, dev: bool, base_path: Path | None) -> None:
    """Print every inequality between the numbers of a chain, and the id of its block 0."""
    del base_path
    spec = chosen_spec(chain, dev=dev)
    values, broken, changeable = genesis_numbers(spec), [], changeable_parameters(spec)
    for relation in RELATIONS:
        is_kept = relation.holds(values)
        click.echo(f"{'holds ' if is_kept else 'BROKEN'} {relation.explained(values)}")
        if not is_kept:
            named = " or ".join(name for name in relation.names() if name in changeable)
            place = f"; change {named} in chainParameters of the patch" if named else ""
            broken.append(f"{relation.explained(values)}, which must hold: {relation.reason}{place}")
    if broken:
        raise BadInputError(". ".join(broken), code="numbers_contradict")
    _check_boot_nodes(spec)
    for warning in genesis_warnings(spec):
        note(warning)
    click.echo(f"block 0 is 0x{block_id(genesis_block_header(genesis_state(spec))).hex()}")


def genesis_warnings(spec: ChainSpec) -> Iterator[str]:
    """Yield what is usable, but wrong for a public chain."""
    if spec.chain_type != "Live":
        return
    if spec.parameters == "devnet":
        yield (
            'chainType is Live, and parameters is "devnet": a node that is offline for two minutes needs a new '
            '--checkpoint. Set parameters to "mainnet"'
        )
    if not spec.boot_nodes:
        yield "bootNodes is empty: each node needs --bootnodes"
    if not spec.start_time:
        yield "startTime is missing: nodes do not know the age of block 0"


def _check_boot_nodes(spec: ChainSpec) -> None:
    from node.p2p.addresses import AddressError, parse_address  # noqa: PLC0415  # the network stack takes a second

    for place, text in enumerate(spec.boot_nodes):
        try:
            parse_address(text)
        except (AddressError, ValueError) as error:
            raise BadInputError(f"bootNodes[{place}]: {error}", code="boot_node_unusable") from error


def _refuse_running(paths: Paths) -> None:
    """Raise BadInputError while a node has the database open. A damaged database may be removed."""
    with suppress(DatabaseError):
        Storage(paths.database, free_bytes_floor=0).close()


def chain_info(chain: str | None, dev: bool, base_path: Path | None, url: str | None) -> None:
    """Print the last final block as JSON."""
    if url is not None:
        click.echo(json.dumps(_with_checkpoint(asyncio.run(_asked(url)))))
        return
    paths = Paths(base_path or default_base_path(), chosen_spec(chain, dev=dev).id)
    if not is_there(paths.database):
        raise BadInputError(
            f"{paths.database} does not exist. Give the --base-path and --chain of the node", code="no_database"
        )
    storage = Storage(paths.database, free_bytes_floor=0)
    try:
        info = {"finalized_number": storage.head_height, "finalized_hash": "0x" + storage.head_id.hex()}
    finally:
        storage.close()
    click.echo(json.dumps(_with_checkpoint(info)))


def _with_checkpoint(info: dict[str, Any]) -> dict[str, Any]:
    return {**info, "checkpoint": f"{info['finalized_number']}:{info['finalized_hash']}"}


async def _asked(url: str) -> dict[str, Any]:
    """Return the last final block of the user's own node, without a proof."""
    try:
        node = await RpcConnection.open(url)
        try:
            block = await node.call("chain_getFinalizedHead")
            header = await node.call("chain_getHeader", block)
        finally:
            await node.close()
        return {"finalized_number": int(header["number"], 16), "finalized_hash": block}
    except (WalletError, NodeUnreachableError, RpcError) as error:
        raise BadInputError(str(error), code=code_of(error)) from error
