"""A provider's settled and failed value in grains, and the probability of failure that a task derives from it.

Invariants: trust is value, so small jobs buy no trust for large ones. A failure counts five times. Old value fades. No
customer counts for more than a tenth of all that a provider has settled, exact to one grain for each era and each kept
name.

The tenth needs no list of all customers. Twenty names are kept, each with its settled value. When a further customer
settles, the least of the 21 amounts is subtracted from each of them and added to `rest`. This is the algorithm of Misra
and Gries ("Finding repeated elements", 1982). So at most one part in 21 of `rest` belongs to any one customer. That
part is subtracted from the limit of each name. This costs a provider with only small customers at most an eighth of
their payments.

It prevents trust that depends on one customer, or a few. It does not prevent a provider with ten names of its own,
which pays the settlement fee on its payments to itself. The tests state the cost of trust gained that way.
"""

from dataclasses import replace
from typing import Annotated

from runtime.encoding.codec import U32, Bounded, struct
from runtime.encoding.types import AccountId, Balance

PPM = 1_000_000
DECAY_SHIFT = 4
"""In an era a sixteenth fades. Half fades in eleven eras."""
PRIOR_TIMES = 5
"""The weight of the prior, in losses of the task: a provider without a record counts as failing one task in this many.
"""
FAILURE_TIMES = 5
CUSTOMER_SHARE = 10
"""One customer counts for at most the settled total divided by this."""
PATRONS_MAX = 20
"""The number of customer names kept for a provider. Ten would suffice, but cost honest providers a fourth."""


@struct
class TrackRecord:
    """The counted value of a provider's work as of an era, in grains."""

    settled: Balance = 0
    failed: Balance = 0
    """Five times the value of its failures."""
    era: U32 = 0


@struct
class Patron:
    """A customer with its settled value, less the subtracted amounts."""

    customer: AccountId
    settled: Balance


@struct
class Patrons:
    """The customers behind a provider's settled value, as of an era."""

    known: Annotated[tuple[Patron, ...], Bounded(PATRONS_MAX)] = ()
    rest: Balance = 0
    """The value of all other customers. Each of them has at most one part in `PATRONS_MAX + 1`."""
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


def record_after_settling(
    record: TrackRecord, patrons: Patrons, *, customer: bytes, paid_grains: int, current_era: int
) -> tuple[TrackRecord, Patrons]:
    """Return record and patrons after a customer has paid for a result."""
    patrons = patrons_after(patrons_at(patrons, current_era), customer, paid_grains)
    return replace(record_at(record, current_era), settled=trusted(patrons)), patrons


def record_after_failing(record: TrackRecord, unpaid_grains: int, current_era: int) -> TrackRecord:
    """Return a record after a failure. `unpaid_grains` is the unearned part of the price: all of it for a lie."""
    # The decay comes first: a failure of today counts in full.
    record = record_at(record, current_era)
    return replace(record, failed=record.failed + FAILURE_TIMES * unpaid_grains)


def trusted(patrons: Patrons) -> int:
    """Return the counted part of the settled value: at most a tenth for each customer.

    A named customer may also own a part of `rest`, up to the largest one that any customer can have. That part is
    subtracted from the name's limit.
    """
    total_settled = patrons.rest + sum(patron.settled for patron in patrons.known)
    customer_limit = total_settled // CUSTOMER_SHARE - -(-patrons.rest // (PATRONS_MAX + 1))
    # Roundings can make the limit negative where all is a few grains.
    return patrons.rest + sum(min(patron.settled, max(customer_limit, 0)) for patron in patrons.known)


def patrons_at(patrons: Patrons, current_era: int) -> Patrons:
    """Return patrons, decayed to a later era."""
    eras_passed = current_era - patrons.era
    decayed_patrons = tuple(replace(patron, settled=decayed(patron.settled, eras_passed)) for patron in patrons.known)
    return Patrons(decayed_patrons, decayed(patrons.rest, eras_passed), current_era)


def patrons_after(patrons: Patrons, customer: bytes, paid_grains: int) -> Patrons:
    """Return patrons after a customer has paid in their era."""
    settled_by_customer = {patron.customer: patron.settled for patron in patrons.known}
    unnamed_value = patrons.rest
    if customer not in settled_by_customer and len(settled_by_customer) == PATRONS_MAX:
        # Misra and Gries: the newcomer and all twenty names give the same amount, so no customer has more of `rest`.
        subtracted = min(paid_grains, *settled_by_customer.values())
        unnamed_value += subtracted * (PATRONS_MAX + 1)
        paid_grains -= subtracted
        settled_by_customer = {
            name: value - subtracted for name, value in settled_by_customer.items() if value > subtracted
        }
    if paid_grains:
        settled_by_customer[customer] = settled_by_customer.get(customer, 0) + paid_grains
    return replace(patrons, known=tuple(Patron(*entry) for entry in settled_by_customer.items()), rest=unnamed_value)


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
