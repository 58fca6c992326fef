"""`ogpu-node` without a subcommand: its flags become a `Config`, and the node runs.

Invariant: the folder of a temporary node is deleted with it.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from node import service
from node.config import Config, RpcConfig, chosen_spec, default_base_path, read_checkpoint
from node.errors import BadInputError
from wallet.private_file import read_private

EVERYWHERE = "0.0.0.0"  # noqa: S104  # peers are meant to reach it
THIS_MACHINE = "127.0.0.1"
NETWORK_KEY_BYTES_MAX = 128


def run(flags: dict[str, Any]) -> None:
    """Run the node that the flags of `ogpu-node` describe."""
    spec = chosen_spec(flags["chain"], dev=flags["dev"])
    temporary = tempfile.mkdtemp(prefix="ogpu-") if _is_temporary(flags) else None
    try:
        service.run(_config_of(flags, Path(temporary) if temporary else None), spec)
    finally:
        if temporary:
            shutil.rmtree(temporary, ignore_errors=True)


def _is_temporary(flags: dict[str, Any]) -> bool:
    if flags["tmp"] and flags["base_path"] is not None:
        raise BadInputError(
            "--tmp and --base-path exclude each other. Leave out one of them", code="options_exclude_each_other"
        )
    return bool(flags["tmp"] or (flags["dev"] and flags["base_path"] is None))


def _config_of(flags: dict[str, Any], temporary: Path | None) -> Config:
    # A development chain has one validator, Alice: without her keys it would make no block.
    dev_account = flags["dev_account"] or ("Alice" if flags["dev"] else None)
    config = RpcConfig(
        port=flags["rpc_port"],
        external=flags["rpc_external"],
        methods=flags["rpc_methods"],
        # Clients in browsers connect to a development chain without configuration (docs/operators.md).
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
        name=flags["name"] or dev_account or "ogpu-node",
        is_validator=flags["validator"] or dev_account is not None,
        dev_account=dev_account,
        bootnodes=flags["bootnodes"],
        node_key=_network_key(flags["node_key"], flags["node_key_file"]),
        listen_host=_listen_host(flags),
        port=flags["port"],
        public_addresses=flags["public_addr"],
        rpc=None if flags["no_rpc"] else config,
        prometheus_port=None if flags["no_prometheus"] else flags["prometheus_port"],
        prometheus_external=flags["prometheus_external"],
        sample_units=flags["sample"],
        init_sign_state=flags["init_sign_state"],
        checkpoint=None if flags["checkpoint"] is None else read_checkpoint(flags["checkpoint"]),
        log=flags["log"],
    )


def _listen_host(flags: dict[str, Any]) -> str:
    """Return the host of the p2p port; a development chain's keys are public, so it never serves another machine."""
    listen_host: str | None = flags["listen_host"]
    if not flags["dev"]:
        return EVERYWHERE if listen_host is None else listen_host
    if listen_host not in {None, THIS_MACHINE}:
        raise BadInputError(
            f"--dev listens only at {THIS_MACHINE}. Leave out --listen-host, or give a --chain", code="dev_is_local"
        )
    return THIS_MACHINE


def _network_key(key_text: str | None, path: Path | None) -> bytes | None:
    """Return the network key of `--node-key` or `--node-key-file`; None without either."""
    if key_text is not None and path is not None:
        raise BadInputError("give --node-key-file or --node-key, not both", code="options_exclude_each_other")
    if path is not None:
        key_text = read_private(path, NETWORK_KEY_BYTES_MAX).decode("ascii", "replace").strip()
    if key_text is None:
        return None
    try:
        return bytes.fromhex(key_text.removeprefix("0x"))
    except ValueError as error:
        raise BadInputError(
            "the network key is not hex. Make one with `ogpu-node key generate-node-key --file FILE`",
            code="not_a_network_key",
        ) from error
