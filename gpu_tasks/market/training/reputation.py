"""A provider's settled and failed value in grains, and the probability of failure that a task derives from it.

Invariants: trust is value, so small jobs buy no trust for large ones. A failure counts five times. Old value fades.

No rule prevents a provider that pays itself under names of its own. It pays the settlement fee on each payment. The
tests state the cost of trust gained that way.
"""

from dataclasses import replace

from runtime.encoding.codec import U32, struct
from runtime.encoding.types import Balance

PPM = 1_000_000
DECAY_SHIFT = 4
"""In an era a sixteenth fades. Half fades in eleven eras."""
PRIOR_TIMES = 5
"""The weight of the prior, in losses of the task: a provider without a record counts as failing one task in this many.
"""
FAILURE_TIMES = 5


@struct
class TrackRecord:
    """The counted value of a provider's work as of an era, in grains."""

    settled: Balance = 0
    failed: Balance = 0
    """Five times the value of its failures."""
    era: U32 = 0


def failure_ppm(record: TrackRecord, loss_grains: int) -> int:
    """Return the expected probability of failure of a task with this loss, in millionths, rounded up.

    (failed + L) / (settled + failed + 5 L): a fifth without a record, for any size of task; 0 if L is 0.
    """
    # Without a record, the fraction would be 0 / 0.
    if loss_grains == 0:
        return 0
    return -(
        -PPM
        # The task's own loss is added, or a provider without any record would beat one with years of work.
        * (record.failed + loss_grains)
        // (record.settled + record.failed + PRIOR_TIMES * loss_grains)
    )


def record_at(record: TrackRecord, current_era: int) -> TrackRecord:
    """Return a record, decayed to a later era."""
    eras_passed = current_era - record.era
    return TrackRecord(decayed(record.settled, eras_passed), decayed(record.failed, eras_passed), current_era)


def record_after_settling(record: TrackRecord, paid_grains: int, current_era: int) -> TrackRecord:
    """Return a record after a customer has paid for a result."""
    record = record_at(record, current_era)
    return replace(record, settled=record.settled + paid_grains)


def record_after_failing(record: TrackRecord, unpaid_grains: int, current_era: int) -> TrackRecord:
    """Return a record after a failure. `unpaid_grains` is the unearned part of the price: all of it for a lie."""
    # The decay comes first: a failure of today counts in full.
    record = record_at(record, current_era)
    return replace(record, failed=record.failed + FAILURE_TIMES * unpaid_grains)


def decayed(grains: int, eras_passed: int) -> int:
    """Return a value after some eras. Each subtracts a sixteenth, rounded down, so the last 15 grains stay."""
    assert eras_passed >= 0, "eras only grow"
    for _ in range(eras_passed):
        fading = grains >> DECAY_SHIFT
        # Some 700 eras reduce any amount to 15 grains, so the loop is bounded for any gap of eras.
        if not fading:
            break
        grains -= fading
    return grains
