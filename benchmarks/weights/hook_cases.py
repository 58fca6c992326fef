"""The market's hook with the most work, one kind of work at a time. Each kind gives a row."""

from benchmarks.weights.actors import CHEAP, DEVICE_BOND, DEVICES_OF_A_FLEET, FLEETS, LARGE, PRICEY, RACED, SMALL
from benchmarks.weights.market_cases import service_terms
from benchmarks.weights.races import DRAW_BLOCKS, MarketCases, attach
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.draws import DrawOrder, FreeSlot, Given, Wanted
from gpu_tasks.market.inference.checkers_left import LOOK_WEIGHT
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.sleepers import of_turn
from gpu_tasks.market.inference.storage import Stirred
from gpu_tasks.market.inference.units import RACERS_MAX
from runtime.cryptography.hashing import blake2_256
from simulation.chains.market_chain import OGPU, signed

HOOK = "InferenceMarket.on_initialize"
UNITS = 12
SMALL_OFFERS, LARGE_OFFERS = 8, FLEETS * (DEVICES_OF_A_FLEET - 1)
ROUNDS = 5
BLOCKS_MAX = 80


class MarketHook(MarketCases):
    """The hook's work in a block, row by row."""

    def measure(self) -> None:
        """Measure all rows, after the work left by earlier cases has ended."""
        self.world.blocks(BLOCKS_MAX)
        self._orders()
        self._draws()
        self._refills()
        self._steps()
        self._stirs()
        self._expiries()
        self._end_offers()

    def _real(self, name: str) -> float:
        """Return the cost of the next block's hook above its cost in a block where nothing is due."""
        real, _ = self.found.hooks(name, rounds=ROUNDS)["InferenceMarket"]
        return real - self.found.rows.get(HOOK, 0.0)

    def _row(self, part: str, nanoseconds: float) -> None:
        self.found.rows[f"{HOOK} {part}"] = max(100.0, nanoseconds)

    def _orders(self) -> None:
        """Measure pure work on 1,008 slots: sorting them by a beacon, and a search that finds none."""
        slots = [
            FreeSlot(hashed(place), hashed(place // DEVICES_OF_A_FLEET), DEVICE_BOND, OGPU, CHEAP, 0, 0)
            for place in range(LARGE_OFFERS)
        ]
        wanted = Wanted(OGPU, 100 * OGPU, 1, 1, ())
        order = _ordered(slots)
        ordered = self.least(lambda: _ordered(slots))
        looked = self.least(lambda: order.draw(wanted, RACERS_MAX))
        self._row("order", ordered / len(slots))
        self._row("look", looked / len(slots))

    def _draws(self) -> None:
        races = self.races
        found = {}
        for name, service, units, racers in (
            ("a draw among 8 offers", SMALL, 1, 1),
            ("a draw among 1,008 offers", LARGE, 1, 1),
            ("draws of one racer", RACED, UNITS, 1),
            ("draws of eight racers", RACED, UNITS, RACERS_MAX),
        ):
            posted = races.post(service, units, racers)
            self.world.blocks(DRAW_BLOCKS)
            found[name] = self._real(name)
            # `_real` only measures the next block. This one executes it, so that nothing stays due.
            self.world.block()
            races.abandon(posted)
        few, many, single, eight = found.values()
        rows = self.found.rows
        racer = (eight - single) / (UNITS * (RACERS_MAX - 1))
        scan = (many - few) / (LARGE_OFFERS - SMALL_OFFERS) - rows[f"{HOOK} order"] - rows[f"{HOOK} look"]
        self._row("scan", scan)
        self._row("racer", racer)
        offers = len(self.world.validators) * (scan + rows[f"{HOOK} order"])
        self._row("draw", (single - offers - self._checkers()) / UNITS - racer)

    def _refills(self) -> None:
        """Measure refills of declined places in races of eight: draws of one racer, each of which releases another."""
        races, world, rows = self.races, self.world, self.found.rows
        units = races.drawn(RACED, UNITS)
        world.block(*(races.decline(unit) for unit in units))
        world.blocks(DRAW_BLOCKS)
        real = self._real("places drawn again")
        world.block()
        # A place that stayed empty would make the measured work too small.
        if any(world.unit(unit).is_refilling or not world.unit(unit).decliners for unit in units):
            raise RuntimeError("not every place was filled")
        races.abandon(units)
        offers = len(world.validators) * (rows[f"{HOOK} scan"] + rows[f"{HOOK} order"])
        each = (real - offers - self._checkers()) / UNITS - rows[f"{HOOK} racer"]
        # Both kinds of draws share this row, which must cover the more expensive kind.
        self._row("draw", max(each, rows[f"{HOOK} draw"]))

    def _checkers(self) -> float:
        """Return the cost of reading the validators in office, which all draws of a block share."""
        return len(self.world.validators) * LOOK_WEIGHT.ref_time / 1_000

    def _steps(self) -> None:
        """Measure races of eight that open their reveals, and end by deadline: one racer revealed and seven did not."""
        races, world, goes_on = self.races, self.world, 0.0
        units = races.drawn(RACED, UNITS)
        world.block(*races.commits(units))
        for number in range(2):
            goes_on = max(goes_on, self._real(f"races go on, block {number}") / UNITS)
            world.block()
        self._row("step", goes_on)
        world.block(attach(races.reveals(units, 0, 1)))
        closing = races.reveal_deadline(units[0])
        world.blocks(closing - world.height)
        self._row("race_end", (self._real("races ended by the hook") / UNITS - goes_on) / RACERS_MAX)
        world.block()
        races.wake_devices()

    def _stirs(self) -> None:
        """Measure resumed devices of a service with a sleeping unit. The devices also offer other services."""
        races, world = self.races, self.world
        fleet = world.validators[:FLEETS]
        world.blocks(3)
        world.block(*(signed(actor.provider, Devices.resume(device=actor.device(1))) for actor in fleet))
        self._row("stir", self._real("slots stirred") / len(fleet))
        sleepers = races.post(PRICEY, UNITS, price=OGPU)
        world.blocks(DRAW_BLOCKS + 1)
        market = world.now()[InferenceMarket]
        turn = Stirred(PRICEY, world.height + 1, 1)
        self._row("turn", self.least(lambda: of_turn(market, turn)))
        world.block(*(signed(actor.provider, Devices.resume(device=actor.device(1))) for actor in fleet))
        self._real("sleepers woken")
        world.block()
        races.abandon(sleepers)

    def _expiries(self) -> None:
        """Measure the removal of records in one block."""
        races, world = self.races, self.world
        units = races.post(PRICEY, 2 * UNITS, price=OGPU)
        races.abandon(units)
        ended = world.unit(units[0])
        world.blocks(ended.ended_at + ended.rules.keep_blocks - 1 - world.height)
        self._row("expiry", self._real("records dropped") / len(units))
        world.block()

    def _end_offers(self) -> None:
        """Measure the end of offers when their service closes."""
        world = self.world
        number = world.now()[InferenceMarket].next_service.get()
        owner = world.senders[60].stash
        fleet = [(actor, actor.device(place)) for actor in world.validators[:FLEETS] for place in (6, 7)]
        world.block(
            signed(owner, InferenceMarket.create_service(terms=service_terms())),
            *(
                signed(actor.provider, InferenceMarket.offer(device=device, service=number, ask=CHEAP))
                for actor, device in fleet
            ),
        )
        world.blocks(2)
        world.block(signed(owner, InferenceMarket.close_service(service=number)))
        self._row("end_offer", self._real("offers of a service that is gone") / len(fleet))
        world.block()


def _ordered(slots: list[FreeSlot]) -> DrawOrder:
    return DrawOrder(slots, seed=bytes(32), label=b"", recorded_at=1, given_units=Given())


def hashed(number: int) -> bytes:
    """Return an id made from a number."""
    return blake2_256(number.to_bytes(4, "little"))
