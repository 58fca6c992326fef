"""`python -m devnet.proofs.seats`: an operator takes a seat, changes keys, moves, and leaves, by the documentation.

A devnet of four validators on four seats, with epochs of ten blocks. The commands of "Become a validator" are read from
docs/operators.md. The commands of "New keys", "Another machine" and "Leave" are written here after its words.

The requirements: the newcomer gets a seat and seals a block. After a key change its node seals with the new keys
without a restart. After the move the new machine seals, and no two signatures conflict. After it has left and waited,
its money is free.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from devnet.launcher import layout, processes, programs
from devnet.launcher.folder import DevnetError
from devnet.launcher.layout import Devnet, NodeLayout
from devnet.launcher.processes import Process
from devnet.stage.measuring.latency import digest_of
from devnet.stage.network import ObservedStage, fresh_layout, observed_nodes
from devnet.stage.report import Narrator, Report
from devnet.stage.scenario import LiveProof, ProofRun, Scenario, run
from genesis import dev_accounts
from genesis.parameters import CONSENSUS
from runtime.blocks.digest import find_author
from runtime.cryptography.ss58 import encode as ss58
from runtime.encoding.types import GRAINS_PER_OGPU
from runtime.pallets.staking.stakers import Seat
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System
from wallet.client import ChainClient
from wallet.errors import WalletError

DOCUMENT = Path("docs/operators.md")
MEMBERS, SEATS = 4, 4
SAVER, NEWCOMER, MOVED = "Alice", "Newcomer", "Moved"
OWN = (NEWCOMER, MOVED)
"""The operator's two machines."""
STAKE = "12000"
"""oGPU as users type it: more than the stake of any of the four."""
GIVEN = "14000"
ASKS_NOTHING = ("candidates",)
STEP_SECONDS = 240.0
"""The limit of each step. The longest is to leave and wait for the money, eight epochs."""


@dataclass(slots=True)
class Operator:
    """The reader of the documentation: an account, and up to two machines."""

    net: Devnet
    client: ChainClient
    narrator: Narrator
    began: float = field(default_factory=time.monotonic)

    def tell(self, text: str) -> None:
        """Print a line."""
        self.narrator.line(text)

    @property
    def stash(self) -> bytes:
        """The bonding account."""
        return dev_accounts.stash(NEWCOMER)

    async def types(self, command: str) -> str:
        """Run one command of the documentation, with this network's names, and return its output."""
        self.tell(f"$ {command}")
        line, _, target = command.partition(" > ")
        words = shlex.split(line)
        if words[0] == "ogpu-wallet":
            at, sure = ("--url", self.net.members[0].rpc_url), () if words[1] in ASKS_NOTHING else ("--yes",)
            said = await asyncio.to_thread(programs.run, words[0], *at, *words[1:], *sure, keyring=self.net.keyring)
        else:
            said = await asyncio.to_thread(_node_command, words[1:])
        if target:
            await asyncio.to_thread(Path(target).write_text, said, "utf-8")
        return said

    def machine(self, name: str) -> Process:
        """Return a node with its own base path, as the documentation starts it."""
        member = self.net.member(name)
        return Process(name, processes.NODE, tuple(self._arguments(member)), self.net.home(member))

    def _arguments(self, member: NodeLayout) -> list[str]:
        return [*self.net.node_command(member), "--validator"]

    async def until(self, what: str, holds: Callable[[], Awaitable[bool]]) -> None:
        """Test a condition once a second. Raise DevnetError after STEP_SECONDS."""
        end = time.monotonic() + STEP_SECONDS
        while not await holds():
            if time.monotonic() > end:
                raise DevnetError(f"not within {STEP_SECONDS:.0f} s: {what}")
            await asyncio.sleep(1)
        self.tell(f"  {time.monotonic() - self.began:5.0f} s: {what}")

    async def seat(self, epochs_ahead: int = 0) -> Seat | None:
        """Return the newcomer's seat in the epoch of the last final block, or some epochs ahead."""
        at = await self.client.finalized()
        starts = await self.client.read(TrustStake.validator_set_starts, at=at)
        epoch = await self.epoch(at) + epochs_ahead
        first = max(start for start in starts if start <= epoch)
        return next(
            (s for s in await self.client.read(TrustStake.validator_sets, first, at=at) if s.stash == self.stash), None
        )

    async def epoch(self, at: bytes) -> int:
        """Return the epoch of a block."""
        height: int = await self.client.read(System.number, at=at)
        return max(0, height - 1) // CONSENSUS[layout.FAST].epoch_blocks

    async def has_sealed_since(self, height: int) -> bool:
        """Return whether the newcomer authored a final block above a height."""
        at = await self.client.finalized()
        top: int = await self.client.read(System.number, at=at)
        return any([await self._author(number) == self.stash for number in range(height + 1, top + 1)])

    async def height(self) -> int:
        """Return the height of the last final block."""
        number: int = await self.client.read(System.number, at=await self.client.finalized())
        return number

    # --- conditions

    async def has_seat(self) -> bool:
        """Return whether the newcomer has a seat."""
        return await self.seat() is not None

    async def has_no_seat(self) -> bool:
        """Return whether the newcomer has no seat in this and the next epoch."""
        return await self.seat() is None and await self.seat(1) is None

    async def sits_with_other_keys(self, before: Seat | None, epochs_ahead: int = 0) -> bool:
        """Return whether its seat has another session key than before."""
        seat = await self.seat(epochs_ahead)
        return before is not None and seat is not None and seat.session_key != before.session_key

    async def has_caught_up(self, name: str) -> bool:
        """Return whether a machine has the last final block, or nearly."""
        try:
            async with await ChainClient.connect(self.net.member(name).rpc_url) as own:
                reached: int = await own.read(System.number, at=await own.finalized())
        except (WalletError, OSError):
            return False
        return reached + 2 >= await self.height()

    async def may_withdraw(self) -> bool:
        """Return whether the epoch has come in which the unstaked money is free."""
        at = await self.client.finalized()
        chunks = await self.client.read(TrustStake.unlocking, self.stash, at=at)
        epoch = await self.epoch(at)
        return all(chunk.until_epoch <= epoch for chunk in chunks)

    async def free(self) -> int:
        """Return the newcomer's free grains."""
        info = await self.client.read(System.account, self.stash, at=await self.client.finalized())
        return int(info.data.free)

    async def _author(self, number: int) -> bytes | None:
        block = await self.client.rpc.call("chain_getBlockHash", number)
        header = await self.client.rpc.call("chain_getHeader", block)
        return find_author(digest_of(header))


@contextmanager
def with_two_machines(run: ProofRun) -> Iterator[ObservedStage]:
    """Run four validators and an observer. The operator starts its two machines itself."""
    net = fresh_layout(run, MEMBERS, seats=SEATS, is_fast=True)
    for name in OWN:
        net, _ = layout.add_full_node(net, name, any_ports=True)
    try:
        with observed_nodes(run, net, replace(net, members=net.members[:MEMBERS])) as stage:
            yield stage
    finally:
        processes.stop(*(Process(name, processes.NODE, (), net.folder / name.lower()) for name in OWN))


def operated(stage: ObservedStage) -> Report:
    """Do all four tasks, one after the other. Raise DevnetError if one does not end."""

    async def played(client: ChainClient) -> Report:
        operator = Operator(stage.net, client, stage.tell)
        return {
            "became": await _become(operator),
            "rotated": await _change_keys(operator),
            "moved": await _move(operator),
            "left": await _leave(operator),
        }

    return stage.ask(played) | {"conflicts": stage.seen()["conflicts"]}


async def _become(operator: Operator) -> Report:
    await operator.types(f"ogpu-wallet send {ss58(operator.stash)} {GIVEN} --key //{SAVER}")
    first = operator.machine(NEWCOMER)
    said = {
        "chain.json": str(operator.net.chain_spec), "DIR": str(operator.net.home(operator.net.member(NEWCOMER))),
        "ADDRESS_OF_THE_STASH": ss58(operator.stash), "keys.json": str(operator.net.folder / "keys.json"),
        "1000": STAKE, "PROVIDER_ACCOUNT": ss58(dev_accounts.key(NEWCOMER, dev_accounts.PROVIDER)),
        "gpu": f"//{NEWCOMER}",
    }  # fmt: skip
    for command in documented("Become a validator"):
        if command.startswith("ogpu-node --chain"):
            operator.tell(f"$ {command}")
            processes.start(first)
        else:
            await operator.types(" ".join(said.get(word, word) for word in command.split()))
    return await _seated_and_sealing(operator, first)


async def _change_keys(operator: Operator) -> Report:
    """Change the keys on the machine while its node runs, and once from another machine."""
    first, before = operator.machine(NEWCOMER), await operator.seat()
    pid = processes.running(first)
    keys = await _new_keys(operator, NEWCOMER, "new_keys.json")
    await operator.types(f"ogpu-wallet set-keys {keys} --key //{NEWCOMER}")
    await operator.until("its seat has the new keys", lambda: operator.sits_with_other_keys(before))
    facts = await _seated_and_sealing(operator, first)
    if processes.running(first) != pid:
        raise DevnetError(f"{NEWCOMER} did not run on: it was process {pid}")
    async with await ChainClient.connect(operator.net.member(NEWCOMER).rpc_url) as own:
        given = await own.rpc.call("author_rotateKeysWithOwner", "0x" + operator.stash.hex())
    afar = operator.net.folder / "afar.json"
    afar.write_text(json.dumps(given), encoding="utf-8")
    await operator.types(f"ogpu-wallet set-keys {afar} --key //{NEWCOMER} --dry-run")
    return facts


async def _move(operator: Operator) -> Report:
    before, second = await operator.seat(), operator.machine(MOVED)
    keys = await _new_keys(operator, MOVED, "moved.json")
    processes.start(second)
    await operator.until("the new machine has caught up", lambda: operator.has_caught_up(MOVED))
    await operator.types(f"ogpu-wallet set-keys {keys} --key //{NEWCOMER}")
    await operator.until("the new keys are elected", lambda: operator.sits_with_other_keys(before, 1))
    # Until its keys leave the set, the old machine must vote, so it stops only now.
    processes.stop(operator.machine(NEWCOMER))
    operator.tell("  the old machine is stopped")
    await operator.until("its seat has the keys of the new machine", lambda: operator.sits_with_other_keys(before))
    return await _seated_and_sealing(operator, second)


async def _leave(operator: Operator) -> Report:
    await operator.types(f"ogpu-wallet chill --key //{NEWCOMER}")
    await operator.until("it has no seat", operator.has_no_seat)
    processes.stop(operator.machine(MOVED))
    await operator.types(f"ogpu-wallet unstake all --key //{NEWCOMER}")
    await operator.until("its money has waited", operator.may_withdraw)
    await operator.types(f"ogpu-wallet withdraw --key //{NEWCOMER}")
    free = await operator.free()
    if free < (int(GIVEN) - 1) * GRAINS_PER_OGPU:
        raise DevnetError(f"{NEWCOMER} has {free / GRAINS_PER_OGPU} oGPU of {GIVEN}")
    return {"free": free}


async def _new_keys(operator: Operator, name: str, file: str) -> Path:
    home, keys = operator.net.home(operator.net.member(name)), operator.net.folder / file
    where = f"--chain {operator.net.chain_spec} --base-path {home}"
    await operator.types(f"ogpu-node key rotate {where} --owner {ss58(operator.stash)} > {keys}")
    return keys


async def _seated_and_sealing(operator: Operator, machine: Process) -> Report:
    await operator.until("it has a seat", operator.has_seat)
    height = await operator.height()
    await operator.until("it has sealed a block", lambda: operator.has_sealed_since(height))
    if "takes its seat" not in machine.log.read_text(encoding="utf-8"):
        raise DevnetError(f"{machine.log} does not say that the node takes its seat")
    return {"from": height, "seconds": round(time.monotonic() - operator.began)}


def documented(title: str) -> list[str]:
    """Return the commands in the block after a title of the operators' page, without their comments."""
    text = DOCUMENT.read_text(encoding="utf-8")
    block = text[text.index(f"**{title}.**") :].split("```sh\n", 1)[1].split("```", 1)[0]
    return [line.split("  #")[0].strip() for line in block.splitlines() if line.strip()]


def _node_command(words: list[str]) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", processes.NODE, *words],
        capture_output=True, text=True, env=processes.source_path(), check=False,
    )  # fmt: skip
    if ran.returncode:
        raise DevnetError(f"ogpu-node {' '.join(words)}: {ran.stderr}")
    return ran.stdout


def figures(facts: Mapping[str, Report]) -> str:
    """Return the line of figures."""
    found = facts["operator"]
    after = [found[step]["seconds"] for step in ("became", "rotated", "moved")]
    return (
        f"by the words of {DOCUMENT} {NEWCOMER} sat and sealed after {after[0]} s, with new keys and the same process "
        f"after {after[1]} s, on another machine after {after[2]} s; {len(found['conflicts'])} conflicting signatures"
    )


PROOF = LiveProof(
    "seats",
    "An operator takes a seat, changes keys, moves, and leaves, as the documents say.",
    [
        Scenario(
            "operator", f"By the words of {DOCUMENT}: take a seat, change keys, move, leave",
            with_two_machines, operated,
            lambda facts: [f"conflicting signatures: {text}" for text in facts["conflicts"]],
        ),
    ],
    figures,
)  # fmt: skip

if __name__ == "__main__":
    run(PROOF)
