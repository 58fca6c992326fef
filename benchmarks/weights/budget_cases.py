"""The calls of Budgets at their worst: 16 budgets, 64 delegates, and 64 sessions of a revoked one."""

from dataclasses import replace

from benchmarks.weights.actors import CHEAP, CUSTOMER, FLEETS
from benchmarks.weights.findings import LEAST_NANOSECONDS, Findings, Ratio
from benchmarks.weights.market_cases import service_terms
from benchmarks.weights.world import World
from gpu_tasks.market.budgets.budgets import Budgets
from gpu_tasks.market.budgets.records import BUDGETS_PER_OWNER_MAX, DELEGATES_MAX, SERVICES_MAX, Caps, budget_account
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.sessions.records import PLACES_MAX, SESSIONS_PER_CUSTOMER_MAX, TERM_MAX, SessionState
from gpu_tasks.market.sessions.sessions import Sessions
from runtime.encoding.types import Signed
from runtime.frame.call import Call
from simulation.chains.market_chain import OGPU, signed

PACE, DEPOSIT, MONEY = 10, 2 * OGPU, 1_000 * OGPU
DEVICE = 50
"""The device of each fleet that offers places."""
ROUNDS = 40
"""The difference of two calls needs more rounds than one call."""
OWNER, KEY = CUSTOMER.stash, CUSTOMER.provider


def measure(world: World, found: Findings) -> None:
    """Measure the calls of the owner, then purchases and revocations."""
    BudgetCases(world, found).measure()


class BudgetCases:
    """Two budgets of one delegate: one with a session, and one with as many as a customer may have."""

    def __init__(self, world: World, found: Findings) -> None:
        self.world, self.found = world, found
        self.service = world.now()[InferenceMarket].next_service.get()

    def measure(self) -> None:
        """Measure everything, in an order in which each case finds the records that it needs."""
        self._offer_places()
        create = Budgets.create(deposit=MONEY)
        self.world.block(*(signed(OWNER, create) for _ in range(BUDGETS_PER_OWNER_MAX - 1)))
        self.found.call(OWNER, create)
        few, many, crowded, empty = self._budgets()[:4]
        for budget in (few, many, crowded):
            self.world.block(signed(OWNER, self._grant(budget, KEY)))
        others = (bytes((number,)) * 32 for number in range(1, DELEGATES_MAX - 1))
        self.world.block(*(signed(OWNER, self._grant(crowded, other)) for other in others))
        self.found.call(OWNER, self._grant(crowded, bytes(32)))
        self.found.call(OWNER, Budgets.withdraw(budget=empty, amount=OGPU))
        self.found.call(OWNER, Budgets.close(budget=empty))
        self._open(few, 1)
        self._spend(few, self._opening())
        self._open(many, SESSIONS_PER_CUSTOMER_MAX)
        calls = {1: _revoke(few), SESSIONS_PER_CUSTOMER_MAX: _revoke(many)}
        self.found.growing(OWNER, "session", calls)
        waiting = {name: self.found.rows[name] for name in ("Budgets.revoke", "Budgets.revoke session")}
        self._seat()
        self.found.growing(OWNER, "session", calls)
        # The row covers sessions that wait for a draw, and those that are open.
        for name, cost in waiting.items():
            self.found.rows[name] = max(cost, self.found.rows[name])

    def _offer_places(self) -> None:
        terms = replace(service_terms(), price_min=CHEAP, pace=PACE)
        self.world.block(signed(CUSTOMER.stash, InferenceMarket.create_service(terms=terms)))
        for actor in self.world.validators[:FLEETS]:
            device = actor.device(DEVICE)
            offer = InferenceMarket.offer(device=device, service=self.service, ask=CHEAP)
            places = Sessions.offer_places(device=device, service=self.service, places=PLACES_MAX)
            self.world.block(signed(actor.provider, offer), signed(actor.provider, places))

    def _budgets(self) -> list[bytes]:
        return [budget_id for budget_id, _ in self.world.now()[Budgets].owner_budgets.under(OWNER)]

    def _grant(self, budget: bytes, key: bytes) -> Call:
        # The service comes last in the longest list.
        services = (*range(1_000, 999 + SERVICES_MAX), self.service)
        return Budgets.grant(budget=budget, delegate=key, caps=Caps(MONEY, MONEY, MONEY, services, 2**32 - 1))

    def _opening(self) -> Call:
        return Sessions.open(
            service=self.service, deposit=DEPOSIT, term=TERM_MAX, rate=CHEAP, signer=KEY, customer_key=b"k" * 32
        )

    def _open(self, budget: bytes, count: int) -> None:
        """Make a block in which the delegate opens sessions."""
        call = Budgets.spend(budget=budget, call=self._opening())
        self.world.block(*(signed(KEY, call) for _ in range(count)))

    def _seat(self) -> None:
        """Make blocks until no session waits for a draw."""
        room = self.world.now()[Sessions]
        while any(
            session is not None and session.state is SessionState.WAITING for _, session in room.sessions.items()
        ):
            self.world.block()
            room = self.world.now()[Sessions]

    def _spend(self, budget: bytes, inner: Call) -> None:
        """Measure a purchase. Its row excludes the call inside."""
        call, account = Budgets.spend(budget=budget, call=inner), Signed(budget_account(budget))
        real = self.found.meter.call(Signed(KEY), call, ROUNDS)
        alone = self.found.meter.call(account, inner, ROUNDS)
        self.found.ratios[call.name] = Ratio(real, call.weight.ref_time / 1_000)
        self.found.rows[call.name] = max(LEAST_NANOSECONDS, real - alone)


def _revoke(budget: bytes) -> Call:
    return Budgets.revoke(budget=budget, delegate=KEY)
