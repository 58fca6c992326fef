"""ResultClaims: holds of checkers and disputers, duties, and the next steps of claims."""

from gpu_tasks.market.claims import result_claims as of_claims
from gpu_tasks.market.claims.claim_closing import bond_hold, dispute_id_of
from gpu_tasks.market.claims.claims import CHECKER_BOND, CHECKS_MAX, ClaimStage, ResultClaim
from gpu_tasks.market.claims.claims_storage import owed
from gpu_tasks.market.claims.findings import Finding, Verdict
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.due import case_of
from runtime.frame.holds import Hold
from runtime.frame.measured import times
from runtime.frame.schedule import TAKE_WEIGHT
from runtime.pallets.staking.stakers import VALIDATORS_MAX
from simulation.actors import always
from simulation.books import BROUGHT, Books, Keys, PalletBooks, Rule, both_or_none, counts, places

STEPS = Rule("a claim without a dispute, and its next step", both_or_none)
DUTIES = Rule("accounts that a claim waits for, and their duties")
DISPUTED = Rule("disputed claims, and their disputes")


def _claim(books: Books, keys: Keys, claim: ResultClaim, sign: int) -> None:
    claim_id = keys[0]
    if claim.terms.handler in books.indices:
        books[BROUGHT].count(claim_id, sign)
    if claim.stage is ClaimStage.DISPUTED:
        books[DISPUTED].claim((dispute_id_of(claim_id, claim.disputes - 1), claim_id), sign)
    else:
        books[STEPS].claim(claim_id, sign)
    if claim.disputer is not None:
        books.case(claim.disputer, bond_hold(claim_id, claim), sign * claim.bond)
    for stash, stage in owed(claim).items():
        books[DUTIES].claim((stash, claim_id, stage), sign)
    for check in claim.checks:
        books.case(check.checker, Hold(CHECKER_BOND, claim_id), sign * check.held)


WORLDS = (
    PalletBooks(
        ResultClaims,
        (
            (ResultClaims.claims, _claim),
            (ResultClaims.duties, lambda books, keys, stage, sign: books[DUTIES].count((*keys, stage), sign)),
            (
                ResultClaims.claim_of_dispute,
                lambda books, keys, claim_id, sign: books[DISPUTED].count((keys[0], claim_id), sign),
            ),
            (ResultClaims.due, counts(STEPS, lambda keys: case_of(keys[0]))),
            (ResultClaims.agenda.places, places(STEPS)),
            (ResultClaims.final_agenda.places, places(STEPS)),
        ),
    ),
)

_LAST_STEP = of_claims.STEP_WEIGHT + max(
    of_claims.NAME_WEIGHT + times(VALIDATORS_MAX, of_claims.CHECKER_LOOK_WEIGHT),
    of_claims.END_WEIGHT + times(CHECKS_MAX, of_claims.CHECKER_WEIGHT),
    key=lambda weight: weight.ref_time,
)
HOOKS = (
    (of_claims.HEIGHT_BUDGET, of_claims.DUE_WEIGHT + TAKE_WEIGHT),
    (of_claims.FINAL_BUDGET, of_claims.DUE_WEIGHT + TAKE_WEIGHT),
    (of_claims.CLAIMS_BUDGET, _LAST_STEP),
)

ARGUMENTS = {
    "claim": lambda world, _: world.claim(),
    "index": always(0),
    "samples": always(()),
    "finding": always(Finding(Verdict.UNAVAILABLE, 0, ())),
}
