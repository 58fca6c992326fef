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
    # Both name blocks that were in the database.
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
    parameter_values, broken_relations, changeable = genesis_numbers(spec), [], changeable_parameters(spec)
    for relation in RELATIONS:
        is_relation_kept = relation.holds(parameter_values)
        click.echo(f"{'holds ' if is_relation_kept else 'BROKEN'} {relation.explained(parameter_values)}")
        if not is_relation_kept:
            parameter_names = " or ".join(name for name in relation.names() if name in changeable)
            patch_hint = f"; change {parameter_names} in chainParameters of the patch" if parameter_names else ""
            broken_relations.append(
                f"{relation.explained(parameter_values)}, which must hold: {relation.reason}{patch_hint}"
            )
    if broken_relations:
        raise BadInputError(". ".join(broken_relations), code="numbers_contradict")
    _check_boot_nodes(spec)
    for genesis_warning in genesis_warnings(spec):
        note(genesis_warning)
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

    for address_index, text in enumerate(spec.boot_nodes):
        try:
            parse_address(text)
        except (AddressError, ValueError) as error:
            raise BadInputError(f"bootNodes[{address_index}]: {error}", code="boot_node_unusable") from error


def _refuse_running(paths: Paths) -> None:
    """Raise BadInputError while a node has the database open. A damaged database may be removed."""
    with suppress(DatabaseError):
        Storage(paths.database, free_bytes_floor=0).close()


def chain_info(chain: str | None, dev: bool, base_path: Path | None, url: str | None) -> None:
    """Print the last final block as JSON."""
    if url is not None:
        click.echo(json.dumps(_with_checkpoint(asyncio.run(_final_block_of(url)))))
        return
    paths = Paths(base_path or default_base_path(), chosen_spec(chain, dev=dev).id)
    if not is_there(paths.database):
        raise BadInputError(
            f"{paths.database} does not exist. Give the --base-path and --chain of the node", code="no_database"
        )
    # It only reads: the free space that a running node needs does not matter.
    storage = Storage(paths.database, free_bytes_floor=0)
    try:
        block_info = {
            "finalized_number": storage.head_height,
            "finalized_hash": "0x" + storage.head_id.hex(),
        }
    finally:
        storage.close()
    click.echo(json.dumps(_with_checkpoint(block_info)))


def _with_checkpoint(block_info: dict[str, Any]) -> dict[str, Any]:
    return {**block_info, "checkpoint": f"{block_info['finalized_number']}:{block_info['finalized_hash']}"}


async def _final_block_of(node_url: str) -> dict[str, Any]:
    """Return the last final block of the user's own node, without a proof."""
    try:
        connection = await RpcConnection.open(node_url)
        try:
            final_hash = await connection.call("chain_getFinalizedHead")
            final_header = await connection.call("chain_getHeader", final_hash)
        finally:
            await connection.close()
        return {"finalized_number": int(final_header["number"], 16), "finalized_hash": final_hash}
    except (WalletError, NodeUnreachableError, RpcError) as error:
        raise BadInputError(str(error), code=code_of(error)) from error
