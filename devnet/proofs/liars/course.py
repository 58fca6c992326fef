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
from devnet.proofs.liars.money import AccountBooks
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

VALIDATOR_COUNT = 4
COMMANDS_AT_ONCE = 5
HONEST_UNITS_AT_ONCE = 3
LAST_UNITS = 12
FUNDS_OF_THE_HONEST = 40  # times those of the others: this customer posts all the time
FUNDS_OF_A_UNIT = GRAINS_PER_OGPU // 5
SECONDS_OF_A_UNIT, SECONDS_AT_LEAST = 6.0, 120.0
LOAD_SEED = 7
PRICE_MAX, RACER_COUNT, SERVICE_NUMBER = 5_000_000, 2, 0  # the defaults of `ogpu unit post`


@dataclass(frozen=True, slots=True)
class LiarsNet:
    """A devnet with running nodes, and the port of each store's proxy."""

    devnet: Devnet
    proxy_ports: dict[str, int]
    narrator: Narrator

    @property
    def url(self) -> str:
        """The RPC address of an honest node."""
        return self.devnet.members[0].rpc_url

    def person(self, person_name: str, program: Program = Program.CUSTOMER) -> Person:
        """Return a person with an account of that name."""
        return Person(
            person_name, program, self.devnet.folder / "people" / f"{person_name.replace(' ', '-')}-{program}"
        )

    @contextlib.asynccontextmanager
    async def providers(self) -> AsyncIterator[list[ProviderAtWork]]:
        """Start every provider behind its proxies. The proxies end with the block."""
        async with contextlib.AsyncExitStack() as exits:
            started_providers = []
            for member in self.devnet.members:
                proxy = await exits.enter_async_context(NodeProxy(member.rpc_url))
                store_proxy = await exits.enter_async_context(
                    StoreProxy(self.proxy_ports[member.name], member.blob_url)
                )
                daemon = provider_behind(self.devnet, member, proxy.url)
                processes.start(daemon)
                started_providers.append(ProviderAtWork(member, daemon, proxy, store_proxy))
            for provider in started_providers:
                await asyncio.to_thread(lifecycle.wait_for_provider, self.devnet, provider.member)
            yield started_providers


@contextlib.contextmanager
def behind_proxies(proof_run: ProofRun) -> Iterator[LiarsNet]:
    """Run the nodes of four validators. Providers start later, behind proxies."""
    shutil.rmtree(proof_run.folder, ignore_errors=True)
    devnet = layout.create(
        proof_run.folder, VALIDATOR_COUNT, providers=True, any_ports=True, is_fast=True
    )  # for handoffs
    spec = load_spec(devnet.chain_spec.read_bytes())
    assert spec.patch is not None  # presets have the patch form, not the raw one
    proxy_ports = {member.name: one_free_port() for member in devnet.members}
    ports_by_stash = {ss58.encode(dev_accounts.stash(name)): proxy_port for name, proxy_port in proxy_ports.items()}
    for provider in spec.patch["devices"]["providers"]:
        provider["endpoint"] = f"http://127.0.0.1:{ports_by_stash[provider['stash']]}"
    devnet.chain_spec.write_text(to_json(spec), encoding="utf-8")
    try:
        for member in devnet.members:
            processes.start(lifecycle.node_process(devnet, member))
        asyncio.run(lifecycle.ready(devnet))
        yield LiarsNet(devnet, proxy_ports, proof_run.narrator)
    finally:
        processes.stop(*lifecycle.all_processes(devnet))


def provider_behind(devnet: Devnet, member: NodeLayout, node_url: str) -> Process:
    """Return a member's provider behind the proxy `node_url` of its node. Its store keeps its own port."""
    daemon = lifecycle.provider_process(devnet, member)
    arguments = list(daemon.arguments)
    arguments[arguments.index("--url") + 1] = node_url
    # The chain's record has the proxy's port, so the store's own port is named here.
    return replace(daemon, arguments=(*arguments, "--blob-port", str(member.ports.blobs)))


@dataclass(slots=True)
class LiarsRun:
    """The outcome of a run."""

    hearings: list[Hearing] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    bonds_touched: list[str] = field(default_factory=list)
    transfers: int = 0
    ended: dict[str, int] = field(default_factory=dict)

    def read_books(self, books: AccountBooks) -> None:
        """Record the ends of the units, and the changes to honest bonds."""
        self.ended = books.count_units()
        self.failures += books.ended_wrongly()
        self.bonds_touched = books.bonds_touched()


class LyingCourse:
    """One run over some lies."""

    def __init__(self, liars_net: LiarsNet, told_lies: Sequence[Lie]) -> None:
        """Prepare the accounts. Tell no lie yet."""
        self._liars_net, self._told_lies = liars_net, told_lies
        self._command_slots = asyncio.Semaphore(COMMANDS_AT_ONCE)
        self._providers: list[ProviderAtWork] = []
        self._honest_customer = liars_net.person("honest")
        lie_programs = [(lie, program) for lie in told_lies for program in commanding_programs(lie)]
        self._person_by_scene = {
            (lie.name, program): liars_net.person(lie.name, program) for lie, program in lie_programs
        }
        self._amount_by_scene = {
            lie_and_program: scenes.amount_of(amount_index)
            for amount_index, lie_and_program in enumerate(self._person_by_scene)
        }
        self._lies_ended = asyncio.Event()
        self.liars_run = LiarsRun()

    async def __call__(self) -> LiarsRun:
        """Tell all lies, and judge."""
        async with self._liars_net.providers() as self._providers:
            node_url, all_people = self._liars_net.url, [self._honest_customer, *self._person_by_scene.values()]
            await people.fund_people(node_url, list(self._person_by_scene.values()))
            await people.fund_people(node_url, [self._honest_customer], people.FUNDS_GRAINS * FUNDS_OF_THE_HONEST)
            async with await ChainClient.connect(node_url) as chain:
                books = await money.open_books(chain, [person.account for person in all_people])
                self._liars_net.narrator.line(f"{len(all_people)} accounts have their money; the lies begin")
                async with money.kept_books(chain, books):
                    await self._under_load()
                    await self._market_goes_on()
                await self._judge_run(chain, books)
        return self.liars_run

    async def _under_load(self) -> None:
        """Tell every lie, beside transfers and honest work."""
        transfer_load = load.TransferLoad()
        # Blocks must hold other things than the liars' victims, as on a real chain.
        transfers = asyncio.create_task(
            load.send_transfers(self._liars_net.devnet, transfer_load, random.Random(LOAD_SEED))
        )
        honest_task = asyncio.create_task(self._honest_work())
        try:
            await asyncio.gather(*self._scene_lanes())
        finally:
            self._lies_ended.set()
            transfers.cancel()
            await asyncio.gather(transfers, return_exceptions=True)
        await honest_task
        self.liars_run.transfers = transfer_load.included

    def _scene_lanes(self) -> list[Awaitable[None]]:
        """Return the concurrent sequences of scenes."""
        node_lies = [lie for lie in self._told_lies if isinstance(lie, NodeLie)]
        provider_lies = [lie for lie in node_lies if Program.PROVIDER in lie.told]
        lying_providers = self._providers[1:]
        scene_lanes: list[Awaitable[None]] = [
            self._command_lane(lie, program) for lie in node_lies for program in commanding_programs(lie)
        ]
        scene_lanes += [
            self._provider_lane(provider, provider_lies[lane_index :: len(lying_providers)])
            for lane_index, provider in enumerate(lying_providers)
        ]
        scene_lanes.append(self._store_lane([lie for lie in self._told_lies if isinstance(lie, StoreLie)]))
        return scene_lanes

    async def _command_lane(self, node_lie: NodeLie, program: Program) -> None:
        lie_and_program = node_lie.name, program
        async with self._command_slots:
            self._record_hearing(
                await scenes.command_scene(
                    self._liars_net.url,
                    node_lie,
                    self._person_by_scene[lie_and_program],
                    self._amount_by_scene[lie_and_program],
                )
            )

    async def _provider_lane(self, provider: ProviderAtWork, node_lies: Sequence[NodeLie]) -> None:
        for node_lie in node_lies:
            self._record_hearing(await scenes.provider_scene(node_lie, provider))

    async def _store_lane(self, store_lies: Sequence[StoreLie]) -> None:
        store_proxies = [provider.store for provider in self._providers]
        for store_lie in store_lies:
            person = self._person_by_scene[store_lie.name, Program.CUSTOMER]
            self._record_hearing(
                await scenes.store_scene(
                    self._liars_net.url,
                    store_lie,
                    person,
                    store_proxies if store_lie.everywhere else store_proxies[-1:],
                )
            )

    def _record_hearing(self, hearing: Hearing) -> None:
        self.liars_run.hearings.append(hearing)
        exit_statuses = ", ".join(str(output.status) for output in (*hearing.under_lie, *hearing.repeats))
        seconds = sum(output.seconds for output in hearing.under_lie)
        hearing_text = (
            f"{hearing.lie}: {hearing.program} ({hearing.who}) in {seconds:.0f} s, exit {exit_statuses or '-'}"
        )
        self._liars_net.narrator.line(hearing_text)

    async def _honest_work(self) -> None:
        """Post units of an honest customer until the last lie ends. A store's lies may make a try fail."""
        day = 0
        while not self._lies_ended.is_set():
            prompts = [f"The weather of day {day + day_offset}" for day_offset in range(HONEST_UNITS_AT_ONCE)]
            arguments = people.post_arguments(self._honest_customer, prompts, "--watch")
            await people.run_command(self._honest_customer, self._liars_net.url, *arguments)
            day += HONEST_UNITS_AT_ONCE

    async def _market_goes_on(self) -> None:
        """Record a failure unless units settle after the last lie."""
        prompts = [f"And the day after {day_offset}" for day_offset in range(LAST_UNITS)]
        arguments = people.post_arguments(self._honest_customer, prompts, "--watch")
        output = await people.run_command(self._honest_customer, self._liars_net.url, *arguments)
        if output.status != 0:
            self.liars_run.failures.append(f"the market does not go on: {judging.shown_text(output.text)}")

    async def _judge_run(self, chain: ChainClient, books: AccountBooks) -> None:
        quote = await market_reads.quote(chain, SERVICE_NUMBER, PRICE_MAX, RACER_COUNT)
        prepaid = 0 if quote is None else quote.prepaid
        for hearing in self.liars_run.hearings:
            judging.judge_output(hearing)
            person = self._person_by_scene.get((hearing.lie, hearing.program))
            if person is not None:
                self._judge_person(hearing, person, books, prepaid)
        self.liars_run.read_books(books)
        self._judge_providers(books)

    def _judge_person(self, hearing: Hearing, person: Person, books: AccountBooks, prepaid: int) -> None:
        moves = books.moves_by_account[person.account]
        sink_account = dev_accounts.stash(people.SINK_NAME)
        is_wallet = person.program is Program.WALLET
        transfers = [(sink_account, self._amount_by_scene[hearing.lie, hearing.program])] if is_wallet else []
        judging.judge_actions(hearing, moves, transfers, 0 if is_wallet else self._units_of(hearing))
        judging.judge_money(hearing, moves, books.cost_of_units(person.account, prepaid))

    def _units_of(self, hearing: Hearing) -> int:
        is_store = any(lie.name == hearing.lie and isinstance(lie, StoreLie) for lie in self._told_lies)
        return scenes.UNITS_UNDER_STORE_LIE if is_store else 1

    def _judge_providers(self, books: AccountBooks) -> None:
        """Record each daemon that has ended or earns nothing after the last lie."""
        last_units = books.moves_by_account[self._honest_customer.account].units[-LAST_UNITS:]
        earning_stashes = {attester for unit_id in last_units for attester in books.market.unit(unit_id).attesters()}
        self.liars_run.failures += dead_daemons(self._providers)
        for provider in self._providers:
            # A daemon can live on and do nothing, which costs its owner as much as a dead one.
            if dev_accounts.stash(provider.member.name) not in earning_stashes:
                self.liars_run.failures.append(
                    f"{provider.process.label} attested none of the last {len(last_units)} units"
                )


def commanding_programs(told_lie: Lie) -> tuple[Program, ...]:
    """Return the programs that hear the lie during a command."""
    told_programs = (Program.CUSTOMER,) if isinstance(told_lie, StoreLie) else told_lie.told
    return tuple(program for program in told_programs if program is not Program.PROVIDER)


def dead_daemons(providers: Sequence[ProviderAtWork]) -> list[str]:
    """Return a sentence for each daemon that has ended."""
    return [
        f"{provider.process.label} is dead" for provider in providers if processes.running(provider.process) is None
    ]


async def beside_bad_stores(liars_net: LiarsNet, unit_count: int) -> LiarsRun:
    """Post many units while one store drips, one is full and one is gone. All must end, without cost to honest parties.

    The stores are bad from before the first unit until all have ended. Then they are good again, and the market must
    continue.
    """
    proof_run, customer = LiarsRun(), liars_net.person("honest")
    async with liars_net.providers() as providers:
        await people.fund_people(liars_net.url, [customer], FUNDS_OF_A_UNIT * (unit_count + LAST_UNITS))
        async with await ChainClient.connect(liars_net.url) as chain:
            books = await money.open_books(chain, [customer.account])
            async with money.kept_books(chain, books):
                for provider in providers:
                    provider.store.lie = BAD_STORES.get(provider.member.name)
                await _post_and_follow(liars_net, customer, unit_count, proof_run)
                for provider in providers:
                    name, provider.store.lie = provider.member.name, None
                    if name in BAD_STORES and not provider.store.told:
                        proof_run.failures.append(f"{name}'s store was never asked")
                await _post_and_follow(liars_net, customer, LAST_UNITS, proof_run)
        proof_run.failures += dead_daemons(providers)
    proof_run.read_books(books)
    if proof_run.ended["units"] != unit_count + LAST_UNITS:
        proof_run.failures.append(f"{proof_run.ended['units']} units were posted instead of {unit_count + LAST_UNITS}")
    if not any(
        books.market.unit(unit_id).settled for unit_id in books.moves_by_account[customer.account].units[-LAST_UNITS:]
    ):
        proof_run.failures.append("the market does not go on")
    return proof_run


async def _post_and_follow(liars_net: LiarsNet, customer: Person, unit_count: int, proof_run: LiarsRun) -> None:
    """Post units and follow them. Status 1, a unit that ended without a result, is allowed."""
    prompts = [f"The tale of {unit_count} days, day {day}" for day in range(unit_count)]
    patience_seconds = SECONDS_AT_LEAST + unit_count * SECONDS_OF_A_UNIT
    arguments = people.post_arguments(customer, prompts, "--watch")
    output = await people.run_command(customer, liars_net.url, "--json", *arguments, patience_seconds=patience_seconds)
    liars_net.narrator.line(f"{unit_count} units ended in {output.seconds} s")
    if output.status not in (0, 1) or judging.TRACEBACK in output.text:
        proof_run.failures.append(f"`ogpu unit post` ended with {output.status}: {judging.shown_text(output.text)}")
