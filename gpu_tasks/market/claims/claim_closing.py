"""The money of claims, by the table of `money`, and the end of a claim with the release of all its holds.

Invariants: a claim ends once. Then no account holds anything for it or has a duty in it, and it is on no schedule. The
market pays for provider and customer, at most the amounts in the terms.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpu_tasks.market.claims.claim_events import ClaimEnded
from gpu_tasks.market.claims.claims import (
    CHECKER_BOND,
    DISPUTE_BOND,
    CheckEnd,
    ClaimOutcome,
    ClaimTerms,
    ResultClaim,
)
from gpu_tasks.market.claims.claims_storage import ClaimsStorage
from gpu_tasks.market.claims.collateral import check_fee
from gpu_tasks.market.claims.convictions import passed_checks
from gpu_tasks.market.claims.findings import Samples, distinct_weight
from gpu_tasks.market.claims.handlers import Ruling
from gpu_tasks.market.claims.money import EventMoney, Flow, MoneyEvent, Payee, Purse, settle
from runtime.cryptography.hashing import blake2_256
from runtime.frame.holds import Hold
from runtime.pallets.staking.slashing import Share

KEPT = b"fees of replacements".ljust(32, b"\0")
"""The payee of forfeited fees. They stay in the hold of the checker that lost them, until a check earns them."""
FORFEITING = (CheckEnd.SILENT, CheckEnd.CONCEDED)
"""The ends of checks after which the checker holds a forfeited fee."""
Holders = tuple[tuple[bytes, int], ...]
Payees = dict[Payee, tuple[bytes, ...]]


def dispute_id_of(claim_id: bytes, number: int) -> bytes:
    """Return the id of a claim's dispute number `number`, counted from 0."""
    return blake2_256(b"ogpu/claim-dispute" + claim_id + number.to_bytes(4, "little"))


def fee_of_samples(terms: ClaimTerms, samples: Samples) -> int:
    """Return the fee of a check of the sampled items, at most that of as many of the heaviest ones, or of all."""
    # The customer pays. Provider and checker could state any weight.
    weight = min(distinct_weight(samples), len(samples) * terms.item_weight_max, terms.weight)
    return check_fee(terms.price, terms.check_ppm, terms.fee_min, weight=weight, of=terms.weight)


def expected_fee(claim: ResultClaim) -> int:
    """Return the fee of a check before its samples are known: for items of mean weight."""
    terms = claim.terms
    weight = min(len(claim.points) * -(-terms.weight // terms.items), terms.weight)
    return check_fee(terms.price, terms.check_ppm, terms.fee_min, weight=weight, of=terms.weight)


def vote_fee(terms: ClaimTerms) -> int:
    """Return the fee of a voter: that of a check of the heaviest item, because a liar could understate an item."""
    return check_fee(terms.price, terms.check_ppm, terms.fee_min, weight=terms.item_weight_max, of=terms.weight)


def pay(
    room: ClaimsStorage,
    claim_id: bytes,
    claim: ResultClaim,
    event: MoneyEvent,
    payers: Mapping[Purse, Holders],
    payees: Mapping[Payee, tuple[bytes, ...]],
    *,
    fee: int = 0,
) -> ResultClaim:
    """Make the payments of an event, each from the hold that it names. Return the claim with the rest of its holds."""
    money = EventMoney(fee, vote_fee(claim.terms), claim.terms.collateral, dict(payers), dict(payees))
    flows = [flow for flow in settle(event, money) if flow.payee != KEPT]
    sources: dict[tuple[Purse, bytes], list[Share]] = {}
    for flow in flows:
        sources.setdefault((flow.purse, flow.source), []).append(Share(flow.payee, flow.amount))
    market = room.market(claim)
    for (purse, source), shares in sources.items():
        if purse is Purse.CUSTOMER:
            market.charge_customer(claim_id, shares)
        elif purse is Purse.PROVIDER:
            market.charge_provider(claim_id, shares)
        elif purse is Purse.DISPUTER:
            room.lock.pay_out(source, bond_hold(claim_id, claim), shares)
        else:
            room.lock.pay_out(source, Hold(CHECKER_BOND, claim_id), shares)
    return _after(claim, flows)


def provider_purse(claim: ResultClaim) -> Holders:
    """Return the provider with the rest of its collateral."""
    return ((claim.terms.provider, claim.terms.collateral - claim.charged),)


def checker_purse(claim: ResultClaim, checkers: Sequence[bytes]) -> Holders:
    """Return these checkers with their holds."""
    return tuple((check.checker, check.held) for check in claim.checks if check.checker in checkers)


def voters_of(ruling: Ruling) -> Payees:
    """Return the voters that a ruling pays."""
    return {Payee.VOTERS: ruling.voters, Payee.APPEAL_VOTERS: ruling.appeal_voters}


def forfeit(room: ClaimsStorage, claim_id: bytes, claim: ResultClaim, event: MoneyEvent) -> ResultClaim:
    """Charge the silent or conceding checker, and release it, except the fee of its replacements."""
    checker, fee = claim.checks[-1].checker, expected_fee(claim)
    payees: Payees = {Payee.PROVIDER: (claim.terms.provider,), Payee.REPLACEMENTS: (KEPT,)}
    claim = pay(room, claim_id, claim, event, {Purse.CHECKER: checker_purse(claim, (checker,))}, payees, fee=fee)
    check = claim.checks[-1]
    kept = min(fee, check.held)
    room.lock.unlock(checker, Hold(CHECKER_BOND, claim_id), check.held - kept)
    return replace(claim, checks=(*claim.checks[:-1], replace(check, held=kept)))


def forfeited(claim: ResultClaim) -> Holders:
    """Return the silent and conceding checkers with the rest of their forfeited fees."""
    return tuple((check.checker, check.held) for check in claim.checks if check.end in FORFEITING)


def conclude(room: ClaimsStorage, claim_id: bytes, claim: ResultClaim, outcome: ClaimOutcome) -> None:
    """End a claim. If it passed, each check that passed earns its fee first."""
    terms = claim.terms
    for check in passed_checks(claim) if outcome is ClaimOutcome.PASSED else ():
        payers = {
            Purse.FORFEITED: forfeited(claim),
            Purse.CUSTOMER: ((terms.customer, terms.fees_held - claim.fees_paid),),
        }
        payees = {Payee.CHECKER: (check.checker,)}
        claim = pay(room, claim_id, claim, MoneyEvent.PASSED, payers, payees, fee=check.fee)
    claim = pay(room, claim_id, claim, MoneyEvent.ENDED, {Purse.FORFEITED: forfeited(claim)}, {})
    hold = Hold(CHECKER_BOND, claim_id)
    for check in claim.checks:
        room.lock.unlock(check.checker, hold, check.held)
    room.lock.end(hold)
    release_disputer(room, claim_id, claim)
    room.remove(claim_id, claim)
    room.emit(ClaimEnded(claim_id, outcome))
    room.market(claim).conclude(claim_id, outcome)


def release_disputer(room: ClaimsStorage, claim_id: bytes, claim: ResultClaim) -> None:
    """Return the rest of a bond of dispute."""
    if claim.disputer is not None:
        hold = bond_hold(claim_id, claim)
        room.lock.unlock(claim.disputer, hold, claim.bond)
        room.lock.end(hold)


def bond_hold(claim_id: bytes, claim: ResultClaim) -> Hold:
    """Return the hold of the present dispute's bond."""
    return Hold(DISPUTE_BOND, dispute_id_of(claim_id, claim.disputes - 1))


def _after(claim: ResultClaim, flows: Sequence[Flow]) -> ResultClaim:
    """Return the claim after these payments."""

    def spent(*purses: Purse, source: bytes | None = None) -> int:
        return sum(flow.amount for flow in flows if flow.purse in purses and source in (None, flow.source))

    return replace(
        claim,
        charged=claim.charged + spent(Purse.PROVIDER),
        fees_paid=claim.fees_paid + spent(Purse.CUSTOMER),
        bond=claim.bond - spent(Purse.DISPUTER),
        checks=tuple(
            replace(check, held=check.held - spent(Purse.CHECKER, Purse.FORFEITED, source=check.checker))
            for check in claim.checks
        ),
    )
