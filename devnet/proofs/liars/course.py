"""The devnet behind proxies, every lie under load, and many units beside bad stores.

Invariant: the chain's own record has the address of a store's proxy, so every client passes through it. The nodes are
honest, and the judges query them directly. Each provider and each store hears one lie at a time, and the first provider
hears none. An honest node serves the chain's events until all units have ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from devnet.launcher import layout, lifecycle, processes
from devnet.launcher.free_ports import one_free_port
from devnet.launcher.layout import Devnet, NodeLayout
from devnet.launcher.processes import Process
from devnet.proofs.liars import judging, money, people, scenes
from devnet.proofs.liars.catalogue import BAD_STORES
from devnet.proofs.liars.judging import Hearing
from devnet.proofs.liars.lie import Lie, NodeLie, Program, StoreLie
from devnet.proofs.liars.money import Books
from devnet.proofs.liars.people import Person
from devnet.proofs.liars.proxies import NodeProxy, StoreProxy
from devnet.proofs.liars.scenes import ProviderAtWork
from devnet.stage.measuring import load
from devnet.stage.report import Narrator
from devnet.stage.scenario import ProofRun
from genesis import dev_accounts
from genesis.presets import load_spec
from genesis.spec import to_json
from gpu_tasks.data import market_reads
from runtime.cryptography import ss58
from wallet.amounts import GRAINS_PER_OGPU
from wallet.client import ChainClient

VALIDATORS = 4
COMMANDS_AT_ONCE = 5
HONEST_UNITS_AT_ONCE = 3
LAST_UNITS = 12
FUNDS_OF_THE_HONEST = 40  # times those of the others: this customer posts all the time
FUNDS_OF_A_UNIT = GRAINS_PER_OGPU // 5
SECONDS_OF_A_UNIT, SECONDS_AT_LEAST = 6.0, 120.0
LOAD_SEED = 7
PRICE_MAX, RACERS, SERVICE = 5_000_000, 2, 0  # the defaults of `ogpu unit post`


@dataclass(frozen=True, slots=True)
class LiarsNet:
    """A devnet with running nodes, and the port of each store's proxy."""

    devnet: Devnet
    doors: dict[str, int]
    narrator: Narrator

    @property
    def url(self) -> str:
        """The RPC address of an honest node."""
        return self.devnet.members[0].rpc_url

    def person(self, name: str, program: Program = Program.CUSTOMER) -> Person:
        """Return a person with an account of that name."""
        return Person(name, program, self.devnet.folder / "people" / f"{name.replace(' ', '-')}-{program}")

    @contextlib.asynccontextmanager
    async def providers(self) -> AsyncIterator[list[ProviderAtWork]]:
        """Start every provider behind its proxies. The proxies end with the block."""
        async with contextlib.AsyncExitStack() as exits:
            started = []
            for member in self.devnet.members:
                node = await exits.enter_async_context(NodeProxy(member.rpc_url))
                store = await exits.enter_async_context(StoreProxy(self.doors[member.name], member.blob_url))
                process = provider_behind(self.devnet, member, node.url)
                processes.start(process)
                started.append(ProviderAtWork(member, process, node, store))
            for provider in started:
                await asyncio.to_thread(lifecycle.wait_for_provider, self.devnet, provider.member)
            yield started


@contextlib.contextmanager
def behind_proxies(proof_run: ProofRun) -> Iterator[LiarsNet]:
    """Run the nodes of four validators. Providers start later, behind proxies."""
    shutil.rmtree(proof_run.folder, ignore_errors=True)
    devnet = layout.create(proof_run.folder, VALIDATORS, providers=True, any_ports=True, is_fast=True)  # for handoffs
    spec = load_spec(devnet.chain_spec.read_bytes())
    assert spec.patch is not None  # presets have the patch form, not the raw one
    doors = {member.name: one_free_port() for member in devnet.members}
    by_stash = {ss58.encode(dev_accounts.stash(name)): port for name, port in doors.items()}
    for provider in spec.patch["devices"]["providers"]:
        provider["endpoint"] = f"http://127.0.0.1:{by_stash[provider['stash']]}"
    devnet.chain_spec.write_text(to_json(spec), encoding="utf-8")
    try:
        for member in devnet.members:
            processes.start(lifecycle.node_process(devnet, member))
        asyncio.run(lifecycle.ready(devnet))
        yield LiarsNet(devnet, doors, proof_run.narrator)
    finally:
        processes.stop(*lifecycle.all_processes(devnet))


def provider_behind(devnet: Devnet, member: NodeLayout, node_url: str) -> Process:
    """Return a member's provider behind the proxy `node_url` of its node. Its store keeps its own port."""
    process = lifecycle.provider_process(devnet, member)
    arguments = list(process.arguments)
    arguments[arguments.index("--url") + 1] = node_url
    # The chain's record has the proxy's port, so the store's own port is named here.
    return replace(process, arguments=(*arguments, "--blob-port", str(member.ports.blobs)))


@dataclass(slots=True)
class LiarsRun:
    """The outcome of a run."""

    hearings: list[Hearing] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    bonds_touched: list[str] = field(default_factory=list)
    transfers: int = 0
    ended: dict[str, int] = field(default_factory=dict)

    def read(self, books: Books) -> None:
        """Record the ends of the units, and the changes to honest bonds."""
        self.ended = books.count_units()
        self.failures += books.ended_wrongly()
        self.bonds_touched = books.bonds_touched()


class LyingCourse:
    """One run over some lies."""

    def __init__(self, stage: LiarsNet, lies: Sequence[Lie]) -> None:
        """Prepare the accounts. Tell no lie yet."""
        self._stage, self._lies = stage, lies
        self._commands = asyncio.Semaphore(COMMANDS_AT_ONCE)
        self._providers: list[ProviderAtWork] = []
        self._honest = stage.person("honest")
        keys = [(lie, program) for lie in lies for program in commanding(lie)]
        self._people = {(lie.name, program): stage.person(lie.name, program) for lie, program in keys}
        self._amounts = {key: scenes.amount_of(place) for place, key in enumerate(self._people)}
        self._end = asyncio.Event()
        self.run = LiarsRun()

    async def __call__(self) -> LiarsRun:
        """Tell all lies, and judge."""
        async with self._stage.providers() as self._providers:
            url, everybody = self._stage.url, [self._honest, *self._people.values()]
            await people.fund(url, list(self._people.values()))
            await people.fund(url, [self._honest], people.FUNDS * FUNDS_OF_THE_HONEST)
            async with await ChainClient.connect(url) as chain:
                books = await money.opened(chain, [person.account for person in everybody])
                self._stage.narrator.line(f"{len(everybody)} accounts have their money; the lies begin")
                async with money.kept(chain, books):
                    await self._under_load()
                    await self._market_goes_on()
                await self._judge(chain, books)
        return self.run

    async def _under_load(self) -> None:
        """Tell every lie, beside transfers and honest work."""
        counted = load.Load()
        transfers = asyncio.create_task(load.transfers(self._stage.devnet, counted, random.Random(LOAD_SEED)))
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
        """Return the concurrent sequences of scenes."""
        nodes = [lie for lie in self._lies if isinstance(lie, NodeLie)]
        for_providers = [lie for lie in nodes if Program.PROVIDER in lie.told]
        liable = self._providers[1:]
        lanes: list[Awaitable[None]] = [self._command(lie, program) for lie in nodes for program in commanding(lie)]
        lanes += [self._provider_lane(at, for_providers[place :: len(liable)]) for place, at in enumerate(liable)]
        lanes.append(self._store_lane([lie for lie in self._lies if isinstance(lie, StoreLie)]))
        return lanes

    async def _command(self, lie: NodeLie, program: Program) -> None:
        key = lie.name, program
        async with self._commands:
            self._take(await scenes.command_scene(self._stage.url, lie, self._people[key], self._amounts[key]))

    async def _provider_lane(self, provider: ProviderAtWork, lies: Sequence[NodeLie]) -> None:
        for lie in lies:
            self._take(await scenes.provider_scene(lie, provider))

    async def _store_lane(self, lies: Sequence[StoreLie]) -> None:
        stores = [provider.store for provider in self._providers]
        for lie in lies:
            person = self._people[lie.name, Program.CUSTOMER]
            self._take(
                await scenes.store_scene(self._stage.url, lie, person, stores if lie.everywhere else stores[-1:])
            )

    def _take(self, hearing: Hearing) -> None:
        self.run.hearings.append(hearing)
        statuses = ", ".join(str(said.status) for said in (*hearing.under_lie, *hearing.repeats))
        seconds = sum(said.seconds for said in hearing.under_lie)
        told = f"{hearing.lie}: {hearing.program} ({hearing.who}) in {seconds:.0f} s, exit {statuses or '-'}"
        self._stage.narrator.line(told)

    async def _honest_work(self) -> None:
        """Post units of an honest customer until the last lie ends. A store's lies may make a try fail."""
        number = 0
        while not self._end.is_set():
            prompts = [f"The weather of day {number + place}" for place in range(HONEST_UNITS_AT_ONCE)]
            arguments = people.post_words(self._honest, prompts, "--watch")
            await people.command(self._honest, self._stage.url, *arguments)
            number += HONEST_UNITS_AT_ONCE

    async def _market_goes_on(self) -> None:
        """Record a failure unless units settle after the last lie."""
        prompts = [f"And the day after {place}" for place in range(LAST_UNITS)]
        arguments = people.post_words(self._honest, prompts, "--watch")
        said = await people.command(self._honest, self._stage.url, *arguments)
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
        self.run.read(books)
        self._judge_providers(books)

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

    def _judge_providers(self, books: Books) -> None:
        """Record each daemon that has ended or earns nothing after the last lie."""
        last_units = books.moves[self._honest.account].units[-LAST_UNITS:]
        earning = {who for unit in last_units for who in books.market.unit(unit).attesters()}
        self.run.failures += dead(self._providers)
        for provider in self._providers:
            if dev_accounts.stash(provider.member.name) not in earning:
                self.run.failures.append(f"{provider.process.label} attested none of the last {len(last_units)} units")


def commanding(lie: Lie) -> tuple[Program, ...]:
    """Return the programs that hear the lie during a command."""
    told = (Program.CUSTOMER,) if isinstance(lie, StoreLie) else lie.told
    return tuple(program for program in told if program is not Program.PROVIDER)


def dead(providers: Sequence[ProviderAtWork]) -> list[str]:
    """Return a sentence for each daemon that has ended."""
    return [f"{each.process.label} is dead" for each in providers if processes.running(each.process) is None]


async def beside_bad_stores(stage: LiarsNet, units: int) -> LiarsRun:
    """Post many units while one store drips, one is full and one is gone. All must end, without cost to honest parties.

    The stores are bad from before the first unit until all have ended. Then they are good again, and the market must
    continue.
    """
    proof_run, customer = LiarsRun(), stage.person("honest")
    async with stage.providers() as providers:
        await people.fund(stage.url, [customer], FUNDS_OF_A_UNIT * (units + LAST_UNITS))
        async with await ChainClient.connect(stage.url) as chain:
            books = await money.opened(chain, [customer.account])
            async with money.kept(chain, books):
                for provider in providers:
                    provider.store.lie = BAD_STORES.get(provider.member.name)
                await _post(stage, customer, units, proof_run)
                for provider in providers:
                    name, provider.store.lie = provider.member.name, None
                    if name in BAD_STORES and not provider.store.told:
                        proof_run.failures.append(f"{name}'s store was never asked")
                await _post(stage, customer, LAST_UNITS, proof_run)
        proof_run.failures += dead(providers)
    proof_run.read(books)
    if proof_run.ended["units"] != units + LAST_UNITS:
        proof_run.failures.append(f"{proof_run.ended['units']} units were posted instead of {units + LAST_UNITS}")
    if not any(books.market.unit(unit).settled for unit in books.moves[customer.account].units[-LAST_UNITS:]):
        proof_run.failures.append("the market does not go on")
    return proof_run


async def _post(stage: LiarsNet, customer: Person, units: int, proof_run: LiarsRun) -> None:
    """Post units and follow them. Status 1, a unit that ended without a result, is allowed."""
    prompts = [f"The tale of {units} days, day {number}" for number in range(units)]
    patience = SECONDS_AT_LEAST + units * SECONDS_OF_A_UNIT
    arguments = people.post_words(customer, prompts, "--watch")
    said = await people.command(customer, stage.url, "--json", *arguments, patience=patience)
    stage.narrator.line(f"{units} units ended in {said.seconds} s")
    if said.status not in (0, 1) or judging.TRACEBACK in said.text:
        proof_run.failures.append(f"`ogpu unit post` ended with {said.status}: {judging.shown(said.text)}")
