"""Every call of the market's pallets at its worst: races of eight, posts of 32 units."""

from collections.abc import Sequence

from benchmarks.weights.actors import CHEAP, CUSTOMER, NEW_BOND, PRICEY, RACED, Actor
from benchmarks.weights.findings import Ratio
from benchmarks.weights.races import DRAW_BLOCKS, MarketCases, attach
from benchmarks.weights.staking_cases import candidacy
from benchmarks.weights.world import World
from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.attestations.statement import SignedAttestation
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import QUEUE_MAX, DeviceClass
from gpu_tasks.market.inference.checkers_left import LOOK_WEIGHT, find_checkers
from gpu_tasks.market.inference.inference import UNITS_PER_POST_MAX, InferenceMarket
from gpu_tasks.market.inference.services import OFFERS_PER_DEVICE_MAX, ServiceTerms
from gpu_tasks.market.inference.units import RACERS_MAX
from runtime.encoding.types import Unsigned
from runtime.frame.call import Call
from runtime.pallets.balances import Balances
from simulation.chains.market_chain import MODEL, OGPU, WORKLOAD, signed

ATTACHED_UNITS = 8


class MarketCalls(MarketCases):
    """The calls of Devices, InferenceMarket and Attestations."""

    def __post_init__(self) -> None:
        self.stranger = self.world.senders[50]

    def measure(self) -> None:
        """Measure all of them."""
        self._devices()
        self._catalogue()
        self._customers()
        self._races()

    def _devices(self) -> None:
        world, found, who = self.world, self.found, self.stranger
        fleet = world.validators[3]
        world.block(
            *candidacy(world.genesis, who),
            signed(fleet.stash, Balances.transfer_keep_alive(dest=who.provider, value=OGPU)),
        )
        register = Devices.register_provider(seal_key=who.public("seal"), endpoint=b"http://127.0.0.1:9999")
        found.call(who.stash, register)
        world.block(signed(who.stash, register))
        found.call(who.stash, Devices.unregister_provider())
        bring = Devices.register_device(kind=DeviceClass.CPU, uuid_hash=who.uuid_hash(), bond=NEW_BOND)
        found.call(who.stash, bring)
        world.block(signed(who.stash, bring))
        found.call(who.stash, Devices.unregister_device(device=who.device()))
        found.call(who.stash, Devices.bond_device_extra(device=who.device(), value=OGPU))
        found.call(fleet.provider, Devices.set_queue(device=fleet.device(1), queue=QUEUE_MAX))
        found.call(fleet.provider, Devices.pause(device=fleet.device(1)))
        world.block(signed(fleet.provider, Devices.pause(device=fleet.device(1))))
        found.call(fleet.provider, Devices.resume(device=fleet.device(1)))
        world.block(signed(fleet.provider, Devices.resume(device=fleet.device(1))))

    def _catalogue(self) -> None:
        """Measure a device with all but one of the services that it may offer."""
        world, found, who = self.world, self.found, world_fleet(self.world)
        create = InferenceMarket.create_service(terms=service_terms())
        found.call(CUSTOMER.stash, create)
        first = world.now()[InferenceMarket].next_service.get()
        world.block(*(signed(CUSTOMER.stash, create) for _ in range(OFFERS_PER_DEVICE_MAX)))
        device, standing = who.device(3), 1
        offers = [InferenceMarket.offer(device=device, service=first + place, ask=CHEAP) for place in range(16)]
        room = OFFERS_PER_DEVICE_MAX - standing
        world.block(*(signed(who.provider, call) for call in offers[: room - 1]))
        found.call(who.provider, offers[room - 1])
        world.block(signed(who.provider, offers[room - 1]))
        found.call(who.provider, InferenceMarket.withdraw_offer(device=device, service=first))
        found.call(CUSTOMER.stash, InferenceMarket.close_service(service=first))

    def _customers(self) -> None:
        races, found = self.races, self.found
        post = {
            count: InferenceMarket.post(service=RACED, units=(races.terms(),) * count)
            for count in (1, UNITS_PER_POST_MAX)
        }
        looks = find_checkers(self.world.now()[Devices], CUSTOMER.stash, races.terms().sealed_at).looks
        found.growing(CUSTOMER.stash, "unit", post, beside=looks * LOOK_WEIGHT.ref_time / 1_000)
        (sleeper,) = races.post(PRICEY, 1, price=2 * OGPU)
        self.world.blocks(4)
        if not self.world.unit(sleeper).asleep_since:
            raise RuntimeError("the unit does not sleep")
        found.call(CUSTOMER.stash, InferenceMarket.cancel(unit=sleeper))
        races.abandon([sleeper])

    def _races(self) -> None:
        races, found, world = self.races, self.found, self.world
        self._called_off()
        (unit,) = races.drawn(RACED, 1)
        last = races.racers(unit)[-1]
        attempt = world.unit(unit).attempt
        found.call(last.provider, InferenceMarket.decline(unit=unit, attempt=attempt))
        found.call(last.provider, InferenceMarket.pass_unit(unit=unit, attempt=attempt))
        world.block(*races.commits([unit], but_last=True))
        found.call(last.provider, races.commit(last, unit))
        world.block(signed(last.provider, races.commit(last, unit)))
        world.blocks(2)
        world.block(attach(races.reveals([unit], 0, RACERS_MAX - 1)))
        found.call(last.provider, Attestations.reveal(attestation=races.attestation(last, unit)))
        world.block(attach(races.reveals([unit], RACERS_MAX - 1, RACERS_MAX)))
        self._attach()

    def _called_off(self) -> None:
        """Measure a commit that stops the draw for a declined place."""
        races, world = self.races, self.world
        (unit,) = races.drawn(RACED, 1)
        first = races.racers(unit)[0]
        world.block(races.decline(unit))
        self.found.call(first.provider, races.commit(first, unit))
        world.blocks(DRAW_BLOCKS + 1)
        races.abandon([unit])

    def _attach(self) -> None:
        """Measure attestations that settle nothing, and those that each settle a race of one or of eight."""
        found, many = self.found, {}
        lasts = {}
        for racers in (1, RACERS_MAX):
            units = self._closed(racers)
            if racers > 1:
                calls = {count: attached(self.races.reveals(units[:count], 0, 1)) for count in (1, ATTACHED_UNITS)}
                found.growing(Unsigned(), "attestation", calls)
                self.world.block(attach(self.races.reveals(units, 0, racers - 1)))
            lasts[racers] = self.races.reveals(units, racers - 1, racers)
            many[racers] = found.meter.call(Unsigned(), attached(lasts[racers]))
            self._compare(f"Attestations.attach: settles races of {racers}", lasts[racers], many[racers])
            self.world.block(attach(lasts[racers]))
        row = "Attestations.attach"
        each = (many[RACERS_MAX] - many[1]) / ATTACHED_UNITS / (RACERS_MAX - 1)
        single = (many[1] - found.rows[row]) / ATTACHED_UNITS
        found.rows[f"{row} racer"] = each
        found.rows[f"{row} settled"] = max(1_000.0, single - found.rows[f"{row} attestation"] - each)

    def _closed(self, racers: int) -> list[bytes]:
        """Return units whose racers have all committed and may reveal."""
        units = self.races.drawn(RACED, ATTACHED_UNITS, racers)
        self.world.block(*self.races.commits(units))
        self.world.blocks(2)
        return units

    def _compare(self, name: str, attestations: list[SignedAttestation], real: float) -> None:
        """Note the real cost over the weight that the inherent reports."""
        bound = self.world.begin().bound
        weight = bound.dispatch(attached(attestations), Unsigned()).actual_weight
        self.found.ratios[name] = Ratio(real, weight.ref_time / 1_000 if weight is not None else 0.0)


def attached(attestations: Sequence[SignedAttestation]) -> Call:
    """Return the inherent with these attestations."""
    return Attestations.attach(attestations=tuple(attestations))


def world_fleet(world: World) -> Actor:
    """Return an actor with many devices."""
    return world.validators[5]


def service_terms() -> ServiceTerms:
    """Return the terms of a new service."""
    return ServiceTerms(b"x" * 32, WORKLOAD, MODEL, CHEAP, 10 * OGPU, 1_000, 4, 256)
