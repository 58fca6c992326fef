"""`python -m node.rpc`: the RPC process, which the node starts, and which ends with the node's feed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from pathlib import Path

import click

from genesis.chain import apis_for
from node.feed import messages as feed
from node.feed.client import FeedClient
from node.process import settle_memory
from node.rpc import jsonrpc
from node.rpc.access import origins_of
from node.rpc.block_reads import BlockReads
from node.rpc.freed_memory import map_large_pieces
from node.rpc.long_calls import SWITCH_SECONDS, LongCalls
from node.rpc.methods.author import AuthorMethods, Payment
from node.rpc.methods.chain import ChainMethods
from node.rpc.methods.ogpu import Ogpu
from node.rpc.methods.state import State
from node.rpc.methods.system import Rpc, SystemMethods
from node.rpc.questions import SUBMISSIONS_SECONDS, SUBMISSIONS_UNDER_WAY_MAX, Questions
from node.rpc.registry import Registry
from node.rpc.replica import Replica
from node.rpc.runtime_calls import RuntimeCalls
from node.rpc.server import CALLS_PER_MINUTE, MAX_SUBSCRIPTIONS, Server, ServerOptions

log = logging.getLogger("rpc")
NODE_ENDED = "the node ended: its RPC process ends too"

COLLECTOR_THRESHOLDS = (5_000, 10, 10)
"""As in `node.process`, but in steps of 3 ms, which delay no answer: all modules in one step took 100 ms."""


# A byte a second on standard output, which shows the node that its RPC process still answers.
# Invariant: the loop that answers clients writes it, so it stops when that loop does. It needs no port that strangers
# could occupy. A node that does not read it delays nothing.
BEAT_SECONDS = 1.0
BEAT = b"."


async def beat(pipe_descriptor: int) -> None:
    """Write beats to `pipe_descriptor`, a pipe, until cancelled."""
    os.set_blocking(pipe_descriptor, False)
    while True:
        with contextlib.suppress(OSError):  # the pipe is full or closed: the end of the feed shows the same
            os.write(pipe_descriptor, BEAT)
        await asyncio.sleep(BEAT_SECONDS)


@click.command()
@click.option("--feed", "socket", type=click.Path(path_type=Path), required=True, help="The node's feed socket.")
@click.option("--rpc-port", type=click.IntRange(0, 65535), default=9944, show_default=True)
@click.option("--rpc-external", is_flag=True, help="Serve other machines too.")
@click.option("--rpc-cors", default=None, help="Origins allowed to connect, with commas; or `all`.")
@click.option("--rpc-methods", type=click.Choice(["auto", "safe", "unsafe"]), default="auto", show_default=True)
@click.option("--rpc-max-connections", type=click.IntRange(1, 10_000), default=100, show_default=True)
@click.option("--rpc-max-request-size", "request_mebibytes", type=int, default=jsonrpc.MAX_REQUEST_MEBIBYTES)
@click.option("--rpc-max-batch-request-len", "batch", type=int, default=jsonrpc.MAX_BATCH)
@click.option("--rpc-max-subscriptions-per-connection", "subscriptions", type=int, default=MAX_SUBSCRIPTIONS)
@click.option("--rpc-rate-limit", "calls_per_minute", type=int, default=CALLS_PER_MINUTE)
def main(
    socket: Path,
    rpc_port: int,
    rpc_external: bool,
    rpc_cors: str | None,
    rpc_methods: str,
    rpc_max_connections: int,
    request_mebibytes: int,
    batch: int,
    subscriptions: int,
    calls_per_minute: int,
) -> None:
    """Answer JSON-RPC for the node behind a feed socket."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s rpc: %(message)s")
    options = ServerOptions(
        host="0.0.0.0" if rpc_external else "127.0.0.1",  # noqa: S104 - asked for by name
        port=rpc_port,
        max_connections=rpc_max_connections,
        max_subscriptions=subscriptions,
        calls_per_minute=calls_per_minute,
        limits=jsonrpc.RequestLimits(request_mebibytes, batch),
        cors=origins_of(rpc_cors),
        unsafe_allowed=rpc_methods == "unsafe" or (rpc_methods == "auto" and not rpc_external),
    )
    sys.exit(asyncio.run(serve(socket, options)))


async def serve(socket: Path, options: ServerOptions) -> int:
    """Follow the feed and answer requests until it ends; return the exit status."""
    try:
        client = await FeedClient.connect(socket)
    except OSError as error:
        log.info("no node feed at %s: %s", socket, error)
        return 1
    replica = Replica()
    frames = client.frames()
    beat_task = asyncio.create_task(beat(sys.stdout.fileno()))
    try:
        while not replica.is_ready:
            replica.apply(await anext(frames))
        rpc_server = Server(registry_for(replica, client), options)
        settle_memory(COLLECTOR_THRESHOLDS)
        map_large_pieces()
        sys.setswitchinterval(SWITCH_SECONDS)
        async with rpc_server.listening() as bound_port:
            print(f"rpc listening on {options.host}:{bound_port}", file=sys.stderr, flush=True)  # noqa: T201 - the node reads it
            async for frame in frames:
                replica.apply(frame)
    except ConnectionError:
        log.info(NODE_ENDED)
        return 0
    except (OSError, feed.FeedError) as error:
        log.info("%s", error)
        return 1
    finally:
        beat_task.cancel()
        await client.close()
    return 0


def registry_for(replica: Replica, client: FeedClient) -> Registry:
    """Return every method over this replica, which must have received the node's `FeedHello`."""
    hello = replica.hello
    if hello is None:
        raise feed.FeedError("the node did not begin with Hello")
    submissions = Questions(SUBMISSIONS_UNDER_WAY_MAX, SUBMISSIONS_SECONDS)
    client.ask_in_turn(Questions().turn, submissions.submission)
    long_calls = LongCalls()
    runtime_calls = RuntimeCalls(apis_for(hello.parameters, is_development=hello.chain_type != "Live"))
    block_reads = BlockReads(replica, client)
    registry = Registry(
        [
            SystemMethods(block_reads, runtime_calls),
            ChainMethods(block_reads),
            State(block_reads, runtime_calls, long_calls),
            AuthorMethods(block_reads),
            Payment(block_reads, runtime_calls, long_calls),
            Ogpu(block_reads),
        ]
    )
    registry.collect(Rpc(registry))
    return registry


if __name__ == "__main__":
    main()
