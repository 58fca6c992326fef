"""The game of claims and checks: gains of dishonest behaviours by formula, and a simulator that plays the rules.

Run as `make game`. It prints the tables of docs/adr/0027, and exits with 1 if a bar is missed, or if simulator and
formulas differ by over three standard errors.

Money is in prices of a claim, which are at stake: P = M = 1. A gain is a difference to honest behaviour of the same
coalition of customer, provider, checkers, voters and block authors. Checkers and voters are drawn by stake, so a
coalition has one share of both.
"""

import argparse
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from math import ceil, comb
from statistics import fmean, stdev
from typing import NamedTuple

from gpu_tasks.batches.item_draws import BEACONS
from gpu_tasks.market.claims.claims import FAILURES_MAX, REPLACEMENTS, SECOND_PPM
from gpu_tasks.market.claims.collateral import CLAIM_POINTS, MARKUP_PPM, PPM, RATES_PPM, finder_reward
from gpu_tasks.market.claims.disputes import SEATS, VOTER_FEES
from gpu_tasks.market.claims.money import CONCESSION_FEES

SECOND, MARKUP = SECOND_PPM / PPM, MARKUP_PPM / PPM
FINDER = finder_reward(PPM) / PPM
"""The finder's reward over the collateral."""
THIRD = 1 / 3
"""The coalition's share of the stake in the design, and its share of the block slots."""
BAR = 0.01
RATES = tuple(1 / round(PPM / rate) for rate in RATES_PPM)


@dataclass(frozen=True)
class Rules:
    """The rules that `TAKEN_BACK` takes back one by one."""

    replacements: int = REPLACEMENTS  # of a checker that is silent or concedes
    names_place: bool = True  # voters compute any drawn item instead of a checker, not always the first
    appeal_share: float = 3 / 5  # more of the voted stake convicts, if it is half of all stake
    covers_voters: bool = True  # K is at least twice the fees of nine voters, so that K - F pays them
    counts_votes: bool = True  # K allows for fees that a convicted provider's friends earn as voters
    counts_lazy: bool = True  # q allows for lazy checkers, up to all that do not collude
    beacons: int = BEACONS  # that share the draw of a claim
    choices: int = 2  # sets of beacons for a provider's choice of block: claims of 16 blocks share a set
    design_slots: float = 0.5  # the coalition's share of these beacons in the definition of q


class Losses(NamedTuple):
    """Expected losses of a found liar and its confirming checker; F, a concession, and half of nine voters' fees."""

    liar: float
    checker: float
    finder: float
    concession: float
    fetched: float


FOUND = Losses(1, 0, 0, 0, 0)
"""The losses with which a cost is the chance that a lie is found."""


@dataclass(frozen=True)
class Game:
    """One claim, and the parties around it."""

    rate: float  # the chance that an item of mean weight is drawn
    items: int = 1
    work: float = 0.9  # the provider's cost of computing the claim
    check: float = 0.1  # the cost of checking all items, and of fetching them with input and model
    colluding: float = 0  # share of the stake: its checkers confirm lies, and its voters vote for friends
    buying: float = 0  # share of checkers that commit to the provider's samples
    lazy: float = 0  # share of checkers that guess, copy or keep silent
    bribable: float = 0  # share of checkers that take a bribe that covers the finder's reward and their risk
    turnout: float = 0.9  # of the honest stake in an appeal
    error: float = BAR  # the chance that a right accusation fails for other reasons: an outage, a lost item
    slots: tuple[float, ...] = ()  # chances that a friend writes a beacon of the first draw, by default a third
    later_slots: float = THIRD  # the chance for a beacon of the second draw
    rules: Rules = Rules()

    @property
    def points(self) -> float:
        """The points that the claim expects."""
        return min(self.items * self.rate, CLAIM_POINTS)

    @property
    def drawn(self) -> float:
        """The chance of a check."""
        return min(1, self.points)

    @property
    def shares(self) -> Sequence[float]:
        """The shares of the claim that a provider may compute falsely."""
        return (1 / 16, 1 / 2, 1) if self.items > 1 else (1,)

    @property
    def duty(self) -> float:
        """The cost of checking the drawn items."""
        return self.check * min(1, ceil(self.points) / self.items)

    @property
    def fee(self) -> float:
        """The fee of a check."""
        return MARKUP * self.duty

    @property
    def vote_fee(self) -> float:
        """The fee of a voter, which computes one item."""
        return MARKUP * self.check / self.items

    @property
    def votes(self) -> float:
        """The fees of nine voters, C."""
        return SEATS * self.vote_fee

    @property
    def wage(self) -> float:
        """An honest checker's earning."""
        return self.fee - self.duty

    @property
    def friends(self) -> float:
        """The share of checkers that confirm a lie for nothing."""
        return self.colluding + self.buying

    @property
    def crowd(self) -> dict[str, float]:
        """The shares of all kinds of checkers."""
        shares = {"collude": self.colluding, "buy": self.buying, "lazy": self.lazy, "bribe": self.bribable}
        return {kind: share for kind, share in {**shares, "honest": 1 - sum(shares.values())}.items() if share > 1e-12}

    @property
    def authors(self) -> tuple[float, ...]:
        """For each beacon of the first draw, the chance that a friend writes it."""
        return self.slots or (THIRD,) * self.rules.beacons

    @property
    def q(self) -> float:
        """The least chance that a lie is found over its share of the claim, for the collateral of the claim.

        A claim has the collateral of its rate, as if it had one item, or that of two to four points, whichever is more.
        """
        is_always = max(self.points, self.rate * CLAIM_POINTS) >= CLAIM_POINTS
        points = range(2, CLAIM_POINTS + 1) if is_always else [self.rate]
        return min(least_found(each, self.rules) for each in points)

    @property
    def collateral(self) -> float:
        """K = Kc = max(6/5 M (1 - q) / q, 2 C).

        A lie about a share x of the price gains at most x M with chance 1 - q x. With chance q x it loses K. A third of
        K - F may return to the liar: it appeals, and what the finder does not get pays voters, a third of them friends.
        So x M (1 - q x) - q x (K - (K - F) / 3) <= 0 if 5/6 K >= M (1 - q) / q.

        The convicted party's K pays the finder K/2 and nine voters, so nothing is missing if K >= 2 C. If nobody
        colludes and every checker takes a bribe of F = K/2, a lie at the rate r costs r (1 + s) K/2. That is at least M
        if K >= 8/5 M / r, which the first term exceeds.
        """
        kept = 1 - THIRD * (1 - FINDER) if self.rules.counts_votes else 1
        cover = 2 * SEATS * MARKUP * self.check if self.rules.covers_voters else 0
        return max((1 - self.q) / self.q / kept, cover)

    @property
    def finder(self) -> float:
        """The finder's reward, F = K / 2."""
        return FINDER * self.collateral

    @property
    def can_convict(self) -> bool:
        """True if the honest voters of an appeal convict against the coalition.

        With turnout t and colluding share c they hold t (1 - c) of all stake, and must hold half of it: t >= 3/4 at
        c = 1/3. At t = 3/4 they hold 1/2 of the voted 5/6, which is 3/5. So 3/5 is the largest share of the voted stake
        that never asks for more than the rule of half of all stake.
        """
        honest = self.turnout * (1 - self.colluding)
        return honest > self.rules.appeal_share * (honest + self.colluding) - 1e-12 and honest >= 0.5 - 1e-12

    @property
    def losses(self) -> Losses:
        """The amounts that a liar weighs. If an appeal convicts nobody, P is refunded and nobody loses collateral.

        A convicted liar appeals in vain, so that all of K - F pays voters.
        """
        concession, fetched = CONCESSION_FEES * self.fee, self.votes / 2
        if not self.can_convict:
            return Losses(1, 0, 0, concession, fetched)
        holds, returned = 1 - self.error, self.colluding * (self.collateral - self.finder)
        liar = holds * (1 + self.collateral - returned)
        return Losses(liar, holds * self.collateral, self.finder, concession, fetched)


class State(NamedTuple):
    """A draw between two beacons: parts of the line without a point, the named checker, and lies among the points."""

    beacon: int
    left: int
    kind: str | None = None
    lies: int = 0


class Draw:
    """The draw of a claim's points and checker by several beacons, and the coalition's expected cost.

    The line of the claim has one point in each part. Each beacon is equally likely to draw it. The first beacon that
    draws a point also names the checker of all points. An author in the coalition withholds its block once if another
    one is expected to cost less.
    """

    def __init__(
        self, points: float, authors: Sequence[float], costs: Sequence[Mapping[str, tuple[float, float]]]
    ) -> None:
        """`costs` has for each number of lies among the points the share and the cost of each kind of checker."""
        self.parts, self.authors, self.costs = ceil(points), authors, costs
        self.chance = points / self.parts
        self.value, self.outcomes = cache(self._value), cache(self._outcomes)

    def cost(self, share: float = 1) -> float:
        """Return the cost of a lie about `share` of each part."""
        return self.value(State(0, self.parts), share)

    def _outcomes(self, state: State, share: float) -> list[tuple[float, State, float]]:
        """Return the chance of each outcome of the next beacon, the state after it, and its cost."""
        beacon, left, kind, lies = state
        names = [(kind, 1.0)] if kind else [(name, part) for name, (part, _) in self.costs[0].items()]
        turn, found = 1 / (len(self.authors) - beacon), []
        for turns in range(left + 1):
            chance, none = binomial(left, turns, turn), (1 - self.chance) ** turns
            found.append((chance * none, State(beacon + 1, left - turns, kind, lies)))
            for (name, part), more in product(names, range(turns + 1)):
                some = binomial(turns, more, self.chance * share) - (0 if more else none)
                found.append((chance * some * part, State(beacon + 1, left - turns, name, lies + more)))
        return [(chance, after, self.value(after, share)) for chance, after in found if chance]

    def _value(self, state: State, share: float) -> float:
        if not state.left:
            return self.costs[state.lies][state.kind][1] if state.kind and state.lies else 0
        outcomes, own = self.outcomes(state, share), self.authors[state.beacon]
        fresh = sum(chance * cost for chance, _, cost in outcomes)
        return (1 - own) * fresh + own * sum(chance * min(cost, fresh) for chance, _, cost in outcomes)


@cache
def binomial(tries: int, hits: int, chance: float) -> float:
    """Return the chance of so many hits."""
    return comb(tries, hits) * chance**hits * (1 - chance) ** (tries - hits)


ENDS = {"collude": "collude", "buy": "confirm", "lazy": "fail"}
"""The end of a check by a checker that is not honest."""


class Checks:
    """The expected cost of a drawn lie to its coalition: the first draw with its replacements, and the second draw.

    `share` is that of lies among the points. The state is the number of checkers that must still pass, the failures
    that are still replaced, and whether a checker of the coalition, or a bribed one, has passed.
    """

    def __init__(self, game: Game, losses: Losses, share: float = 1) -> None:
        """`losses` are the amounts that the coalition weighs."""
        self.game, self.losses, self.share = game, losses, share
        self.second, self.options = cache(self._second), cache(self._options)

    def _options(self, pending: int, failures: int, at_risk: bool, is_second: bool) -> dict[str, float]:
        """Return the cost of each end of a check.

        The checker finds the lie, confirms it, fails (it is silent or concedes), or fetches nothing. In the last case
        and after the last failure, voters compute one of the drawn items.
        """
        found = self.losses.liar + (self.losses.checker if is_second and at_risk else 0)
        share = self.share if self.game.rules.names_place or self.share == 1 else 0
        voted = share * found + (1 - share) * self._rest(0, 0, at_risk, is_second)
        more = pending - 1 + self.game.rules.replacements
        return {
            "find": found,
            "fetch": voted + (1 - share) * self.losses.fetched,
            "confirm": self._rest(pending - 1, failures, at_risk, is_second),
            "collude": self._rest(pending - 1, failures, True, is_second),
            "fail": self._rest(more, failures - 1, at_risk, is_second) if failures else voted,
        }

    def cost(self, kind: str, pending: int, failures: int, at_risk: bool, is_second: bool) -> float:
        """Return the cost after a checker of this kind is drawn."""
        options = self.options(pending, failures, at_risk, is_second)
        if kind in ENDS:
            return options[ENDS[kind]]
        return min(self.served(options, is_bribable=kind == "bribe").values())

    def served(self, options: dict[str, float], *, is_bribable: bool) -> dict[str, float]:
        """Return the cost of each treatment of an honest checker: delivery, none, or bribes to confirm or to fail."""
        treatments = {"find": options["find"], "fetch": options["fetch"]}
        if is_bribable:
            treatments["collude"] = options["collude"] + self.losses.finder
            treatments["fail"] = options["fail"] + self.losses.finder + self.losses.concession
        return treatments

    def drawn(self, at_risk: bool, is_second: bool) -> dict[str, tuple[float, float]]:
        """Return the share and the cost of each kind of checker in a draw."""
        crowd = self.game.crowd.items()
        return {kind: (share, self.cost(kind, 1, FAILURES_MAX, at_risk, is_second)) for kind, share in crowd}

    def _rest(self, pending: int, failures: int, at_risk: bool, is_second: bool) -> float:
        if not pending:
            return 0 if is_second else self.second(at_risk).cost()
        crowd = self.game.crowd.items()
        return sum(share * self.cost(kind, pending, failures, at_risk, is_second) for kind, share in crowd)

    def _second(self, at_risk: bool) -> Draw:
        """Return the second draw, one point for the whole claim: if it hits, the same points are checked again."""
        costs = self.drawn(at_risk, True)
        return Draw(SECOND, (self.game.later_slots,) * self.game.rules.beacons, (costs, costs))


def first_draws(game: Game, losses: Losses, *authors: Sequence[float]) -> list[Draw]:
    """Return the draw of a claim for each sequence of the beacons' authors."""
    parts = ceil(game.points)
    costs = [Checks(game, losses, lies / parts).drawn(False, False) for lies in range(parts + 1)]
    return [Draw(game.points, order, costs) for order in authors or (game.authors,)]


@cache
def least_found(points: float, rules: Rules) -> float:
    """Return the least chance that a lie is found over its share of a claim that expects so many points.

    A third of the stake colludes, and the coalition writes `design_slots` of the drawing beacons. None, half or all of
    the others are lazy.
    """
    slots = (rules.design_slots,) * rules.beacons
    rate, items = (points, 1) if points < 1 else (points / 16, 16)
    worst = Game(rate, items, colluding=THIRD, slots=slots, later_slots=slots[0], rules=rules)
    crowds = [replace(worst, lazy=lazy) for lazy in ((0, THIRD, 2 * THIRD) if rules.counts_lazy else (0,))]
    found = [cost_of_lie(game, FOUND, share) / share for game, share in product(crowds, worst.shares)]
    return min(found) * (1 - worst.error)


def cost_of_lie(game: Game, losses: Losses, share: float = 1) -> float:
    """Return the expected cost of a lie about `share` of the claim."""
    return first_draws(game, losses)[0].cost(share)


# Gains over honest behaviour: per claim of a provider or customer, per duty of a checker, voter or disputer


def lies(game: Game, *authors: Sequence[float]) -> float:
    """Lie about the best share of the claim, and with the best of these authors."""
    draws = first_draws(game, game.losses, *authors)
    return max(game.work * share - draw.cost(share) for draw in draws for share in game.shares)


def bribes(game: Game) -> float:
    """Lie, and bribe each drawn checker. Nobody colludes, and everybody takes bribes."""
    return lies(replace(game, colluding=0, buying=0, lazy=0, bribable=1))


def picks_its_time(game: Game) -> float:
    """Lie only at times when friends write many of the drawing beacons. Leaders are known an epoch ahead."""
    size, tries, gains = game.rules.beacons, game.rules.choices, []
    for own in range(size + 1):
        slots = (1.0,) * own + (0.0,) * (size - own)
        gains.append((max(0, lies(game, slots, slots[::-1])), binomial(size, own, THIRD)))
    below, mean = 0.0, 0.0
    for gain, chance in sorted(gains):
        mean += gain * ((below + chance) ** tries - below**tries)
        below += chance
    return mean


def pays_friends(game: Game) -> float:
    """Pay own checkers, which compute nothing, for own claims."""
    return -game.drawn * (1 + SECOND) * (1 - game.colluding) * game.fee


def convicts_itself(game: Game) -> float:
    """Have an own liar found by a friend, and convicted by a vote and an appeal with friends."""
    return game.finder + game.colluding * (game.collateral - game.finder) - game.collateral


def disputes_falsely(game: Game) -> float:
    """Dispute a right item of an own claim, with a bond of C + F. Friends vote, also in an appeal."""
    bond = game.votes + game.finder
    return -(1 - game.error) * (1 - game.colluding) * bond if game.can_convict else 1


def says_wrong(game: Game) -> float:
    """Say `wrong` falsely about a claim of an own customer: concede, or have a dispute."""
    dispute = -(1 - game.error) * (1 - game.colluding) * game.collateral if game.can_convict else 1
    return max(-CONCESSION_FEES * game.fee, dispute) - game.wage


def says_unavailable(game: Game) -> float:
    """Say `unavailable` falsely. Friends among the voters are paid, and an appeal adds to both sides of the sum."""
    return (game.colluding - 1 / 2) * game.votes - game.wage


def votes_unseen(game: Game) -> float:
    """Vote `unavailable` without computing. A vote earns a fee, as far as the convicted party's K - F lasts."""
    return game.vote_fee / MARKUP - min(game.vote_fee, (game.collateral - game.finder) / SEATS)


class Row(NamedTuple):
    """A behaviour of the table. `exempt` is the reason of a gain that the bar allows."""

    who: str
    name: str
    gain: Callable[[Game], float]
    exempt: str = ""


ROWS = (
    Row("provider", "lies about the best share, serves whom it likes", lies),
    Row("provider", "lies and bribes every drawn checker", bribes),
    Row("provider", "lies when friends write the beacons", picks_its_time),
    Row("provider", "frames honest checkers", lambda g: -g.drawn * (1 - g.friends - g.lazy) * g.losses.liar),
    Row("provider", "withholds, or is silent", lambda g: -g.drawn * (1 - g.friends) * g.losses.liar),
    Row("provider", "hands true samples to buyers", lambda g: -g.drawn * g.buying * g.fee),
    Row("customer", "pays its own checkers", pays_friends),
    Row("customer", "has its own liar convicted", convicts_itself),
    Row("checker", "guesses, copies, or buys a false sample", lambda g: -CONCESSION_FEES * g.fee - g.wage),
    Row("checker", "buys from an honest provider", lambda g: g.duty, "computing saved"),
    Row("checker", "says `wrong` falsely", says_wrong),
    Row("checker", "says `unavailable` falsely", says_unavailable),
    Row("checker", "is silent", lambda g: -g.fee - g.wage),
    Row("checker", "opens late or never", lambda g: -g.collateral - g.wage),
    Row("voter", "votes `unavailable` unseen", votes_unseen),
    Row("voter", "guesses, copies or dissents", lambda g: (1 - MARKUP * (1 + VOTER_FEES)) * g.vote_fee / MARKUP),
    Row("voter", "does not vote", lambda g: (1 - 2 * MARKUP) * g.vote_fee / MARKUP),
    Row("disputer", "disputes falsely", disputes_falsely),
)
SHARES = ((0, 0, 0), (20, 13, 0), (0, 33, 60), (33, 0, 0), (33, 0, 60), (5, 5, 90))
"""Percent of colluding, buying and lazy checkers, with colluding and buying below a third."""
BATCHES = ((RATES[0], 4_096), (RATES[3], 2), (RATES[4], 3))
"""Rates and numbers of items of claims with several items."""


def games() -> Iterator[Game]:
    """Yield the grid of claims."""
    claims = [*((rate, 1) for rate in RATES), *BATCHES]
    for (rate, items), check, shares in product(claims, (1 / 20, 1 / 2), SHARES):
        colluding, buying, lazy = (share / 100 for share in shares)
        yield Game(rate, items, check=check, colluding=colluding, buying=buying, lazy=lazy, turnout=4 / 5)


def best_gain(row: Row) -> tuple[float, Game]:
    """Return the best gain of a behaviour over the grid, and its claim."""
    return max(((row.gain(game), game) for game in games()), key=lambda found: found[0])


_THIRD = Game(RATES[0], check=1 / 20, colluding=0.33, lazy=0.6)
TAKEN_BACK: dict[str, tuple[Rules, Callable[[Game], float], Game]] = {
    "two replacements": (Rules(replacements=1), lies, _THIRD),
    "voters compute any drawn item": (Rules(names_place=False), lies, replace(_THIRD, items=4_096)),
    "3/5 of the voted stake convict": (Rules(appeal_share=2 / 3), lies, _THIRD),
    "K >= 2 C": (Rules(covers_voters=False), votes_unseen, Game(RATES[4], check=1 / 2)),
    "K / (5/6)": (Rules(counts_votes=False), picks_its_time, _THIRD),
    "q counts lazy checkers": (Rules(counts_lazy=False), picks_its_time, _THIRD),
    "16 beacons for 16 blocks": (Rules(beacons=4, choices=24), picks_its_time, replace(_THIRD, rate=RATES[3])),
    "half of the beacons in q": (Rules(design_slots=THIRD), picks_its_time, _THIRD),
}
"""For each rule that goes beyond the issue's first text: the rules without it, and a behaviour that then gains."""


def limit(gain: Callable[[Game], float], *games: Game) -> int | None:
    """Return the place of the first of these claims in which a behaviour gains more than the bar."""
    return next((place for place, game in enumerate(games) if gain(game) > BAR), None)


def least_bribe(game: Game) -> float:
    """Return r min(M + K, F + s (M + K + Kc)): the least cost of a lie without friends, for a gain of M."""
    caught = 1 + game.collateral
    return game.drawn * min(caught, game.finder + SECOND * (caught + game.collateral))


class Play:
    """Claims and duties played step by step, with seeded chance."""

    def __init__(self, game: Game, chance: random.Random) -> None:
        """Take the decisions of authors and of the liar from the formulas."""
        self.game, self.chance, self.losses = game, chance, game.losses
        self.first = first_draws(game, game.losses)[0]
        self.checks = [Checks(game, game.losses, lies / self.first.parts) for lies in range(self.first.parts + 1)]
        self.costs = 0.0

    def draw(self, draw: Draw, share: float) -> tuple[str | None, int]:
        """Draw the points of a claim. Return their checker, and the number of lies among them."""
        state = State(0, draw.parts)
        while state.left:
            chances, states, costs = zip(*draw.outcomes(state, share), strict=True)
            place, again = self.chance.choices(range(len(states)), chances, k=2)
            fresh = sum(chance * cost for chance, cost in zip(chances, costs, strict=True))
            is_own = self.chance.random() < draw.authors[state.beacon]
            state = states[again if is_own and costs[place] > fresh else place]
        return state.kind, state.lies

    def is_found(self, kind: str | None, checks: Checks, is_second: bool, at_risk: bool) -> bool:
        """Play the checks of a draw, beginning with this checker."""
        pending, failures = 1, FAILURES_MAX
        while kind and pending:
            end = ENDS.get(kind, "find")
            if kind not in ENDS:
                options = checks.options(pending, failures, at_risk, is_second)
                treatments = checks.served(options, is_bribable=kind == "bribe")
                end = min(treatments, key=lambda name: treatments[name])
                self.costs += self.losses.finder if end in ("collude", "fail") else 0
                self.costs += self.losses.concession if end == "fail" else 0
            is_voted = end == "fetch" or (end == "fail" and not failures)
            if end == "find" or (is_voted and self.chance.random() < checks.share):
                self.costs += self.losses.checker if is_second and at_risk else 0
                return True
            self.costs += self.losses.fetched if end == "fetch" else 0
            at_risk |= end == "collude"
            pending += self.game.rules.replacements - 1 if end == "fail" else -1
            failures -= end == "fail"
            if is_voted:
                break
            kind = self.chance.choices(list(self.game.crowd), list(self.game.crowd.values()))[0]
        if not kind or is_second:
            return False
        second, _ = self.draw(checks.second(at_risk), 1)
        return self.is_found(second, checks, True, at_risk)

    def lie(self, share: float) -> float:
        """Return the liar's gain over honest behaviour in one claim."""
        self.costs = 0.0
        gain = self.game.work * share
        kind, lies = self.draw(self.first, share)
        if lies and self.is_found(kind, self.checks[lies], False, False):
            kept = self.game.colluding * (self.game.collateral - self.game.finder)
            holds = self.chance.random() >= self.game.error
            gain -= (1 + self.game.collateral - kept) * holds if self.game.can_convict else 1
        return gain - self.costs


def comparisons(chance: random.Random, plays: int) -> Iterator[tuple[str, float, float, float]]:
    """Yield a lie, its gain by the formula, the simulated mean, and the standard error."""
    crowd = Game(RATES[3], colluding=0.2, buying=0.1, lazy=0.3)
    for name, game, share in (
        ("one item", crowd, 1),
        ("bribes", Game(RATES[4], bribable=0.8, colluding=0.1), 1),
        ("the appeal convicts nobody", Game(RATES[4], colluding=0.45), 1),
        ("an eighth of eight items", replace(crowd, items=8), 1 / 8),
        ("all of eight items", replace(crowd, items=8), 1),
    ):
        play = Play(game, chance)
        found = [play.lie(share) for _ in range(plays)]
        formula = game.work * share - cost_of_lie(game, game.losses, share)
        yield name, formula, fmean(found), stdev(found) / plays**0.5


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
    claims = [*(Game(rate) for rate in RATES), Game(RATES[0], 4_096)]
    amounts = [(f"{game.rate:.2f}", game.items, game.q, game.collateral, least_bribe(game)) for game in claims]
    print_table(("rate", "items", "q", "K in prices", "r min(M + K, F + s (M + K + Kc))"), *amounts)
    best = [(row, *best_gain(row)) for row in ROWS]
    settings = [Game(RATES[0]), Game(RATES[4]), Game(RATES[4], turnout=3 / 4)]
    limits = {
        row.name: [limit(row.gain, *(replace(game, colluding=i / 100) for i in range(50))) for game in settings]
        for row in ROWS
    }
    cells = [(row.who, row.name, gain, f"{game.rate:.2f}", *limits[row.name], row.exempt) for row, gain, game in best]
    heads = ("who", "behaviour", "best gain", "at the rate", "gains from % colluding at 1/10", "at 1", "at turnout 3/4")
    print_table((*heads, "allowed"), *cells)
    taken_back = []
    for name, (rules, gain, game) in TAKEN_BACK.items():
        before = replace(game, rules=rules)
        behaviour = next(row.name for row in ROWS if row.gain is gain)
        taken_back.append((name, game.collateral, before.collateral, behaviour, gain(game), gain(before)))
    print_table(("rule", "K", "K without it", "behaviour", "its gain", "its gain without the rule"), *taken_back)
    bribable = [limit(lies, *(Game(rate, colluding=0.33, bribable=i / 100) for i in range(67))) for rate in RATES]
    print(f"With 33 % colluding, lies pay from % bribable at each rate: {bribable}\n")
    simulated = list(comparisons(random.Random(arguments.seed), arguments.plays))
    print_table(("simulated lie", "formula", "mean", "standard error"), *simulated)
    missed = [row.name for row, gain, _ in best if gain > BAR and not row.exempt]
    missed += [f"bribe at {rate}" for rate, _, _, _, bribe in amounts if bribe < 1]
    missed += [name for name, formula, middle, error in simulated if abs(middle - formula) > 3 * error]
    print(f"claims game: {len(missed)} bars missed. {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
