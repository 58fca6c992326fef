"""One machine that owners of many fake devices share, in one roll call of the real pallets.

The machine computes a number of operations per slot, from the first slot in which it may know the seed's block. It
computes whole chains for as many devices as possible until the first block that accepts proofs. For the other devices
it states invented rows, and shows no samples of them. Checkers are honest.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gpu_tasks.market.capacity import roll_call as times
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.capacity.events import CapacityRefuted
from gpu_tasks.market.capacity.proofs import ROUNDS_MAX, ROWS_MIN, SIZE_MIN, WorkShape, claim_of, operations
from gpu_tasks.market.claims.claim_events import CheckerDrawn, ClaimEnded, FindingCommitted, SamplesShown
from gpu_tasks.market.claims.findings import Verdict
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DEVICES_PER_PROVIDER_MAX, DeviceClass, device_id_of
from runtime.cryptography.hashing import blake2_256
from runtime.frame.runtime import Bound
from runtime.pallets.staking.trust_lock import Paid
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.claim_chain import Checks, commit_call, open_call, show_call
from simulation.chains.market_chain import BOND, OGPU, Keys, MarketChain, named_keys, signed, validates

RATE_MIN = 10
"""The least rate of a CPU, in billions of operations per slot."""
CALL_NUMBER = 1
ROOT = b"r" * 32
FAR_BLOCKS = 100_000
"""No second roll call and no new epoch while the claims are open."""
CLAIM_BLOCKS_MAX = 20_000


@dataclass(frozen=True)
class Outcome:
    """The devices of one machine after a roll call."""

    devices: int
    owners: int
    machine: int
    """The machine's rate, in billions of operations per slot."""
    working_at_first: int
    """Devices that may work when the proofs begin to count."""
    working: int
    """Devices that may work when all proofs are checked."""
    claimed: int
    """The total rate that these devices claim: each the least of its class."""
    proven: int
    """The total rate that is proven then."""
    checked_after: int
    """Blocks from the seed's block until all proofs are checked."""
    lost: int
    """The collateral of refuted proofs in grains."""


@dataclass(frozen=True)
class Fake:
    """A device without hardware."""

    owner: Keys
    uuid_hash: bytes

    @property
    def device(self) -> bytes:
        """Its id."""
        return device_id_of(self.owner.stash, self.uuid_hash)

    @property
    def claim(self) -> bytes:
        """The id of its proof's claim."""
        return claim_of(self.device, CALL_NUMBER)


@dataclass
class CheckedCrowd:
    """A crowd of fake devices, and the honest checks of their proofs."""

    chain: MarketChain
    fakes: list[Fake]
    computed_count: int
    """The number of devices, from the first on, whose whole chains the machine computed."""
    owner_of_claim: dict[bytes, Keys] = field(init=False)
    lies: set[bytes] = field(init=False)
    ended_count: int = 0
    """The number of claims that are over."""

    def __post_init__(self) -> None:
        """Note the owner of each claim, and the false claims."""
        self.owner_of_claim = {fake.claim: fake.owner for fake in self.fakes}
        self.lies = {fake.claim for fake in self.fakes[self.computed_count :]}

    def check(self) -> None:
        """Let checkers and owners answer each event of the newest block in the next one."""
        self.chain.block(*[step for event in self.chain.events for step in self._answers(event)])
        self.ended_count += sum(isinstance(event, ClaimEnded) for event in self.chain.events)

    def _answers(self, event: Any) -> Iterator[Any]:
        if not isinstance(event, CheckerDrawn | FindingCommitted | SamplesShown):
            return
        claim_id = event.claim
        claim = self.chain.now()[ResultClaims].claims[claim_id]
        assert claim is not None, "a claim with an open check is open"
        checker = self.chain.keys_of(claim.checks[-1].checker)
        match event:
            case CheckerDrawn():
                yield signed(checker.provider, commit_call(claim_id, claim, checker, self._finding(claim_id)))
            case FindingCommitted() if claim_id not in self.lies:
                yield signed(self.owner_of_claim[claim_id].stash, show_call(claim_id, claim))
            case SamplesShown():
                yield signed(checker.provider, open_call(claim_id, claim, checker, self._finding(claim_id)))
            case _:
                pass

    def _finding(self, claim_id: bytes) -> Checks:
        return Checks(Verdict.WRONG if claim_id in self.lies else Verdict.RIGHT)


def outcome(devices: int, machine: int, shape: WorkShape) -> Outcome:
    """Return the outcome of one roll call, for `devices` on a machine of `machine` billion operations per slot."""
    owners = [Keys(f"owner {number}") for number in range(-(-devices // DEVICES_PER_PROVIDER_MAX))]
    fakes = [
        Fake(owners[number // DEVICES_PER_PROVIDER_MAX], blake2_256(b"fake" + number.to_bytes(4, "little")))
        for number in range(devices)
    ]
    chain = MarketChain(
        named_keys(4),
        owners,
        {"Capacity.roll_calls_enabled": 1, "Capacity.period": FAR_BLOCKS},
        epoch_blocks=FAR_BLOCKS,
        check=lambda *_: None,
    )
    _register(chain, owners, fakes)
    called_at = start_roll_call(chain)
    chain.blocks_to(called_at + times.PROOFS_TO - 1)
    chain.block(*(signed(one.owner.stash, Capacity.prove(device=one.device, shape=shape, root=ROOT)) for one in fakes))
    crowd = CheckedCrowd(chain, fakes, _computed(machine, shape))
    while chain.height < called_at + times.CALL_BLOCKS:
        crowd.check()
    working_at_first = _working(chain.now(), fakes)
    while crowd.ended_count < devices:
        crowd.check()
        assert chain.height < CLAIM_BLOCKS_MAX, "each claim ends"
    last = chain.now()
    working = _working(last, fakes)
    refuted = {claim_of(event.device, event.number) for event in chain.happened(CapacityRefuted)}
    return Outcome(
        devices=devices,
        owners=len(owners),
        machine=machine,
        working_at_first=working_at_first,
        working=working,
        claimed=working * RATE_MIN,
        proven=sum(last[Capacity].proven(one.device) for one in fakes),
        checked_after=chain.height - called_at,
        lost=sum(paid.amount for paid in chain.happened(Paid) if paid.case in refuted),
    )


def _computed(machine: int, shape: WorkShape) -> int:
    """Return the number of whole chains that the machine computes until the last block that accepts proofs."""
    return machine * times.UNIT * (times.PROOFS_TO + 1) // operations(shape)


def _register(chain: MarketChain, owners: list[Keys], fakes: list[Fake]) -> None:
    """Bond and register the owners, and register the devices."""
    for one in owners:
        chain.block(
            signed(one.stash, TrustStake.bond(value=BOND)),
            signed(one.stash, validates(one)),
            signed(one.stash, Devices.register_provider(seal_key=one.public("seal"), endpoint=b"https://a.example")),
        )
    registered = (Devices.register_device(kind=DeviceClass.CPU, uuid_hash=one.uuid_hash, bond=OGPU) for one in fakes)
    chain.block(*(signed(one.owner.stash, call) for one, call in zip(fakes, registered, strict=True)))


def start_roll_call(chain: MarketChain) -> int:
    """Start a roll call, and return its block."""
    called_at = chain.height + 3
    chain.block(lambda bound: bound[Capacity].next_roll_call.set(called_at))
    chain.blocks_to(called_at)
    return called_at


def _working(bound: Bound, fakes: list[Fake]) -> int:
    return sum(bound[Capacity].has_proven(one.device, DeviceClass.CPU) for one in fakes)


def shape_of(rate: int) -> WorkShape:
    """Return the smallest work that proves a rate."""
    wanted, size = rate * times.UNIT * times.PROOFS_TO, SIZE_MIN
    while wanted > operations(WorkShape(size, ROWS_MIN, ROUNDS_MAX)):
        size *= 2
    return WorkShape(size, ROWS_MIN, -(-wanted // operations(WorkShape(size, ROWS_MIN, 1))))
