"""The run: a devnet under load, every lie told to every program that it is for, several at a time; then the judgement.

Always: each provider and each store hears one lie at a time; the first provider hears none; the chain is read once, at
the end, from an honest node, when all units have ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field

from devnet.launcher import processes
from devnet.launcher.layout import Devnet
from devnet.proofs.liars import judging, money, network, people, scenes
from devnet.proofs.liars.judging import Hearing
from devnet.proofs.liars.lie import Lie, NodeLie, Program, StoreLie
from devnet.proofs.liars.money import Books
from devnet.proofs.liars.network import ProviderAtWork
from devnet.proofs.liars.people import Person
from devnet.proofs.liars.telling import LiarsTeller
from devnet.stage.measuring import load
from genesis import dev_accounts
from gpu_tasks.data import market_reads
from wallet.client import ChainClient

COMMANDS_AT_ONCE = 5
HONEST_UNITS_AT_ONCE = 3
LAST_UNITS = 12
FUNDS_OF_THE_HONEST = 40  # times what the others have: it posts all the time
LOAD_SEED = 7
PRICE_MAX, RACERS, SERVICE = 5_000_000, 2, 0  # what `ogpu post` offers where nothing is said


@dataclass(slots=True)
class LiarsRun:
    """What came of it."""

    hearings: list[Hearing] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    bonds_touched: list[str] = field(default_factory=list)
    transfers: int = 0
    ended: dict[str, int] = field(default_factory=dict)


class LyingCourse:
    """One run over some lies."""

    def __init__(self, net: Devnet, doors: dict[str, int], lies: Sequence[Lie], tell: LiarsTeller) -> None:
        """The nodes of `net` run already; `doors` are the ports at which stores are asked."""
        self._net, self._doors, self._lies, self._tell = net, doors, lies, tell
        self._url = net.members[0].rpc_url
        self._commands = asyncio.Semaphore(COMMANDS_AT_ONCE)
        self._providers: list[ProviderAtWork] = []
        self._honest = self._person("honest")
        self._people = {(lie.name, program): self._person(lie.name, program) for lie, program in commanded(lies)}
        self._amounts = {key: scenes.amount_of(place) for place, key in enumerate(self._people)}
        self._end = asyncio.Event()
        self.run = LiarsRun()

    async def __call__(self) -> LiarsRun:
        """All of it."""
        async with contextlib.AsyncExitStack() as exits:
            self._providers = await network.start_providers(self._net, self._doors, exits)
            everybody = [self._honest, *self._people.values()]
            await people.fund(self._url, list(self._people.values()))
            await people.fund(self._url, [self._honest], people.FUNDS * FUNDS_OF_THE_HONEST)
            async with await ChainClient.connect(self._url) as chain:
                books = await money.opened(chain, [person.account for person in everybody])
                self._tell.line(f"{len(everybody)} accounts have their money at block {books.height}; the lies begin")
                async with money.kept(chain, books):
                    await self._under_load()
                    await self._market_goes_on()
                await self._judge(chain, books)
        return self.run

    async def _under_load(self) -> None:
        """Every lie, beside transfers and honest work."""
        counted = load.Load()
        transfers = asyncio.create_task(load.transfers(self._net, counted, random.Random(LOAD_SEED)))
        honest = asyncio.create_task(self._honest_work())
        try:
            await asyncio.gather(*self._lanes())
        finally:
            self._end.set()
            transfers.cancel()
            await asyncio.gather(transfers, return_exceptions=True)
        await honest
        self.run.transfers = counted.included

    def _lanes(self) -> list[Awaitable[None]]:
        """What goes on side by side."""
        nodes = [lie for lie in self._lies if isinstance(lie, NodeLie)]
        for_providers = [lie for lie in nodes if Program.PROVIDER in lie.told]
        liable = self._providers[1:]
        lanes: list[Awaitable[None]] = [self._command(lie, program) for lie in nodes for program in _commanding(lie)]
        lanes += [self._provider_lane(at, for_providers[place :: len(liable)]) for place, at in enumerate(liable)]
        lanes.append(self._store_lane([lie for lie in self._lies if isinstance(lie, StoreLie)]))
        return lanes

    async def _command(self, lie: NodeLie, program: Program) -> None:
        person = self._people[lie.name, program]
        async with self._commands:
            if program is Program.WALLET:
                hearing = await scenes.wallet_scene(self._net, lie, person, self._amounts[lie.name, program])
            else:
                hearing = await scenes.customer_scene(self._net, lie, person)
        self._take(hearing)

    async def _provider_lane(self, provider: ProviderAtWork, lies: Sequence[NodeLie]) -> None:
        for lie in lies:
            self._take(await scenes.provider_scene(lie, provider))

    async def _store_lane(self, lies: Sequence[StoreLie]) -> None:
        stores = [provider.store for provider in self._providers]
        for lie in lies:
            person = self._people[lie.name, Program.CUSTOMER]
            self._take(await scenes.store_scene(self._net, lie, person, stores if lie.everywhere else stores[-1:]))

    def _take(self, hearing: Hearing) -> None:
        self.run.hearings.append(hearing)
        self._tell.heard(hearing)

    async def _honest_work(self) -> None:
        """Units of somebody to whom nobody lies, until the last lie was told; a store's lies may make a try fail."""
        number = 0
        while not self._end.is_set():
            prompts = [f"The weather of day {number + place}" for place in range(HONEST_UNITS_AT_ONCE)]
            await people.command(self._honest, self._url, *people.post_words(self._honest, prompts, "--watch"))
            number += HONEST_UNITS_AT_ONCE

    async def _market_goes_on(self) -> None:
        """When nobody lies any more, units settle."""
        prompts = [f"And the day after {place}" for place in range(LAST_UNITS)]
        words = people.post_words(self._honest, prompts, "--watch")
        said = await people.command(self._honest, self._url, *words)
        if said.status != 0:
            self.run.failures.append(f"the market does not go on: {judging.shown(said.text)}")

    async def _judge(self, chain: ChainClient, books: Books) -> None:
        quote = await market_reads.quote(chain, SERVICE, PRICE_MAX, RACERS)
        prepaid = 0 if quote is None else quote.prepaid
        for hearing in self.run.hearings:
            judging.judge_telling(hearing)
            person = self._people.get((hearing.lie, hearing.program))
            if person is not None:
                self._judge_person(hearing, person, books, prepaid)
        self.run.bonds_touched = books.bonds_touched()
        self._judge_market(books)

    def _judge_person(self, hearing: Hearing, person: Person, books: Books, prepaid: int) -> None:
        moves = books.moves[person.account]
        sink = dev_accounts.stash(people.SINK)
        is_wallet = person.program is Program.WALLET
        transfers = [(sink, self._amounts[hearing.lie, hearing.program])] if is_wallet else []
        judging.judge_doing(hearing, moves, transfers, 0 if is_wallet else self._units_of(hearing))
        judging.judge_money(hearing, moves, books.cost_of_units(person.account, prepaid))

    def _units_of(self, hearing: Hearing) -> int:
        is_store = any(lie.name == hearing.lie and isinstance(lie, StoreLie) for lie in self._lies)
        return scenes.UNITS_UNDER_STORE_LIE if is_store else 1

    def _judge_market(self, books: Books) -> None:
        """Every unit ends once; whoever was lied to earns again; the daemons live."""
        run = self.run
        run.ended = books.count_units()
        run.failures += books.ended_wrongly()
        last_units = books.moves[self._honest.account].units[-LAST_UNITS:]
        earning = {who for unit in last_units for who in books.market.unit(unit).attesters()}
        for provider in self._providers:
            if processes.running(provider.process) is None:
                run.failures.append(f"{provider.process.label} is dead")
            if dev_accounts.stash(provider.member.name) not in earning:
                run.failures.append(f"{provider.process.label} attested none of the last {len(last_units)} units")

    def _person(self, name: str, program: Program = Program.CUSTOMER) -> Person:
        return Person(name, program, self._net.folder / "people" / f"{name.replace(' ', '-')}-{program}")


def commanded(lies: Sequence[Lie]) -> list[tuple[Lie, Program]]:
    """The lies that are told to whoever gives commands, and to whom."""
    return [
        (lie, program)
        for lie in lies
        for program in ((Program.CUSTOMER,) if isinstance(lie, StoreLie) else _commanding(lie))
    ]


def _commanding(lie: NodeLie) -> tuple[Program, ...]:
    return tuple(program for program in lie.told if program is not Program.PROVIDER)
