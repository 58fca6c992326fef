"""A chain of the economic pallets alone, driven block by block without an executive: for tests of stake and market.

Every block has a slot, a seeded beacon output, and a reference to the final block `final_lag` below it. From the first
block with a step or an event, the books count every moved grain, and compare every written lock with its purpose. They
check relations between entries after such blocks, and after every eighth other block.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from gpu_tasks.batches.sum_tree import Totals, batch_root
from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.attestations.kinds import AnyAttestation, order_key
from gpu_tasks.market.attestations.statement import VERSION as ATTESTATION_VERSION
from gpu_tasks.market.attestations.statement import Attestation, ProofKind, SignedAttestation, signing_payload
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import Device, DeviceClass, device_id_of
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit, UnitTerms, racer_of, result_commitment, unit_id_of
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.blocks.digest import Digest
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.types import GRAINS_PER_OGPU, Origin, RuntimeVersion, Signed, Unsigned
from runtime.frame.call import Call
from runtime.frame.errors import DispatchError
from runtime.frame.pallet import Pallet
from runtime.frame.runtime import Bound, Runtime
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from runtime.pallets.im_online import ImOnline
from runtime.pallets.pots import RESERVE
from runtime.pallets.session import Session
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System
from runtime.state.overlay import Memory
from simulation.books import ChainBooks
from simulation.catalogue import WORLDS
from simulation.chains.named_keys import NamedKeys
from simulation.chains.presence import digest_of

OGPU = GRAINS_PER_OGPU
TOKENS = 64
"""The tokens that a unit of `terms` allows."""
PALLETS = (
    System, Balances, Beacon, TrustStake, Session, TrustLock, Devices, Disputes, ResultClaims, Capacity,
    TrainingMarket, InferenceMarket, Attestations, ImOnline,
)  # fmt: skip
QUIET_BLOCKS = 8
"""A check of relations costs as much as an empty block, so only one empty block in QUIET_BLOCKS has one."""
Step = Callable[[Bound], None]
VERSION = RuntimeVersion("test", "test", 1, 1, 1, (), 1, 1)
GENESIS_HASH = blake2_256(b"genesis of tests")
WORKLOAD, MODEL = b"w" * 32, b"m" * 32
BOND, DEVICE_BOND, ENDOWMENT, STOCK = 1_000 * OGPU, 1_000 * OGPU, 5_000 * OGPU, 1_000_000 * OGPU


@dataclass(frozen=True)
class Keys(NamedKeys):
    """The keys of an account with one device."""

    @property
    def uuid_hash(self) -> bytes:
        """The hash of its first device's hardware id."""
        return self.seed("uuid")

    @property
    def device(self) -> bytes:
        """Its first device."""
        return device_id_of(self.stash, self.uuid_hash)


def named_keys(count: int) -> list[Keys]:
    """Return the keys of the first `count` validators."""
    names = ("alice", "bob", "charlie", "dave", "eve", "ferdie", "grace")
    return [Keys(names[number] if number < len(names) else f"validator {number}") for number in range(count)]


CUSTOMER = Keys("customer")


@lru_cache(maxsize=64)
def _runtime_of(pallets: tuple[type[Pallet], ...], numbers: tuple[tuple[str, Any], ...]) -> Runtime:
    """Return one runtime for all chains with the same rules. It is immutable."""
    return Runtime(pallets, VERSION, dict(numbers))


@lru_cache(maxsize=64)
def _genesis_of(runtime: Runtime, config: str) -> Memory:
    """Return block 0, made once for all chains with the same configuration. `config` is JSON."""
    changes = runtime.genesis(json.loads(config))
    return Memory({key: value for key, value in changes.items() if value is not None})


def hexed(raw: bytes) -> str:
    """Return bytes in the form of a chain specification."""
    return "0x" + raw.hex()


def validator_row(keys: NamedKeys, bond: int) -> dict[str, Any]:
    """Return a validator's row in the genesis configuration."""
    return {
        "stash": hexed(keys.stash),
        "session_key": hexed(keys.public("session")),
        "vrf_key": hexed(keys.public("vrf")),
        "provider_key": hexed(keys.provider),
        "bond": bond,
        "commission_ppm": 100_000,
    }


def provider_row(keys: NamedKeys) -> dict[str, Any]:
    """Return a provider's row in the genesis configuration."""
    return {"stash": hexed(keys.stash), "seal_key": hexed(keys.public("seal")), "endpoint": "http://127.0.0.1:1"}


def device_row(keys: NamedKeys, uuid_hash: bytes, bond: int) -> dict[str, Any]:
    """Return a device's row in the genesis configuration."""
    return {"owner": hexed(keys.stash), "kind": "cpu", "uuid_hash": hexed(uuid_hash), "bond": bond}


def genesis_config(
    validators: list[Keys], others: list[Keys], bonds: tuple[int, ...] = (BOND,), queue: int = 0
) -> dict[str, dict[str, Any]]:
    """Return a chain whose validators have one device each and serve one service. Their bonds repeat `bonds`.

    Each device queues `queue` units while it works on one.
    """
    rich = [*(one.stash for one in validators), *(one.stash for one in others), CUSTOMER.stash]
    balances = [[hexed(who), ENDOWMENT] for who in rich] + [[hexed(RESERVE), STOCK]]
    return {
        "Balances": {"balances": balances},
        "Beacon": {"seed": "0x" + "07" * 32},
        "TrustStake": {
            "validators": [validator_row(one, bonds[place % len(bonds)]) for place, one in enumerate(validators)]
        },
        "Devices": {
            "providers": [provider_row(one) for one in validators],
            "devices": [{**device_row(one, one.uuid_hash, DEVICE_BOND), "queue": queue} for one in validators],
        },
        "InferenceMarket": {
            "services": [
                {
                    "owner": hexed(CUSTOMER.stash),
                    "name": "texts",
                    "workload": hexed(WORKLOAD),
                    "model": hexed(MODEL),
                    "price_min": per_thousand(OGPU // 100),
                    "price_max": per_thousand(10 * OGPU),
                    "ramp": 10,
                    "commit_window": 30,
                    "tokens_max": 256,
                }
            ],
            "offers": [
                {"service": 0, "device": hexed(one.device), "ask": per_thousand(OGPU // 100)} for one in validators
            ],
        },
    }


@dataclass
class MarketChain:
    """The chain, its newest state, and the events of its newest block."""

    validators: list[Keys]
    others: list[Keys] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    final_lag: int = 1
    epoch_blocks: int = 60
    pallets: tuple[type[Pallet], ...] = PALLETS
    bonds: tuple[int, ...] = (BOND,)
    queue: int = 0
    check: Callable[[Bound, int], None] | None = None
    absent: frozenset[bytes] = frozenset()
    """Stashes without votes in the certificates."""
    chance: random.Random = field(default_factory=lambda: random.Random(1))
    books: ChainBooks = field(default_factory=lambda: ChainBooks(WORLDS))
    height: int = 0
    empty_slots: int = 0
    """The slots without a block so far."""
    events: list[Any] = field(default_factory=list)
    all_events: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make block 0."""
        seats = max(TrustStake.validator_count.default, len(self.validators))
        numbers = {"Beacon.epoch_blocks": self.epoch_blocks, "TrustStake.validator_count": seats, **self.constants}
        self.runtime = _runtime_of(self.pallets, tuple(sorted(numbers.items())))
        there = {pallet.__name__ for pallet in self.pallets}
        config = {name: part for name, part in self.config().items() if name in there}
        self.state = _genesis_of(self.runtime, json.dumps(config))
        self.issued = self.runtime.at(self.state)[Balances].total_issuance.get()

    def config(self) -> dict[str, dict[str, Any]]:
        """Return the configuration of block 0."""
        return genesis_config(self.validators, self.others, self.bonds, self.queue)

    # -------------------------------------------------------------------------------------------------------- blocks

    def block(self, *steps: Callable[[Bound], None], author: Keys | None = None) -> Bound:
        """Make one block: hooks, then the steps. Return its state."""
        self.height += 1
        bound = self.begun(author)
        for pallet in bound.pallets:
            pallet.on_initialize()
        for step in steps:
            step(bound)
        for pallet in bound.pallets:
            pallet.on_finalize()
        self.events = [one for _, one in bound.overlay.events]
        self.all_events += self.events
        self.state = self.state.updated(bound.overlay.changes())
        if self.check:
            self.check(bound, self.issued)
        else:
            is_checked = bool(steps or self.events) or self.height % QUIET_BLOCKS == 0
            self.books.follow(bound, self.state, self.issued, is_checked=is_checked)
        return bound

    def begun(self, author: Keys | None = None) -> Bound:
        """Return the block at `height` before its hooks, over the newest state."""
        bound = self.runtime.at(self.state)
        parent = GENESIS_HASH if self.height == 1 else hash_of(self.height - 1)
        bound[System].initialize(self.height, parent, self._digest(bound, author or self.validators[0]))
        return bound

    def blocks(self, count: int) -> Bound:
        """Make `count` empty blocks, and return the newest state."""
        for _ in range(count - 1):
            self.block()
        return self.block()

    def blocks_to(self, height: int) -> Bound:
        """Make empty blocks up to a height, and return the newest state."""
        while self.height < height:
            self.block()
        return self.now()

    def now(self) -> Bound:
        """Return the newest state, for reading."""
        return self.runtime.at(self.state)

    def happened(self, kind: type[Any]) -> list[Any]:
        """Return all events of a kind since block 1."""
        return [one for one in self.all_events if isinstance(one, kind)]

    def _digest(self, bound: Bound, author: Keys) -> Digest:
        output, reached = blake2_256(self.chance.randbytes(32)), self.height - self.final_lag
        final = (reached, hash_of(reached)) if reached > bound[Beacon].final_height() else None
        slot = self.height + self.empty_slots
        return digest_of(bound, self.height, author.stash, slot, output, final, self.absent)

    # --------------------------------------------------------------------------------------------------------- steps

    def post(self, *terms: UnitTerms) -> list[bytes]:
        """Make a block in which the customer posts units, and return their ids."""
        posted = self.now()[InferenceMarket].post_counts[CUSTOMER.stash]
        self.block(signed(CUSTOMER.stash, InferenceMarket.post(service=0, units=terms)))
        return [unit_id_of(GENESIS_HASH, CUSTOMER.stash, posted + place) for place in range(len(terms))]

    def unit(self, unit_id: bytes) -> Unit:
        """Return a unit's newest record."""
        unit = self.now()[InferenceMarket].units[unit_id]
        assert unit is not None
        return unit

    def device(self, keys: Keys) -> Device:
        """Return the record of an account's first device."""
        device = self.now()[Devices].devices[keys.device]
        assert device is not None
        return device

    def owned(self, *accounts: bytes) -> int:
        """Return the grains of some accounts, free and held."""
        entries = self.now()[System].account
        return sum(entries[each].data.free + entries[each].data.reserved for each in accounts)

    def keys_of(self, stash: bytes) -> Keys:
        """Return the keys with this stash."""
        return next(one for one in [*self.validators, *self.others] if one.stash == stash)


def hash_of(height: int) -> bytes:
    """Return the id of the block at a height."""
    return GENESIS_HASH if height == 0 else blake2_256(b"block" + height.to_bytes(4, "little"))


def terms(price: int = OGPU, racers: int = 2, sealed_at: int = 0, tokens: int = TOKENS) -> UnitTerms:
    """Return the terms of the customer's units."""
    return UnitTerms(price, racers, b"i" * 32, b"c" * 32, sealed_at, tokens)


def per_thousand(price: int) -> int:
    """Return the price of a thousand tokens at which a unit of `TOKENS` costs `price`."""
    return price * 1_000 // TOKENS


def root_of(label: bytes, tokens: int = TOKENS, requests: int = 1, tokens_in: int = 0) -> bytes:
    """Return the root of an invented result, which commits to these totals under the top hash `label`."""
    totals = Totals(requests, tokens_in, tokens, label.ljust(32, b"\0"))
    root = batch_root(totals)
    _MADE_UP[root] = totals
    return root


def totals_under(root: bytes) -> Totals:
    """Return the totals behind a root of `root_of`. For another root, return totals that it does not commit to."""
    return _MADE_UP.get(root, Totals(1, 0, TOKENS, root))


_MADE_UP: dict[bytes, Totals] = {}


def signed(who: bytes | Origin, call: Any) -> Callable[[Bound], None]:
    """Return a step: a call of an account or another origin that must succeed."""
    origin = Signed(who) if isinstance(who, bytes) else who

    def step(bound: Bound) -> None:
        with bound.overlay.transaction():
            bound.dispatch(call, origin)

    return step


def refused(account: bytes, call: Any, error: type[DispatchError]) -> Callable[[Bound], None]:
    """Return a step: a call that must fail with this error."""

    def step(bound: Bound) -> None:
        try:
            with bound.overlay.transaction():
                bound.dispatch(call, Signed(account))
        except error:
            return
        raise AssertionError(f"{call!r} was not refused")

    return step


def tolerant(step: Callable[[Bound], None], *also: type[Exception]) -> Callable[[Bound], None]:
    """Return a step that ignores refusals: dispatch errors, and the exceptions in `also`."""
    refusals: tuple[type[Exception], ...] = (DispatchError, *also)

    def attempt(bound: Bound) -> None:
        try:
            with bound.overlay.transaction():
                step(bound)
        except refusals:
            return

    return attempt


def attach(*attestations: AnyAttestation) -> Callable[[Bound], None]:
    """Return a step: the inherent that attaches attestations."""

    def step(bound: Bound) -> None:
        # The chain accepts attestations only in this order.
        ordered = sorted(attestations, key=order_key)
        bound.dispatch(Attestations.attach(attestations=tuple(ordered)), Unsigned())

    return step


def salt_of(keys: NamedKeys, unit_id: bytes) -> bytes:
    """Return a test provider's salt for its commitment."""
    return blake2_256(keys.stash + unit_id)


def commit_call(genesis: bytes, keys: NamedKeys, unit_id: bytes, unit: Unit, output_root: bytes) -> Call:
    """Return the call by which a racer commits."""
    commitment = result_commitment(genesis, unit_id, unit.attempt, keys.stash, output_root, salt_of(keys, unit_id))
    return InferenceMarket.commit_result(unit=unit_id, attempt=unit.attempt, commitment=commitment)


def commit(keys: Keys, unit_id: bytes, unit: Unit, output_root: bytes) -> Callable[[Bound], None]:
    """Return a step: a racer commits."""
    return signed(keys.provider, commit_call(GENESIS_HASH, keys, unit_id, unit, output_root))


def attestation(
    keys: NamedKeys, unit_id: bytes, unit: Unit, output_root: bytes, /, *, genesis: bytes = GENESIS_HASH, **changed: Any
) -> SignedAttestation:
    """Return a racer's attestation, with some fields changed before it is signed."""
    racer = racer_of(unit, keys.stash)
    assert racer is not None
    assert unit.round is not None
    fields: dict[str, Any] = {
        "version": ATTESTATION_VERSION,
        "unit": unit_id,
        "attempt": unit.attempt,
        "replica": unit.racers.index(racer),
        "provider_key": keys.provider,
        "device": racer.device,
        "workload": WORKLOAD,
        "model": MODEL,
        "input_root": unit.terms.input_root,
        "output_root": output_root,
        "output_blob": b"o" * 32,
        "totals": totals_under(output_root),
        "salt": salt_of(keys, unit_id),
        "proof_kind": ProofKind.EXACT_HASH,
        "proof_hash": output_root,
        "proof_inline": b"",
        "usage": Usage(10, 5, 0, 5, 6, 1_000),
        "started_at": unit.round.drawn_at,
        "finished_at": unit.round.drawn_at + 1,
        **changed,
    }
    statement = Attestation(**fields)
    return SignedAttestation(statement, keys.sign("provider", signing_payload(genesis, statement)))


def validates(
    keys: Keys, session: str = "session", commission_ppm: int = 50_000, provider_key: bytes | None = None
) -> Any:
    """Return the call that makes a bonded stash a candidate, with its key of this role in consensus."""
    return TrustStake.validate(
        keys=keys.node_keys(session),
        proof=keys.proof(GENESIS_HASH, session=session),
        provider_key=keys.provider if provider_key is None else provider_key,
        commission_ppm=commission_ppm,
    )


def registers(keys: Keys, seal: str = "seal") -> Any:
    """Return the call that registers a provider, or changes the key of this role that inputs are sealed to."""
    return Devices.register_provider(seal_key=keys.public(seal), endpoint=b"http://127.0.0.1:1")


def joins(keys: Keys, *, service: int = 0, ask: int = OGPU // 100, bond: int = BOND) -> list[Step]:
    """Return steps: a newcomer becomes a provider with one device, and offers it."""
    calls = (
        TrustStake.bond(value=bond),
        validates(keys),
        registers(keys),
        Devices.register_device(kind=DeviceClass.CPU, uuid_hash=keys.uuid_hash, bond=DEVICE_BOND),
        InferenceMarket.offer(device=keys.device, service=service, ask=ask),
    )
    return [signed(keys.stash, call) for call in calls]
