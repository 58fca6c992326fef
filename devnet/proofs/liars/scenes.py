"""The scenes of a lie: a wallet sends, a customer posts, a provider works, a client uses a store.

Invariant: after a command that failed under a lie, the person repeats it at an honest node, as users do. The final
chain is judged over both tries.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from devnet.launcher import processes
from devnet.launcher.layout import NodeLayout
from devnet.launcher.processes import Process
from devnet.proofs.liars import people
from devnet.proofs.liars.judging import Hearing
from devnet.proofs.liars.lie import NodeLie, Program, StoreLie
from devnet.proofs.liars.people import CommandOutput, Person
from devnet.proofs.liars.proxies import NodeProxy, StoreProxy
from genesis import dev_accounts
from gpu_tasks.data import market_reads
from wallet.amounts import format_amount
from wallet.client import ChainClient

REPEATS_MAX = 3
# A provider's pause between two lies. It is shorter than a race's lease, so its races can still finish.
QUIET_SECONDS = 8.0
AMOUNT_FIRST = 1_000_000
AMOUNT_STEP = 1_000
UNITS_UNDER_STORE_LIE = 4
IDLE_SECONDS = 60.0
TOLD_SECONDS = 60.0
ENDED_WRONGLY = -1
# Read-only commands. A program that has run one knows the chain.
READ_ONLY_COMMANDS = {Program.WALLET: ("validators",), Program.CUSTOMER: ("offer", "services")}


@dataclass(slots=True)
class ProviderAtWork:
    """A provider's daemon, and the proxies around it."""

    member: NodeLayout
    process: Process
    node: NodeProxy
    store: StoreProxy


def amount_of(person_index: int) -> int:
    """Return the amount that a person sends. Each amount is unique, so no transfer is mistaken for another."""
    return AMOUNT_FIRST + AMOUNT_STEP * person_index


async def command_scene(honest_url: str, told_lie: NodeLie, person: Person, amount_grains: int) -> Hearing:
    """Read the balance and send money, or post a unit. Repeat a failed command at an honest node."""
    command_lines = [people.post_arguments(person, [f"Once upon a time {told_lie.name}"])]
    if person.program is Program.WALLET:
        command_lines = [("balance", person.key), people.send_arguments(person, format_amount(amount_grains))]
    if told_lie.is_met_anew:
        await people.run_command(person, honest_url, *READ_ONLY_COMMANDS[person.program])
    async with NodeProxy(honest_url, told_lie) as proxy:
        outputs = [await people.run_command(person, proxy.url, *arguments) for arguments in command_lines]
        hearing = Hearing(told_lie.name, person.program, person.name, proxy.told, outputs)
    await _repeat_honestly(hearing, person, honest_url, command_lines[-1])
    return hearing


async def _repeat_honestly(hearing: Hearing, person: Person, node_url: str, arguments: tuple[str, ...]) -> None:
    """Repeat the last command until it succeeds, at most REPEATS_MAX times."""
    last = hearing.under_lie[-1]
    while last.status != 0 and len(hearing.repeats) < REPEATS_MAX:
        last = await people.run_command(person, node_url, *arguments)
        hearing.repeats.append(last)


async def store_scene(honest_url: str, told_lie: StoreLie, person: Person, store_proxies: list[StoreProxy]) -> Hearing:
    """Post units and follow them to their ends while some stores lie. Repeat a failed command with honest stores."""
    prompts = [f"Once upon a time {told_lie.name} {story_number}" for story_number in range(UNITS_UNDER_STORE_LIE)]
    arguments = people.post_arguments(person, prompts, "--watch")
    told_before = sum(store_proxy.told for store_proxy in store_proxies)
    for store_proxy in store_proxies:
        store_proxy.lie = told_lie
    try:
        outputs = [await people.run_command(person, honest_url, *arguments)]
    finally:
        for store_proxy in store_proxies:
            store_proxy.lie = None
    told_count = sum(store_proxy.told for store_proxy in store_proxies) - told_before
    hearing = Hearing(told_lie.name, person.program, person.name, told_count, outputs)
    await _repeat_honestly(hearing, person, honest_url, arguments)
    return hearing


async def provider_scene(told_lie: NodeLie, provider: ProviderAtWork) -> Hearing:
    """Let a provider's node lie for a while, and then be honest again.

    A lie on a new connection waits for a quiet moment.
    """
    if told_lie.is_met_anew:
        await _wait_for_no_duties(provider)  # who is away misses its races
    log = provider.process.log
    log_offset = log.stat().st_size
    told_before = provider.node.told
    provider.node.lie = told_lie
    if told_lie.is_met_anew:
        provider.node.abort_connections()
    await asyncio.sleep(told_lie.seconds)
    await _wait_until_told(provider, told_before)
    provider.node.lie = None
    status: int | None = 0
    if processes.running(provider.process) is None:
        status = ENDED_WRONGLY
        processes.start(provider.process)  # as its operator would
    await asyncio.sleep(QUIET_SECONDS)
    output = CommandOutput(status, _log_since(provider.process, log_offset), told_lie.seconds)
    return Hearing(told_lie.name, Program.PROVIDER, provider.member.name, provider.node.told - told_before, [output])


async def _wait_for_no_duties(provider: ProviderAtWork) -> None:
    """Wait until the provider has no duties, at most IDLE_SECONDS."""
    async with await ChainClient.connect(provider.member.rpc_url) as chain:
        stash = dev_accounts.stash(provider.member.name)
        for _ in range(round(IDLE_SECONDS / 0.5)):
            if not await market_reads.duties(chain, stash):
                return
            await asyncio.sleep(0.5)


async def _wait_until_told(provider: ProviderAtWork, told_before: int) -> None:
    """Wait until the lie was told, because some lies need a duty."""
    for _ in range(round(TOLD_SECONDS / 0.5)):
        if provider.node.told > told_before:
            return
        await asyncio.sleep(0.5)


def _log_since(process: Process, log_offset: int) -> str:
    """Return a process's log from an offset on."""
    with process.log.open("rb") as log_file:
        log_file.seek(log_offset)
        return log_file.read(people.TEXT_KEPT).decode(errors="replace")
