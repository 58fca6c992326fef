"""The node's control of the RPC process (trio): it starts the process, and again when it dies or hangs.

Invariant: the death of the process never ends the node. A process without a sign of life for `SILENT_SECONDS` times
`SILENCES_MAX` is killed. Restarts back off from `BACKOFF_FIRST_SECONDS` to `BACKOFF_MAX_SECONDS`.
"""

from __future__ import annotations

import logging
import socket
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import trio

from node.config import RpcConfig
from node.errors import BadInputError
from node.process import child_command

BACKOFF_FIRST_SECONDS = 1.0
BACKOFF_MAX_SECONDS = 30.0
SETTLED_SECONDS = 60.0  # a process that lived this long did not die of its start
SILENT_SECONDS = 10.0
SILENCES_MAX = 3
"""Silences in a row, not one long wait: after a stop of the node itself, it first reads the beats that arrived
meanwhile."""
READ_BYTES = 4096
_LOG = logging.getLogger(__name__)


def command(config: RpcConfig, feed_socket: Path) -> list[str]:
    """Return the command line of the process."""
    words = ["--feed", str(feed_socket), "--rpc-port", str(config.port)]
    words += ["--rpc-methods", config.methods, "--rpc-max-connections", str(config.connections_max)]
    words += ["--rpc-external"] * config.external
    options = {
        "--rpc-cors": config.cors,
        "--rpc-max-request-size": config.request_mebibytes,
        "--rpc-max-batch-request-len": config.batch_max,
        "--rpc-max-subscriptions-per-connection": config.subscriptions_max,
        "--rpc-rate-limit": config.calls_per_minute,
    }
    for option, value in options.items():
        words += [option, str(value)] if value is not None else []
    return child_command("node.rpc", *words)


def require_free_port(config: RpcConfig) -> None:
    """Raise `BadInputError` if another program has the port, because only a person can resolve that."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0" if config.external else "127.0.0.1", config.port))  # noqa: S104  # a flag asks for it
        except OSError as error:
            raise BadInputError(
                f"port {config.port} for JSON-RPC is not free ({error.strerror}). Choose another --rpc-port, or "
                "--no-rpc"
            ) from error


async def supervise(config: RpcConfig, feed_socket: Path) -> None:
    """Keep the RPC process running until cancelled."""
    await keep_running(command(config, feed_socket), SILENT_SECONDS)


async def keep_running(words: Sequence[str], silent_seconds: float) -> None:
    """Run a program that beats on its standard output, and restart it when it ends or falls silent."""
    backoff_seconds = BACKOFF_FIRST_SECONDS
    while True:
        started_at = trio.current_time()
        status = await _run_watched(words, silent_seconds)
        lived_seconds = trio.current_time() - started_at
        # A process that dies of its own start (a port, a broken installation) must not keep a core busy with restarts.
        backoff_seconds = (
            BACKOFF_FIRST_SECONDS if lived_seconds >= SETTLED_SECONDS else min(BACKOFF_MAX_SECONDS, 2 * backoff_seconds)
        )
        _LOG.warning("the RPC process ended with status %d: it starts again in %.0f s", status, backoff_seconds)
        await trio.sleep(backoff_seconds)


async def _run_watched(words: Sequence[str], silent_seconds: float) -> int:
    """Run a program until it ends, or until its silence has it killed, and return its exit status."""
    async with trio.open_nursery() as nursery:
        start = partial(trio.run_process, words, stdout=subprocess.PIPE, check=False)
        process: trio.Process = await nursery.start(start)
        if not await _lives_on(process, silent_seconds):
            _LOG.warning("the RPC process did not answer for %.0f s: killed", SILENCES_MAX * silent_seconds)
            process.kill()
        return await process.wait()


async def _lives_on(process: trio.Process, silent_seconds: float) -> bool:
    """Read the beats until the process closes its output (True) or misses too many (False)."""
    assert process.stdout is not None  # a pipe, by the arguments of the start
    silences = 0
    while silences < SILENCES_MAX:
        with trio.move_on_after(silent_seconds) as beat_wait:
            if not await process.stdout.receive_some(READ_BYTES):
                return True
        silences = silences + 1 if beat_wait.cancelled_caught else 0
    return False
