"""Providers on a chain in the test's process: real pallets, real daemons, real HTTP, but a fake node and fake work.

`FakeNode` is node and network: calls that daemons submit are in the next block that the test makes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, TypeVar

from chain_computers import HereComputer
from fake_work import FakeExecutor, FakeForm
from gpu_tasks.batches.requests import encode_requests
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.data.pieces import in_pieces
from gpu_tasks.data.sealing import LARGE_CONTENT_BYTES_MAX, SealKey, address_of, seal
from gpu_tasks.data.unit_input import commitment_of, encode_input
from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.attestations.kinds import AnyAttestation, OrderKey, order_key
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.capacity.proofs import ROWS_MIN, SIZE_MIN, OpenProof, WorkShape, claim_of, proof_money
from gpu_tasks.market.capacity.roll_call import RollCall
from gpu_tasks.market.capacity.standing import NOT_ASKED, ProvenRates
from gpu_tasks.market.claims.claims import ResultClaim
from gpu_tasks.market.claims.claims_api import ClaimsApi
from gpu_tasks.market.claims.disputes import Dispute
from gpu_tasks.market.claims.disputes_api import BallotStatus, DisputesApi
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DeviceClass, Provider
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus, GpuTasksApi, InputReader, UnitStatus
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.services import Service
from gpu_tasks.market.inference.units import UnitTerms, unit_id_of
from gpu_tasks.market.sessions.records import PeriodClaim
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.market.sessions.sessions_api import DevicePlaces, SessionsApi, SessionStatus
from gpu_tasks.market.training.bids import TaskBid
from gpu_tasks.market.training.tasks import Task, TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.blobs.store import Quota
from gpu_tasks.provider.chain.bond_losses import BondLoss, bond_losses
from gpu_tasks.provider.chain.claim_money import ClaimMoneyRead, claim_money
from gpu_tasks.provider.chain.demand import Demand, demand_of
from gpu_tasks.provider.chain.port import BidName, ChainError, Identity, RollCallView, SeenOffence, View
from gpu_tasks.provider.chain.side_pay import SidePayment, side_payments
from gpu_tasks.provider.daemon import Daemon, Settings
from gpu_tasks.provider.duties.roll_calls import RollCallPolicy
from gpu_tasks.provider.execution.bench import MakeExecutor
from gpu_tasks.provider.execution.gpu import CPU_NAME, Hardware
from gpu_tasks.provider.execution.worker_pool import WorkerPool
from gpu_tasks.provider.execution.workloads import Workloads
from gpu_tasks.provider.programs.supervisor import ProgramEngine
from gpu_tasks.provider.sessions.live_hosts import MakeHost
from gpu_tasks.provider.tasks.policy_file import HostMachine
from gpu_tasks.provider.tasks.working import WorkDuty
from gpu_tasks.workloads.form import WorkloadForm
from heard import Heard
from runtime.cryptography.signatures import Scheme, verify
from runtime.encoding.types import GRAINS_PER_OGPU, Signed, Unsigned
from runtime.frame.api import Apis, RuntimeApi
from runtime.frame.call import Call
from runtime.frame.errors import DispatchError
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, Keys, MarketChain, named_keys, signed
from staged import Scene, staged
from state_node import KeptBlocks
from wallet.keypair import Keypair

# Node and network of a chain in a test's process: submitted calls enter the next block that the test makes.
Api = TypeVar("Api", bound=RuntimeApi)
E = TypeVar("E")


@dataclass
class FakeNode:
    """A chain and the calls for its next block."""

    chain: MarketChain
    calls: list[tuple[bytes, Call]] = field(default_factory=list)
    attestations: dict[OrderKey, AnyAttestation] = field(default_factory=dict)
    attached: list[AnyAttestation] = field(default_factory=list)
    """The attestations in blocks."""
    failed: list[str] = field(default_factory=list)
    is_omitting: bool = False
    """True if authors leave attestations out."""
    is_late: bool = False
    """True if calls enter the block after the next."""
    waiting: list[tuple[bytes, Call]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.apis = Apis(self.chain.runtime, (GpuTasksApi, ClaimsApi, DisputesApi, SessionsApi))
        self.kept = KeptBlocks(self.chain)
        self._answering: dict[type[RuntimeApi], RuntimeApi] = {}

    def block(self) -> None:
        """Make a block with all waiting, admissible calls."""
        calls, self.calls = self.calls, []
        if self.is_late:
            calls, self.waiting = self.waiting, calls
        steps = [self._attach] if self.attestations and not self.is_omitting else []
        self.chain.block(*steps, *(self._attempt(account, call) for account, call in calls))

    def _attach(self, bound: Bound) -> None:
        waiting = [signed for _, signed in sorted(self.attestations.items())]
        ready = [signed for signed in waiting if not bound[Attestations].problem(signed)]
        if ready:
            bound.dispatch(Attestations.attach(attestations=tuple(ready)), Unsigned())
            self.attached += ready
        self.attestations.clear()

    def _attempt(self, account: bytes, call: Call) -> Any:
        def step(bound: Bound) -> None:
            try:
                with bound.overlay.transaction():
                    bound.dispatch(call, Signed(account))
            except DispatchError as error:
                self.failed.append(f"{call.name}: {type(error).__name__}")

        return step

    def api(self) -> GpuTasksApi:
        return self._over_state(GpuTasksApi)

    def _over_state(self, api: type[Api]) -> Api:
        """Return the API over the newest state, shared by all daemons, which ask the same in each block."""
        held = self._answering.get(api)
        if held is None or held.reader is not self.chain.state:
            held = self._answering[api] = api(self.apis, self.chain.state, bytes(32), verify)
        return held  # type: ignore[return-value]  # by its class

    def claims(self) -> ClaimsApi | None:
        """Return the API of claims, or None on a chain without them."""
        return self._over_state(ClaimsApi) if ResultClaims in self.chain.pallets else None

    def votes(self) -> DisputesApi | None:
        """Return the API of disputes, or None on a chain without them."""
        return self._over_state(DisputesApi) if Disputes in self.chain.pallets else None

    def sessions(self) -> SessionsApi | None:
        """Return the API of sessions, or None on a chain without them."""
        return self._over_state(SessionsApi) if Sessions in self.chain.pallets else None

    def ballots(self, stash: bytes) -> tuple[BallotStatus, ...]:
        """Return the ballots of a stash."""
        votes = self.votes()
        return () if votes is None else votes.ballots(stash)


# A chain in memory as the source of roll calls for `ChainPort`.
def roll_call_of(chain: MarketChain, devices: Sequence[bytes]) -> RollCallView:
    if Capacity not in chain.pallets:
        return RollCallView(None, 0, {}, {}, NOT_ASKED)
    capacity = chain.now()[Capacity]
    called, found = capacity.current.get(), {device: capacity.proofs[device] for device in devices}
    claims = {} if called is None else {device: claim_of(device, called.number) for device in devices}
    opened = {device: capacity.open_proofs[claim] for device, claim in claims.items()}
    rates = tuple(capacity.rate_min(kind) for kind in DeviceClass)
    proven = {device: capacity.proven(device) for device in devices}
    return RollCallView(
        called,
        capacity.next_roll_call.get(),
        {device: proof for device, proof in found.items() if proof is not None and called is not None},
        {device: proof for device, proof in opened.items() if proof is not None},
        ProvenRates(capacity.is_enforced.get(), rates, proven),
    )


ROLL_CALL_WORK = WorkShape(SIZE_MIN, ROWS_MIN, 30)
"""The work of each device at roll calls: it takes a fraction of a second."""
REQUEST = b"complete this"
CUSTOMER_SEAL = SealKey.from_seed(b"c" * 32)
INPUT_SALT = b"s" * 32
SLOT_MS = 1_000
BIDDING = (TaskState.COMMITTING, TaskState.REVEALING)


def fake_processor(name: str) -> Hardware:
    """Simulate a machine without a GPU, with another identifier than the one in the chain's genesis."""
    return Hardware(CPU_NAME, f"CPU-{name}", DeviceClass.CPU, 0, None)


class FakeChain:
    """`ChainPort` for one provider over a `FakeNode`. Final and best are the same here."""

    def __init__(self, node: FakeNode, keys: Keys) -> None:
        self.node = node
        self.keys = keys
        self.is_away = False

    @property
    def is_development(self) -> bool:
        return True

    def _reach(self) -> GpuTasksApi:
        if self.is_away:
            raise ChainError("the node is away")
        return self.node.api()

    async def views(self) -> AsyncIterator[View]:
        yield self.view()

    def view(self) -> View:
        duties = self._reach().duties(self.keys.stash)
        stash = self.keys.stash
        claims, ballots = self.node.claims(), self.node.ballots(stash)
        duties_in_claims = () if claims is None else claims.duties(stash)
        return View(self.node.chain.height, duties, claims=duties_in_claims, ballots=ballots)

    async def final_unit(self, unit: bytes) -> UnitStatus | None:
        return self._reach().unit(unit)

    async def unit(self, unit: bytes) -> UnitStatus | None:
        return self._reach().unit(unit)

    async def claim(self, claim: bytes, *, final: bool = False) -> ResultClaim | None:
        self._reach()
        claims = self.node.claims()
        status = None if claims is None else claims.claim(claim)
        return None if status is None else status.claim

    async def item_dispute(self, dispute: bytes, *, final: bool = False) -> Dispute | None:
        self._reach()
        votes = self.node.votes()
        status = None if votes is None else votes.dispute(dispute)
        return None if status is None else status.dispute

    async def final_ballots(self) -> tuple[BallotStatus, ...]:
        self._reach()
        return self.node.ballots(self.keys.stash)

    async def service(self, number: int) -> Service:
        services = await self.services()
        if number not in services:
            raise ChainError(f"there is no service {number}")
        return services[number]

    async def services(self) -> dict[int, Service]:
        services = self._reach().bound[InferenceMarket].services
        return {number: service for number, service in services.items() if service is not None}

    async def providers(self) -> dict[bytes, Provider]:
        self._reach()
        return {stash: known for stash, known in self.node.chain.now()[Devices].providers.items() if known is not None}

    async def provider(self, stash: bytes) -> Provider | None:
        return (await self.providers()).get(stash)

    async def checking_readers(self) -> tuple[InputReader, ...]:
        return self._reach().checking_readers()

    async def own_devices(self) -> list[DeviceStatus]:
        return list(self._reach().devices_of(self.keys.stash))

    async def roll_call(self, devices: Sequence[bytes]) -> RollCallView:
        self._reach()
        return roll_call_of(self.node.chain, devices)

    async def final_roll_call(self) -> RollCall | None:
        self._reach()
        return self.node.chain.now()[Capacity].current.get()

    async def proof_hold(self) -> int:
        self._reach()
        bound = self.node.chain.now()
        return sum(proof_money(bound[Capacity].proof_stake, bound[ResultClaims].check_fee_min))

    async def open_proof(self, claim: bytes, *, final: bool = False) -> OpenProof | None:
        self._reach()
        return self.node.chain.now()[Capacity].open_proofs[claim]

    async def session(self, session: bytes, *, final: bool = False) -> SessionStatus | None:
        self._reach()
        api = self.node.sessions()
        return None if api is None else api.session(session)

    async def sessions_of_device(self, device: bytes, *, final: bool = False) -> tuple[SessionStatus, ...]:
        self._reach()
        api = self.node.sessions()
        return () if api is None else api.sessions_of_device(device, None)

    async def period_claim(self, claim: bytes, *, final: bool = False) -> PeriodClaim | None:
        self._reach()
        api = self.node.sessions()
        return None if api is None else api.period_claim(claim)

    async def places(self, device: bytes, service: int) -> DevicePlaces:
        self._reach()
        api = self.node.sessions()
        return DevicePlaces(0, 0) if api is None else api.places(device, service)

    async def slot_ms(self) -> int:
        return SLOT_MS

    async def spendable(self) -> int:
        self._reach()
        return self.node.chain.now()[Balances].free_balance(self.keys.stash)

    async def key_balance(self) -> int:
        self._reach()
        return self.node.chain.now()[Balances].free_balance(self.keys.provider)

    def _market(self) -> TrainingMarket | None:
        self._reach()
        is_listed = TrainingMarket in self.node.chain.pallets
        return self.node.chain.now()[TrainingMarket] if is_listed else None

    async def auctions(self) -> dict[bytes, Task]:
        market = self._market()
        known = {name: market.tasks[name] for name, _ in market.open_auctions.items()} if market is not None else {}
        return {name: task for name, task in known.items() if task is not None}

    async def tasks(self, ids: Sequence[bytes], *, final: bool = False) -> dict[bytes, Task]:
        market = self._market()
        found = {name: market.tasks[name] for name in ids} if market is not None else {}
        return {name: task for name, task in found.items() if task is not None}

    async def bids(self, bids: Sequence[BidName], *, final: bool = False) -> dict[BidName, TaskBid]:
        market = self._market()
        found = {name: market.bids[name] for name in bids} if market is not None else {}
        return {name: bid for name, bid in found.items() if bid is not None}

    async def task_of_claim(self, claim: bytes) -> bytes | None:
        market = self._market()
        return None if market is None else market.task_of_claim[claim]

    async def side_payments(self, tasks: Sequence[bytes], since: int) -> dict[bytes, SidePayment]:
        self._reach()
        return await side_payments(self.node.kept.client, self.keys.stash, tasks, since)

    async def claim_money(
        self, claims: Collection[bytes], disputes: Mapping[bytes, bytes], since: int
    ) -> ClaimMoneyRead:
        self._reach()
        return await claim_money(self.node.kept.client, self.keys.stash, claims, disputes, since)

    async def bond_losses(self, since: int) -> list[BondLoss]:
        self._reach()
        return await bond_losses(self.node.kept.client, self.keys.stash, since)

    async def demand(self, services: Collection[int]) -> Demand:
        return demand_of(self._reach().bound, self.keys.stash, services)

    async def stash_of(self, provider_key: bytes) -> bytes | None:
        return self._reach().provider_stash(provider_key)

    async def offences(self) -> list[SeenOffence]:
        return []

    async def is_tombstoned(self, stash: bytes) -> bool:
        return False

    async def submit(self, call: Call) -> None:
        self._reach()
        self.node.calls.append((self.keys.provider, call))

    async def attest(self, attestation: AnyAttestation) -> None:
        problem = self.node.chain.now()[Attestations].problem(attestation)
        if problem:
            raise ChainError(problem)
        self.node.attestations[order_key(attestation)] = attestation


@dataclass
class Miner:
    """One provider: its daemon and the fakes under it."""

    keys: Keys
    chain: FakeChain
    executor: FakeExecutor
    heard: Heard
    daemon: Daemon

    async def step(self) -> None:
        """Give it one view, and complete all started work."""
        await self.daemon.step(self.chain.view())
        until_a_program_ends = self.daemon.duty(WorkDuty).selling.telling
        for tasks in (tasks for duty in self.daemon.duties for tasks in duty.running):
            while tasks is not until_a_program_ends and tasks._tasks:
                await asyncio.sleep(0.001)


def seal_key(keys: Keys) -> SealKey:
    """Return the key with which a test provider opens inputs."""
    return SealKey.of(keypair(keys))


def keypair(keys: Keys) -> Keypair:
    """Its provider key."""
    return Keypair.from_seed(Scheme.ED25519, keys.seed("provider"))


class Village:
    """Several providers on one chain. Use `async with Village(tmp_path, 3) as village`."""

    def __init__(self, base: Path, count: int, *, running: int | None = None, chain: MarketChain | None = None) -> None:
        self.base = base
        self.node = FakeNode(MarketChain(named_keys(count)) if chain is None else chain)
        self.running = count if running is None else running
        self.miners: list[Miner] = []
        self.forms: list[WorkloadForm] = [FakeForm()]
        self.hardware: list[Hardware] = []  # of every machine, by default a CPU
        self.make: MakeExecutor | None = None  # by default a fake for each provider
        self.machine = HostMachine()
        self.cheats: dict[str, Callable[[Daemon], None]] = {}  # by name, for dishonest ones
        self.engines: dict[str, ProgramEngine] = {}  # by name, for those that run containers
        self.chains: dict[str, HereComputer] = {}  # by name, for special answers to roll calls
        self.roll_calls = RollCallPolicy(work=ROLL_CALL_WORK)
        self.live_hosts: MakeHost | None = None  # workers of sessions
        self.quota = Quota()
        self.keep_paused = False  # whether `run` was given --keep-paused
        self.blobs = BlobClient(private=True)

    async def __aenter__(self) -> Self:
        await self.blobs.__aenter__()
        for keys in self.node.chain.validators[: self.running]:
            await self.open(keys)
        self.node.chain.block(*self.registrations())
        self.node.chain.blocks(3)
        return self

    async def __aexit__(self, *_: object) -> None:
        for miner in self.miners:
            await miner.daemon.__aexit__()
        await self.blobs.__aexit__(None, None, None)

    def registrations(self) -> list[Callable[[Bound], None]]:
        """Return the calls that register all providers with their stores."""
        return [
            signed(keys.stash, Devices.register_provider(seal_key=seal_key(keys).public, endpoint=self._endpoint(keys)))
            for keys in self.node.chain.validators
        ]

    async def open(self, keys: Keys, port: int = 0) -> Miner:
        """Start a provider."""
        chain, executor, heard = FakeChain(self.node, keys), FakeExecutor(), Heard()
        make = self.make or executor.make
        workers = WorkerPool(self.hardware or [fake_processor(keys.name)], Workloads(self.forms), make)
        identity = Identity.of(keys.stash, keypair(keys), GENESIS_HASH)
        engine = self.engines.get(keys.name)
        chains, base = self.chains.get(keys.name, HereComputer()).make, self.base / keys.name
        settings = Settings(
            base, blob_port=port, quota=self.quota, machine=self.machine, engine=engine, make_chains=chains,
            keep_paused=self.keep_paused, roll_calls=self.roll_calls,
        )  # fmt: skip
        if self.live_hosts is not None:
            settings = replace(settings, make_live_hosts=self.live_hosts)
        daemon = Daemon(identity, chain, workers, heard, settings)
        if keys.name in self.cheats:
            self.cheats[keys.name](daemon)
        await daemon.__aenter__()
        self.miners.append(Miner(keys, chain, executor, heard, daemon))
        return self.miners[-1]

    async def restart(self, miner: Miner) -> Miner:
        """Stop a provider and start it again from its disk."""
        self.miners.remove(miner)
        port = miner.daemon.server.port
        await miner.daemon.__aexit__()
        return await self.open(miner.keys, port)

    def miner(self, stash: bytes) -> Miner:
        return next(miner for miner in self.miners if miner.keys.stash == stash)

    async def post(
        self,
        request: bytes | Sequence[bytes] = REQUEST,
        *,
        racers: int = 2,
        readers: Sequence[Keys] | None = None,
        is_stored: bool = True,
        service: int = 0,
        **changed: Any,
    ) -> bytes:
        """Post a unit for the customer and return its id."""
        count, asked = (1, request) if isinstance(request, bytes) else (len(request), encode_requests(request))
        content = encode_input(INPUT_SALT, CUSTOMER_SEAL.public, asked)
        keys = (seal_key(reader).public for reader in (self.node.chain.validators if readers is None else readers))
        stored = in_pieces(seal(content, [CUSTOMER_SEAL.public, *keys], LARGE_CONTENT_BYTES_MAX))
        for blob in stored if is_stored else ():
            await self.blobs.put(blob, [self._endpoint(self.miners[0].keys).decode()])
        named, final = (address_of(stored[-1]), commitment_of(content)), self.node.chain.height - 1
        terms = replace(UnitTerms(GRAINS_PER_OGPU, racers, *named, final, 64, count), **changed)
        posted = self.node.chain.now()[InferenceMarket].post_counts[CUSTOMER.stash]
        self.node.chain.block(signed(CUSTOMER.stash, InferenceMarket.post(service=service, units=(terms,))))
        return unit_id_of(GENESIS_HASH, CUSTOMER.stash, posted)

    def unit(self, unit: bytes) -> UnitStatus:
        """Return a unit's present status."""
        status = self.node.api().unit(unit)
        assert status is not None, "the chain knows it"
        return status

    def happened(self, kind: type[E]) -> list[E]:
        """The events of a kind, over all blocks."""
        return self.node.chain.happened(kind)

    def racers(self, unit: bytes) -> list[Miner]:
        """Return the racers of a unit, by place."""
        return [self.miner(racer.owner) for racer in self.unit(unit).unit.racers]

    def drawn(self, unit: bytes) -> list[Miner]:
        """Make blocks, hidden from providers, until a unit has racers. Return these."""
        while not self.unit(unit).unit.racers:
            self.node.block()
        return self.racers(unit)

    async def unit_for(self, miner: Miner) -> bytes:
        """Post units and run them to their ends until a provider is drawn for one. Return that unit, just drawn."""
        while miner not in self.drawn(unit := await self.post()):
            await self.run(unit)
        return unit

    async def block(self) -> None:
        """Make a block, with a step of every provider after it."""
        self.node.block()
        for miner in list(self.miners):
            await miner.step()

    async def blocks(self, count: int) -> None:
        """Make `count` blocks."""
        for _ in range(count):
            await self.block()

    async def run(self, unit: bytes, blocks: int = 200) -> UnitStatus:
        """Make blocks, with a step of every provider after each, until the unit has ended."""
        for _ in range(blocks):
            await self.block()
            if self.unit(unit).unit.ended_at:
                return self.unit(unit)
        raise AssertionError(f"not ended after {blocks} blocks: {self.unit(unit)}")

    def _endpoint(self, keys: Keys) -> bytes:
        miner = next((miner for miner in self.miners if miner.keys == keys), None)
        return f"http://127.0.0.1:{miner.daemon.server.port if miner else 1}".encode()


def in_village(count: int, running: int | None = None) -> Callable[[Scene], Callable[..., None]]:
    """Stage a test in a village of `count` providers."""
    return staged(lambda folder: Village(folder, count, running=running))


def play(tmp_path: Path, count: int, scene: Scene, running: int | None = None) -> None:
    """Play a scene in a village of `count` providers."""
    in_village(count, running)(scene)(tmp_path)
