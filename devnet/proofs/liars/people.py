"""The users of commands: for each lie and each program a separate account and folder.

Invariant: an account gets its money once, at the start. After that only its own commands may move its grains.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from devnet.launcher.processes import source_path
from devnet.launcher.programs import MODULES
from devnet.proofs.liars.lie import Program
from genesis import dev_accounts
from runtime.cryptography.signatures import Scheme
from runtime.pallets.balances import Balances
from runtime.pallets.utility import Utility
from wallet.amounts import GRAINS_PER_OGPU
from wallet.client import ChainClient
from wallet.suri import keypair_from_suri

FUNDS_GRAINS = 5 * GRAINS_PER_OGPU
FUNDED_AT_ONCE = 40
BANK_SURI = "//Eve"
SINK_NAME = "Dave"
PATIENCE_SECONDS = 200.0
"""A command that takes longer counts as hung."""
TEXT_KEPT = 100_000
PART_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Person:
    """The user of one program, with an account."""

    name: str
    program: Program
    home: Path

    @property
    def key(self) -> str:
        """The account's secret, as a user types it."""
        return f"//liars//{self.name}//{self.program}"

    @property
    def account(self) -> bytes:
        """The account's id."""
        return keypair_from_suri(self.key).account


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """The exit status of a command (None if it hung) and its whole output."""

    status: int | None
    text: str
    seconds: float


async def fund_people(node_url: str, people: list[Person], grains: int = FUNDS_GRAINS) -> None:
    """Transfer the same amount to every person."""
    bank_keypair = keypair_from_suri(BANK_SURI, Scheme.SR25519)
    async with await ChainClient.connect(node_url) as chain:
        for batch_start in range(0, len(people), FUNDED_AT_ONCE):
            funded_people = people[batch_start : batch_start + FUNDED_AT_ONCE]
            funding_calls = tuple(
                Balances.transfer_keep_alive(dest=person.account, value=grains) for person in funded_people
            )
            await chain.submit(Utility.batch_all(calls=funding_calls), bank_keypair)


async def run_command(
    person: Person, node_url: str, *arguments: str, patience_seconds: float = PATIENCE_SECONDS
) -> CommandOutput:
    """Run the person's program against a node, as a user would."""
    person.home.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", MODULES[person.program], "--url", node_url, "--keyring", str(person.home / "keys"),
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**source_path(), "HOME": str(person.home)},
        # A hung program is killed with its children, which a new session keeps together.
        start_new_session=True,
    )  # fmt: skip
    status: int | None = None
    output_bytes = b""
    assert process.stdout is not None  # a pipe
    try:
        async with asyncio.timeout(patience_seconds):
            while output_part := await process.stdout.read(PART_BYTES):
                # A program may print without end, so only the last bytes are kept.
                output_bytes = (output_bytes + output_part)[-TEXT_KEPT:]
            status = await process.wait()
    except TimeoutError:
        output_bytes += b"\n(hung)"
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return CommandOutput(status, output_bytes.decode(errors="replace"), round(time.monotonic() - started, 1))


def send_arguments(person: Person, amount: str) -> tuple[str, ...]:
    """Return the arguments of a command that sends money."""
    return "send", "0x" + dev_accounts.stash(SINK_NAME).hex(), amount, "--key", person.key, "--yes"


def post_arguments(person: Person, prompts: list[str], *more_arguments: str) -> tuple[str, ...]:
    """Return the arguments of a command that posts one unit per prompt."""
    person.home.mkdir(parents=True, exist_ok=True)
    prompts_file = person.home / "prompts.txt"
    prompts_file.write_text("".join(f"{prompt}\n" for prompt in prompts), encoding="utf-8")
    postings_folder = str(person.home / "postings")
    return (
        "unit",
        "post",
        str(prompts_file),
        "--key",
        person.key,
        "--max-tokens",
        "8",
        "--postings",
        postings_folder,
        "--yes",
        *more_arguments,
    )
