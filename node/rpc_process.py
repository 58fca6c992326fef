"""The RPC process: started beside the node, and again whenever it dies.

What always holds: its death never ends the node; restarts back off from `BACKOFF_FIRST_SECONDS` to `BACKOFF_MAX_SECONDS`.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import trio

from node.config import RpcConfig

BACKOFF_FIRST_SECONDS, BACKOFF_MAX_SECONDS = 1.0, 30.0
SETTLED_SECONDS = 60.0  # a process that lived so long did not die of its start
_LOG = logging.getLogger(__name__)


def command(config: RpcConfig, socket: Path) -> list[str]:
    """How it is started."""
    words = [sys.executable, "-m", "node.rpc", "--feed", str(socket), "--rpc-port", str(config.port)]
    words += ["--rpc-methods", config.methods, "--rpc-max-connections", str(config.connections_max)]
    words += ["--rpc-external"] * config.external
    words += ["--rpc-cors", config.cors] if config.cors is not None else []
    return words


async def supervise(config: RpcConfig, socket: Path) -> None:
    """Keep the RPC process running until cancelled."""
    backoff = BACKOFF_FIRST_SECONDS
    while True:
        started = trio.current_time()
        status = await trio.run_process(command(config, socket), check=False)
        lived = trio.current_time() - started
        backoff = BACKOFF_FIRST_SECONDS if lived >= SETTLED_SECONDS else min(BACKOFF_MAX_SECONDS, 2 * backoff)
        _LOG.warning("the RPC process ended with status %d: it starts again in %.0f s", status.returncode, backoff)
        await trio.sleep(backoff)
