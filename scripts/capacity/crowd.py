"""One machine that owners of many fake devices share, taken through one roll call of the real pallets.

The machine computes a number of operations a slot, from the slot in which the seed's block may first be known to it. It
computes whole chains for as many devices as it can by the first block that counts; for the rest it commits to
nothing real, and shows rows of that. Inspectors are honest: they object to what was not computed.
"""

from dataclasses import dataclass

from gpu_tasks.market.capacity import roll_call as times
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.capacity.events import RollCallBondLost, RollCalled
from gpu_tasks.market.capacity.proofs import (
    OBJECTIONS_TO_END,
    ROUNDS_MAX,
    ROWS_MIN,
    SIZE_MIN,
    WorkShape,
    operations,
)
from gpu_tasks.market.capacity.roll_call import RollCall
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DEVICES_PER_PROVIDER_MAX, DeviceClass, device_id
from runtime.cryptography.hashing import blake2_256
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.market_chain import BOND, OGPU, Keys, MarketChain, named_keys, signed, validates
from simulation.pallets.devices import ROOT, shown_rows

PERIOD = 100
RATE_MIN = 10
"""Of a CPU, in thousand millions of operations a slot."""


@dataclass(frozen=True)
class Outcome:
    """What the devices of one machine hold after a roll call."""

    devices: int
    owners: int
    proven: int
    """Of all together, in thousand millions of operations a slot."""
    working: int
    """Devices that may take work."""
    claimed: int
    """What these claim together: the least of their class each."""
    machine: int
    """What the machine computes."""
    bonds_lost: int
    """In grains."""


@dataclass(frozen=True)
class Fake:
    """A device that is a name."""

    owner: Keys
    uuid_hash: bytes

    @property
    def device(self) -> bytes:
        """Its identifier."""
        return device_id(self.owner.stash, self.uuid_hash)


def outcome(devices: int, machine: int, shape: WorkShape) -> Outcome:
    """After one roll call, of `devices` on a machine of `machine` thousand million operations a slot."""
    owners = [Keys(f"owner {number}") for number in range(-(-devices // DEVICES_PER_PROVIDER_MAX))]
    fakes = [
        Fake(owners[number // DEVICES_PER_PROVIDER_MAX], blake2_256(b"fake" + number.to_bytes(4, "little")))
        for number in range(devices)
    ]
    chain = MarketChain(
        named_keys(4), owners, {"Capacity.roll_calls_enabled": 1, "Capacity.period": PERIOD}, check=lambda *_: None
    )
    _settled(chain, owners, fakes, shape)
    now = _answered(chain, fakes)
    _inspected(chain, now, fakes[_computed(machine, shape) :])
    last = chain.now()[Capacity]
    working = sum(last.has_proven(one.device, DeviceClass.CPU) for one in fakes)
    proven = sum(last.proven(one.device) for one in fakes)
    lost = _withdrawn(chain, fakes)
    return Outcome(devices, len(owners), proven, working, working * RATE_MIN, machine, lost)


def _computed(machine: int, shape: WorkShape) -> int:
    """How many whole chains the machine makes from the slot before the seed's to the first commit that counts."""
    return machine * times.UNIT * (times.COMMITS_FROM + 1) // operations(shape)


def _settled(chain: MarketChain, owners: list[Keys], fakes: list[Fake], shape: WorkShape) -> None:
    """Owners bond and register, devices register and enrol; then the next roll call begins."""
    for one in owners:
        chain.block(
            signed(one.stash, TrustStake.bond(value=BOND)),
            signed(one.stash, validates(one)),
            signed(one.stash, Devices.register_provider(seal_key=one.public("seal"), endpoint=b"https://a.example")),
        )
    registered = (Devices.register_device(kind=DeviceClass.CPU, uuid_hash=one.uuid_hash, bond=OGPU) for one in fakes)
    chain.block(*(signed(one.owner.stash, call) for one, call in zip(fakes, registered, strict=True)))
    chain.block(*(signed(one.owner.stash, Capacity.enrol(device=one.device, shape=shape)) for one in fakes))
    begun = len(chain.happened(RollCalled))
    while len(chain.happened(RollCalled)) == begun:
        chain.block()


def _newest(chain: MarketChain) -> RollCall:
    called = chain.now()[Capacity].current.get()
    assert called is not None
    return called


def _answered(chain: MarketChain, fakes: list[Fake]) -> RollCall:
    """All commit in the first block that counts, and show rows; then the inspectors are drawn."""
    now = _newest(chain)
    chain.blocks_to(now.at + times.COMMITS_FROM - 1)
    chain.block(*(signed(one.owner.stash, Capacity.commit(device=one.device, root=ROOT)) for one in fakes))
    chain.blocks_to(times.rows_at(now))
    now = _newest(chain)
    shows = (Capacity.show_rows(device=one.device, rows=shown_rows(now.rows_seed, one.device)) for one in fakes)
    chain.block(*(signed(one.owner.stash, show) for one, show in zip(fakes, shows, strict=True)))
    chain.blocks_to(times.inspectors_at(now))
    return _newest(chain)


def _inspected(chain: MarketChain, now: RollCall, liars: list[Fake]) -> None:
    """Honest inspectors object to what was not computed; then what stands is what is left."""
    pallet = chain.now()[Capacity]
    steps = [
        signed(inspector, Capacity.object(device=one.device))
        for one in liars
        for inspector in pallet.inspectors(now, one.device, one.owner.stash)[:OBJECTIONS_TO_END]
    ]
    chain.block(*steps)
    chain.blocks_to(times.inspectors_at(now) + times.INSPECT_BLOCKS + 1)


def _withdrawn(chain: MarketChain, fakes: list[Fake]) -> int:
    """All leave; the bonds that they lost, in grains."""
    chain.block(*(signed(one.owner.stash, Capacity.withdraw(device=one.device)) for one in fakes))
    return sum(lost.amount for lost in chain.happened(RollCallBondLost))


def shape_of(rate: int) -> WorkShape:
    """The smallest work that proves a rate in the first block that counts."""
    wanted, size = rate * times.UNIT * times.COMMITS_FROM, SIZE_MIN
    while wanted > operations(WorkShape(size, ROWS_MIN, ROUNDS_MAX)):
        size *= 2
    return WorkShape(size, ROWS_MIN, -(-wanted // operations(WorkShape(size, ROWS_MIN, 1))))
