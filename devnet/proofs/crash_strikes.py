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
from devnet.stage.measuring.final_blocks import Observed
from devnet.stage.measuring.observer import has_open_vote

ALIVE_SECONDS_MAX = 1.5
DOWN_SECONDS_MAX = 1.5
START_SECONDS_MAX = 3.0  # a start takes about two on an idle machine
DETOUR_BLOCKS_MAX = 6
AIMED = 0.5  # share of strikes that wait until the victim has voted for a block that is not final
AIM_SECONDS_MAX = 2.0
AIM_SECONDS = 0.002  # such a vote is open for some 60 ms of a second
KILLED_AGAIN = 0.5  # share of nodes without their database that are killed again during creation or sync
IMPATIENT = 0.2  # share of strikes after which the next one does not wait for the nodes
BACK_SECONDS = 60.0
PURGE_SECONDS_MAX = 60.0


@dataclass(slots=True)
class Struck:
    """The devnet under the strikes, and the observations of it."""

    net: Devnet
    rng: Random
    observed: Observed
    genesis: bytes
    open_votes: int = 0  # in the sign-states of killed nodes
    copies: dict[str, Path] = field(default_factory=dict)  # of each member's database, taken before the strikes

    async def strike(self, kind: str, victim: NodeLayout) -> None:
        """Strike once at a random time, restart the victims, and wait for them most times.

        Raise DevnetError if a node does not start.
        """
        if kind in TAKING:
            # A block is lost for good if its last copy is deleted. So no node may be behind when a database is deleted.
            await self.all_back()
        await self.pause(ALIVE_SECONDS_MAX)
        await KINDS[kind](self, victim)
        if self.rng.random() >= IMPATIENT:
            await self.all_back()

    async def all_back(self) -> None:
        """Wait until every node is up and has the highest final block of the call's start. Raise DevnetError if not."""
        await network.ready(self.net, BACK_SECONDS, final=await self.height())
        self.observed.may_fall.clear()

    async def height(self) -> int:
        """Return the highest final block that any node has or has ever reported."""
        standing = await ask_all(self.net)
        return max(*(status.final for status in standing), *self.observed.highest.values(), 0)

    async def copy_databases(self) -> None:
        """Copy the database of each node while it is stopped, as an operator does."""
        for member in self.net.members:
            processes.stop(node_process(self.net, member))
            copy = self.net.home(member) / "db-copy"
            await asyncio.to_thread(shutil.copytree, self.net.paths(member).database, copy)
            self.copies[member.name] = copy
            self.start(member)
        await self.all_back()

    # --- single steps

    async def end(self, *members: NodeLayout, may_aim: bool = True) -> None:
        """Kill nodes with SIGKILL at the same time, often just when the first one has an open vote.

        Raise DevnetError if one has already ended.
        """
        ended = [member.name for member in members if processes.running(node_process(self.net, member)) is None]
        if ended:
            log = node_process(self.net, self.net.member(ended[0])).log
            raise DevnetError(f"{', '.join(ended)} ended by itself; {log} ends:\n{network.tail(log)}")
        # Validators once locked up because a purge or a detour removed the block of an open vote. Blind strikes hit
        # that case one time in sixteen.
        if may_aim and self.rng.random() < AIMED:
            await self._wait_for_a_vote(members[0])
        kills = (asyncio.to_thread(processes.kill, node_process(self.net, member)) for member in members)
        await asyncio.gather(*kills)
        self.open_votes += sum(has_open_vote(self.net, self.genesis, member) for member in members)

    async def _wait_for_a_vote(self, member: NodeLayout) -> None:
        end = time.monotonic() + AIM_SECONDS_MAX
        while time.monotonic() < end:
            if has_open_vote(self.net, self.genesis, member):
                return
            await asyncio.sleep(AIM_SECONDS)

    async def pause(self, seconds_max: float = DOWN_SECONDS_MAX) -> None:
        """Wait a random time."""
        await asyncio.sleep(self.rng.uniform(0, seconds_max))

    def start(self, member: NodeLayout) -> None:
        """Start a node in its usual role."""
        # From this thread: the system kills a thread's children when the thread ends.
        processes.start(node_process(self.net, member))


async def kill(struck: Struck, victim: NodeLayout) -> None:
    """Kill one node, and restart it."""
    await struck.end(victim)
    await struck.pause()
    struck.start(victim)


async def kill_all(struck: Struck, _: NodeLayout) -> None:
    """Kill every node at the same time, and restart them in random order."""
    members = list(struck.net.members)
    await struck.end(*members)
    struck.rng.shuffle(members)
    for member in members:
        await struck.pause(DOWN_SECONDS_MAX / len(members))
        struck.start(member)


async def kill_starting(struck: Struck, victim: NodeLayout) -> None:
    """Kill one node, and again while it starts."""
    await kill(struck, victim)
    await kill_again(struck, victim)


async def kill_again(struck: Struck, victim: NodeLayout) -> None:
    """Kill a node that was just started, and restart it."""
    await struck.pause(START_SECONDS_MAX)
    # No aim at a vote: the kill must come while the node starts.
    await struck.end(victim, may_aim=False)
    await struck.pause()
    struck.start(victim)


async def purge(struck: Struck, victim: NodeLayout) -> None:
    """Kill one node, and remove its database with the command of the operators' page.

    It is often killed again, during creation or sync.
    """
    await struck.end(victim)
    await struck.pause()
    await asyncio.to_thread(run_purge, struck.net, victim)
    await _start_behind(struck, victim)


async def put_back(struck: Struck, victim: NodeLayout) -> None:
    """Kill one node, and replace its database by an older copy. It is often killed again."""
    await struck.end(victim)
    await struck.pause()
    database = struck.net.paths(victim).database
    await asyncio.to_thread(shutil.rmtree, database)
    await asyncio.to_thread(shutil.copytree, struck.copies[victim.name], database)
    await _start_behind(struck, victim)


async def _start_behind(struck: Struck, victim: NodeLayout) -> None:
    """Start a node with an outdated database. It is often killed again."""
    # Its reported final height may fall once, because its database is older.
    struck.observed.may_fall.add(victim.name)
    struck.start(victim)
    if struck.rng.random() < KILLED_AGAIN:
        await kill_again(struck, victim)


async def detour(struck: Struck, victim: NodeLayout) -> None:
    """Kill one node, let it follow the chain without its key for some blocks, and kill it in that role too."""
    await struck.end(victim)
    follower = node_process(struck.net, replace(victim, is_validator=False))
    processes.start(follower)
    await network.ready(
        struck.net, BACK_SECONDS, final=await struck.height() + struck.rng.randint(1, DETOUR_BLOCKS_MAX)
    )
    processes.kill(follower)
    await struck.pause()
    struck.start(victim)


Strike = Callable[[Struck, NodeLayout], Coroutine[Any, Any, None]]

KINDS: dict[str, Strike] = {
    "one": kill,
    "all": kill_all,
    "starting": kill_starting,
    "purge": purge,
    "detour": detour,
    "put-back": put_back,
}
TAKING = ("purge", "put-back")
"""Kinds that take final blocks from a node."""


def deal(count: int, rng: Random) -> list[str]:
    """Return `count` kinds in random order, all equally often up to one."""
    first = list(KINDS)
    rng.shuffle(first)
    dealt = [first[number % len(first)] for number in range(count)]
    rng.shuffle(dealt)
    return dealt


def run_purge(net: Devnet, member: NodeLayout) -> None:
    """Run `ogpu-node purge-chain -y`. Raise DevnetError if it fails."""
    words = ["purge-chain", "-y", "--chain", str(net.chain_spec), "--base-path", str(net.home(member))]
    command = [sys.executable, "-m", processes.NODE, *words]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=PURGE_SECONDS_MAX, env=processes.source_path(), check=False
    )
    # The exit status alone does not prove that the database is gone.
    if ended.returncode or net.paths(member).database.exists():
        raise DevnetError(f"{member.name}: purge-chain failed ({ended.returncode}): {ended.stderr.strip()}")
