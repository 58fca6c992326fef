"""The simulated world: virtual time, the nodes, and an observer that checks them.

Invariant: a run is a function of its scenario and seed. The trace hash covers every decision with its time and node,
and the state of the random generator. So two runs can be compared bit by bit.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, Generic, Protocol, Self, TypeVar

from consensus.certificates import verify_votes
from consensus.events import BlockFacts, Effect, Event, Tick
from consensus.parameters import Parameters
from consensus.signstate import SignedRecord
from consensus.validators import Epoch, ValidatorSet
from consensus.wire import MESSAGE, Message
from devnet.simulation.keys import KeyRing
from devnet.simulation.packets import Packet, header_of, is_of
from runtime.blocks.block import Header, block_id
from runtime.blocks.evidence import DoubleBallot, DoubleProposal
from runtime.blocks.votes import VerifyEd25519

TAIL_FACTOR_MAX = 20
DUPLICATE_LATE_MAX_MS = 8_000


@dataclass(slots=True)
class Weather:
    """The current behaviour of links: one-way delay in ms, shares in percent, and the reachable groups."""

    delay_min_ms: int
    delay_max_ms: int
    loss_percent: int = 0
    side: tuple[int, ...] = ()  # group of each node; empty: one group
    one_way: bool = False  # group 0 still reaches the others
    tail_percent: int = 0
    duplicate_percent: int = 0

    def travels_ms(self, sender: int, receiver: int, random_source: Random) -> list[int]:
        """Return the delay of each arriving copy of a message that is sent now. An empty list means that it is lost."""
        if self.side and self.side[sender] != self.side[receiver] and not (self.one_way and self.side[sender] == 0):
            return []
        if self.loss_percent and random_source.randrange(100) < self.loss_percent:
            return []
        travel_times_ms = [random_source.randint(self.delay_min_ms, self.delay_max_ms)]
        if self.tail_percent and random_source.randrange(100) < self.tail_percent:
            travel_times_ms[0] *= random_source.randint(2, TAIL_FACTOR_MAX)
        # A peer that reconnects may send a message again, so no step may count one twice.
        if self.duplicate_percent and random_source.randrange(100) < self.duplicate_percent:
            travel_times_ms.append(travel_times_ms[0] + random_source.randrange(DUPLICATE_LATE_MAX_MS))
        return travel_times_ms


@dataclass
class Findings:
    """The observer's findings. The first three must stay empty or zero."""

    conflicting_finals: list[str] = field(default_factory=list)
    framed: list[str] = field(default_factory=list)
    false_evidence: int = 0
    accused: set[bytes] = field(default_factory=set)
    soft_conflicts: int = 0
    soft_reverts: int = 0
    messages: Counter[str] = field(default_factory=Counter)
    bytes_sent: int = 0  # of consensus messages, in runs that encode them
    accept_ms: list[int] = field(default_factory=list)
    final_ms: list[int] = field(default_factory=list)
    refused_handoffs: list[str] = field(default_factory=list)


TICK_EVENT = Tick()


class Resident(Protocol):
    """The observer's view of a node: its honesty, its keys, and its entry points."""

    number: int
    keys: KeyRing
    is_honest: bool

    def feed(self, event: Event) -> None:
        """Take an event."""

    def receive(self, sender: Self, packet: Packet) -> None:
        """Take a packet."""


R = TypeVar("R", bound=Resident)


class World(Generic[R]):
    """Time, links and the shared facts of one run. Add nodes, then call `run_until`."""

    def __init__(
        self,
        run_seed: str,
        parameters: Parameters,
        epochs: Callable[[int], Epoch],
        verify: VerifyEd25519,
        weather: Weather,
        start_ms: int,
    ) -> None:
        """Create an empty world with clocks that begin at `start_ms`."""
        self.seed = run_seed
        self.parameters = parameters
        self.epochs = epochs
        self.verify = verify
        self.encodes = False
        self.weather = weather
        self.now_ms = start_ms
        self.random = Random(run_seed)
        self.genesis_hash = blake2b(run_seed.encode(), digest_size=32).digest()
        self.genesis_block = BlockFacts(self.genesis_hash, bytes(32), 0, 0, bytes(32), 0)
        self.nodes: Sequence[R] = ()
        self.headers: dict[bytes, Header] = {}  # headers of boundary blocks, by id
        self.watchers: list[Callable[[int], None]] = []  # called with each height that becomes final for the first time
        self.links: frozenset[tuple[int, int]] | None = None
        self.findings = Findings()
        self.final_at: dict[int, bytes] = {0: self.genesis_hash}
        self._accepted_at: dict[int, bytes] = {}
        self._built_ms: dict[bytes, int] = {}
        self._action_queue: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._action_numbers = count()
        self._planned_wakes: dict[int, int] = {}
        self._trace_hash = blake2b(digest_size=16)

    # --- time

    def at(self, when_ms: int, action: Callable[..., None], *arguments: Any) -> None:
        """Schedule an action. Equal times keep the order of their scheduling."""
        # The counter breaks ties, so that equal times keep their order and runs repeat.
        heappush(self._action_queue, (when_ms, next(self._action_numbers), action, arguments))

    def schedule_tick(self, sim_node: R, when_ms: int) -> None:
        """Wake a node at a time, unless an earlier wake-up is planned."""
        planned_ms = self._planned_wakes.get(sim_node.number)
        if planned_ms is not None and self.now_ms < planned_ms <= when_ms:
            return  # it schedules again when it wakes
        self._planned_wakes[sim_node.number] = when_ms
        self.at(when_ms, self._wake_node, sim_node, when_ms)

    def _wake_node(self, sim_node: R, when_ms: int) -> None:
        # An earlier wake-up may have replaced this one.
        if self._planned_wakes.get(sim_node.number) == when_ms:
            del self._planned_wakes[sim_node.number]
            sim_node.feed(TICK_EVENT)

    def run_until(self, end_ms: int) -> None:
        """Run all actions up to a time."""
        action_queue = self._action_queue
        while action_queue and action_queue[0][0] <= end_ms:
            self.now_ms, _, action, arguments = heappop(action_queue)
            action(*arguments)
        self.now_ms = end_ms

    # --- links

    def is_linked(self, first_node: int, second_node: int) -> bool:
        """Return whether two nodes can connect."""
        return first_node != second_node and (self.links is None or (first_node, second_node) in self.links)

    def send(self, sender: R, receiver: R, packet: Packet) -> None:
        """Send a packet through the weather. Runs with `encodes` also encode and decode consensus messages."""
        if self.encodes and isinstance(packet, Message):
            encoded = MESSAGE.encode(packet)
            self.findings.bytes_sent += len(encoded)
            packet = MESSAGE.decode(encoded)
        self.findings.messages[type(packet).__name__] += 1
        for travel_ms in self.weather.travels_ms(sender.number, receiver.number, self.random):
            self.at(self.now_ms + travel_ms, receiver.receive, sender, packet)

    # --- the last blocks of epochs

    def seal(self, facts: BlockFacts, next_set: ValidatorSet | None = None) -> BlockFacts:
        """Return a boundary block with its true id, and keep its header, which names the next set.

        A dishonest author may pass another set as `following`.
        """
        if next_set is None:
            next_set = self.epochs(self.parameters.epoch_of(facts.height) + 1).validators
        boundary_header = header_of(facts, next_set)
        sealed = replace(facts, id=block_id(boundary_header))
        self.headers[sealed.id] = boundary_header
        return sealed

    def names_next_set(self, facts: BlockFacts) -> bool:
        """Return whether a boundary block's header names the state's next set, as execution checks.

        True for other blocks.
        """
        if not self.parameters.is_boundary(facts.height):
            return True
        next_set = self.epochs(self.parameters.epoch_of(facts.height) + 1).validators
        boundary_header = self.headers[facts.id]
        return is_of(boundary_header, facts) and boundary_header.digest == header_of(facts, next_set).digest

    # --- the observer

    def note_block(self, facts: BlockFacts) -> None:
        """Record the time of a new block."""
        self._built_ms.setdefault(facts.id, self.now_ms)

    def note_final(self, sim_node: R, blocks: Sequence[BlockFacts]) -> None:
        """Record final blocks of a node. Two honest nodes with different blocks at a height are a conflict."""
        if not sim_node.is_honest:
            return
        for final_block in blocks:
            is_first = final_block.height not in self.final_at
            if self.final_at.setdefault(final_block.height, final_block.id) != final_block.id:
                self.findings.conflicting_finals.append(f"height {final_block.height} at node {sim_node.number}")
            self.findings.final_ms.append(self.now_ms - self._built_ms[final_block.id])
            self._trace_event(sim_node, b"final", final_block.id)
            for on_final_height in self.watchers if is_first else ():
                on_final_height(final_block.height)

    def note_accepted(self, sim_node: R, block_id: bytes, height: int) -> None:
        """Record an accepted block. Acceptance is soft: it may be reverted."""
        if not sim_node.is_honest:
            return
        if self._accepted_at.setdefault(height, block_id) != block_id:
            self.findings.soft_conflicts += 1
        self.findings.accept_ms.append(self.now_ms - self._built_ms[block_id])
        self._trace_event(sim_node, b"accept", block_id)

    def note_reverted(self, sim_node: R) -> None:
        """Record a reverted acceptance."""
        self.findings.soft_reverts += sim_node.is_honest

    def note_signed(self, sim_node: R, signed_record: SignedRecord) -> None:
        """Record a signed vote."""
        self._trace_event(sim_node, b"sign", repr(signed_record).encode())

    def note_evidence(self, sim_node: R, evidence: DoubleProposal | DoubleBallot) -> None:
        """Record reported evidence. It must verify, and must not name an honest key."""
        if sim_node.is_honest:
            validators = self.epochs(evidence.first.epoch).validators
            if not verify_votes(evidence, validators, self.genesis_hash, self.verify):
                self.findings.false_evidence += 1
            self._record_accusation(evidence.accused, type(evidence).__name__)

    def note_double_header(self, sim_node: R, author_key: bytes, first_header: bytes, second_header: bytes) -> None:
        """Record two blocks of one author in one slot."""
        if sim_node.is_honest and first_header != second_header:
            self._record_accusation(author_key, "DoubleHeader")

    def note_other(self, sim_node: R, effect: Effect) -> None:
        """Record an effect that needs no action."""
        self._trace_event(sim_node, type(effect).__name__.encode(), b"")

    def _record_accusation(self, accused_key: bytes, offence: str) -> None:
        self.findings.accused.add(accused_key)
        for sim_node in self.nodes:
            if sim_node.is_honest and accused_key in sim_node.keys.public:
                self.findings.framed.append(f"{offence} against node {sim_node.number}")

    def _trace_event(self, sim_node: R, name: bytes, event_detail: bytes) -> None:
        self._trace_hash.update(b"%d %d %s " % (self.now_ms, sim_node.number, name) + event_detail)

    def trace(self) -> str:
        """Return the hash of all decisions so far."""
        trace_hash = self._trace_hash.copy()
        # One more or one less draw anywhere changes this state, so hidden differences show.
        trace_hash.update(b"%d" % self.random.getstate()[1][0])
        trace_hash.update(repr(sorted(self.findings.messages.items())).encode())
        return trace_hash.hexdigest()
