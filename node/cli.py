"""`ogpu-node`: the command line.  Flags and subcommands have Substrate's names, so that its operators are at home.

What always holds: whatever goes wrong is one message that says what, why and what to do next, and an exit code:
2 bad input, 3 database, 4 disk space, 1 anything else.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from genesis.dev_accounts import DEV_NAMES
from genesis.presets import PRESETS, raw_spec
from genesis.spec import SpecError, to_json
from node.config import (
    DEFAULT_PORT,
    DEFAULT_PROMETHEUS_PORT,
    DEFAULT_RPC_PORT,
    Config,
    Paths,
    RpcConfig,
    chosen_spec,
    default_base_path,
)
from node.errors import BadInputError, DatabaseError, NodeError
from node.key_commands import key

PORT = click.IntRange(0, 65535)


def _chain_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Which chain, and where its files are: the options of every subcommand that needs to know."""
    for option in (
        click.option("--base-path", "-d", type=click.Path(path_type=Path), help="Folder for this node's files."),
        click.option(
            "--dev", is_flag=True, help="The development chain; a node runs alone, as Alice, in a temporary folder."
        ),
        click.option("--chain", metavar="CHAIN", help=f"{', '.join(PRESETS)}, or the path of a chain spec file."),
    ):
        function = option(function)
    return function


def _account_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for name in reversed(DEV_NAMES):
        text = f"Shortcut for --name {name} --validator with {name}'s well-known keys."
        function = click.option(f"--{name.lower()}", "dev_account", flag_value=name, default=None, help=text)(function)
    return function


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@_chain_options
@_account_options
@click.option("--tmp", is_flag=True, help="Keep files in a temporary folder that goes with the node.")
@click.option("--name", help="What this node is called in logs and telemetry.")
@click.option("--validator", is_flag=True, help="Take part in consensus with the keys in the keystore.")
@click.option("--bootnodes", multiple=True, metavar="ADDRESS", help="Peers to begin with: /ip4/../tcp/../p2p/..")
@click.option("--node-key", metavar="HEX", help="The 32-byte secret that names this node on the network.")
@click.option("--listen-host", default="0.0.0.0", show_default=True, help="Address for peers to connect to.")  # noqa: S104
@click.option("--port", type=PORT, default=DEFAULT_PORT, show_default=True, help="Port for peers; 0: any free one.")
@click.option(
    "--public-addr", multiple=True, metavar="ADDRESS", help="Where peers reach this node: /ip4/../tcp/.. (repeatable)."
)
@click.option(
    "--rpc-port", type=PORT, default=DEFAULT_RPC_PORT, show_default=True, help="JSON-RPC, HTTP and WebSocket."
)
@click.option("--no-rpc", is_flag=True, help="Do not start the RPC process.")
@click.option("--rpc-external", is_flag=True, help="Serve RPC to other machines.")
@click.option("--rpc-methods", type=click.Choice(["auto", "safe", "unsafe"]), default="auto", show_default=True)
@click.option("--rpc-cors", metavar="ORIGINS", help="Browser origins that may connect, or `all`; this machine.")
@click.option("--rpc-max-connections", type=click.IntRange(1, 10_000), default=100, show_default=True)
@click.option("--rpc-max-request-size", type=click.IntRange(1, 15), metavar="MB", help="The longest message; 1.")
@click.option("--rpc-max-batch-request-len", type=click.IntRange(1, 10_000), help="Calls in one batch; 500.")
@click.option("--rpc-max-subscriptions-per-connection", type=click.IntRange(1, 4_096), help="1024.")
@click.option("--rpc-rate-limit", type=click.IntRange(1), help="Calls of one client in a minute; 120,000.")
@click.option("--prometheus-port", type=PORT, default=DEFAULT_PROMETHEUS_PORT, show_default=True)
@click.option("--prometheus-external", is_flag=True, help="Serve metrics to other machines.")
@click.option("--no-prometheus", is_flag=True, help="Do not serve metrics.")
@click.option(
    "--sample", type=click.IntRange(1, 256), metavar="K", help="Poll K units of stake instead of every validator."
)
@click.option(
    "--init-sign-state",
    is_flag=True,
    help="Begin a sign-state on a chain that has begun: only for a key that never signed.",
)
@click.option("-l", "--log", default="info", metavar="LEVELS", help="A level, or target=level pairs, with commas.")
@click.version_option(package_name="ogpu")
@click.pass_context
def ogpu_node(context: click.Context, /, **flags: Any) -> None:
    """A node of an ogpu chain.  Without a subcommand: run it."""
    if context.invoked_subcommand is None:
        _run(**flags)


def _run(**flags: Any) -> None:
    from node import service  # noqa: PLC0415  # the network stack takes a second to import; other commands need none of it

    spec = chosen_spec(flags["chain"], dev=flags["dev"])
    temporary = tempfile.mkdtemp(prefix="ogpu-") if _is_temporary(flags) else None
    try:
        service.run(_config(flags, Path(temporary) if temporary else None), spec)
    finally:
        if temporary:
            shutil.rmtree(temporary, ignore_errors=True)


def _is_temporary(flags: dict[str, Any]) -> bool:
    if flags["tmp"] and flags["base_path"] is not None:
        raise BadInputError("--tmp and --base-path exclude each other: leave out one of them")
    return bool(flags["tmp"] or (flags["dev"] and flags["base_path"] is None))


def _config(flags: dict[str, Any], temporary: Path | None) -> Config:
    # A development chain has one validator, Alice: without her keys it would make no block.
    account = flags["dev_account"] or ("Alice" if flags["dev"] else None)
    rpc = RpcConfig(
        port=flags["rpc_port"],
        external=flags["rpc_external"],
        methods=flags["rpc_methods"],
        # Browsers' clients connect to a development chain as they are (docs/operators.md).
        cors=flags["rpc_cors"] or ("all" if flags["dev"] else None),
        connections_max=flags["rpc_max_connections"],
        request_mebibytes=flags["rpc_max_request_size"],
        batch_max=flags["rpc_max_batch_request_len"],
        subscriptions_max=flags["rpc_max_subscriptions_per_connection"],
        calls_per_minute=flags["rpc_rate_limit"],
    )
    return Config(
        chain=flags["chain"] or "dev",
        base_path=temporary or flags["base_path"] or default_base_path(),
        name=flags["name"] or account or "ogpu-node",
        is_validator=flags["validator"] or account is not None,
        dev_account=account,
        bootnodes=flags["bootnodes"],
        node_key=_hex_key(flags["node_key"]),
        # Its keys are known to everybody, so no other machine is let in.
        listen_host="127.0.0.1" if flags["dev"] else flags["listen_host"],
        port=flags["port"],
        public_addresses=flags["public_addr"],
        rpc=None if flags["no_rpc"] else rpc,
        prometheus_port=None if flags["no_prometheus"] else flags["prometheus_port"],
        prometheus_external=flags["prometheus_external"],
        sample_units=flags["sample"],
        init_sign_state=flags["init_sign_state"],
        log=flags["log"],
    )


@ogpu_node.command("build-spec")
@_chain_options
@click.option("--raw", is_flag=True, help="Storage keys and values instead of one object for each pallet.")
def build_spec(chain: str | None, dev: bool, base_path: Path | None, raw: bool) -> None:
    """Print the chain specification."""
    del base_path
    spec = chosen_spec(chain, dev=dev)
    click.echo(to_json(raw_spec(spec) if raw else spec), nl=False)


@ogpu_node.command("purge-chain")
@_chain_options
@click.option("-y", "yes", is_flag=True, help="Do not ask.")
@click.option("--with-sign-state", is_flag=True, help="Remove the sign-state too: only for a chain that starts over.")
def purge_chain(chain: str | None, dev: bool, base_path: Path | None, yes: bool, with_sign_state: bool) -> None:
    """Remove the chain's database; keys and sign-state stay."""
    paths = Paths(base_path or default_base_path(), chosen_spec(chain, dev=dev).id)
    if not paths.database.exists():
        click.echo(f"{paths.database} does not exist: nothing to do")
        return
    _refuse_running(paths)
    if not yes:
        click.confirm(f"Remove {paths.database}?", abort=True)
    shutil.rmtree(paths.database)
    paths.preference.unlink(missing_ok=True)
    paths.rounds.unlink(missing_ok=True)
    click.echo(f"removed {paths.database}")
    if with_sign_state:
        paths.sign_state.unlink(missing_ok=True)
        click.echo(f"removed {paths.sign_state}")
    elif paths.sign_state.exists():
        click.echo(f"kept {paths.sign_state}: it stops this validator from signing twice")


def _refuse_running(paths: Paths) -> None:
    """`BadInputError` while a node has the database open; a damaged one may well be removed."""
    from node.ledger.storage import Storage  # noqa: PLC0415  # as in chain_info

    with suppress(DatabaseError):
        Storage(paths.database, free_bytes_floor=0).close()


@ogpu_node.command("chain-info")
@_chain_options
def chain_info(chain: str | None, dev: bool, base_path: Path | None) -> None:
    """Print the last final block in the database, as JSON."""
    from node.ledger.storage import Storage  # noqa: PLC0415  # LevelDB is not needed by the other commands

    paths = Paths(base_path or default_base_path(), chosen_spec(chain, dev=dev).id)
    if not paths.database.exists():
        raise BadInputError(
            f"{paths.database} does not exist: give the --base-path and --chain that the node runs with"
        )
    storage = Storage(paths.database, free_bytes_floor=0)
    try:
        info = {"finalized_number": storage.head_height, "finalized_hash": "0x" + storage.head_id.hex()}
    finally:
        storage.close()
    click.echo(json.dumps(info))


ogpu_node.add_command(key)


def _hex_key(text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        return bytes.fromhex(text.removeprefix("0x"))
    except ValueError as error:
        raise BadInputError("--node-key is not hex: make one with `ogpu-node key generate-node-key`") from error


def main(words: Sequence[str] | None = None) -> None:
    """The `ogpu-node` program; `words` stand in for the command line."""
    try:
        ogpu_node(words, prog_name="ogpu-node")
    except SpecError as error:
        click.echo(f"ogpu-node: the chain spec is not usable: {error}", err=True)
        sys.exit(BadInputError.exit_code)
    except NodeError as error:
        click.echo(f"ogpu-node: {error}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
