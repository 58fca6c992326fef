"""Misdeeds of a batch's answerers, auditors and customer: each played once per seed, and compared with its formula.

A price P is the most that the batch costs. The part d of it is due for the tokens of its leaves. An answerer's
collateral is P + 5 judges' fees of P / 2 = 3.5 P, and an auditor's is the same or 40 fees. The formulas are in the
misdeeds' docstrings. A gang has at most a third of the stake. r is its share of the stake that has no other part in the
batch.
"""

from fractions import Fraction

from gpu_tasks.batches.leaf_draws import leaves_to_check, weight_floor
from gpu_tasks.market.courts.money import chance_found
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.events import ProviderSlashed
from gpu_tasks.market.leaf_checks.checks import CheckOutcome, CheckTerms, LeafStage
from gpu_tasks.market.leaf_checks.events import LeafCheckEnded
from gpu_tasks.market.leaf_checks.fees import dispute_bond
from gpu_tasks.market.leaf_checks.storage import seat_of
from simulation.catalogue import check_books
from simulation.chains.batch_chain import leaves_for
from simulation.chains.market_chain import CUSTOMER
from simulation.misconduct.parts import STAKES, PartsChain, fresh
from simulation.misconduct.scores import BatchScore, Misdeed

COURT_MOST = len(STAKES) - 6
"""A court that judges a proof excludes the answerers, the auditor, and three of a committee."""


def hides_leaves(seed: str) -> BatchScore:
    """Answerers compute nothing and show no drawn leaf: d + 0.3 d (for two) - 3.5 P each, always."""
    stage, chance = fresh(seed)
    stage.racers, stage.hides_leaves = chance.choice((1, 2)), True
    unit = stage.settled(wrong=range(stage.requests))
    price, before, held = stage.unit(unit).price, stage.purses(), _held(stage, unit)
    paid = _paid(stage, unit)
    stage.gang = frozenset(held)
    stage.play_out(unit)
    lost = {who: before[who] - stage.owned(who) for who in held}
    assert lost == held, "all that they hold"
    return BatchScore(
        unseen=Fraction(paid, price),
        found=Fraction(1),
        formula=Fraction(paid - sum(held.values()), price),
        variance=Fraction(0),
        gain=Fraction(paid + _change(stage, before), price),
        harm=_harm(stage, before, price),
    )


def hides_tree(seed: str) -> BatchScore:
    """One of two differing racers shows no nodes, or no leaves below them: - 3.5 P, always; it is not paid."""
    stage, chance = fresh(seed)
    lies = [[], range(stage.requests)]
    liar = chance.randrange(2)
    unit = stage.disputed(*(lies if liar else lies[::-1]))
    price, before = stage.unit(unit).price, stage.purses()
    racers = stage.unit(unit).racers
    stage.gang = frozenset({racers[liar].owner})
    if stage.requests > 64 and chance.random() < 0.5:
        stage.chain.block(stage.shows(unit, 0), stage.shows(unit, 1))
    stage.play(unit, liar)
    check_books(stage.chain.now(), stage.chain.issued)
    (lost,) = stage.chain.happened(ProviderSlashed)
    assert (lost.provider, lost.amount) == (racers[liar].owner, racers[liar].collateral)
    due = stage.check(unit).terms.price
    return BatchScore(
        unseen=Fraction(due, price),
        found=Fraction(1),
        formula=Fraction(-racers[liar].collateral, price),
        variance=Fraction(0),
        gain=Fraction(_change(stage, before), price),
        harm=_harm(stage, before, price),
    )


def lazy_auditor(seed: str) -> BatchScore:
    """An auditor passes without computing: (1 - q) fee - q seat, where q is the chance that its proof is inspected.

    Its seat is at least 40 fees, and q is 0.049. So it loses as much as it hoped to save, and more if m / n is small.
    """
    return _lazy(seed, has_gang=False)


def lazy_third(seed: str) -> BatchScore:
    """All auditors of a third of the stake pass without computing, and its judges confirm such proofs.

    The gain is at most (1 - q (1 - r²)) fee - q (1 - r²) seat + 2 q r² fee. Two judges of the gang let the proof pass,
    and are paid. Otherwise an honest judge appeals, and a court of the others refutes it. If that court does not
    decide, the proof is upheld, and the appellant's bond pays a fee to each of its judges.
    """
    return _lazy(seed, has_gang=True)


def false_dispute(seed: str) -> BatchScore:
    """The customer disputes a right leaf: it loses its bond of 2.5 P, and d comes back as from any liar."""
    return _false_dispute(seed, has_gang=False)


def false_dispute_of_a_third(seed: str) -> BatchScore:
    """The customer disputes a right leaf, and judges of a third of the stake agree: at most the same, after an appeal.

    An exception: with large answerers and auditors, the other honest validators have less than a third of the stake.
    Then a court that does not decide leaves the committee's verdict.
    """
    return _false_dispute(seed, has_gang=True)


def pair(seed: str) -> BatchScore:
    """Both racers give the same leaves, some of them false: g - c 7 P.

    g is the pay of both for the false leaves. c is the chance that one of them is drawn: 1 - (1 - w)^m with m points,
    where w is the false leaves' share of the weight.
    """
    return _pair(seed, has_gang=False)


def pair_of_a_third(seed: str) -> BatchScore:
    """Both racers give the same false leaves, and a third of the stake passes and confirms them.

    The gain is at most g + r fee - c (1 - r) 7 P: as if no proof of the gang's auditors were ever inspected.
    """
    return _pair(seed, has_gang=True)


MISDEEDS = {
    "hides_leaves": Misdeed(
        "a provider that answered shows no drawn leaf", hides_leaves, always_loses=True, found_min=Fraction(1)
    ),
    "hides_tree": Misdeed(
        "of two differing racers, one shows no tree", hides_tree, always_loses=True, found_min=Fraction(1)
    ),
    "lazy_auditor": Misdeed("an auditor computes nothing, and passes", lazy_auditor, always_loses=True),
    "lazy_third": Misdeed(
        "the same, and a third of the stake judges its proof",
        lazy_third,
        is_bound=True,
        harm_max=Fraction(COURT_MOST, 16),  # at most that many judges, for a fee of at most a sixteenth of the price
    ),
    "false_dispute": Misdeed(
        "the customer disputes a right leaf", false_dispute, always_loses=True, found_min=Fraction(1)
    ),
    "false_dispute_of_a_third": Misdeed(
        "the same, and a third of the stake judges it",
        false_dispute_of_a_third,
        is_bound=True,
        harm_max=Fraction(7, 2),
        found_min=Fraction(98, 100),
    ),
    "pair": Misdeed("both racers give the same false leaves", pair),
    "pair_of_a_third": Misdeed(
        "the same, and a third of the stake audits and judges them", pair_of_a_third, is_bound=True
    ),
}


# ------------------------------------------------------------------------------------------------------- the plays


def _lazy(seed: str, *, has_gang: bool) -> BatchScore:
    """Play both ways, inspected and not, each weighted by its chance."""
    terms, (unseen, _, _), part = _lazy_once(seed, has_gang=has_gang, is_looked_at=False)
    _, (seen, harm, is_found), _ = _lazy_once(seed, has_gang=has_gang, is_looked_at=True)
    fee, seat = terms.fee, seat_of(terms)
    looked = Fraction(*chance_found(terms.rate_ppm))
    passed = part**2 if has_gang else Fraction(0)
    found = looked * (1 - passed)
    price = _full_price(terms)
    return BatchScore(
        unseen=Fraction(unseen, price),
        found=looked * is_found,
        formula=((1 - found) * fee - found * seat + looked * passed * 2 * fee) / price,
        variance=passed * (1 - passed) * (looked * Fraction(seat + 3 * fee, price)) ** 2,
        gain=((1 - looked) * unseen + looked * seen) / price,
        harm=Fraction(harm, price),
    )


def _lazy_once(seed: str, *, has_gang: bool, is_looked_at: bool) -> tuple[CheckTerms, tuple[int, int, bool], Fraction]:
    """Return the check's terms; gain and harm in grains, and whether it was found; the gang's share of the judges."""
    stage, chance = fresh(seed)
    unit = stage.settled()
    before = stage.purses()
    auditor = stage.shown(unit).stash
    terms, answered = stage.check(unit).terms, list(_held(stage, unit))
    free = set(before) - {auditor, *answered}
    stage.gather({auditor}, free if has_gang else (), chance)
    stage.play_passing(unit, is_looked_at=is_looked_at)
    stage.play_out(unit)
    (ended,) = stage.chain.happened(LeafCheckEnded)
    harm = max(0, *(before[who] - stage.owned(who) for who in set(before) - stage.gang))
    return terms, (_change(stage, before), harm, ended.earner != auditor), _part(stage, free)


def _false_dispute(seed: str, *, has_gang: bool) -> BatchScore:
    stage, chance = fresh(seed)
    stage.false_leaf = chance.randrange(stage.requests)
    unit = stage.settled()
    price, terms = stage.unit(unit).price, stage.check(unit).terms
    auditor = stage.shown(unit)
    stage.chain.block(stage.passes(unit, auditor))
    stage.until(unit, LeafStage.OPEN)
    before, customer = stage.purses(), stage.owned(CUSTOMER.stash) - terms.fee
    free = set(before) - {auditor.stash, *_held(stage, unit)}
    stage.gather({CUSTOMER.stash}, free if has_gang else (), chance)
    stage.play_out(unit)
    (ended,) = stage.chain.happened(LeafCheckEnded)
    is_right = CheckOutcome(ended.outcome) is CheckOutcome.PASSED
    assert is_right or has_gang
    lost = dispute_bond(terms.judge_fee) - terms.price
    return BatchScore(
        unseen=Fraction(0),
        found=Fraction(is_right),
        formula=Fraction(-lost, price),
        variance=Fraction(0),
        gain=Fraction(stage.owned(CUSTOMER.stash) - customer + _change(stage, before), price),
        harm=_harm(stage, before, price),
    )


def _pair(seed: str, *, has_gang: bool) -> BatchScore:
    stage, chance = fresh(seed)
    wrong = chance.sample(range(stage.requests), chance.choice((1, -(-stage.requests // 10), stage.requests)))
    unit = stage.settled(wrong)
    price, terms, before, held = stage.unit(unit).price, stage.check(unit).terms, stage.purses(), _held(stage, unit)
    free = set(before) - set(held)
    stage.gather(held, free if has_gang else (), chance)
    false, all_tokens, drawn = _false_parts(stage, unit, terms, wrong)
    saved = _paid(stage, unit) * false / all_tokens
    stage.play_out(unit)
    (ended,) = stage.chain.happened(LeafCheckEnded)
    part = _part(stage, free)
    found, at_stake = drawn * (1 - part), Fraction(sum(held.values()), price)
    return BatchScore(
        unseen=saved / price,
        found=Fraction(CheckOutcome(ended.outcome) is CheckOutcome.REFUTED),
        formula=(saved + part * terms.fee) / price - found * at_stake,
        variance=found * (1 - found) * at_stake**2,
        gain=(saved + _change(stage, before)) / price,
        harm=_harm(stage, before, price),
    )


# --------------------------------------------------------------------------------------------------------- sums


def _held(stage: PartsChain, unit: bytes) -> dict[bytes, int]:
    """Return the collateral of each answerer."""
    return {each.account: each.held for each in stage.check(unit).terms.answerers}


def _paid(stage: PartsChain, unit: bytes) -> Fraction:
    """Return the answerers' pay, before fees."""
    record, terms = stage.unit(unit), stage.check(unit).terms
    witness = money.witness_pay(record.rules, terms.price) if len(terms.answerers) > 1 else 0
    return Fraction(terms.price + witness)


def _full_price(terms: CheckTerms) -> int:
    """Return the most that the batch could cost. Its leaves took a part of it."""
    return terms.collateral - 5 * terms.judge_fee


def _change(stage: PartsChain, before: dict[bytes, int]) -> int:
    """Return the gain of the gang's validators."""
    return sum(stage.owned(who) - owned for who, owned in before.items() if who in stage.gang)


def _harm(stage: PartsChain, before: dict[bytes, int], price: int) -> Fraction:
    """Return the largest loss of any other validator."""
    return Fraction(
        max(0, *(owned - stage.owned(who) for who, owned in before.items() if who not in stage.gang)), price
    )


def _part(stage: PartsChain, free: set[bytes]) -> Fraction:
    """Return the gang's share of the stake that has no part in the batch."""
    weights = stage.weights()
    return Fraction(sum(weights[who] for who in free & stage.gang), sum(weights[who] for who in free))


def _false_parts(stage: PartsChain, unit: bytes, terms: CheckTerms, wrong: list[int]) -> tuple[int, int, Fraction]:
    """Return the tokens of false leaves and of all, and the chance that a false leaf is drawn."""
    leaves, floor = leaves_for(unit, stage.requests), weight_floor(terms.allowed, terms.requests)
    false, tokens = sum(leaves[index].tokens_out for index in wrong), sum(leaf.tokens_out for leaf in leaves)
    weight = Fraction(false + len(wrong) * floor, tokens + terms.requests * floor)
    return false, tokens, 1 - (1 - weight) ** leaves_to_check(terms.requests)
