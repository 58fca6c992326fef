"""The game of claims and checks: exact gains of dishonest behaviours, and a simulator that plays the rules.

Run as `make game`. It prints the tables of docs/adr/0027, and exits with 1 if a bar is missed, or if simulator and
formulas differ by over three standard errors.

Money is in prices of a unit, which are at stake: P = M = 1. Amounts and chances are fractions. A gain is a difference
to honest behaviour of the same coalition of customer, provider, checkers, voters and block authors.
"""

import argparse
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property, lru_cache, partial
from itertools import product
from math import comb
from statistics import fmean, stdev
from typing import NamedTuple

ONE, ZERO, HALF = Fraction(1), Fraction(0), Fraction(1, 2)
SECOND, MARKUP = Fraction(1, 4), Fraction(6, 5)
"""The chance s of a second check, and a check fee over the cost of the check."""
THIRD = Fraction(1, 3)
"""The coalition's share of the checking weight in the design, and its share of the block slots."""
SEATS, DRAWS_MAX, CONCESSION = 9, 5, 2
"""Seats of a committee; draws for a check before the committee computes; check fees that a concession costs."""
BAR = Fraction(1, 100)
RATES = (Fraction(1, 10), Fraction(1, 5), THIRD, HALF, ONE)
Pair = tuple[Fraction, Fraction]
"""The chance that a lie is found, and the bribes and friends' collateral that it costs."""
FREE, FOUND = (ZERO, ZERO), (ONE, ZERO)


@dataclass(frozen=True)
class Rules:
    """The rules that differ between the ADR (the defaults) and the first text (`AS_WRITTEN`).

    `splits_fetch`: a refuted `unavailable` costs provider and checker half each of the committee's fees and of one
    check fee. Otherwise the checker pays one check fee, and the pot the committee.
    """

    replacements: int = 2  # of a checker that is silent or concedes
    has_class_draws: bool = True  # second checkers and replacements come from the class, not from the service's devices
    splits_fetch: bool = True
    appeal_share: Fraction = Fraction(3, 5)  # more of the voted stake convicts, if it is half of all stake
    covers_committee: bool = True  # K is at least twice the committee's fees, so that K - F pays them
    has_weighed_premium: bool = True  # the expected cost over the claim's own weights, not a flat share of the price
    counts_lazy: bool = True  # q allows for lazy checkers, up to all that do not collude
    beacons: int = 16  # that share the rate of a draw
    choices: int = 2  # sets of beacons for a provider's choice of block: claims of 16 blocks share a set
    design_slots: Fraction = HALF  # the coalition's share of these beacons in the definition of q
    floor: Fraction = Fraction(8, 5)  # the least collateral


AS_WRITTEN = Rules(1, False, False, Fraction(2, 3), False, False, False, 4, 24, THIRD, ONE)


class Crowd(NamedTuple):
    """Shares of the checkers in a draw. The rest is honest.

    Buying checkers commit to the provider's fingerprint. Lazy ones guess, copy, keep silent or get no delivery.
    Bribable ones compute, and take a bribe that covers the finder's reward and their risk.
    """

    colluding: Fraction
    buying: Fraction
    lazy: Fraction
    bribable: Fraction

    @property
    def friends(self) -> Fraction:
        """The share that confirms a lie for nothing."""
        return self.colluding + self.buying


class Losses(NamedTuple):
    """Expected amounts: a found liar's, its confirming checker's, the finder's reward, and that of a concession."""

    liar: Fraction
    checker: Fraction
    finder: Fraction
    concession: Fraction


@dataclass(frozen=True)
class Game:
    """One claim with `items` items of equal weight, and the parties around it."""

    rate: Fraction  # the chance that an item is drawn
    items: int = 1
    work: Fraction = Fraction(9, 10)  # the provider's cost of computing the claim
    check: Fraction = Fraction(1, 10)  # the cost of checking the dearest item, and of fetching it with input and model
    colluding: Fraction = ZERO  # share of the class's checking weight, and of the voting stake
    buying: Fraction = ZERO
    lazy: Fraction = ZERO
    bribable: Fraction = ZERO
    turnout: Fraction = Fraction(9, 10)  # of the honest stake in an appeal
    error: Fraction = BAR  # the chance that a right accusation fails for other reasons: an outage, a lost item
    has_few_owners: bool = False  # under 20: the half of the first draws that falls on the service counts as colluding
    slots: tuple[Fraction, ...] = ()  # chances that a friend writes a beacon of the first draw, by default a third
    later_slots: Fraction = THIRD  # the chance for a beacon of the second draw
    rules: Rules = Rules()

    @property
    def fee(self) -> Fraction:
        """The fee of a check."""
        return MARKUP * self.check

    @property
    def committee(self) -> Fraction:
        """The fees of a committee, C, for a check or for trying to fetch an item."""
        return SEATS * self.fee

    @property
    def wage(self) -> Fraction:
        """An honest checker's earning."""
        return self.fee - self.check

    @property
    def authors(self) -> tuple[Fraction, ...]:
        """For each beacon of the first draw, the chance that a friend writes it."""
        return self.slots or (THIRD,) * self.rules.beacons

    @property
    def first(self) -> Crowd:
        """The checkers of first draws. With few owners, half of them may be devices of the provider."""
        part = HALF if self.has_few_owners else ONE
        return Crowd(1 - part + part * self.colluding, part * self.buying, part * self.lazy, part * self.bribable)

    @property
    def later(self) -> Crowd:
        """The checkers of second checks and replacements."""
        if self.has_few_owners and not self.rules.has_class_draws:
            return self.first
        return Crowd(self.colluding, self.buying, self.lazy, self.bribable)

    @property
    def failures_max(self) -> int:
        """Silent or conceding checkers of a check that are replaced. After the next one the committee computes."""
        return (DRAWS_MAX - 1) // self.rules.replacements

    @cached_property
    def q(self) -> Fraction:
        """The least, over all lies, of (chance of conviction) / (share of the price falsely paid).

        A third of the class colludes, and the coalition writes `design_slots` of the drawing beacons. Lazy checkers are
        0, 1/3 or 2/3 of the class, whichever helps the liar. A liar can make all strangers lazy: it serves friends and
        the committee alone, so that strangers report `unavailable` in vain.

        For n items of equal weight the chance is concave in the number of lies m, so m = n is the worst. With unequal
        weights an item with share x is drawn with chance min(1, rate n x). If one item has nearly all weight, the claim
        is one item with the rate min(1, rate n). The logarithm of the chance to pass is concave in the chances of the
        draws, so these two are the extremes.
        """
        least = ONE
        for rate, items in ((self.rate, self.items), (min(ONE, self.rate * self.items), 1)):
            for lazy in (ZERO, THIRD, 2 * THIRD) if self.rules.counts_lazy else (ZERO,):
                slots = (self.rules.design_slots,) * self.rules.beacons
                worst = Game(rate, items, colluding=THIRD, lazy=lazy, has_few_owners=self.has_few_owners)
                worst = replace(worst, slots=slots, later_slots=self.rules.design_slots, rules=self.rules)
                least = min(least, chance_found(worst, items) * (1 - self.error))
        return least

    @cached_property
    def collateral(self) -> Fraction:
        """K = Kc = max(8/5 M, M (1 - q) / q, 2 C).

        A lie about a share x of the price gains at most x M with chance 1 - q x, and loses K with chance q x:
        x M - q x (M + K) <= 0 if K >= M (1 - q) / q. The convicted party's K pays the finder K/2 and the committee C,
        so nothing comes from the pot if K >= 2 C. If nobody colludes and every checker takes a bribe of F = K/2, a lie
        at the rate r costs r (1 + s) K/2. That is at least M if K >= 8/5 M / r, which the second term exceeds for
        r <= 1/2.
        """
        cover = 2 * self.committee if self.rules.covers_committee else ZERO
        return max(self.rules.floor, (1 - self.q) / self.q, cover)

    @property
    def finder(self) -> Fraction:
        """The finder's reward, F = K / 2."""
        return self.collateral / 2

    @property
    def can_convict(self) -> bool:
        """True if the honest voters of an appeal convict against the coalition.

        With turnout t and colluding share c they hold t (1 - c) of all stake, and must hold half of it: t >= 3/4 at
        c = 1/3. At t = 3/4 they hold 1/2 of the voted 5/6, which is 3/5. So 3/5 is the largest share of the voted stake
        that never asks for more than the rule of half of all stake.
        """
        honest = self.turnout * (1 - self.colluding)
        return honest > self.rules.appeal_share * (honest + self.colluding) and honest >= HALF

    @cached_property
    def losses(self) -> Losses:
        """The amounts that a liar weighs. If an appeal convicts nobody, P is refunded and nobody loses collateral."""
        if not self.can_convict:
            return Losses(ONE, ZERO, ZERO, CONCESSION * self.fee)
        holds = 1 - self.error
        return Losses(holds * (1 + self.collateral), holds * self.collateral, self.finder, CONCESSION * self.fee)

    @property
    def premium(self) -> Fraction:
        """The premium of a claim: rate (1 + s) fees for each item.

        Replacements pay for themselves. A silent checker leaves its fee and forfeits another: two checks. A conceding
        one pays two fees, one of them to the provider: the other one and its own unpaid fee are two checks again.
        """
        return self.rate * self.items * (1 + SECOND) * self.fee


def hazards(rate: Fraction, beacons: int) -> list[Fraction]:
    """Return the chance of a draw at each beacon, given none before: an equal part of all draws falls on each.

    With a quarter of the rate at each of four beacons independently, a rate of 1 would draw only 1 - (3/4)^4 = 68 %.
    """
    share = rate / beacons
    return [share / (1 - number * share) for number in range(beacons)]


def weighted(parts: Iterable[tuple[Fraction, Pair]]) -> Pair:
    """Return the weighted sum of pairs."""
    terms = [(share * pair[0], share * pair[1]) for share, pair in parts if share]
    return sum((found for found, _ in terms), ZERO), sum((paid for _, paid in terms), ZERO)


def spread(rate: Fraction, authors: Sequence[Fraction], friends: Fraction, drawn: Pair, kept: Pair) -> Pair:
    """Return the pair of a draw at several beacons: `drawn` after the draw of a checker, `kept` its part with friends.

    An author in the coalition withholds its block once if the draw falls on a stranger.
    """
    value = FREE
    for hazard, own in reversed(list(zip(hazards(rate, len(authors)), authors, strict=True))):
        missed = (1 - hazard, value)
        fresh, best = weighted(((hazard, drawn), missed)), weighted(((hazard, kept), missed))
        value = weighted(((1 - own * (1 - hazard * (1 - friends)), fresh), (own, best)))
    return value


@dataclass(frozen=True)
class Check:
    """The fate of a drawn false item: its checkers, their replacements, and a second check after each pass."""

    game: Game
    losses: Losses
    second: Pair

    def outcome(self, crowd: Crowd, pending: int, failures: int) -> Pair:
        """Return the pair of an item for which `pending` checkers must pass and `failures` may be replaced."""
        if pending == 0:
            return FREE
        failed = self.failed(pending, failures) if crowd.lazy else FOUND
        bribed = self.bribed(pending, failures)[1] if crowd.bribable else FOUND
        honest = 1 - crowd.friends - crowd.lazy - crowd.bribable
        others = ((crowd.lazy, failed), (crowd.bribable, bribed), (honest, FOUND))
        return weighted((*others, (ONE, self.kept(crowd, pending, failures))))

    def kept(self, crowd: Crowd, pending: int, failures: int) -> Pair:
        """Return the part of the outcome in which a friend is drawn."""
        at_risk = (ZERO, self.second[0] * self.losses.checker)
        return weighted(((crowd.friends, self.passed(pending, failures)), (crowd.colluding, at_risk)))

    def passed(self, pending: int, failures: int) -> Pair:
        """Return the pair after a pass: the second check first, then the other pending checkers."""
        rest = self.outcome(self.game.later, pending - 1, failures)
        return weighted(((ONE, self.second), (1 - self.second[0], rest)))

    def failed(self, pending: int, failures: int) -> Pair:
        """Return the pair after a silent or conceding checker. If none may be replaced, the committee finds the lie."""
        if not failures:
            return FOUND
        return self.outcome(self.game.later, pending - 1 + self.game.rules.replacements, failures - 1)

    def bribed(self, pending: int, failures: int) -> tuple[str, Pair]:
        """Return the cheapest use of a bribable checker: honest, a paid confirmation, or a paid silence."""
        (found, paid), failed, losses = self.passed(pending, failures), self.failed(pending, failures), self.losses
        options = (
            ("find", FOUND),
            ("confirm", (found, paid + losses.finder + self.second[0] * losses.checker)),
            ("fail", (failed[0], failed[1] + losses.finder + losses.concession)),
        )
        return min(options, key=lambda option: option[1][0] * losses.liar + option[1][1])


def first_check(game: Game, losses: Losses) -> Check:
    """Return the check of a drawn item, with its second check."""
    last = Check(game, losses, FREE).outcome(game.later, 1, game.failures_max)
    return Check(game, losses, spread(SECOND, (game.later_slots,) * game.rules.beacons, game.later.friends, last, FREE))


def drawn_item(game: Game) -> tuple[Pair, Pair]:
    """Return the pair of a drawn false item, and the part of it in which a friend is drawn."""
    check, failures = first_check(game, game.losses), game.failures_max
    return check.outcome(game.first, 1, failures), check.kept(game.first, 1, failures)


@lru_cache(maxsize=4096)
def chance_found(game: Game, lies: int) -> Fraction:
    """Return the chance that any of `lies` false items of equal weight is found, without bribes.

    W(j, k) is the chance that k undrawn false items pass the beacons from j on. A fresh beacon draws D of them. All
    pass with chance (1 - found)^D, and meet friends alone with chance (friends (1 - second))^D. The coalition's author
    keeps the second case, and throws once more in all others.
    """
    crowd, check = game.first, first_check(game, Losses(ZERO, ZERO, ZERO, ZERO))
    passes = 1 - check.outcome(crowd, 1, game.failures_max)[0]
    friendly = crowd.friends * (1 - check.second[0])
    later = [ONE] * (lies + 1)
    for hazard, own in reversed(list(zip(hazards(game.rate, len(game.authors)), game.authors, strict=True))):
        now = []
        for left in range(lies + 1):
            draws = range(left + 1)
            terms = [comb(left, d) * hazard**d * (1 - hazard) ** (left - d) * later[left - d] for d in draws]
            fresh = sum((term * passes**d for d, term in enumerate(terms)), ZERO)
            kept = sum((term * friendly**d for d, term in enumerate(terms)), ZERO)
            strange = 1 - (1 - hazard * (1 - crowd.friends)) ** left
            now.append((1 - own) * fresh + own * (kept + strange * fresh))
        later = now
    return 1 - later[lies]


# Gains over honest behaviour: per unit of a provider or customer, per duty of a checker, voter or disputer


def lies(game: Game) -> Fraction:
    """Lie in the best share of the items. Bribes and friends' collateral count for single items only."""
    if game.items == 1:
        found, paid = spread(game.rate, game.authors, game.first.friends, *drawn_item(game))
        return game.work - found * game.losses.liar - paid
    counts = range(1, game.items + 1)
    return max(game.work * count / game.items - chance_found(game, count) * game.losses.liar for count in counts)


def bribes(game: Game) -> Fraction:
    """Lie, and bribe each drawn checker. Nobody colludes, and everybody takes bribes."""
    return lies(replace(game, items=1, colluding=ZERO, buying=ZERO, lazy=ZERO, bribable=ONE))


def serves_friends(game: Game) -> Fraction:
    """Lie, and deliver to friends and the committee alone. Strangers report `unavailable`, and count as lazy."""
    cost = game.rate * (1 - game.first.friends) * (game.committee + game.fee) / 2 if game.rules.splits_fetch else 0
    return lies(replace(game, items=1, lazy=1 - game.colluding - game.buying)) - cost


def picks_its_time(game: Game) -> Fraction:
    """Do so only at times when friends write many of the drawing beacons. Leaders are known an epoch ahead."""
    size, tries = game.rules.beacons, game.rules.choices
    game = replace(game, items=1, lazy=1 - game.colluding - game.buying)
    pairs, gains = drawn_item(game), []
    for own in range(size + 1):
        slots = (ONE,) * own + (ZERO,) * (size - own)
        plays = [spread(game.rate, order, game.first.friends, *pairs) for order in (slots, slots[::-1])]
        best = max(game.work - found * game.losses.liar - paid for found, paid in plays)
        gains.append((max(ZERO, best), comb(size, own) * THIRD**own * (1 - THIRD) ** (size - own)))
    below, mean = ZERO, ZERO
    for gain, chance in sorted(gains):
        mean += gain * ((below + chance) ** tries - below**tries)
        below += chance
    return mean


def farms_fees(game: Game) -> Fraction:
    """Pay own checkers, which compute nothing, for own units. One of 16 items has all the weight."""
    drawn = min(ONE, 16 * game.rate)
    paid = drawn * (game.first.colluding + SECOND * game.later.colluding) * game.fee
    return paid - (drawn if game.rules.has_weighed_premium else game.rate) * (1 + SECOND) * game.fee


def disputes_falsely(game: Game) -> Fraction:
    """Dispute a right item of an own unit, with a bond of C + F."""
    return -(1 - game.error) * (game.committee + game.finder) if game.can_convict else ONE


def says_wrong(game: Game) -> Fraction:
    """Say `wrong` falsely about a unit of an own customer: concede, or have a dispute."""
    dispute = -(1 - game.error) * game.collateral if game.can_convict else ONE
    return max(-CONCESSION * game.fee, dispute) - game.wage


def says_unavailable(game: Game) -> Fraction:
    """Say `unavailable` falsely. Friends in the committee are paid, though they need not fetch."""
    paid = (game.committee + game.fee) / 2 if game.rules.splits_fetch else game.fee
    return game.colluding * game.committee - paid - game.wage


class Row(NamedTuple):
    """A behaviour of the table. `exempt` is the reason of a gain that the bar allows."""

    who: str
    name: str
    gain: Callable[[Game], Fraction]
    exempt: str = ""


ROWS = (
    Row("provider", "lies in the best share of its items", lies),
    Row("provider", "lies and bribes every drawn checker", bribes),
    Row("provider", "lies and serves friends only", serves_friends),
    Row("provider", "does so when friends write the beacons", picks_its_time),
    Row("provider", "frames honest checkers", lambda g: -g.rate * (1 - g.first.friends - g.first.lazy) * g.losses.liar),
    Row("provider", "withholds, or is silent in step 3", lambda g: -g.rate * (1 - g.first.friends) * g.losses.liar),
    Row("provider", "hands true fingerprints to buyers", lambda g: -g.rate * g.first.buying * g.fee),
    Row("customer", "pays its own checkers, worst lengths", farms_fees),
    Row("customer", "has its own liar convicted", lambda g: g.finder + g.colluding * g.committee - g.collateral),
    Row("checker", "guesses, copies, or buys a false fingerprint", lambda g: -CONCESSION * g.fee - g.wage),
    Row("checker", "buys from an honest provider", lambda g: g.check, "computing saved"),
    Row("checker", "says `wrong` falsely", says_wrong),
    Row("checker", "says `unavailable` falsely", says_unavailable),
    Row("checker", "is silent", lambda g: -g.fee - g.wage),
    Row("checker", "opens late or never", lambda g: -g.collateral - g.wage),
    Row("voter", "votes `unavailable` unseen", lambda g: -g.wage),
    Row("voter", "guesses, copies or dissents", lambda g: g.check - (1 + CONCESSION) * g.fee),
    Row("voter", "does not vote in an appeal", lambda g: g.check - g.fee),
    Row("disputer", "disputes falsely", disputes_falsely),
)
SHARES = ((0, 0, 0), (20, 13, 0), (0, 33, 60), (33, 0, 0), (33, 0, 60), (5, 5, 90))
"""Percent of colluding, buying and lazy checkers, with colluding and buying below a third."""


def games(rules: Rules) -> Iterator[Game]:
    """Yield the grid of claims."""
    grid = product(RATES, (Fraction(1, 20), HALF), (False, True), (ONE, Fraction(4, 5)), SHARES)
    for rate, check, few, turnout, shares in grid:
        colluding, buying, lazy = (Fraction(share, 100) for share in shares)
        game = Game(rate, check=check, turnout=turnout, has_few_owners=few, rules=rules)
        yield replace(game, colluding=colluding, buying=buying, lazy=lazy)
    for rate, lazy in product((Fraction(1, 8), HALF), (ZERO, Fraction(3, 5))):
        yield Game(rate, 8, check=Fraction(1, 20), colluding=Fraction(33, 100), lazy=lazy, rules=rules)


def best_gain(row: Row, rules: Rules) -> tuple[Fraction, Game]:
    """Return the best gain of a behaviour over the grid, and its claim."""
    return max(((row.gain(game), game) for game in games(rules)), key=lambda found: found[0])


REVERTS = {
    **dict.fromkeys(("replacements", "has_class_draws"), "lies and serves friends only"),
    **dict.fromkeys(("counts_lazy", "beacons choices", "design_slots"), "does so when friends write the beacons"),
    "splits_fetch": "says `unavailable` falsely",
    "appeal_share": "lies in the best share of its items",
    "covers_committee": "has its own liar convicted",
    "has_weighed_premium": "pays its own checkers, worst lengths",
    "floor": "lies and bribes every drawn checker",
}
"""Changes of the rules that are taken back, and the behaviour that each of them is for."""


def limit(gain: Callable[[Game], Fraction], game: Game) -> int | None:
    """Return the least colluding share in percent, below 50, at which a behaviour gains more than the bar."""
    return next((share for share in range(50) if gain(replace(game, colluding=Fraction(share, 100))) > BAR), None)


FALSE = ("right", "false")
COMMITS = {"collude": FALSE, "buy": FALSE, "confirm": FALSE, "lazy": ("right", "guess"), "find": ("wrong", "true")}
"""The commitments of checkers to a false item, for which the liar shows the fingerprint `false`."""


class Play:
    """Claims and duties played step by step, with seeded chance. Amounts are floats, for means alone."""

    def __init__(self, game: Game, chance: random.Random) -> None:
        """Take the decisions of the liar and of bribable checkers from the formulas."""
        self.game, self.chance, self.losses = game, chance, game.losses
        self.check, self.last = first_check(game, game.losses), Check(game, game.losses, FREE)
        self.bribed = cache(lambda is_last, *left: (self.last if is_last else self.check).bribed(*left)[0])
        self.hazards = {rate: [*map(float, hazards(rate, game.rules.beacons))] for rate in (game.rate, SECOND)}
        self.authors = [*map(float, game.authors)], [float(game.later_slots)] * game.rules.beacons
        self.crowds = {crowd: [*map(float, crowd), float(1 - sum(crowd))] for crowd in (game.first, game.later)}
        self.costs = 0.0

    def drawn(self, crowd: Crowd) -> str:
        """Draw a checker."""
        return self.chance.choices(("collude", "buy", "lazy", "bribe", "find"), self.crowds[crowd])[0]

    def draws(self, rate: Fraction, is_last: bool, items: int) -> Iterator[str]:
        """Yield the checkers of drawn items. A friend that writes a beacon withholds it once if a stranger is drawn."""
        crowd = self.game.later if is_last else self.game.first
        for hazard, own in zip(self.hazards[rate], self.authors[is_last], strict=True):
            kinds = [self.drawn(crowd) for _ in range(items) if self.chance.random() < hazard]
            if any(kind not in ("collude", "buy") for kind in kinds) and self.chance.random() < own:
                kinds = [self.drawn(crowd) for _ in range(items) if self.chance.random() < hazard]
            items -= len(kinds)
            yield from kinds

    def is_found(self, kind: str, is_last: bool) -> bool:
        """Play the checks of a drawn false item, beginning with this checker."""
        pending, failures = 1, self.game.failures_max
        while pending:
            if kind == "bribe" and (kind := self.bribed(is_last, pending, failures)) != "find":
                risk = 0 if is_last else self.check.second[0] * self.losses.checker
                self.costs += float(self.losses.finder + (risk if kind == "confirm" else self.losses.concession))
            verdict, fingerprint = COMMITS.get(kind, ("silent", ""))
            if verdict == "silent" or fingerprint == "guess":  # a guess differs from `false`: the checker concedes
                if not failures:
                    return True  # the committee computes
                failures, pending = failures - 1, pending - 1 + self.game.rules.replacements
            elif verdict == "wrong":
                return True
            else:
                pending -= 1
                if not is_last and any(self.is_found(second, True) for second in self.draws(SECOND, True, 1)):
                    self.costs += float(self.losses.checker) if kind == "collude" else 0.0
                    return True
            kind = self.drawn(self.game.later)
        return False

    def is_convicted(self) -> bool:
        """Play a dispute: nine seats, again without a verdict of five, then the appeal that its loser always calls."""
        friends = [self.chance.random() < self.game.colluding for _ in range(SEATS)]
        honest = sum(not friend and self.chance.random() < self.game.turnout for friend in friends)
        has_verdict = max(honest, sum(friends)) > SEATS // 2
        return self.chance.random() >= self.game.error if has_verdict else self.is_convicted()

    def lie(self, lies: int) -> float:
        """Return the liar's gain over honest behaviour in one claim."""
        self.costs = 0.0
        gain = float(self.game.work * lies / self.game.items)
        if any(self.is_found(kind, False) for kind in self.draws(self.game.rate, False, lies)):
            gain -= (1 + float(self.game.collateral)) * self.is_convicted() if self.game.can_convict else 1
        return gain - self.costs

    def duty(self, behaviour: str, sellers: Fraction) -> float:
        """Return a checker's or disputer's gain about a right item. `sellers` hand over true fingerprints."""
        game = self.game
        if behaviour == "unavailable":
            seats = sum(self.chance.random() < game.colluding for _ in range(SEATS))
            return float(seats * game.fee - (game.committee + game.fee) / 2 - game.wage)
        if behaviour == "dispute":
            return float(-(game.committee + game.finder) * self.is_convicted())
        return float(game.check if self.chance.random() < sellers else -CONCESSION * game.fee - game.wage)


def comparisons(chance: random.Random, plays: int) -> Iterator[tuple[str, float, float, float]]:
    """Yield a behaviour, its gain by the formula, the simulated mean, and the standard error."""
    crowd = Game(HALF, colluding=Fraction(1, 5), buying=Fraction(1, 10), lazy=Fraction(3, 10), has_few_owners=True)
    lone, sellers = replace(crowd, items=4, colluding=ZERO, has_few_owners=False), Fraction(7, 10)
    claims = (
        ("lie", crowd),
        ("lie, rules as written", replace(crowd, rules=AS_WRITTEN)),
        ("lie and bribe", Game(ONE, bribable=Fraction(4, 5), colluding=Fraction(1, 10))),
        ("lie, the appeal convicts nobody", Game(ONE, colluding=Fraction(45, 100))),
    )
    in_three = lone.work * 3 / 4 - chance_found(lone, 3) * lone.losses.liar
    bought = sellers * crowd.check - (1 - sellers) * (CONCESSION * crowd.fee + crowd.wage)
    duty = Play(crowd, chance).duty
    cases: list[tuple[str, Fraction, Callable[[], float]]] = [
        *((name, lies(game), partial(Play(game, chance).lie, 1)) for name, game in claims),
        ("lie in 3 of 4 items", in_three, partial(Play(lone, chance).lie, 3)),
        ("buy from a crowd with 70 % true sellers", bought, partial(duty, "buy", sellers)),
        ("say `unavailable` falsely", says_unavailable(crowd), partial(duty, "unavailable", sellers)),
        ("dispute falsely", disputes_falsely(crowd), partial(duty, "dispute", sellers)),
    ]
    for name, formula, play in cases:
        found = [play() for _ in range(plays)]
        yield name, float(formula), fmean(found), stdev(found) / plays**0.5


def print_table(*rows: Sequence[object]) -> None:
    """Print a Markdown table. The first row has its heads."""
    for number, row in enumerate(rows):
        cells = [f"{cell:+.3f}" if isinstance(cell, float) else str(cell) for cell in row]
        print(f"| {' | '.join(cells)} |" + ("" if number else "\n" + "|---" * len(row) + "|"))
    print(flush=True)


def main() -> int:
    """Print the tables. Return 1 if a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m simulation.claims_game", description=__doc__.splitlines()[0])
    parser.add_argument("--plays", type=int, default=20_000, help="plays of each simulated behaviour")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    amounts = [[few, *(float(Game(rate, has_few_owners=few).collateral) for rate in RATES)] for few in (False, True)]
    print_table(("K in prices: fewer than 20 owners", *RATES), *amounts)
    best = [(row, *best_gain(row, Rules()), best_gain(row, AS_WRITTEN)[0]) for row in ROWS]
    cells = [(row.who, row.name, float(gain), game.rate, float(first), row.exempt) for row, gain, game, first in best]
    print_table(("who", "behaviour", "best gain", "at the rate", "as first written", "allowed"), *cells)
    taken_back = []
    for names, behaviour in REVERTS.items():
        rules = replace(Rules(), **{name: getattr(AS_WRITTEN, name) for name in names.split()})
        row = next(row for row in ROWS if row.name == behaviour)
        collateral = [float(Game(RATES[0], has_few_owners=few, rules=rules).collateral) for few in (False, True)]
        taken_back.append((names, *collateral, row.name, float(best_gain(row, rules)[0])))
    print_table(("rule taken back", "K at 1/10", "fewer owners", "behaviour", "best gain"), *taken_back)
    settings = list(product((Rules(), AS_WRITTEN), (RATES[0], ONE)))
    limits = [(row.name, *(limit(row.gain, Game(rate, rules=rules)) for rules, rate in settings)) for row in ROWS]
    print_table(("gains from % colluding, at the rate", "1/10", 1, "1/10, as written", 1), *limits)
    simulated = list(comparisons(random.Random(arguments.seed), arguments.plays))
    print_table(("simulated", "formula", "mean", "standard error"), *simulated)
    missed = [row.name for row, gain, *_ in best if gain > BAR and not row.exempt]
    missed += [name for name, formula, middle, error in simulated if abs(middle - formula) > 3 * error]
    print(f"claims game: {len(missed)} bars missed. {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
