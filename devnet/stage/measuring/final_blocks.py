"""The final blocks of every node of a devnet: differences between nodes, and blocks that a node lost.

Invariant: each check returns a list of problems, one sentence each. The list is empty if there are none.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from devnet.launcher.layout import Devnet, NodeLayout
from wallet.rpc import NodeUnreachableError, RpcConnection, RpcError

WATCH_SECONDS = 0.05
PARALLEL = 50


@dataclass(slots=True)
class Observed:
    """The final blocks that each node reported over time."""

    highest: dict[str, int] = field(default_factory=dict)
    may_fall: set[str] = field(default_factory=set)  # nodes whose database was deleted: each may fall back once
    finals: dict[int, set[str]] = field(default_factory=dict)  # height -> ids
    lost: list[str] = field(default_factory=list)

    async def watch(self, devnet: Devnet) -> None:
        """Ask all nodes until cancelled."""
        async with asyncio.TaskGroup() as group:
            for member in devnet.members:
                group.create_task(self._watch_node(member))

    async def _watch_node(self, member: NodeLayout) -> None:
        while True:
            try:
                async with await RpcConnection.open(member.rpc_url) as rpc:
                    while True:
                        self._take(member.name, (await rpc.call("ogpu_status"))["final"])
                        await asyncio.sleep(WATCH_SECONDS)
            except (NodeUnreachableError, RpcError):
                await asyncio.sleep(WATCH_SECONDS)

    def _take(self, name: str, final: dict[str, str | int]) -> None:
        number = int(final["number"])
        before = self.highest.get(name, 0)
        if number < before and name in self.may_fall:
            self.may_fall.remove(name)
            before = 0
        elif number < before:
            self.lost.append(f"{name} was at final block {before} and then at {number}")
        self.highest[name] = max(number, before)
        self.finals.setdefault(number, set()).add(str(final["hash"]))


async def blocks_of_all(devnet: Devnet) -> tuple[int, list[str]]:
    """Return the height up to which all nodes were compared, and the heights where they differ.

    A block's id covers its header, and so the state root after the block, which each node computed before it accepted
    the block.
    """
    chains = await asyncio.gather(*(_blocks(member) for member in devnet.members))
    # The chains differ in length, because some nodes lag behind others.
    different = [
        f"block {number}" for number, ids in enumerate(zip(*chains, strict=False), 1) if len(set(ids)) > 1 or not ids[0]
    ]
    return min(map(len, chains)), different


async def _blocks(member: NodeLayout) -> list[str]:
    """Return the ids of a node's final blocks from height 1 on."""
    async with await RpcConnection.open(member.rpc_url) as rpc:
        height = int((await rpc.call("ogpu_status"))["final"]["number"])
        ids: list[str] = []
        for first in range(1, height + 1, PARALLEL):
            numbers = range(first, min(first + PARALLEL, height + 1))
            ids += await asyncio.gather(*(rpc.call("chain_getBlockHash", number) for number in numbers))
        return ids


async def lost_finals(devnet: Devnet, observed: Observed) -> list[str]:
    """Return the blocks that a node reported as final and that the first node's chain does not contain."""
    chain = await _blocks(devnet.members[0])
    return [
        f"block {number}: {sorted(ids)} was final"
        for number, ids in sorted(observed.finals.items())
        if 0 < number <= len(chain) and ids != {chain[number - 1]}
    ]
