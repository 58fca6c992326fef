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
VALIDATOR_COUNT, SEAT_COUNT = 4, 4
GIVER, NEWCOMER, MOVED = "Alice", "Newcomer", "Moved"
OWN_MACHINES = (NEWCOMER, MOVED)
"""The operator's two machines."""
# oGPU as users type it: more than the stake of any of the four.
STAKE_OGPU = "12000"
GIVEN_OGPU = "14000"
ASKS_NOTHING = ("candidates",)
# The limit of each step. The longest is to leave and wait for the money, eight epochs.
STEP_SECONDS = 240.0


@dataclass(slots=True)
class Operator:
    """The reader of the documentation: an account, and up to two machines."""

    devnet: Devnet
    chain_client: ChainClient
    narrator: Narrator
    start_time: float = field(default_factory=time.monotonic)

    def report_line(self, line_text: str) -> None:
        """Print a line."""
        self.narrator.line(line_text)

    @property
    def stash(self) -> bytes:
        """The bonding account."""
        return dev_accounts.stash(NEWCOMER)

    async def run_command(self, command: str) -> str:
        """Run one command of the documentation, with this network's names, and return its output."""
        self.report_line(f"$ {command}")
        command_line, _, output_file = command.partition(" > ")
        arguments = shlex.split(command_line)
        if arguments[0] == "ogpu-wallet":
            url_options, yes_option = (
                ("--url", self.devnet.members[0].rpc_url),
                () if arguments[1] in ASKS_NOTHING else ("--yes",),
            )
            command_output = await asyncio.to_thread(
                programs.run, arguments[0], *url_options, *arguments[1:], *yes_option, keyring=self.devnet.keyring
            )
        else:
            command_output = await asyncio.to_thread(_node_command, arguments[1:])
        if output_file:
            await asyncio.to_thread(Path(output_file).write_text, command_output, "utf-8")
        return command_output

    def machine(self, machine_name: str) -> Process:
        """Return a node with its own base path, as the documentation starts it."""
        member = self.devnet.member(machine_name)
        return Process(machine_name, processes.NODE, tuple(self._arguments(member)), self.devnet.home(member))

    def _arguments(self, member: NodeLayout) -> list[str]:
        return [*self.devnet.node_command(member), "--validator"]

    async def wait_until(self, what: str, holds: Callable[[], Awaitable[bool]]) -> None:
        """Test a condition once a second. Raise DevnetError after STEP_SECONDS."""
        deadline = time.monotonic() + STEP_SECONDS
        while not await holds():
            if time.monotonic() > deadline:
                raise DevnetError(f"not within {STEP_SECONDS:.0f} s: {what}")
            await asyncio.sleep(1)
        self.report_line(f"  {time.monotonic() - self.start_time:5.0f} s: {what}")

    async def seat_ahead(self, epochs_ahead: int = 0) -> Seat | None:
        """Return the newcomer's seat in the epoch of the last final block, or some epochs ahead."""
        final_block = await self.chain_client.finalized()
        set_starts = await self.chain_client.read(TrustStake.validator_set_starts, at=final_block)
        epoch = await self.epoch_at(final_block) + epochs_ahead
        first_epoch = max(set_start for set_start in set_starts if set_start <= epoch)
        return next(
            (
                s
                for s in await self.chain_client.read(TrustStake.validator_sets, first_epoch, at=final_block)
                if s.stash == self.stash
            ),
            None,
        )

    async def epoch_at(self, final_block: bytes) -> int:
        """Return the epoch of a block."""
        height: int = await self.chain_client.read(System.number, at=final_block)
        return max(0, height - 1) // CONSENSUS[layout.FAST].epoch_blocks

    async def has_sealed_since(self, height: int) -> bool:
        """Return whether the newcomer authored a final block above a height."""
        final_block = await self.chain_client.finalized()
        final_height: int = await self.chain_client.read(System.number, at=final_block)
        return any(
            [await self._author_of(block_height) == self.stash for block_height in range(height + 1, final_height + 1)]
        )

    async def final_height(self) -> int:
        """Return the height of the last final block."""
        height: int = await self.chain_client.read(System.number, at=await self.chain_client.finalized())
        return height

    # --- conditions

    async def has_seat(self) -> bool:
        """Return whether the newcomer has a seat."""
        return await self.seat_ahead() is not None

    async def has_no_seat(self) -> bool:
        """Return whether the newcomer has no seat in this and the next epoch."""
        return await self.seat_ahead() is None and await self.seat_ahead(1) is None

    async def sits_with_other_keys(self, seat_before: Seat | None, epochs_ahead: int = 0) -> bool:
        """Return whether its seat has another session key than before."""
        current_seat = await self.seat_ahead(epochs_ahead)
        return (
            seat_before is not None and current_seat is not None and current_seat.session_key != seat_before.session_key
        )

    async def has_caught_up(self, machine: str) -> bool:
        """Return whether a machine has the last final block, or nearly."""
        try:
            async with await ChainClient.connect(self.devnet.member(machine).rpc_url) as machine_client:
                reached_height: int = await machine_client.read(System.number, at=await machine_client.finalized())
        except (WalletError, OSError):
            return False
        return reached_height + 2 >= await self.final_height()

    async def may_withdraw(self) -> bool:
        """Return whether the epoch has come in which the unstaked money is free."""
        final_block = await self.chain_client.finalized()
        unlocking_chunks = await self.chain_client.read(TrustStake.unlocking, self.stash, at=final_block)
        epoch = await self.epoch_at(final_block)
        return all(unlocking_chunk.until_epoch <= epoch for unlocking_chunk in unlocking_chunks)

    async def free_grains(self) -> int:
        """Return the newcomer's free grains."""
        info = await self.chain_client.read(System.account, self.stash, at=await self.chain_client.finalized())
        return int(info.data.free)

    async def _author_of(self, block_number: int) -> bytes | None:
        block_hash = await self.chain_client.rpc.call("chain_getBlockHash", block_number)
        header = await self.chain_client.rpc.call("chain_getHeader", block_hash)
        return find_author(digest_of(header))


@contextmanager
def with_two_machines(proof_run: ProofRun) -> Iterator[ObservedStage]:
    """Run four validators and an observer. The operator starts its two machines itself."""
    devnet = fresh_layout(proof_run, VALIDATOR_COUNT, seats=SEAT_COUNT, is_fast=True)
    for machine in OWN_MACHINES:
        devnet, _ = layout.add_full_node(devnet, machine, any_ports=True)
    try:
        with observed_nodes(proof_run, devnet, replace(devnet, members=devnet.members[:VALIDATOR_COUNT])) as stage:
            yield stage
    finally:
        processes.stop(
            *(Process(machine, processes.NODE, (), devnet.folder / machine.lower()) for machine in OWN_MACHINES)
        )


def run_operator_tasks(stage: ObservedStage) -> Report:
    """Do all four tasks, one after the other. Raise DevnetError if one does not end."""

    async def played(chain: ChainClient) -> Report:
        operator = Operator(stage.devnet, chain, stage.narrator)
        return {
            "became": await _become_validator(operator),
            "rotated": await _change_keys(operator),
            "moved": await _move_machine(operator),
            "left": await _leave_set(operator),
        }

    return stage.ask(played) | {"conflicts": stage.stop_observer()["conflicts"]}


async def _become_validator(operator: Operator) -> Report:
    await operator.run_command(f"ogpu-wallet send {ss58(operator.stash)} {GIVEN_OGPU} --key //{GIVER}")
    first_machine = operator.machine(NEWCOMER)
    replacements = {
        "chain.json": str(operator.devnet.chain_spec),
        "DIR": str(operator.devnet.home(operator.devnet.member(NEWCOMER))),
        "ADDRESS_OF_THE_STASH": ss58(operator.stash), "keys.json": str(operator.devnet.folder / "keys.json"),
        "1000": STAKE_OGPU, "PROVIDER_ACCOUNT": ss58(dev_accounts.key(NEWCOMER, dev_accounts.PROVIDER)),
        "gpu": f"//{NEWCOMER}",
    }  # fmt: skip
    # The page itself is run, so that a wrong command there fails the proof.
    for command in documented_commands("Become a validator"):
        if command.startswith("ogpu-node --chain"):
            operator.report_line(f"$ {command}")
            processes.start(first_machine)
        else:
            await operator.run_command(" ".join(replacements.get(word, word) for word in command.split()))
    return await _seated_and_sealing(operator, first_machine)


async def _change_keys(operator: Operator) -> Report:
    """Change the keys on the machine while its node runs, and once from another machine."""
    first_machine, seat_before = operator.machine(NEWCOMER), await operator.seat_ahead()
    pid = processes.running(first_machine)
    keys_file = await _new_keys(operator, NEWCOMER, "new_keys.json")
    await operator.run_command(f"ogpu-wallet set-keys {keys_file} --key //{NEWCOMER}")
    await operator.wait_until("its seat has the new keys", lambda: operator.sits_with_other_keys(seat_before))
    seat_facts = await _seated_and_sealing(operator, first_machine)
    # The operators' page promises new keys without a restart.
    if processes.running(first_machine) != pid:
        raise DevnetError(f"{NEWCOMER} did not run on: it was process {pid}")
    async with await ChainClient.connect(operator.devnet.member(NEWCOMER).rpc_url) as machine_client:
        given_keys = await machine_client.rpc.call("author_rotateKeysWithOwner", "0x" + operator.stash.hex())
    keys_from_afar = operator.devnet.folder / "afar.json"
    keys_from_afar.write_text(json.dumps(given_keys), encoding="utf-8")
    await operator.run_command(f"ogpu-wallet set-keys {keys_from_afar} --key //{NEWCOMER} --dry-run")
    return seat_facts


async def _move_machine(operator: Operator) -> Report:
    seat_before, second_machine = await operator.seat_ahead(), operator.machine(MOVED)
    keys_file = await _new_keys(operator, MOVED, "moved.json")
    processes.start(second_machine)
    await operator.wait_until("the new machine has caught up", lambda: operator.has_caught_up(MOVED))
    await operator.run_command(f"ogpu-wallet set-keys {keys_file} --key //{NEWCOMER}")
    await operator.wait_until("the new keys are elected", lambda: operator.sits_with_other_keys(seat_before, 1))
    # Until its keys leave the set, the old machine must vote, so it stops only now.
    processes.stop(operator.machine(NEWCOMER))
    operator.report_line("  the old machine is stopped")
    await operator.wait_until(
        "its seat has the keys of the new machine", lambda: operator.sits_with_other_keys(seat_before)
    )
    return await _seated_and_sealing(operator, second_machine)


async def _leave_set(operator: Operator) -> Report:
    await operator.run_command(f"ogpu-wallet chill --key //{NEWCOMER}")
    await operator.wait_until("it has no seat", operator.has_no_seat)
    processes.stop(operator.machine(MOVED))
    await operator.run_command(f"ogpu-wallet unstake all --key //{NEWCOMER}")
    await operator.wait_until("its money has waited", operator.may_withdraw)
    await operator.run_command(f"ogpu-wallet withdraw --key //{NEWCOMER}")
    free_grains = await operator.free_grains()
    if free_grains < (int(GIVEN_OGPU) - 1) * GRAINS_PER_OGPU:
        raise DevnetError(f"{NEWCOMER} has {free_grains / GRAINS_PER_OGPU} oGPU of {GIVEN_OGPU}")
    return {"free": free_grains}


async def _new_keys(operator: Operator, machine: str, name: str) -> Path:
    node_folder, keys_file = (operator.devnet.home(operator.devnet.member(machine)), operator.devnet.folder / name)
    options = f"--chain {operator.devnet.chain_spec} --base-path {node_folder}"
    await operator.run_command(f"ogpu-node key rotate {options} --owner {ss58(operator.stash)} > {keys_file}")
    return keys_file


async def _seated_and_sealing(operator: Operator, machine: Process) -> Report:
    await operator.wait_until("it has a seat", operator.has_seat)
    height = await operator.final_height()
    await operator.wait_until("it has sealed a block", lambda: operator.has_sealed_since(height))
    # The operators' page tells the reader to wait for this line.
    if "takes its seat" not in machine.log.read_text(encoding="utf-8"):
        raise DevnetError(f"{machine.log} does not say that the node takes its seat")
    return {"from": height, "seconds": round(time.monotonic() - operator.start_time)}


def documented_commands(section_title: str) -> list[str]:
    """Return the commands in the block after a title of the operators' page, without their comments."""
    document = DOCUMENT.read_text(encoding="utf-8")
    block = document[document.index(f"**{section_title}.**") :].split("```sh\n", 1)[1].split("```", 1)[0]
    return [line.split("  #")[0].strip() for line in block.splitlines() if line.strip()]


def _node_command(arguments: list[str]) -> str:
    completed = subprocess.run(
        [sys.executable, "-m", processes.NODE, *arguments],
        capture_output=True, text=True, env=processes.source_path(), check=False,
    )  # fmt: skip
    if completed.returncode:
        raise DevnetError(f"ogpu-node {' '.join(arguments)}: {completed.stderr}")
    return completed.stdout


def figures(facts_by_scenario: Mapping[str, Report]) -> str:
    """Return the line of figures."""
    operator_facts = facts_by_scenario["operator"]
    seconds_after = [operator_facts[step]["seconds"] for step in ("became", "rotated", "moved")]
    return (
        f"by the words of {DOCUMENT} {NEWCOMER} sat and sealed after {seconds_after[0]} s, with new keys and the "
        f"same process after {seconds_after[1]} s, on another machine after {seconds_after[2]} s; "
        f"{len(operator_facts['conflicts'])} conflicting signatures"
    )


PROOF = LiveProof(
    "seats",
    "An operator takes a seat, changes keys, moves, and leaves, as the documents say.",
    [
        Scenario(
            "operator", f"By the words of {DOCUMENT}: take a seat, change keys, move, leave",
            with_two_machines, run_operator_tasks,
            lambda facts: [f"conflicting signatures: {text}" for text in facts["conflicts"]],
        ),
    ],
    figures,
)  # fmt: skip

if __name__ == "__main__":
    run(PROOF)
