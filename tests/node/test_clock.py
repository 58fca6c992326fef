"""A monotonic clock that follows no jump of the system's clock."""

from error_codes import raises_code
from node.clock import JUMP_MS, NANOSECONDS_PER_MS, TRUST_MS, Clock
from node.errors import NodeError


class Machine:
    """Both clocks of a machine, in ms."""

    def __init__(self) -> None:
        self.steady, self.wrong = 5_000, 0
        self.clock = Clock(
            wall_ns=lambda: (1_700_000_000_000 + self.steady + self.wrong) * NANOSECONDS_PER_MS,
            steady_ns=lambda: self.steady * NANOSECONDS_PER_MS,
        )

    def after(self, ms: int) -> int:
        """Return the clock's error after this time."""
        for _ in range(100):
            self.steady += ms // 100
            self.clock.now_ms()
        return self.clock.now_ms() - 1_700_000_000_000 - self.steady


def test_m1_a_jump_that_is_taken_back_leaves_nothing() -> None:
    machine = Machine()
    assert machine.after(10_000) == 0
    machine.wrong = 3_600_000
    assert machine.after(15_000) == 0
    machine.wrong = 0
    assert machine.after(10_000) == 0
    machine.wrong = -3_600_000
    assert machine.after(15_000) == 0


def test_a_jump_that_stays_is_believed() -> None:
    machine = Machine()
    machine.wrong = 3_600_000
    assert machine.after(TRUST_MS - 1_000) == 0
    assert machine.after(2_000) == 3_600_000


def test_what_was_taken_back_does_not_count_for_the_next_jump() -> None:
    machine = Machine()
    for _ in range(3):
        machine.wrong = 3_600_000
        assert machine.after(TRUST_MS - 1_000) == 0
        machine.wrong = 0
        assert machine.after(2_000) == 0


def test_a_clock_that_is_turned_back_for_good_stops_the_node_instead_of_the_time() -> None:
    machine = Machine()
    machine.wrong = -3_600_000
    machine.after(TRUST_MS - 1_000)
    with raises_code(NodeError, "clock_turned_back"):
        machine.after(2_000)


def test_small_corrections_are_followed_and_time_never_goes_back() -> None:
    machine = Machine()
    machine.wrong = JUMP_MS - 1
    assert machine.after(1_000) == JUMP_MS - 1
    before = machine.clock.now_ms()
    machine.wrong = 0
    assert machine.clock.now_ms() >= before
    assert machine.after(5_000) == 0
