"""The calls and the hook of Sessions at their worst: a customer with 63 sessions, hand-overs, and many place offers."""

from collections.abc import Iterable
from dataclasses import replace

from benchmarks.weights.actors import CHEAP, CUSTOMER, FLEETS
from benchmarks.weights.findings import Findings
from benchmarks.weights.market_cases import service_terms
from benchmarks.weights.world import World
from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.sessions.records import (
    FORMER_FIRST_BLOCKS,
    PLACES_MAX,
    SESSIONS_PER_CUSTOMER_MAX,
    TERM_MAX,
    SessionRecord,
    SessionState,
    session_id_of,
    spare_of,
)
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.market.sessions.vouchers import Voucher, voucher_payload
from runtime.blocks.extrinsic import MultiSignature
from runtime.cryptography import signatures
from runtime.cryptography.signatures import Scheme
from runtime.frame.call import Call
from runtime.frame.runtime import Bound
from simulation.chains.market_chain import OGPU, signed

HOOK = "Sessions.on_initialize"
MARKET_HOOK = "InferenceMarket.on_initialize"
PACE, DEPOSIT = 10, 2 * OGPU
FEW, MANY = 1, 16
"""The devices of each fleet that offer places of the two services."""
FIRST_DEVICE = 20
SEATED = 12
DRAW_BLOCKS = 2
ROUNDS = 5
SIGNERS = {scheme: signatures.keypair_from_seed(scheme, b"signer".ljust(32)) for scheme in Scheme}


def measure(world: World, found: Findings) -> None:
    """Measure the calls; then draws among few and many places, and ends of sessions."""
    SessionCases(world, found).measure()


class SessionCases:
    """Sessions of one customer at two services."""

    def __init__(self, world: World, found: Findings) -> None:
        self.world, self.found = world, found
        self.opened = 0
        first = world.now()[InferenceMarket].next_service.get()
        self.few, self.many = first, first + 1

    def measure(self) -> None:
        """Measure everything, in an order in which each case finds the records that it needs."""
        self._offer_places()
        self._draws()
        for scheme, (signer, _) in SIGNERS.items():
            self._calls(self._seat(1, signer), scheme)
        self._spares()
        while self.opened < SESSIONS_PER_CUSTOMER_MAX - 1:
            self._seat(min(SEATED, SESSIONS_PER_CUSTOMER_MAX - 1 - self.opened))
        self.found.call(CUSTOMER.stash, self._open(self.many))
        self.found.call(CUSTOMER.stash, Sessions.close(session=self._post(1)[0]))
        self.world.blocks(DRAW_BLOCKS + 1)
        self._ends()

    def _offer_places(self) -> None:
        """Create the services, and offer places; the last offer is measured."""
        world, terms = self.world, replace(service_terms(), price_min=CHEAP, pace=PACE)
        world.block(*(signed(CUSTOMER.stash, InferenceMarket.create_service(terms=terms)) for _ in range(2)))
        for service, count in ((self.few, FEW), (self.many, MANY)):
            for number in range(FIRST_DEVICE, FIRST_DEVICE + count):
                calls = [(actor, actor.device(number)) for actor in world.validators[:FLEETS]]
                offers = (
                    signed(actor.provider, InferenceMarket.offer(device=device, service=service, ask=CHEAP))
                    for actor, device in calls
                )
                world.block(*offers)
                last, device = calls[-1]
                self.found.call(last.provider, _places(device, service))
                world.block(*(signed(actor.provider, _places(device, service)) for actor, device in calls))

    def _draws(self) -> None:
        """Measure a draw among few places, one among many, and many draws among few."""
        found, counts = [], []
        for service, count in ((self.few, 1), (self.many, 1), (self.few, SEATED)):
            posted = self._post(count, service=service)
            self.world.blocks(DRAW_BLOCKS)
            found.append(self._real("sessions drawn"))
            self.world.block()
            # A budget may end earlier, so only completed work counts.
            counts.append(sum(self._session(each).state is not SessionState.WAITING for each in posted))
            self.world.blocks(SEATED)
        few, many, several = found
        rows = self.found.rows
        slot = rows[f"{MARKET_HOOK} order"] + 2 * rows[f"{MARKET_HOOK} look"]
        self._row("scan", (many - few) / (FLEETS * (MANY - FEW)) - slot)
        self._row("draw", (several - few) / max(1, counts[-1] - 1))

    def _calls(self, session_id: bytes, scheme: Scheme) -> None:
        """Measure a hand-over, a claim after it, and a close."""
        world, found = self.world, self.found
        hand_over = Sessions.hand_over(session=session_id)
        found.call(CUSTOMER.stash, Sessions.close(session=session_id))
        found.call(CUSTOMER.stash, hand_over)
        world.block(signed(CUSTOMER.stash, hand_over))
        # The former provider claims first.
        world.blocks(FORMER_FIRST_BLOCKS)
        session = self._session(session_id)
        voucher = Voucher(session_id, session.period, Totals(1, 64, 64, bytes(32)))
        public, secret = SIGNERS[scheme]
        signature = signatures.sign(scheme, public, secret, voucher_payload(world.genesis, voucher))
        call = Sessions.claim(
            session=session_id, voucher=voucher, signature=MultiSignature(scheme, signature), is_last=False
        )
        found.call(world.by_stash[session.legs[-1].owner].provider, call)

    def _spares(self) -> None:
        """Measure the proof of a spare, and a provider that leaves."""
        world, found, session_id = self.world, self.found, self._seat(1)
        session = self._session(session_id)
        spare = session.spare
        assert spare is not None, "many owners offer places"
        found.call(world.by_stash[spare.owner].provider, _proof(session_id))
        found.call(world.by_stash[session.legs[0].owner].provider, Sessions.leave(session=session_id))

    def _ends(self) -> None:
        """Measure sessions of two legs and a proven spare that are released and end in one step."""
        world = self.world
        known = self._open_ones()
        for part in (known[: len(known) // 2], known[len(known) // 2 :]):
            world.block(*(signed(CUSTOMER.stash, Sessions.hand_over(session=each)) for each in part if self._may(each)))
        handed = [each for each in self._open_ones() if len(self._session(each).legs) > 1][:SEATED]
        world.block(
            *(signed(CUSTOMER.stash, Sessions.close(session=each)) for each in handed),
            lambda bound: _end_legs(bound, handed),
        )
        real = self._real("sessions end")
        before = world.now()[Sessions].session_count.get()
        world.block()
        ended = before - world.now()[Sessions].session_count.get()
        self._row("step", real / max(1, ended))

    def _may(self, session_id: bytes) -> bool:
        return spare_of(self._session(session_id)) is not None

    def _open_ones(self) -> list[bytes]:
        sessions = self.world.now()[Sessions].sessions.items()
        return [key for key, session in sessions if session is not None and session.state is SessionState.OPEN]

    def _session(self, session_id: bytes) -> SessionRecord:
        return self.world.now()[Sessions].session(session_id)

    def _seat(self, count: int, signer: bytes = CUSTOMER.provider) -> bytes:
        """Open sessions, and make blocks until all are drawn. Return the last one."""
        posted = self._post(count, signer)
        while any(self._session(each).state is SessionState.WAITING for each in posted):
            self.world.block()
        return posted[-1]

    def _post(self, count: int, signer: bytes = CUSTOMER.provider, service: int | None = None) -> list[bytes]:
        """Make a block that opens `count` sessions. Return their ids."""
        call = self._open(self.few if service is None else service, signer)
        self.world.block(*(signed(CUSTOMER.stash, call) for _ in range(count)))
        self.opened += count
        numbers = range(self.opened - count, self.opened)
        return [session_id_of(self.world.genesis, CUSTOMER.stash, number) for number in numbers]

    def _open(self, service: int, signer: bytes = CUSTOMER.provider) -> Call:
        return Sessions.open(
            service=service, deposit=DEPOSIT, term=TERM_MAX, rate=CHEAP, signer=signer, customer_key=b"k" * 32
        )

    def _real(self, name: str) -> float:
        """Return the cost of the next block's hook above its cost in a block where nothing is due."""
        real, _ = self.found.hooks(name, rounds=ROUNDS)["Sessions"]
        return real - self.found.rows.get(HOOK, 0.0)

    def _row(self, part: str, nanoseconds: float) -> None:
        self.found.rows[f"{HOOK} {part}"] = max(100.0, nanoseconds)


def _places(device: bytes, service: int) -> Call:
    return Sessions.offer_places(device=device, service=service, places=PLACES_MAX)


def _proof(session_id: bytes) -> Call:
    return Sessions.prove_spare(session=session_id, top=bytes(32))


def _end_legs(bound: Bound, sessions: Iterable[bytes]) -> None:
    """Let all legs of these sessions claim nothing more, and each spare be proven and unpaid."""
    room = bound[Sessions]
    for session_id in sessions:
        session = room.session(session_id)
        assert session.spare is not None, "it serves now"
        legs = tuple(replace(leg, is_over=True) for leg in session.legs)
        spare = replace(session.spare, claimed=1, is_released=False)
        room.put(session_id, replace(session, legs=legs, spare=spare))
