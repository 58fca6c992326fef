"""One machine that owners of many fake devices share, in one roll call of the real pallets.

The machine computes a number of operations per slot, from the first slot in which it may know the seed's block. It
computes whole chains for as many devices as possible until the first block that accepts commits. For the other devices
it commits to invented rows, and shows them. Inspectors are honest: they object to uncomputed rows.
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
from gpu_tasks.market.devices.records import DEVICES_PER_PROVIDER_MAX, DeviceClass, device_id_of
from runtime.cryptography.hashing import blake2_256
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.market_chain import BOND, OGPU, Keys, MarketChain, named_keys, signed, validates
from simulation.pallets.devices import ROOT, shown_rows

PERIOD = 100
RATE_MIN = 10
"""The least rate of a CPU, in billions of operations per slot."""


@dataclass(frozen=True)
class Outcome:
    """The devices of one machine after a roll call."""

    devices: int
    owners: int
    proven: int
    """The total proven rate, in billions of operations per slot."""
    working: int
    """Devices that may work."""
    claimed: int
    """The total rate that these devices claim: each the least of its class."""
    machine: int
    """The machine's rate."""
    bonds_lost: int
    """The lost roll-call bonds in grains."""


@dataclass(frozen=True)
class Fake:
    """A device without hardware."""

    owner: Keys
    uuid_hash: bytes

    @property
    def device(self) -> bytes:
        """Its id."""
        return device_id_of(self.owner.stash, self.uuid_hash)


def outcome(devices: int, machine: int, shape: WorkShape) -> Outcome:
    """Return the outcome of one roll call, for `devices` on a machine of `machine` billion operations per slot."""
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
    """Return the number of whole chains that the machine computes until the first block that accepts commits."""
    return machine * times.UNIT * (times.COMMITS_FROM + 1) // operations(shape)


def _settled(chain: MarketChain, owners: list[Keys], fakes: list[Fake], shape: WorkShape) -> None:
    """Bond and register the owners, register and enrol the devices, and start the next roll call."""
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
    """Let all devices commit in the first block that accepts it, and show rows. Then draw the inspectors."""
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
    """Let honest inspectors object to uncomputed rows, and end the inspection."""
    pallet = chain.now()[Capacity]
    steps = [
        signed(inspector, Capacity.object(device=one.device))
        for one in liars
        for inspector in pallet.inspectors(now, one.device, one.owner.stash)[:OBJECTIONS_TO_END]
    ]
    chain.block(*steps)
    chain.blocks_to(times.inspectors_at(now) + times.INSPECT_BLOCKS + 1)


def _withdrawn(chain: MarketChain, fakes: list[Fake]) -> int:
    """Withdraw all devices, and return the lost bonds in grains."""
    chain.block(*(signed(one.owner.stash, Capacity.withdraw(device=one.device)) for one in fakes))
    return sum(lost.amount for lost in chain.happened(RollCallBondLost))


def shape_of(rate: int) -> WorkShape:
    """Return the smallest work that proves a rate with a commit in the first possible block."""
    wanted, size = rate * times.UNIT * times.COMMITS_FROM, SIZE_MIN
    while wanted > operations(WorkShape(size, ROWS_MIN, ROUNDS_MAX)):
        size *= 2
    return WorkShape(size, ROWS_MIN, -(-wanted // operations(WorkShape(size, ROWS_MIN, 1))))
