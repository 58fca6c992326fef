"""Who wins a task, at which price, and why everybody else does not: a sealed auction, recomputed by whoever likes.

A bid's score is what it would cost the customer: the price, the value of the time it takes, and the loss to be expected
beyond what its collateral makes good. The lowest scores win. A slot costs the customer the *clearing score* whoever has
it: each winner is paid what its own time and risk leave of that, at most the customer's greatest price.

* One slot: the clearing score is that of the runner-up.
* A gang of k: the lowest k win together or nobody does, and the clearing score is the (k+1)-th.
* A gang of one class: each class fills its slots at the score of its k-th bid. The class that does so at the lowest
  wins, and the clearing score is the (k+1)-th of the class or the k-th of the next class, whichever is lower.
* Where nobody is left to set it, winners are paid the greatest price.

Always: the order of bids changes nothing; who bids less never loses by it and is paid no more for it; for whoever has
one slot no bid is better than its true cost, and no losing bid under a second name helps; a winner is paid at least its
bid. What is not prevented: who owns several slots of a gang may gain by bidding more for some of them; who has no rival
is paid the greatest price, whatever it bids; all bidders together can agree.

Among equal scores the beacon decides: the salts of the bids would be chosen by whoever reveals last.
"""

from collections.abc import Iterable, Sequence
from enum import IntEnum

from gpu_tasks.market.training.reputation import PPM, failure_ppm
from gpu_tasks.market.training.terms import Bid, TaskTerms, covered
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import named
from runtime.encoding.marks import record

BIDS_MAX = 128
"""A task has no more bids; whoever fills the places locks a bond for each."""


@named("ogpu::BidFate")
class BidFate(IntEnum):
    """What became of a bid."""

    WON = 0
    STANDBY = 1
    OUTBID = 2
    """The scores of the winners are lower."""
    OTHER_CLASS = 3
    """A gang of one class: another class fills its slots at a lower score."""
    TOO_FEW = 4
    """Fewer bids than the gang has slots, of its class where the gang is of one class."""
    PRICE = 5
    """Not between one grain and the greatest price."""
    TIME = 6
    """Not between one block and the most that the task allows."""
    COLLATERAL = 7
    """Less than the task asks for."""


@record
class Score:
    """What a bid would cost the customer, in grains, and of what."""

    price: int
    time: int
    """The value of the blocks that it promises to take."""
    risk: int
    """The loss to be expected that its collateral does not cover."""

    @property
    def total(self) -> int:
        """The lower, the better."""
        return self.price + self.time + self.risk


@record
class Placed:
    """A bid with its score and its fate."""

    bid: Bid
    score: Score
    fate: BidFate
    pay: int = 0
    """What the slot earns: a winner's, or the standby's if it takes over the whole task."""
    behind: int = 0
    """How many grains lower its score had to be to tie with the last winner; 0 where there is none."""


@record
class Selection:
    """The outcome of an auction: every bid, winners first, then by score, then those that could not win."""

    places: tuple[Placed, ...]
    clearing: int | None
    """What a slot costs the customer by price, time and risk; None: nobody was left to set it."""

    @property
    def winners(self) -> tuple[Placed, ...]:
        """Who has the slots; none, or as many as the task has."""
        return tuple(placed for placed in self.places if placed.fate is BidFate.WON)

    @property
    def standby(self) -> Placed | None:
        """Who takes over if a winner does not start or dies."""
        return next((placed for placed in self.places if placed.fate is BidFate.STANDBY), None)


@record
class _Entry:
    """A bid that could win, and its place in the order."""

    bid: Bid
    score: Score
    key: tuple[int, bytes, bytes]


def select(terms: TaskTerms, bids: Sequence[Bid], seed: bytes) -> Selection:
    """Award a task. `seed` comes from the beacon, which nobody knew when the last bid was committed to."""
    assert len(bids) <= BIDS_MAX, "a task takes no more bids"
    assert len({(bid.provider, bid.device) for bid in bids}) == len(bids), "a device is bid once"
    ordered, refused = _ordered(terms, bids, seed)
    fields = _fields(terms, ordered)
    able = [field for field in fields if len(field) >= terms.slots]
    if not able:
        unplaced = (Placed(entry.bid, entry.score, BidFate.TOO_FEW) for entry in ordered)
        return Selection((*unplaced, *refused), None)
    chosen = min(able, key=lambda field: field[terms.slots - 1].key)
    clearing = _clearing(terms, chosen, [field for field in able if field is not chosen])
    placed = [*_places(terms, chosen, clearing), *_elsewhere(terms, chosen, fields)]
    placed.sort(key=lambda place: (place.fate is not BidFate.WON, place.score.total))
    return Selection((*placed, *refused), clearing)


def score(terms: TaskTerms, bid: Bid) -> Score:
    """Price, value of the promised time, uncovered risk; every rounding is against the bidder."""
    uncovered = max(0, terms.loss - covered(terms.price_max, bid.collateral))
    risk = -(-failure_ppm(bid.record, terms.loss) * uncovered // PPM)
    return Score(bid.price, terms.time_value * bid.blocks, risk)


def refusal(terms: TaskTerms, bid: Bid) -> BidFate | None:
    """Why a bid cannot win whatever the others are; None: it can."""
    if not 0 < bid.price <= terms.price_max:
        return BidFate.PRICE
    if not 0 < bid.blocks <= terms.blocks_max:
        return BidFate.TIME
    if bid.collateral < terms.collateral_min:
        return BidFate.COLLATERAL
    return None


def tie(seed: bytes, provider: bytes) -> bytes:
    """Among equal scores the lowest comes first; among the devices of a provider, the lowest device."""
    return blake2_256(b"ogpu/bid tie" + seed + provider)


def _ordered(terms: TaskTerms, bids: Iterable[Bid], seed: bytes) -> tuple[list[_Entry], list[Placed]]:
    """Who can win, the lowest score first; and who cannot, by name."""
    entries, refused = [], []
    for bid in bids:
        scored = score(terms, bid)
        fate = refusal(terms, bid)
        if fate is None:
            entries.append(_Entry(bid, scored, (scored.total, tie(seed, bid.provider), bid.device)))
        else:
            refused.append(Placed(bid, scored, fate))
    entries.sort(key=lambda entry: entry.key)
    refused.sort(key=lambda place: (place.bid.provider, place.bid.device))
    return entries, refused


def _fields(terms: TaskTerms, ordered: list[_Entry]) -> list[list[_Entry]]:
    """Who competes with whom for the slots: all with all, or those of a class."""
    if not terms.is_homogeneous or terms.slots == 1:
        return [ordered]
    classes: dict[int, list[_Entry]] = {}
    for entry in ordered:
        classes.setdefault(entry.bid.device_class, []).append(entry)
    return list(classes.values())


def _clearing(terms: TaskTerms, chosen: list[_Entry], rivals: list[list[_Entry]]) -> int | None:
    """The score at which the last rival drops out: of the field itself, or another field that could fill the slots."""
    last_scores = [entry.score.total for entry in chosen[terms.slots : terms.slots + 1]]
    last_scores += [field[terms.slots - 1].score.total for field in rivals]
    return min(last_scores, default=None)


def _pay(terms: TaskTerms, entry: _Entry, clearing: int | None) -> int:
    """What time and risk of a bid leave of the clearing score, at most the greatest price."""
    if clearing is None:
        return terms.price_max
    pay = min(terms.price_max, clearing - entry.score.time - entry.score.risk)
    assert pay >= entry.bid.price, "who wins has no higher score than the one it is paid by"
    return pay


def _places(terms: TaskTerms, field: list[_Entry], clearing: int | None) -> list[Placed]:
    """The fates of a field that fills the slots."""
    winners, others = field[: terms.slots], field[terms.slots :]
    last = winners[-1].score.total
    places = [Placed(entry.bid, entry.score, BidFate.WON, _pay(terms, entry, clearing)) for entry in winners]
    standby = _standby_place(winners, others)
    for place, entry in enumerate(others):
        behind = entry.score.total - last
        if place == standby:
            next_score = next((after.score.total for after in others[place + 1 :]), None)
            pay = _pay(terms, entry, next_score)
            places.append(Placed(entry.bid, entry.score, BidFate.STANDBY, pay, behind))
        else:
            places.append(Placed(entry.bid, entry.score, BidFate.OUTBID, behind=behind))
    return places


def _standby_place(winners: list[_Entry], others: list[_Entry]) -> int | None:
    """The first of the others that is not a winner's as well: a machine that is gone stands by for nobody."""
    owners = [entry.bid.provider for entry in winners]
    return next((place for place, entry in enumerate(others) if entry.bid.provider not in owners), None)


def _elsewhere(terms: TaskTerms, chosen: list[_Entry], fields: list[list[_Entry]]) -> list[Placed]:
    """The fates of the classes that were not chosen."""
    last = chosen[terms.slots - 1].score.total
    places = []
    for field in fields:
        if field is not chosen:
            fate = BidFate.OTHER_CLASS if len(field) >= terms.slots else BidFate.TOO_FEW
            places += [Placed(entry.bid, entry.score, fate, behind=max(0, entry.score.total - last)) for entry in field]
    return places
