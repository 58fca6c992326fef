"""The named numbers of consensus, and the rules between them.

Invariant: every `Parameters` that exists satisfies its rules. Times are whole milliseconds, heights and epochs count
blocks, weights are stake in grains.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from math import comb
from typing import NamedTuple

FULL_POLL_VALIDATORS_MAX = 25
ACTIVE_VALIDATORS_MAX = 128
SAMPLE_UNITS_MIN = 3
"""A smaller sample has a majority only if all its units agree."""
SAMPLE_UNITS_MAX = 256
CHANCE_BITS = 20
"""An evenly split network passes each condition of a small sample with a chance of at most 2^-20."""


class Condition(NamedTuple):
    """Acceptance after `beta` successive polls with at least `alpha` votes for one choice."""

    alpha: int
    beta: int


class Thresholds(NamedTuple):
    """The thresholds of a poll: `preference` votes move the preference, and each condition can accept."""

    preference: int
    conditions: tuple[Condition, ...]

    @property
    def alpha_min(self) -> int:
        """The fewest votes that raise some confidence."""
        return self.conditions[0].alpha

    @property
    def alpha_max(self) -> int:
        """The number of votes above which more votes change nothing."""
        return self.conditions[-1].alpha


# Conditions for 20 sampled units, derived from one bound on the error: clearer polls, fewer of them.
SAMPLED_THRESHOLDS_20 = Thresholds(
    13,
    (
        Condition(15, 40), Condition(16, 24), Condition(17, 15),
        Condition(18, 10), Condition(19, 7), Condition(20, 5),
    ),
)  # fmt: skip


def full_poll_thresholds(total_stake: int) -> Thresholds:
    """Return thresholds as fractions of the whole stake: > 1/2 to prefer, >= 3/4 or all to accept."""
    three_quarters = -(-3 * total_stake // 4)
    conditions = (Condition(three_quarters, 4), Condition(total_stake, 2))
    # With a tiny stake three quarters round up to all of it. The stricter condition of four polls would then never
    # count.
    return Thresholds(total_stake // 2 + 1, conditions if three_quarters < total_stake else conditions[1:])


def sampled_thresholds(units: int) -> Thresholds:
    """Return the thresholds of a poll of `units` sampled units: those of a full poll, with more polls in a row."""
    if units == 20:
        return SAMPLED_THRESHOLDS_20
    full_thresholds = full_poll_thresholds(units)
    conditions = (
        Condition(alpha, max(beta, polls_in_a_row(units, alpha))) for alpha, beta in full_thresholds.conditions
    )
    return Thresholds(full_thresholds.preference, tuple(conditions))


def polls_in_a_row(units: int, alpha: int) -> int:
    """Return the fewest polls in a row that chance passes with a probability of at most 2^-20.

    A large full poll needs 2, a small sample many more. The model splits the network in halves and draws `units` voters
    for each poll. A poll passes if one given half has `alpha` or more of them.
    """
    passing_draws = sum(comb(units, agreeing_votes) for agreeing_votes in range(alpha, units + 1))
    poll_count = 1
    while passing_draws**poll_count << CHANCE_BITS > 1 << units * poll_count:
        poll_count += 1
    return poll_count


@dataclass(frozen=True, slots=True)
class Parameters:
    """The numbers of one network: the defaults serve devnets, `MAINNET` below is the draft for a public network."""

    slot_ms: int = 1_000
    heartbeat_slots: int = 1
    epoch_blocks: int = 60
    skew_ms: int = 500
    processing_max: int = 10
    final_lag_max: int = 200
    headers_per_slot_max: int = 3
    # Snowflake
    sample_units: int = 20
    force_sampling: bool = False
    polls_max: int = 2
    poll_interval_ms: int = 30
    poll_idle_interval_ms: int = 480
    poll_soft_ms: int = 200
    poll_timeout_ms: int = 1_000
    poll_failures_max: int = 3
    queries_per_second_max: int = 50
    # Simplex
    round_timeout_ms: int = 2_000
    timeout_doublings_max: int = 2
    soft_wait_ms: int = 1_500
    override_skips: int = 4
    resend_ms: int = 500
    rounds_ahead_max: int = 64
    # The most messages without effect, per second and peer: repeats after a storm, and votes that several neighbours
    # forward.
    useless_per_second_max: int = 256
    useless_per_member_max: int = 16
    need_certs_ms: int = 100
    # Missing blocks
    fetch_grace_ms: int = 40
    fetch_retry_ms: int = 500
    fetches_by_voters_max: int = 64
    fetches_by_strangers_max: int = 32
    fetches_per_peer_max: int = 8
    fetch_attempts_max: int = 6
    # Epochs whose boundary certificate a machine keeps for peers that are behind.
    boundaries_kept: int = 64

    def __post_init__(self) -> None:
        """Raise ValueError if the numbers break a rule."""
        broken_rules = tuple(self.broken_rules())
        if broken_rules:
            raise ValueError("; ".join(broken_rules))

    def broken_rules(self) -> Iterator[str]:
        """Yield each broken rule with its reason."""
        rules = (
            (self.skew_ms < self.slot_ms, "skew_ms < slot_ms: clocks agree within a slot"),
            (self.heartbeat_slots >= 1, "heartbeat_slots >= 1: at most one heartbeat in a slot"),
            (
                self.epoch_blocks >= 3,
                "epoch_blocks >= 3: two thirds of an epoch make the seed, and the last third settles it",
            ),
            (
                self.processing_max < self.final_lag_max,
                "processing_max < final_lag_max: finality may lag by more blocks than the polls decide at once",
            ),
            (self.polls_max >= 1, "polls_max >= 1: a node needs at least one open poll"),
            (
                self.poll_interval_ms <= self.poll_soft_ms <= self.poll_timeout_ms,
                "poll_interval_ms <= poll_soft_ms <= poll_timeout_ms: the order of a poll's timers",
            ),
            (
                self.poll_interval_ms <= self.poll_idle_interval_ms,
                "poll_interval_ms <= poll_idle_interval_ms: idle polls are no more frequent than others",
            ),
            (
                self.soft_wait_ms < self.round_timeout_ms,
                "soft_wait_ms < round_timeout_ms: a node votes for its preference before it skips",
            ),
            (
                self.resend_ms <= self.round_timeout_ms,
                "resend_ms <= round_timeout_ms: a node repeats lost votes before it skips the round",
            ),
            (self.override_skips >= 1, "override_skips >= 1: a node respects its own acceptance at least once"),
            (
                self.fetches_per_peer_max < min(self.fetches_by_voters_max, self.fetches_by_strangers_max),
                "fetches_per_peer_max < fetches_by_voters_max and fetches_by_strangers_max: room for others",
            ),
            (
                SAMPLE_UNITS_MIN <= self.sample_units <= SAMPLE_UNITS_MAX,
                f"{SAMPLE_UNITS_MIN} <= sample_units <= {SAMPLE_UNITS_MAX}: the bounds of a sample",
            ),
        )
        yield from (rule for is_kept, rule in rules if not is_kept)
        yield from (
            f"{field.name} >= 0: no number is negative" for field in fields(self) if getattr(self, field.name) < 0
        )

    def epoch_of(self, height: int) -> int:
        """Return the epoch of a block: blocks 1 to `epoch_blocks` are epoch 0, and so on."""
        return (height - 1) // self.epoch_blocks if height > 0 else 0

    def boundary(self, epoch: int) -> int:
        """Return the height of the last block of an epoch."""
        return (epoch + 1) * self.epoch_blocks

    def is_boundary(self, height: int) -> bool:
        """Return True if the block at this height is the last of its epoch."""
        return height > 0 and height % self.epoch_blocks == 0

    def settled_height(self, epoch_number: int) -> int:
        """Return the height that must be final before an epoch's first block: two thirds into the previous epoch.

        The seed is made of those two thirds. Return 0 for the first epoch.
        """
        if epoch_number == 0:
            return 0
        return self.boundary(epoch_number - 2) + 2 * self.epoch_blocks // 3

    def referenced_min(self, height: int) -> int:
        """Return the lowest final height that a block at `height` must reference, itself or through an ancestor."""
        epoch_number = self.epoch_of(height)
        # A reference cannot pass a boundary (`reference_max`). If a boundary block still owed the previous boundary,
        # the next epoch's first block would have to reference two boundaries, which is impossible.
        named_boundary = self.boundary(epoch_number - 1) if self.is_boundary(height) else 0
        return max(height - self.final_lag_max, self.settled_height(epoch_number), named_boundary)

    def reference_max(self, referenced: int) -> int:
        """Return the greatest final height that a header may name if its ancestry named `referenced`.

        No reference passes over a boundary, so that the headers alone carry every handoff from set to set.
        """
        return self.boundary(self.epoch_of(referenced + 1))

    def useless_most(self, member_count: int) -> int:
        """Return the most messages without effect that an honest peer sends in a second."""
        return self.useless_per_second_max + self.useless_per_member_max * member_count

    def round_timeout(self, skips: int) -> int:
        """Return the timeout in ms of a round after `skips` skipped ones: it doubles, up to a low cap."""
        # Without a cap, rounds stalled for minutes after a partition had healed.
        return self.round_timeout_ms << min(skips, self.timeout_doublings_max)


DEVNET = Parameters()
DEVNET_FAST = replace(DEVNET, epoch_blocks=10)
"""A chain on which people watch sets change while they wait, like Polkadot's fast-runtime."""
MAINNET = Parameters(
    slot_ms=2_000, heartbeat_slots=10, epoch_blocks=1_800, final_lag_max=1_800,
    poll_interval_ms=100, poll_idle_interval_ms=1_600, poll_soft_ms=500, poll_timeout_ms=2_000,
    round_timeout_ms=4_000, timeout_doublings_max=3, soft_wait_ms=3_000, resend_ms=1_000,
)  # fmt: skip
