"""Any order of declines, passes, commits, pauses and stalls of finality: places are filled, without any loss.

`MarketChain.block` compares all books after every block: no place is awaited after a commit or a second decline. Here a
model of the race predicts allowed calls and misses.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.events import PlaceRefilled, RaceMissed, RacePassed
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.money import collateral_of
from gpu_tasks.market.inference.units import Unit, UnitState, is_open, racer_of
from runtime.frame.errors import DispatchError
from runtime.frame.runtime import Bound
from runtime.pallets.beacon import Beacon
from simulation.chains.market_chain import Keys, MarketChain, commit, named_keys, refused, signed, terms, tolerant

QUEUE_BLOCKS, LEASE, CLOSE = 45, 30, 10
STALLED = 10**6
Move = tuple[str, int, int]


@dataclass
class Scene:
    """A unit, and a model's expectations of its race."""

    chain: MarketChain
    unit_id: bytes = b""
    attempt: int = 0
    drawn: dict[bytes, int] = field(default_factory=dict)
    """The draw height of each racer of this attempt."""
    newest: int = 0
    """The block of the newest draw."""
    idle: int = 0
    """The penalty of a missed deadline in this race."""
    commits_from: int = 0
    first_commit: int = 0

    @property
    def unit(self) -> Unit:
        return self.chain.unit(self.unit_id)

    def watch(self, bound: Bound, issued: int) -> None:
        """Check the invariants of every block."""
        self.chain.books.follow(bound, self.chain.state, issued, is_checked=True)
        unit = bound[InferenceMarket].units[self.unit_id]
        assert unit is not None
        height = self.chain.height
        self._check_misses(height)
        self._follow(unit, height, bound[Beacon].final_height())
        assert len(self.chain.happened(PlaceRefilled)) <= 1 + len(self.chain.happened(RacePassed))

    def _check_misses(self, height: int) -> None:
        """Check that only a racer with a whole deadline, from the finality of the newest draw, counts as a miss."""
        for event in self.chain.events:
            if isinstance(event, RaceMissed) and event.amount == self.idle:
                assert self.commits_from, "nobody has missed while no lease runs"
                assert height > self.commits_from + LEASE
                assert event.provider in self.drawn

    def _follow(self, unit: Unit, height: int, final: int) -> None:
        """Note draws and the deadline. The block's hook has run before any of its calls."""
        if unit.state is not UnitState.RACING:
            return
        self.idle = collateral_of(unit) // 100
        if unit.attempt != self.attempt:
            self.attempt, self.drawn, self.commits_from, self.first_commit = unit.attempt, {}, 0, 0
        for racer in unit.racers:
            if racer.owner not in self.drawn:
                self.drawn[racer.owner] = self.newest = height
                self.commits_from = 0
        if not self.commits_from and final >= self.newest:
            self.commits_from = height

    def may_commit(self, bound: Bound, who: Keys) -> bool:
        """Return whether the chain must accept a call of this racer in the middle of a block."""
        unit, height = bound[InferenceMarket].units[self.unit_id], self.chain.height
        assert unit is not None
        self._follow(unit, height, bound[Beacon].final_height())
        racer = racer_of(unit, who.stash)
        if unit.state is not UnitState.RACING or racer is None or racer.commitment or racer.has_declined:
            return False
        if all(other.commitment or other.has_declined for other in unit.racers):
            return False
        first_draw = min(self.drawn.values())
        is_leased = not self.commits_from or height <= self.commits_from + LEASE
        took = self.first_commit - first_draw
        close = max(self.first_commit, self.drawn[who.stash] + took) + took + CLOSE
        is_before_close = not self.first_commit or height <= close
        return height > first_draw and is_leased and is_before_close


def act(scene: Scene, who: Keys, kind: str) -> Callable[[Bound], None]:
    """Take a step of an account. The model predicts whether the chain must accept it."""

    def step(bound: Bound) -> None:
        unit = bound[InferenceMarket].units[scene.unit_id]
        assert unit is not None
        must = scene.may_commit(bound, who)
        if kind in ("decline", "pass"):
            leave = InferenceMarket.decline if kind == "decline" else InferenceMarket.pass_unit
            call = leave(unit=scene.unit_id, attempt=unit.attempt)
            (signed if must else _refusing)(who.provider, call)(bound)
        elif must:
            commit(who, scene.unit_id, unit, b"R" * 32)(bound)
            scene.first_commit = scene.first_commit or scene.chain.height
        else:
            call = InferenceMarket.commit_result(unit=scene.unit_id, attempt=unit.attempt, commitment=bytes(32))
            _refusing(who.provider, call)(bound)

    return step


def _refusing(account: bytes, call: object) -> Callable[[Bound], None]:
    return refused(account, call, DispatchError)


def play(scene: Scene, moves: list[Move]) -> None:
    chain = scene.chain
    for kind, number, blocks in moves:
        if kind == "stall":
            chain.final_lag = STALLED if number % 2 else 1 + number % 3
            chain.block()
        elif kind in ("pause", "resume"):
            who = chain.validators[number % len(chain.validators)]
            call = Devices.pause(device=who.device) if kind == "pause" else Devices.resume(device=who.device)
            chain.block(tolerant(signed(who.provider, call)))
        else:
            racers = scene.unit.racers
            among = [chain.keys_of(racer.owner) for racer in racers] or chain.validators
            chain.block(act(scene, among[number % len(among)], kind))
        for _ in range(blocks):
            chain.block()


moves = st.tuples(
    st.sampled_from(["decline", "decline", "pass", "commit", "stall", "pause", "resume"]),
    st.integers(0, 7),
    st.sampled_from([0, 0, 1, 2, 3, 8, 31]),
)


@settings(max_examples=settings().max_examples // 4)  # each is a whole chain
@given(st.lists(moves, max_size=14), st.integers(1, 3), st.integers(1, 3))
@example([("commit", 1, 8), ("pause", 0, 0), ("decline", 0, 0)], 2, 1)
@example([("decline", 0, 3), ("commit", 1, 0), ("commit", 0, 0)], 2, 1)
@example([("decline", 0, 2), ("decline", 1, 3), ("commit", 2, 31)], 3, 1)
@example([("decline", 0, 2), ("stall", 1, 31), ("stall", 0, 3)], 3, 2)
@example([("decline", 0, 8), ("decline", 0, 3), ("decline", 1, 3)], 2, 2)
@example([("decline", 1, 0), ("commit", 0, 3), ("pass", 2, 3)], 3, 1)
@example([("pass", 0, 0), ("pass", 0, 3), ("pass", 0, 3)], 2, 1)
@example([("commit", 0, 0), ("decline", 1, 8), ("pass", 2, 3)], 3, 1)
@example([("commit", 0, 0), ("stall", 0, 1), ("decline", 0, 3)], 1, 1)
def test_any_order_of_declines_and_commits(sequence: list[Move], racers: int, final_lag: int) -> None:
    queue = {"InferenceMarket.queue_blocks": QUEUE_BLOCKS}
    chain = MarketChain(named_keys(12), constants=queue, final_lag=final_lag, epoch_blocks=1_000)
    chain.blocks(3 + final_lag)
    (unit_id,) = chain.post(terms(racers=racers))
    scene = Scene(chain, unit_id)
    chain.check = scene.watch
    chain.blocks(3 + final_lag)
    assert len(scene.unit.racers) == racers, "a third of the active set may race"
    play(scene, sequence)
    chain.final_lag = 1
    for _ in range(QUEUE_BLOCKS + 2 * LEASE + 200):
        if not is_open(scene.unit):
            break
        chain.block()
    assert not is_open(scene.unit), "every race ends by itself"
    assert not list(chain.now()[InferenceMarket].duties.items())
