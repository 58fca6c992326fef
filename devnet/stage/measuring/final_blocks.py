"""The final blocks of every node of a devnet: differences between nodes, and blocks that a node lost.

Invariant: each check returns a list of problems, one sentence each. The list is empty if there are none.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from devnet.launcher.layout import Devnet, NodeLayout
from wallet.rpc import NodeUnreachableError, RpcConnection, RpcError

WATCH_SECONDS = 0.05
PARALLEL_CALLS = 50


@dataclass(slots=True)
class ObservedFinals:
    """The final blocks that each node reported over time."""

    highest: dict[str, int] = field(default_factory=dict)
    may_fall: set[str] = field(default_factory=set)  # nodes whose database was deleted: each may fall back once
    finals: dict[int, set[str]] = field(default_factory=dict)  # height -> ids
    lost: list[str] = field(default_factory=list)

    async def watch(self, devnet: Devnet) -> None:
        """Ask all nodes until cancelled."""
        async with asyncio.TaskGroup() as task_group:
            for member in devnet.members:
                task_group.create_task(self._watch_node(member))

    async def _watch_node(self, member: NodeLayout) -> None:
        while True:
            try:
                async with await RpcConnection.open(member.rpc_url) as connection:
                    while True:
                        self._take_final(member.name, (await connection.call("ogpu_status"))["final"])
                        await asyncio.sleep(WATCH_SECONDS)
            # Proofs kill nodes while they are watched.
            except (NodeUnreachableError, RpcError):
                await asyncio.sleep(WATCH_SECONDS)

    def _take_final(self, name: str, final_block: dict[str, str | int]) -> None:
        block_number = int(final_block["number"])
        highest_before = self.highest.get(name, 0)
        if block_number < highest_before and name in self.may_fall:
            self.may_fall.remove(name)
            highest_before = 0
        elif block_number < highest_before:
            self.lost.append(f"{name} was at final block {highest_before} and then at {block_number}")
        self.highest[name] = max(block_number, highest_before)
        self.finals.setdefault(block_number, set()).add(str(final_block["hash"]))


async def compare_final_blocks(devnet: Devnet) -> tuple[int, list[str]]:
    """Return the height up to which all nodes were compared, and the heights where they differ.

    A block's id covers its header, and so the state root after the block, which each node computed before it accepted
    the block.
    """
    ids_by_node = await asyncio.gather(*(_final_block_ids(member) for member in devnet.members))
    # The chains differ in length, because some nodes lag behind others.
    different_heights = [
        f"block {block_number}"
        for block_number, block_ids in enumerate(zip(*ids_by_node, strict=False), 1)
        # `chain_getBlockHash` answers null for a block that a node lacks. Equal nulls are no agreement.
        if len(set(block_ids)) > 1 or not block_ids[0]
    ]
    return min(map(len, ids_by_node)), different_heights


async def _final_block_ids(member: NodeLayout) -> list[str]:
    """Return the ids of a node's final blocks from height 1 on."""
    async with await RpcConnection.open(member.rpc_url) as connection:
        final_height = int((await connection.call("ogpu_status"))["final"]["number"])
        block_ids: list[str] = []
        for first_number in range(1, final_height + 1, PARALLEL_CALLS):
            block_numbers = range(first_number, min(first_number + PARALLEL_CALLS, final_height + 1))
            block_ids += await asyncio.gather(
                *(connection.call("chain_getBlockHash", block_number) for block_number in block_numbers)
            )
        return block_ids


async def lost_finals(devnet: Devnet, finals: ObservedFinals) -> list[str]:
    """Return the blocks that a node reported as final and that the first node's chain does not contain."""
    first_node_ids = await _final_block_ids(devnet.members[0])
    return [
        f"block {block_number}: {sorted(block_ids)} was final"
        for block_number, block_ids in sorted(finals.finals.items())
        # The first node may lag, so blocks above its own are left out.
        if 0 < block_number <= len(first_node_ids) and block_ids != {first_node_ids[block_number - 1]}
    ]
