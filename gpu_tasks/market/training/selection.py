"""The winners of a task, their prices, and the fate of every other bid: a sealed auction that any party can recompute.

A bid's score is its cost to the customer: the price, the value of the promised time, and the expected loss beyond its
collateral. The lowest scores win. The *clearing score* is the customer's cost of a slot, the same for every winner. A
winner is paid the clearing score less the parts of its own score for time and risk, at most the greatest price.

* One slot: the clearing score is that of the runner-up.
* A gang of k: the k lowest scores win together, or there is no award. The clearing score is the (k+1)-th.
* If no bid is left to set it, winners are paid the greatest price.

Invariants: the order of bids changes nothing. A lower bid never turns a winner into a loser and never raises its pay.
For a bidder with one slot, no bid is better than its true cost, and no losing bid under a second name helps. A winner
is paid at least its bid.

Not prevented: an owner of several slots of a gang may gain by a higher bid for some of them. A bidder without a rival
is paid the greatest price for any bid. All bidders together can collude.

The beacon breaks ties. The last bidder to reveal could choose its salt, so salts do not decide.
"""

from collections.abc import Iterable, Sequence
from enum import IntEnum

from gpu_tasks.market.training.reputation import PPM, failure_ppm
from gpu_tasks.market.training.terms import Bid, TaskTerms, covered
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import named
from runtime.encoding.marks import record

BIDS_MAX = 128
"""The most bids for a task. To fill the places costs a bond for each."""


@named("ogpu::BidFate")
class BidFate(IntEnum):
    """The fate of a bid."""

    WON = 0
    STANDBY = 1
    OUTBID = 2
    """The winners have lower scores."""
    TOO_FEW = 3
    """There are fewer bids than slots."""
    PRICE = 4
    """The price is not between one grain and the greatest price."""
    TIME = 5
    """The time is not between one block and the most that the task allows."""
    COLLATERAL = 6
    """The collateral is less than the task requires."""


@record
class Score:
    """The cost of a bid to the customer, in grains, by its three parts."""

    price: int
    time: int
    """The value of the promised blocks."""
    risk: int
    """The expected loss that the collateral does not cover."""

    @property
    def total(self) -> int:
        """The total score. The lowest wins."""
        return self.price + self.time + self.risk


@record
class Placed:
    """A bid with its score and its fate."""

    bid: Bid
    score: Score
    fate: BidFate
    pay: int = 0
    """The pay of the slot: a winner's, or that of the standby if it takes over the whole task."""
    behind: int = 0
    """The grains by which its score exceeds the last winner's, or 0 if there is none."""


@record
class Selection:
    """The outcome of an auction: every bid, winners first, then by score, then refused bids."""

    places: tuple[Placed, ...]
    clearing: int | None
    """The cost of a slot to the customer by price, time and risk, or None if no bid was left to set it."""

    @property
    def winners(self) -> tuple[Placed, ...]:
        """The bids that win slots: none, or as many as the task has."""
        return tuple(placed for placed in self.places if placed.fate is BidFate.WON)

    @property
    def standby(self) -> Placed | None:
        """The bid that takes over if a winner does not start or dies, or None."""
        return next((placed for placed in self.places if placed.fate is BidFate.STANDBY), None)


@record
class _Entry:
    """A bid that could win, and its sort key."""

    bid: Bid
    score: Score
    key: tuple[int, bytes, bytes]


def select(terms: TaskTerms, bids: Sequence[Bid], tie_seed: bytes) -> Selection:
    """Award a task. `tie_seed` comes from a beacon that was unknown when the last bid was committed."""
    assert len(bids) <= BIDS_MAX, "the number of bids is bounded"
    assert len({(bid.provider, bid.device) for bid in bids}) == len(bids), "each device has one bid"
    ordered, refused = _in_order(terms, bids, tie_seed)
    if len(ordered) < terms.slots:
        unplaced = (Placed(entry.bid, entry.score, BidFate.TOO_FEW) for entry in ordered)
        return Selection((*unplaced, *refused), None)
    # The first loser and not the last winner: paid by their own bids, bidders would shade their prices.
    clearing = min((entry.score.total for entry in ordered[terms.slots : terms.slots + 1]), default=None)
    return Selection((*_places(terms, ordered, clearing), *refused), clearing)


def score(terms: TaskTerms, bid: Bid) -> Score:
    """Return the score: price, value of the promised time, uncovered risk. Every rounding is against the bidder."""
    uncovered = max(0, terms.loss - covered(terms.price_max, bid.collateral))
    risk_grains = -(-failure_ppm(bid.record, terms.loss) * uncovered // PPM)
    return Score(bid.price, terms.time_value * bid.blocks, risk_grains)


def refusal(terms: TaskTerms, bid: Bid) -> BidFate | None:
    """Return the reason why a bid cannot win against any others, or None."""
    if not 0 < bid.price <= terms.price_max:
        return BidFate.PRICE
    if not 0 < bid.blocks <= terms.blocks_max:
        return BidFate.TIME
    if bid.collateral < terms.collateral_min:
        return BidFate.COLLATERAL
    return None


def tie(tie_seed: bytes, provider: bytes) -> bytes:
    """Return the key that orders equal scores, lowest first. A provider's own devices are ordered by device."""
    return blake2_256(b"ogpu/bid tie" + tie_seed + provider)


def _in_order(terms: TaskTerms, bids: Iterable[Bid], tie_seed: bytes) -> tuple[list[_Entry], list[Placed]]:
    """Return the bids that can win, lowest score first, and the refused ones, by provider and device."""
    entries, refused = [], []
    for bid in bids:
        bid_score = score(terms, bid)
        refusal_fate = refusal(terms, bid)
        if refusal_fate is None:
            # The beacon breaks ties: the last bidder to reveal could choose its salt.
            entries.append(_Entry(bid, bid_score, (bid_score.total, tie(tie_seed, bid.provider), bid.device)))
        else:
            refused.append(Placed(bid, bid_score, refusal_fate))
    entries.sort(key=lambda entry: entry.key)
    refused.sort(key=lambda placed: (placed.bid.provider, placed.bid.device))
    return entries, refused


def _pay(terms: TaskTerms, entry: _Entry, clearing: int | None) -> int:
    """Return the rest of the clearing score after a bid's time and risk, at most the greatest price."""
    # Without a rival, no score sets the price.
    if clearing is None:
        return terms.price_max
    slot_pay = min(terms.price_max, clearing - entry.score.time - entry.score.risk)
    assert slot_pay >= entry.bid.price, "a winner's score is at most the clearing score"
    return slot_pay


def _places(terms: TaskTerms, ordered: list[_Entry], clearing: int | None) -> list[Placed]:
    """Return the fates of all bids that can win."""
    winning, losing = ordered[: terms.slots], ordered[terms.slots :]
    last_winning_score = winning[-1].score.total
    placed = [Placed(entry.bid, entry.score, BidFate.WON, _pay(terms, entry, clearing)) for entry in winning]
    standby = _standby_index(winning, losing)
    for index, entry in enumerate(losing):
        grains_behind = entry.score.total - last_winning_score
        if index == standby:
            # The standby's price follows the winners' rule: the next score after its own sets it.
            next_score = next((later.score.total for later in losing[index + 1 :]), None)
            slot_pay = _pay(terms, entry, next_score)
            placed.append(Placed(entry.bid, entry.score, BidFate.STANDBY, slot_pay, grains_behind))
        else:
            placed.append(Placed(entry.bid, entry.score, BidFate.OUTBID, behind=grains_behind))
    return placed


def _standby_index(winning: list[_Entry], losing: list[_Entry]) -> int | None:
    """Return the index of the first loser that no winner owns: a failed machine cannot stand by for itself."""
    winning_owners = [entry.bid.provider for entry in winning]
    return next(
        (index for index, entry in enumerate(losing) if entry.bid.provider not in winning_owners),
        None,
    )
