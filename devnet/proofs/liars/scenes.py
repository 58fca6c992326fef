"""The tellings of a lie: a wallet sends, a customer posts, a provider works, a store is used.

Always: a person whose command failed under a lie gives it again at an honest node, as people do; the chain's final
record counts over both.
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
"""A provider gets so long between two lies: less than a race's lease, so its races can still be run."""
AMOUNT_FIRST = 1_000_000
AMOUNT_STEP = 1_000
UNITS_UNDER_STORE_LIE = 4
IDLE_SECONDS = 60.0
TOLD_SECONDS = 60.0
ENDED_WRONGLY = -1
KNOWING = {Program.WALLET: ("validators",), Program.CUSTOMER: ("services",)}
"""Commands that only look: a program that ran one knows the chain."""


@dataclass(slots=True)
class ProviderAtWork:
    """A provider's daemon, and the proxies around it."""

    member: NodeLayout
    process: Process
    node: NodeProxy
    store: StoreProxy


def amount_of(place: int) -> int:
    """What the person of that number sends: an amount of its own, so that no transfer is taken for another."""
    return AMOUNT_FIRST + AMOUNT_STEP * place


async def command_scene(honest: str, lie: NodeLie, person: Person, amount: int) -> Hearing:
    """Look at the balance and send money, or post a unit; again, honestly, if that failed."""
    commands = [people.post_words(person, [f"Once upon a time {lie.name}"])]
    if person.program is Program.WALLET:
        commands = [("balance", person.key), people.send_words(person, format_amount(amount))]
    if lie.is_met_anew:
        await people.command(person, honest, *KNOWING[person.program])
    async with NodeProxy(honest, lie) as proxy:
        under_lie = [await people.command(person, proxy.url, *words) for words in commands]
        hearing = Hearing(lie.name, person.program, person.name, proxy.told, under_lie)
    await _repeat(hearing, person, honest, commands[-1])
    return hearing


async def _repeat(hearing: Hearing, person: Person, node_url: str, words: tuple[str, ...]) -> None:
    """Give the command again until it is done."""
    last = hearing.under_lie[-1]
    while last.status != 0 and len(hearing.repeats) < REPEATS_MAX:
        last = await people.command(person, node_url, *words)
        hearing.repeats.append(last)


async def store_scene(honest: str, lie: StoreLie, person: Person, stores: list[StoreProxy]) -> Hearing:
    """Post units and follow them to their ends, while some stores lie; again, honestly, if that failed."""
    prompts = [f"Once upon a time {lie.name} {number}" for number in range(UNITS_UNDER_STORE_LIE)]
    words = people.post_words(person, prompts, "--watch")
    told_before = sum(store.told for store in stores)
    for store in stores:
        store.lie = lie
    try:
        under_lie = [await people.command(person, honest, *words)]
    finally:
        for store in stores:
            store.lie = None
    told = sum(store.told for store in stores) - told_before
    hearing = Hearing(lie.name, person.program, person.name, told, under_lie)
    await _repeat(hearing, person, honest, words)
    return hearing


async def provider_scene(lie: NodeLie, provider: ProviderAtWork) -> Hearing:
    """A provider's node lies for a while, and then is honest again; a lie that is met anew waits for a quiet moment."""
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
    """Wait until the chain asks nothing of a provider, but not for ever."""
    async with await ChainClient.connect(provider.member.rpc_url) as chain:
        stash = dev_accounts.stash(provider.member.name)
        for _ in range(round(IDLE_SECONDS / 0.5)):
            if not await market_reads.duties(chain, stash):
                return
            await asyncio.sleep(0.5)


async def _told(provider: ProviderAtWork, told_before: int) -> None:
    """Some lies wait for a duty."""
    for _ in range(round(TOLD_SECONDS / 0.5)):
        if provider.node.told > told_before:
            return
        await asyncio.sleep(0.5)


def _since(process: Process, offset: int) -> str:
    """What a process printed after a place in its log."""
    with process.log.open("rb") as log:
        log.seek(offset)
        return log.read(people.TEXT_KEPT).decode(errors="replace")
