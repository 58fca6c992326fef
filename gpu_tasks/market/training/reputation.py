"""What a provider has settled and failed, counted in grains, and how probable a task holds its failure to be.

Always: trust is value, so small jobs buy none for large ones; a failure counts five times; what is old fades; no
customer counts for more than a tenth of all that a provider has settled, to a grain for each era and each name kept.

The tenth needs no list of all customers. Twenty names are kept, each with what it settled. What a further one settles
is struck off from all of them and from its own alike, and goes into `rest` (Misra and Gries, "Finding repeated
elements", 1982): so of `rest` at most one part in 21 is any customer's. That part is taken off what a name may count
for, which costs a provider whose customers are all small an eighth of what they paid, at most.

What this prevents: trust that hangs on one customer, or a few. What it does not: a provider with ten names of its own,
who pays the settlement fee on all that it pays itself; the tests say what trust costs that way.
"""

from dataclasses import replace
from typing import Annotated

from runtime.encoding.codec import U32, Bounded, struct
from runtime.encoding.types import AccountId, Balance

PPM = 1_000_000
DECAY_SHIFT = 4
"""In an era a sixteenth fades; half of it in eleven eras."""
PRIOR_TIMES = 5
"""Who has no record fails one task in so many: the record's weight begins with so many losses of the task itself."""
FAILURE_TIMES = 5
CUSTOMER_SHARE = 10
"""A customer counts for at most one part in so many of all that was settled."""
PATRONS_MAX = 20
"""Names that are kept of a provider's customers; ten would do, and cost honest providers a fourth."""


@struct
class TrackRecord:
    """What counts of a provider's work as of an era, in grains."""

    settled: Balance = 0
    failed: Balance = 0
    """Five times what its failures were worth."""
    era: U32 = 0


@struct
class Patron:
    """A customer with what it had settled, less what was struck off."""

    customer: AccountId
    settled: Balance


@struct
class Patrons:
    """From whom a provider's settled value comes, as of an era."""

    known: Annotated[tuple[Patron, ...], Bounded(PATRONS_MAX)] = ()
    rest: Balance = 0
    """From so many customers that at most one part in `PATRONS_MAX + 1` is any one's."""
    era: U32 = 0


def failure_ppm(record: TrackRecord, loss: int) -> int:
    """How probable a failure of a task with this loss is held to be, in millionths, rounded up.

    (failed + L) / (settled + failed + 5 L): a fifth without a record, however large the task; 0 where nothing is lost.
    """
    if loss == 0:
        return 0
    return -(-PPM * (record.failed + loss) // (record.settled + record.failed + PRIOR_TIMES * loss))


def record_at(record: TrackRecord, era: int) -> TrackRecord:
    """A record as a later era sees it."""
    passed = era - record.era
    return TrackRecord(decayed(record.settled, passed), decayed(record.failed, passed), era)


def record_after_settling(
    record: TrackRecord, patrons: Patrons, *, customer: bytes, paid: int, era: int
) -> tuple[TrackRecord, Patrons]:
    """Record and patrons after a customer has paid for a result."""
    patrons = patrons_after(patrons_at(patrons, era), customer, paid)
    return replace(record_at(record, era), settled=trusted(patrons)), patrons


def record_after_failing(record: TrackRecord, unpaid: int, era: int) -> TrackRecord:
    """A record after a failure; `unpaid` is what of the price was not earned: all of it for a lie."""
    record = record_at(record, era)
    return replace(record, failed=record.failed + FAILURE_TIMES * unpaid)


def trusted(patrons: Patrons) -> int:
    """What counts of what was settled: all of it, but of each customer at most a tenth.

    Who has a name may stand behind a part of `rest` too, as large as anybody's: it is taken off what the name counts
    for.
    """
    total = patrons.rest + sum(patron.settled for patron in patrons.known)
    limit = total // CUSTOMER_SHARE - -(-patrons.rest // (PATRONS_MAX + 1))
    return patrons.rest + sum(min(patron.settled, max(limit, 0)) for patron in patrons.known)


def patrons_at(patrons: Patrons, era: int) -> Patrons:
    """Patrons as a later era sees them."""
    passed = era - patrons.era
    known = tuple(replace(patron, settled=decayed(patron.settled, passed)) for patron in patrons.known)
    return Patrons(known, decayed(patrons.rest, passed), era)


def patrons_after(patrons: Patrons, customer: bytes, paid: int) -> Patrons:
    """Patrons after a customer has paid; the era is theirs."""
    settled = {patron.customer: patron.settled for patron in patrons.known}
    rest = patrons.rest
    if customer not in settled and len(settled) == PATRONS_MAX:
        struck = min(paid, *settled.values())
        rest += struck * (PATRONS_MAX + 1)
        paid -= struck
        settled = {name: value - struck for name, value in settled.items() if value > struck}
    if paid:
        settled[customer] = settled.get(customer, 0) + paid
    return replace(patrons, known=tuple(Patron(*entry) for entry in settled.items()), rest=rest)


def decayed(value: int, eras: int) -> int:
    """A value after so many eras; each takes a sixteenth, rounded down, so the last 15 grains stay."""
    assert eras >= 0, "a record is never looked at before its era"
    for _ in range(eras):
        fading = value >> DECAY_SHIFT
        if not fading:  # some 700 eras make 15 grains of all there are
            break
        value -= fading
    return value
