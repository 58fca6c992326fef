"""The ways in which `make crash` strikes the nodes of a live devnet.

Invariant: sign-states are never touched. A strike takes a database away only while all other nodes hold every final
block. A node that ends without a strike is an error, and never silently restarted.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from devnet.launcher import lifecycle as network
from devnet.launcher import processes
from devnet.launcher.folder import DevnetError
from devnet.launcher.layout import Devnet, NodeLayout
from devnet.launcher.lifecycle import node_process
from devnet.launcher.status import ask_all
from devnet.stage.measuring.final_blocks import ObservedFinals
from devnet.stage.measuring.observer import has_open_vote

ALIVE_SECONDS_MAX = 1.5
DOWN_SECONDS_MAX = 1.5
START_SECONDS_MAX = 3.0  # a start takes about two on an idle machine
DETOUR_BLOCKS_MAX = 6
AIMED_SHARE = 0.5  # share of strikes that wait until the victim has voted for a block that is not final
AIM_SECONDS_MAX = 2.0
AIM_SECONDS = 0.002  # such a vote is open for some 60 ms of a second
KILLED_AGAIN_SHARE = 0.5  # share of nodes without their database that are killed again during creation or sync
IMPATIENT_SHARE = 0.2  # share of strikes after which the next one does not wait for the nodes
BACK_SECONDS = 60.0
PURGE_SECONDS_MAX = 60.0


@dataclass(slots=True)
class StruckDevnet:
    """The devnet under the strikes, and the observations of it."""

    devnet: Devnet
    random_source: Random
    observed: ObservedFinals
    genesis: bytes
    open_votes: int = 0  # in the sign-states of killed nodes
    database_copies: dict[str, Path] = field(
        default_factory=dict
    )  # of each member's database, taken before the strikes

    async def strike(self, kind: str, victim: NodeLayout) -> None:
        """Strike once at a random time, restart the victims, and wait for them most times.

        Raise DevnetError if a node does not start.
        """
        if kind in DATABASE_KINDS:
            # A block is lost for good if its last copy is deleted. So no node may be behind when a database is deleted.
            await self.wait_for_all()
        await self.wait_randomly(ALIVE_SECONDS_MAX)
        await STRIKES_BY_KIND[kind](self, victim)
        if self.random_source.random() >= IMPATIENT_SHARE:
            await self.wait_for_all()

    async def wait_for_all(self) -> None:
        """Wait until every node is up and has the highest final block of the call's start. Raise DevnetError if not."""
        await network.ready(self.devnet, BACK_SECONDS, final=await self.highest_final())
        self.observed.may_fall.clear()

    async def highest_final(self) -> int:
        """Return the highest final block that any node has or has ever reported."""
        statuses = await ask_all(self.devnet)
        return max(*(status.final for status in statuses), *self.observed.highest.values(), 0)

    async def copy_databases(self) -> None:
        """Copy the database of each node while it is stopped, as an operator does."""
        for member in self.devnet.members:
            processes.stop(node_process(self.devnet, member))
            copied_database = self.devnet.home(member) / "db-copy"
            await asyncio.to_thread(shutil.copytree, self.devnet.paths(member).database, copied_database)
            self.database_copies[member.name] = copied_database
            self.start(member)
        await self.wait_for_all()

    # --- single steps

    async def kill_together(self, *members: NodeLayout, may_aim: bool = True) -> None:
        """Kill nodes with SIGKILL at the same time, often just when the first one has an open vote.

        Raise DevnetError if one has already ended.
        """
        ended_names = [
            member.name for member in members if processes.running(node_process(self.devnet, member)) is None
        ]
        if ended_names:
            log = node_process(self.devnet, self.devnet.member(ended_names[0])).log
            raise DevnetError(f"{', '.join(ended_names)} ended by itself; {log} ends:\n{network.tail(log)}")
        # Validators once locked up because a purge or a detour removed the block of an open vote. Blind strikes hit
        # that case one time in sixteen.
        if may_aim and self.random_source.random() < AIMED_SHARE:
            await self._wait_for_open_vote(members[0])
        kill_tasks = (asyncio.to_thread(processes.kill, node_process(self.devnet, member)) for member in members)
        await asyncio.gather(*kill_tasks)
        self.open_votes += sum(has_open_vote(self.devnet, self.genesis, member) for member in members)

    async def _wait_for_open_vote(self, member: NodeLayout) -> None:
        deadline = time.monotonic() + AIM_SECONDS_MAX
        while time.monotonic() < deadline:
            if has_open_vote(self.devnet, self.genesis, member):
                return
            await asyncio.sleep(AIM_SECONDS)

    async def wait_randomly(self, seconds_max: float = DOWN_SECONDS_MAX) -> None:
        """Wait a random time."""
        await asyncio.sleep(self.random_source.uniform(0, seconds_max))

    def start(self, member: NodeLayout) -> None:
        """Start a node in its usual role."""
        # From this thread: the system kills a thread's children when the thread ends.
        processes.start(node_process(self.devnet, member))


async def kill_one(devnet: StruckDevnet, victim: NodeLayout) -> None:
    """Kill one node, and restart it."""
    await devnet.kill_together(victim)
    await devnet.wait_randomly()
    devnet.start(victim)


# With more than a third of the weight away, finality stands, and every open round waits for the restarts.
async def kill_all(devnet: StruckDevnet, _: NodeLayout) -> None:
    """Kill every node at the same time, and restart them in random order."""
    members = list(devnet.devnet.members)
    await devnet.kill_together(*members)
    devnet.random_source.shuffle(members)
    for member in members:
        await devnet.wait_randomly(DOWN_SECONDS_MAX / len(members))
        devnet.start(member)


# A start that is killed must leave files that the next start can read.
async def kill_starting(devnet: StruckDevnet, victim: NodeLayout) -> None:
    """Kill one node, and again while it starts."""
    await kill_one(devnet, victim)
    await kill_again(devnet, victim)


async def kill_again(devnet: StruckDevnet, victim: NodeLayout) -> None:
    """Kill a node that was just started, and restart it."""
    await devnet.wait_randomly(START_SECONDS_MAX)
    # No aim at a vote: the kill must come while the node starts.
    await devnet.kill_together(victim, may_aim=False)
    await devnet.wait_randomly()
    devnet.start(victim)


async def purge_database(devnet: StruckDevnet, victim: NodeLayout) -> None:
    """Kill one node, and remove its database with the command of the operators' page.

    It is often killed again, during creation or sync.
    """
    await devnet.kill_together(victim)
    await devnet.wait_randomly()
    await asyncio.to_thread(run_purge, devnet.devnet, victim)
    await _start_behind(devnet, victim)


# A database older than the sign-state must never lead to a second vote in an old round (compare EIP-3076).
async def restore_database(devnet: StruckDevnet, victim: NodeLayout) -> None:
    """Kill one node, and replace its database by an older copy. It is often killed again."""
    await devnet.kill_together(victim)
    await devnet.wait_randomly()
    database = devnet.devnet.paths(victim).database
    await asyncio.to_thread(shutil.rmtree, database)
    await asyncio.to_thread(shutil.copytree, devnet.database_copies[victim.name], database)
    await _start_behind(devnet, victim)


async def _start_behind(devnet: StruckDevnet, victim: NodeLayout) -> None:
    """Start a node with an outdated database. It is often killed again."""
    # Its reported final height may fall once, because its database is older.
    devnet.observed.may_fall.add(victim.name)
    devnet.start(victim)
    if devnet.random_source.random() < KILLED_AGAIN_SHARE:
        await kill_again(devnet, victim)


# A follower moves the database on while the sign-state stays, so both disagree at the next start.
async def follow_keyless(devnet: StruckDevnet, victim: NodeLayout) -> None:
    """Kill one node, let it follow the chain without its key for some blocks, and kill it in that role too."""
    await devnet.kill_together(victim)
    follower = node_process(devnet.devnet, replace(victim, is_validator=False))
    processes.start(follower)
    await network.ready(
        devnet.devnet,
        BACK_SECONDS,
        final=await devnet.highest_final() + devnet.random_source.randint(1, DETOUR_BLOCKS_MAX),
    )
    processes.kill(follower)
    await devnet.wait_randomly()
    devnet.start(victim)


StrikeAction = Callable[[StruckDevnet, NodeLayout], Coroutine[Any, Any, None]]

STRIKES_BY_KIND: dict[str, StrikeAction] = {
    "one": kill_one,
    "all": kill_all,
    "starting": kill_starting,
    "purge": purge_database,
    "detour": follow_keyless,
    "put-back": restore_database,
}
DATABASE_KINDS = ("purge", "put-back")
"""Kinds that take final blocks from a node."""


def deal_kinds(strike_count: int, random_source: Random) -> list[str]:
    """Return `count` kinds in random order, all equally often up to one."""
    first_kinds = list(STRIKES_BY_KIND)
    random_source.shuffle(first_kinds)
    dealt_kinds = [first_kinds[strike % len(first_kinds)] for strike in range(strike_count)]
    random_source.shuffle(dealt_kinds)
    return dealt_kinds


def run_purge(devnet: Devnet, member: NodeLayout) -> None:
    """Run `ogpu-node purge-chain -y`. Raise DevnetError if it fails."""
    arguments = ["purge-chain", "-y", "--chain", str(devnet.chain_spec), "--base-path", str(devnet.home(member))]
    command = [sys.executable, "-m", processes.NODE, *arguments]
    purge_result = subprocess.run(
        command, capture_output=True, text=True, timeout=PURGE_SECONDS_MAX, env=processes.source_path(), check=False
    )
    # The exit status alone does not prove that the database is gone.
    if purge_result.returncode or devnet.paths(member).database.exists():
        raise DevnetError(
            f"{member.name}: purge-chain failed ({purge_result.returncode}): {purge_result.stderr.strip()}"
        )
