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
from devnet.proofs.liars.people import Person, Said
from devnet.proofs.liars.proxies import NodeProxy, StoreProxy
from genesis import dev_accounts
from gpu_tasks.data import market_reads
from wallet.amounts import format_amount
from wallet.client import ChainClient

REPEATS_MAX = 3
QUIET_SECONDS = 8.0
"""A provider's pause between two lies. It is shorter than a race's lease, so its races can still finish."""
AMOUNT_FIRST = 1_000_000
AMOUNT_STEP = 1_000
UNITS_UNDER_STORE_LIE = 4
IDLE_SECONDS = 60.0
TOLD_SECONDS = 60.0
ENDED_WRONGLY = -1
KNOWING = {Program.WALLET: ("validators",), Program.CUSTOMER: ("offer", "services")}
"""Read-only commands. A program that has run one knows the chain."""


@dataclass(slots=True)
class ProviderAtWork:
    """A provider's daemon, and the proxies around it."""

    member: NodeLayout
    process: Process
    node: NodeProxy
    store: StoreProxy


def amount_of(place: int) -> int:
    """Return the amount that a person sends. Each amount is unique, so no transfer is mistaken for another."""
    return AMOUNT_FIRST + AMOUNT_STEP * place


async def command_scene(honest: str, lie: NodeLie, person: Person, amount: int) -> Hearing:
    """Read the balance and send money, or post a unit. Repeat a failed command at an honest node."""
    commands = [people.post_words(person, [f"Once upon a time {lie.name}"])]
    if person.program is Program.WALLET:
        commands = [("balance", person.key), people.send_words(person, format_amount(amount))]
    if lie.is_met_anew:
        await people.command(person, honest, *KNOWING[person.program])
    async with NodeProxy(honest, lie) as proxy:
        under_lie = [await people.command(person, proxy.url, *arguments) for arguments in commands]
        hearing = Hearing(lie.name, person.program, person.name, proxy.told, under_lie)
    await _repeat(hearing, person, honest, commands[-1])
    return hearing


async def _repeat(hearing: Hearing, person: Person, node_url: str, arguments: tuple[str, ...]) -> None:
    """Repeat the last command until it succeeds, at most REPEATS_MAX times."""
    last = hearing.under_lie[-1]
    while last.status != 0 and len(hearing.repeats) < REPEATS_MAX:
        last = await people.command(person, node_url, *arguments)
        hearing.repeats.append(last)


async def store_scene(honest: str, lie: StoreLie, person: Person, stores: list[StoreProxy]) -> Hearing:
    """Post units and follow them to their ends while some stores lie. Repeat a failed command with honest stores."""
    prompts = [f"Once upon a time {lie.name} {number}" for number in range(UNITS_UNDER_STORE_LIE)]
    arguments = people.post_words(person, prompts, "--watch")
    told_before = sum(store.told for store in stores)
    for store in stores:
        store.lie = lie
    try:
        under_lie = [await people.command(person, honest, *arguments)]
    finally:
        for store in stores:
            store.lie = None
    told = sum(store.told for store in stores) - told_before
    hearing = Hearing(lie.name, person.program, person.name, told, under_lie)
    await _repeat(hearing, person, honest, arguments)
    return hearing


async def provider_scene(lie: NodeLie, provider: ProviderAtWork) -> Hearing:
    """Let a provider's node lie for a while, and then be honest again.

    A lie on a new connection waits for a quiet moment.
    """
    if lie.is_met_anew:
        await _without_duties(provider)  # who is away misses its races
    log = provider.process.log
    offset = log.stat().st_size
    told_before = provider.node.told
    provider.node.lie = lie
    if lie.is_met_anew:
        provider.node.cut()
    await asyncio.sleep(lie.seconds)
    await _told(provider, told_before)
    provider.node.lie = None
    status: int | None = 0
    if processes.running(provider.process) is None:
        status = ENDED_WRONGLY
        processes.start(provider.process)  # as its operator would
    await asyncio.sleep(QUIET_SECONDS)
    said = Said(status, _since(provider.process, offset), lie.seconds)
    return Hearing(lie.name, Program.PROVIDER, provider.member.name, provider.node.told - told_before, [said])


async def _without_duties(provider: ProviderAtWork) -> None:
    """Wait until the provider has no duties, at most IDLE_SECONDS."""
    async with await ChainClient.connect(provider.member.rpc_url) as chain:
        stash = dev_accounts.stash(provider.member.name)
        for _ in range(round(IDLE_SECONDS / 0.5)):
            if not await market_reads.duties(chain, stash):
                return
            await asyncio.sleep(0.5)


async def _told(provider: ProviderAtWork, told_before: int) -> None:
    """Wait until the lie was told, because some lies need a duty."""
    for _ in range(round(TOLD_SECONDS / 0.5)):
        if provider.node.told > told_before:
            return
        await asyncio.sleep(0.5)


def _since(process: Process, offset: int) -> str:
    """Return a process's log from an offset on."""
    with process.log.open("rb") as log:
        log.seek(offset)
        return log.read(people.TEXT_KEPT).decode(errors="replace")
