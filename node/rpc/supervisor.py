"""The RPC process as the node sees it (trio): started beside it, and again whenever it dies.

What always holds: its death never ends the node; restarts back off from `BACKOFF_FIRST_SECONDS` to
`BACKOFF_MAX_SECONDS`.
"""

from __future__ import annotations

import logging
import socket
import sys
from pathlib import Path

import trio

from node.config import RpcConfig
from node.errors import BadInputError

BACKOFF_FIRST_SECONDS = 1.0
BACKOFF_MAX_SECONDS = 30.0
SETTLED_SECONDS = 60.0  # a process that lived so long did not die of its start
_LOG = logging.getLogger(__name__)


def command(config: RpcConfig, feed: Path) -> list[str]:
    """How it is started."""
    words = [sys.executable, "-m", "node.rpc", "--feed", str(feed), "--rpc-port", str(config.port)]
    words += ["--rpc-methods", config.methods, "--rpc-max-connections", str(config.connections_max)]
    words += ["--rpc-external"] * config.external
    words += ["--rpc-cors", config.cors] if config.cors is not None else []
    return words


def require_free_port(config: RpcConfig) -> None:
    """Raise `BadInputError` when somebody else has the port, which only a person can set right."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0" if config.external else "127.0.0.1", config.port))  # noqa: S104  # asked for by a flag
        except OSError as error:
            raise BadInputError(
                f"port {config.port} for JSON-RPC is not free ({error.strerror}): "
                "choose another --rpc-port, or --no-rpc"
            ) from error


async def supervise(config: RpcConfig, feed: Path) -> None:
    """Keep the RPC process running until cancelled."""
    backoff = BACKOFF_FIRST_SECONDS
    while True:
        started = trio.current_time()
        status = await trio.run_process(command(config, feed), check=False)
        lived = trio.current_time() - started
        # One that dies of its own start (a port, a broken installation) must not keep a core busy with starting it.
        backoff = BACKOFF_FIRST_SECONDS if lived >= SETTLED_SECONDS else min(BACKOFF_MAX_SECONDS, 2 * backoff)
        _LOG.warning("the RPC process ended with status %d: it starts again in %.0f s", status.returncode, backoff)
        await trio.sleep(backoff)
