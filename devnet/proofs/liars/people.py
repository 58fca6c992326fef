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

FUNDS = 5 * GRAINS_PER_OGPU
FUNDED_AT_ONCE = 40
BANK = "//Eve"
SINK = "Dave"
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
class Said:
    """The exit status of a command (None if it hung) and its whole output."""

    status: int | None
    text: str
    seconds: float


async def fund(node_url: str, people: list[Person], grains: int = FUNDS) -> None:
    """Transfer the same amount to every person."""
    bank = keypair_from_suri(BANK, Scheme.SR25519)
    async with await ChainClient.connect(node_url) as chain:
        for start in range(0, len(people), FUNDED_AT_ONCE):
            some = people[start : start + FUNDED_AT_ONCE]
            gifts = tuple(Balances.transfer_keep_alive(dest=person.account, value=grains) for person in some)
            await chain.submit(Utility.batch_all(calls=gifts), bank)


async def command(
    person: Person,
    node_url: str,
    *arguments: str,
    patience: float = PATIENCE_SECONDS,
) -> Said:
    """Run the person's program against a node, as a user would."""
    person.home.mkdir(parents=True, exist_ok=True)
    start_time = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", MODULES[person.program], "--url", node_url, "--keyring", str(person.home / "keys"),
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**source_path(), "HOME": str(person.home)},
        start_new_session=True,
    )  # fmt: skip
    status: int | None = None
    text = b""
    assert process.stdout is not None  # a pipe
    try:
        async with asyncio.timeout(patience):
            while part := await process.stdout.read(PART_BYTES):
                text = (text + part)[-TEXT_KEPT:]
            status = await process.wait()
    except TimeoutError:
        text += b"\n(hung)"
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return Said(status, text.decode(errors="replace"), round(time.monotonic() - start_time, 1))


def send_words(person: Person, amount: str) -> tuple[str, ...]:
    """Return the arguments of a command that sends money."""
    return "send", "0x" + dev_accounts.stash(SINK).hex(), amount, "--key", person.key, "--yes"


def post_words(person: Person, prompts: list[str], *more: str) -> tuple[str, ...]:
    """Return the arguments of a command that posts one unit per prompt."""
    person.home.mkdir(parents=True, exist_ok=True)
    file = person.home / "prompts.txt"
    file.write_text("".join(f"{prompt}\n" for prompt in prompts), encoding="utf-8")
    folder = str(person.home / "postings")
    return "unit", "post", str(file), "--key", person.key, "--max-tokens", "8", "--postings", folder, "--yes", *more
