"""Every end of a check and of a claim: its payments to the grain, and no hold or duty left."""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from gpu_tasks.market.claims import checking
from gpu_tasks.market.claims import claim_closing as closing
from gpu_tasks.market.claims.claim_events import CheckEnded, CheckerDrawn, ItemDisputed
from gpu_tasks.market.claims.claims import CheckEnd, ClaimOutcome, ClaimStage
from gpu_tasks.market.claims.collateral import ALWAYS_PPM, least_collateral
from gpu_tasks.market.claims.convictions import compared_checks
from gpu_tasks.market.claims.draws import DrawnPoints, beacon_heights
from gpu_tasks.market.claims.findings import CANNOT_FETCH, ItemSample, ItemVote, Verdict
from gpu_tasks.market.claims.handlers import Ruling
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.devices.devices import Devices
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import WINDOW_BLOCKS, Beacon
from runtime.pallets.staking.trust_lock import Paid
from simulation.chains.claim_chain import PRICE, WEIGHT, Checks, ClaimChain, sample_at
from simulation.chains.market_chain import CUSTOMER, OGPU, Keys, signed

FEE = 6 * OGPU // 100
"""The fee of a check, and of a voter: 1.2 times a twentieth of the price."""
COLLATERAL = least_collateral(PRICE, items=1, rate_ppm=ALWAYS_PPM, vote_fee=0)
REWARD = COLLATERAL // 2
COURT = 9 * FEE
VOTERS = tuple(Keys(f"voter {number}").stash for number in range(9))
APPEAL = tuple(Keys(f"appeal {number}").stash for number in range(3))
NEW_SEED = b"n" * 32
SILENT, OTHER = Checks(None), Checks(label=b"other")
WRONG, UNAVAILABLE = Checks(Verdict.WRONG), Checks(Verdict.UNAVAILABLE)
RIGHT = Checks()
CONCEDES, UNOPENED = Checks(label=b"other", is_conceded=True), Checks(is_opened=False)


@dataclass
class Play:
    """A claim whose checkers behave by a list, in the order of their draws, and whose provider shows by another."""

    checkers: tuple[Checks, ...] = (RIGHT,)
    shown: tuple[bytes | None, ...] = ()
    changed: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Open the claim."""
        self.stage = ClaimChain(
            checker=lambda _keys, _check, number: (*self.checkers, *[RIGHT] * 9)[number],
            provider=lambda _check, number: (*self.shown, *[b""] * 9)[number],
        )
        self.claim_id = self.stage.open(**self.changed)

    def disputed(self) -> None:
        """Run until voters must decide."""
        assert self.stage.run(self.claim_id, until=ClaimStage.DISPUTED) is None

    def rules(self, verdict: Verdict | None, label: bytes = b"", **changed: Any) -> ClaimOutcome | None:
        """Give the ruling with a vote of this verdict, whose samples have a label. Run on to the end."""
        ruling = Ruling(None if verdict is None else self.vote(verdict, label), False, VOTERS, **changed)
        self.stage.decide(self.claim_id, ruling)
        return self.stage.run(self.claim_id)

    def vote(self, verdict: Verdict, label: bytes = b"") -> ItemVote:
        """Return a vote about the first point."""
        claim = self.stage.claim(self.claim_id)
        if verdict is Verdict.UNAVAILABLE:
            return CANNOT_FETCH
        checks = () if claim.disputer is not None else compared_checks(claim)
        seeds = (*(check.seed for check in checks), NEW_SEED)
        point = claim.points[0] if claim.points else 0
        return ItemVote(verdict, b"a" * 32, tuple(sample_at(point, seed, label) for seed in seeds))

    @property
    def flows(self) -> dict[tuple[str, str], int]:
        """The paid and burned grains by payer and payee, the price left out."""
        names = {self.stage.owner.stash: "provider", CUSTOMER.stash: "customer", self.stage.stranger.stash: "disputer"}
        drawn = self.stage.chain.happened(CheckerDrawn)
        names |= {each.checker: f"checker {number}" for number, each in enumerate(drawn)}
        names |= dict.fromkeys(VOTERS, "voters") | dict.fromkeys(APPEAL, "appeal")
        found: Counter[tuple[str, str]] = Counter()
        for paid in self.stage.chain.happened(Paid):
            found[names[paid.who], "burned" if paid.payee is None else names[paid.payee]] += paid.amount
        return dict(found)

    @property
    def ends(self) -> list[CheckEnd]:
        """The ends of the checks, in order."""
        return [event.end for event in self.stage.chain.happened(CheckEnded)]


@pytest.fixture(autouse=True)
def no_second_check(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a second check only in tests marked by their name."""
    has_second = "second" in request.node.name

    def draw(beacons: list[bytes], _claim: bytes) -> DrawnPoints | None:
        return DrawnPoints((0,), beacons[3]) if has_second else None

    monkeypatch.setattr(checking, "draw_second", draw)


def ends(play: Play, outcome: ClaimOutcome | None, expected: dict[tuple[str, str], int]) -> None:
    """Check the outcome, all payments but the price, the burned grains, and that nothing is left."""
    assert outcome is not None
    price = {("customer", "provider"): PRICE} if outcome is ClaimOutcome.PASSED else {}
    assert play.flows == {**expected, **price}
    bound = play.stage.chain.now()
    burned = sum(amount for (_, payee), amount in expected.items() if payee == "burned")
    assert bound[Balances].burned.get() == burned
    room = bound[ResultClaims]
    assert not [*room.claims.items(), *room.claim_of_dispute.items(), *room.duties.items(), *room.due.items()]
    assert not room.agenda.places[play.claim_id] + room.final_agenda.places[play.claim_id]


def test_a_right_claim_pays_its_checker() -> None:
    play = Play()
    ends(play, play.stage.run(play.claim_id), {("customer", "checker 0"): FEE})
    assert play.ends == [CheckEnd.PASSED]


def test_a_second_check_is_paid_as_the_first() -> None:
    play = Play()
    ends(play, play.stage.run(play.claim_id), {("customer", "checker 0"): FEE, ("customer", "checker 1"): FEE})
    drawn = play.stage.chain.happened(CheckerDrawn)
    assert drawn[0].seed != drawn[1].seed
    assert drawn[0].checker != drawn[1].checker


def test_a_silent_checker_pays_one_of_its_two_replacements() -> None:
    play = Play((SILENT,))
    flows = {("checker 0", "checker 1"): FEE, ("customer", "checker 2"): FEE}
    ends(play, play.stage.run(play.claim_id), flows)
    assert play.ends == [CheckEnd.SILENT, CheckEnd.PASSED, CheckEnd.PASSED]


def test_a_conceding_checker_pays_a_replacement_and_the_provider() -> None:
    play = Play((CONCEDES,))
    flows = {("checker 0", "provider"): FEE, ("checker 0", "checker 1"): FEE, ("customer", "checker 2"): FEE}
    ends(play, play.stage.run(play.claim_id), flows)
    assert play.ends == [CheckEnd.CONCEDED, CheckEnd.PASSED, CheckEnd.PASSED]


def test_a_checker_that_does_not_open_loses_all_and_has_one_replacement() -> None:
    play = Play((UNOPENED,))
    flows = {
        ("checker 0", "provider"): FEE,
        ("checker 0", "burned"): COLLATERAL - FEE,
        ("customer", "checker 1"): FEE,
    }
    ends(play, play.stage.run(play.claim_id), flows)
    assert play.ends == [CheckEnd.UNOPENED, CheckEnd.PASSED]


def test_a_silent_provider_loses_all() -> None:
    play = Play(shown=(None,))
    spent = play.stage.free(CUSTOMER.stash)
    flows = {("provider", "checker 0"): REWARD, ("provider", "burned"): COLLATERAL - REWARD}
    ends(play, play.stage.run(play.claim_id), flows)
    assert play.stage.free(CUSTOMER.stash) - spent == PRICE + 2 * FEE, "its money returns"
    assert play.ends == [CheckEnd.UPHELD]


CONVICTED = {
    ("provider", "checker 0"): REWARD,
    ("provider", "voters"): COURT,
    ("provider", "burned"): COLLATERAL - REWARD - COURT,
}


@pytest.mark.parametrize("verdict", [Verdict.WRONG, Verdict.UNAVAILABLE])
@pytest.mark.parametrize("checker", [WRONG, UNAVAILABLE])
def test_a_false_or_withheld_item_costs_its_provider_all(checker: Checks, verdict: Verdict) -> None:
    play = Play((checker,))
    play.disputed()
    ends(play, play.rules(verdict), CONVICTED)
    assert play.ends == [CheckEnd.UPHELD]


@pytest.mark.parametrize("checker", [RIGHT, UNAVAILABLE])
def test_a_false_sample_of_a_right_item_costs_its_provider_all(checker: Checks) -> None:
    play = Play((checker,), shown=(b"false",))
    play.disputed()
    ends(play, play.rules(Verdict.RIGHT), CONVICTED)


REFUTED = {
    ("checker 0", "provider"): FEE,
    ("checker 0", "voters"): COURT,
    ("checker 0", "burned"): COLLATERAL - FEE - COURT,
}


@pytest.mark.parametrize("checker", [WRONG, OTHER])
def test_a_false_finding_costs_its_checker_all_and_the_check_counts(checker: Checks) -> None:
    play = Play((checker,))
    play.disputed()
    ends(play, play.rules(Verdict.RIGHT), REFUTED)
    assert play.ends == [CheckEnd.REFUTED]


@pytest.mark.parametrize("shown", [b"", b"third"])
def test_a_lazy_checker_of_a_false_item_is_convicted_with_the_provider_and_nobody_is_rewarded(shown: bytes) -> None:
    play = Play((OTHER,), shown=(shown,))
    play.disputed()
    flows = {
        ("provider", "voters"): COURT,
        ("provider", "burned"): COLLATERAL - COURT,
        ("checker 0", "burned"): COLLATERAL,
    }
    ends(play, play.rules(Verdict.WRONG, b"right"), flows)


def test_an_item_that_voters_can_fetch_costs_both_half_of_the_votes() -> None:
    play = Play((UNAVAILABLE,))
    play.disputed()
    ends(play, play.rules(Verdict.RIGHT), {("provider", "voters"): COURT // 2, ("checker 0", "voters"): COURT // 2})
    assert play.ends == [CheckEnd.REFUTED]


def test_a_second_check_convicts_the_provider_and_the_checker_that_passed() -> None:
    play = Play((RIGHT, WRONG))
    play.disputed()
    flows = {
        ("provider", "checker 1"): REWARD,
        ("provider", "voters"): COURT,
        ("provider", "burned"): COLLATERAL - REWARD - COURT,
        ("checker 0", "burned"): COLLATERAL,
    }
    ends(play, play.rules(Verdict.WRONG), flows)
    assert play.ends == [CheckEnd.PASSED, CheckEnd.UPHELD]


def test_a_second_check_convicts_a_pair_that_shared_a_false_sample_of_a_right_item() -> None:
    play = Play((Checks(label=b"shared"), OTHER), shown=(b"shared", b""))
    play.disputed()
    flows = {
        ("provider", "voters"): COURT,
        ("provider", "burned"): COLLATERAL - COURT,
        ("checker 0", "burned"): COLLATERAL,
        ("checker 1", "burned"): COLLATERAL,
    }
    ends(play, play.rules(Verdict.RIGHT), flows)


def test_a_second_check_is_compared_with_the_first_one_that_passed() -> None:
    play = Play((SILENT, RIGHT, RIGHT, WRONG))
    play.disputed()
    claim = play.stage.claim(play.claim_id)
    assert compared_checks(claim) == (claim.checks[1], claim.checks[3])


def test_a_false_second_finding_harms_nobody_else() -> None:
    play = Play((RIGHT, WRONG))
    play.disputed()
    flows = {
        ("checker 1", "provider"): FEE,
        ("checker 1", "voters"): COURT,
        ("checker 1", "burned"): COLLATERAL - FEE - COURT,
        ("customer", "checker 0"): FEE,
    }
    ends(play, play.rules(Verdict.RIGHT), flows)


def test_voters_compute_after_three_failures_for_the_forfeited_fees() -> None:
    play = Play((SILENT, CONCEDES, SILENT))
    play.disputed()
    each = 3 * FEE // 9
    flows = {("checker 1", "provider"): FEE, **{(f"checker {number}", "voters"): 3 * each for number in range(3)}}
    ends(play, play.rules(Verdict.RIGHT), flows)
    assert play.ends == [CheckEnd.SILENT, CheckEnd.CONCEDED, CheckEnd.SILENT]


def test_voters_in_place_of_a_checker_compute_a_drawn_point() -> None:
    """A provider that knew the point would compute only the item there."""
    play = Play((SILENT, SILENT, SILENT), changed={"items": 1000, "rate_ppm": 4_000})
    play.disputed()
    claim = play.stage.claim(play.claim_id)
    place = int.from_bytes(claim.checks[-1].seed, "little") % len(claim.points)
    assert place > 0
    assert claim.place == place
    assert play.stage.chain.happened(ItemDisputed)[0].point == claim.points[place]


def test_voters_in_place_of_a_checker_convict_the_provider_and_forfeited_fees_burn() -> None:
    play = Play((SILENT, SILENT, SILENT))
    play.disputed()
    flows = {
        ("provider", "voters"): COURT,
        ("provider", "burned"): COLLATERAL - COURT,
        **{(f"checker {number}", "burned"): FEE for number in range(3)},
    }
    ends(play, play.rules(Verdict.WRONG), flows)


def test_a_failure_after_a_pass_makes_the_checker_that_passed_a_party() -> None:
    play = Play((SILENT, RIGHT, SILENT, SILENT))
    play.disputed()
    flows = {
        ("provider", "voters"): COURT,
        ("provider", "burned"): COLLATERAL - COURT,
        ("checker 1", "burned"): COLLATERAL,
        **{(f"checker {number}", "burned"): FEE for number in (0, 2, 3)},
    }
    ends(play, play.rules(Verdict.WRONG), flows)


@pytest.mark.parametrize("checkers", [(WRONG,), (UNAVAILABLE,), (OTHER,)])
def test_without_a_decision_all_returns(checkers: tuple[Checks, ...]) -> None:
    play = Play(checkers)
    play.disputed()
    outcome = play.rules(None)
    assert outcome is ClaimOutcome.RETURNED
    ends(play, outcome, {})


def test_voters_of_an_appeal_are_paid_from_the_rest() -> None:
    play = Play((WRONG,))
    play.disputed()
    flows = {**REFUTED, ("checker 0", "appeal"): 3 * FEE, ("checker 0", "burned"): COLLATERAL - FEE - COURT - 3 * FEE}
    ends(play, play.rules(Verdict.RIGHT, appeal_voters=APPEAL), flows)


# ------------------------------------------------------------------------------------------------- any account disputes

BOND = COURT + REWARD
STOPPED = [stage for stage in ClaimStage if stage is not ClaimStage.DISPUTED]


def dispute(play: Play, stage: ClaimStage) -> None:
    """Have the stranger dispute the item in a stage."""
    assert play.stage.run(play.claim_id, until=stage) is None
    step = signed(play.stage.stranger.stash, ResultClaims.dispute(claim=play.claim_id, index=0))
    play.stage.chain.block(step)


@pytest.mark.parametrize("stage", STOPPED)
def test_a_false_dispute_costs_its_bond_and_the_claim_goes_on_where_it_was(stage: ClaimStage) -> None:
    play = Play((CONCEDES,))
    dispute(play, stage)
    play.stage.decide(play.claim_id, Ruling(play.vote(Verdict.RIGHT), False, VOTERS))
    assert play.stage.claim(play.claim_id).stage is stage
    flows = {
        ("disputer", "voters"): COURT,
        ("disputer", "burned"): REWARD,
        ("checker 0", "provider"): FEE,
        ("checker 0", "checker 1"): FEE,
        ("customer", "checker 2"): FEE,
    }
    ends(play, play.stage.run(play.claim_id), flows)


@pytest.mark.parametrize("stage", STOPPED)
@pytest.mark.parametrize("verdict", [Verdict.WRONG, Verdict.UNAVAILABLE])
def test_a_true_dispute_convicts_the_provider_alone(stage: ClaimStage, verdict: Verdict) -> None:
    play = Play((CONCEDES,))
    dispute(play, stage)
    conceded = stage is ClaimStage.CALLING
    lost = {("checker 0", "provider"): FEE, ("checker 0", "burned"): FEE} if conceded else {}
    # Later, a liar may know that a stranger checks it: a friend's dispute must save nothing of its collateral.
    reward = REWARD if stage is ClaimStage.DRAWING else 0
    flows = {
        **({("provider", "disputer"): reward} if reward else {}),
        ("provider", "voters"): COURT,
        ("provider", "burned"): COLLATERAL - reward - COURT,
        **lost,
    }
    ends(play, play.rules(verdict), flows)


@pytest.mark.parametrize("blocks_before", [1, 0])
def test_a_disputer_is_rewarded_only_before_the_first_beacon(blocks_before: int) -> None:
    play = Play()
    first = beacon_heights(play.stage.claim(play.claim_id).recorded_at)[0]
    play.stage.chain.blocks_to(first - blocks_before - 1)
    dispute(play, ClaimStage.DRAWING)
    play.rules(Verdict.WRONG)
    assert play.flows.get(("provider", "disputer"), 0) == (REWARD if blocks_before else 0)


def test_a_dispute_without_a_decision_costs_nobody_anything_and_the_claim_goes_on() -> None:
    play = Play()
    dispute(play, ClaimStage.SHOWING)
    ends(play, play.rules(None), {("customer", "checker 0"): FEE})


# --------------------------------------------------------------------------------------------------- rare circumstances


def test_a_checker_that_can_no_longer_pay_makes_room_for_the_next() -> None:
    expected = Play()
    expected.stage.run(expected.claim_id, until=ClaimStage.COMMITTING)
    first = expected.stage.claim(expected.claim_id).checks[0].checker
    play = Play()
    play.stage.chain.blocks_to(play.stage.chain.height + 20)
    poor = play.stage.free(first) - COLLATERAL
    play.stage.chain.block(lambda bound: bound[Balances].transfer(first, CUSTOMER.stash, poor))
    play.stage.run(play.claim_id, until=ClaimStage.COMMITTING)
    second = play.stage.claim(play.claim_id).checks[0].checker
    assert second != first
    assert play.stage.run(play.claim_id) is ClaimOutcome.PASSED


def test_the_customers_validator_does_not_check_and_no_validator_with_a_newer_key() -> None:
    chain = ClaimChain()
    claim, bound = chain.claim(chain.open()), chain.chain.now()
    own, newer, other = chain.chain.validators[:3]
    claim, provider = replace(claim, terms=chain.terms(customer=own.provider)), bound[Devices].providers[newer.stash]
    assert provider is not None
    bound[Devices].providers[newer.stash] = replace(provider, key_since=claim.terms.sealed_at + 1)
    may_check = bound[ResultClaims].may_check(claim)
    assert [may_check(keys.stash) for keys in (own, newer, other)] == [False, False, True]


def test_voters_compute_if_no_validator_can_pay() -> None:
    play = Play()

    def spend(bound: Any) -> None:
        for keys in play.stage.chain.validators:
            free = bound[Balances].free_balance(keys.stash)
            bound[Balances].transfer(keys.stash, CUSTOMER.stash, free - COLLATERAL)

    play.stage.chain.block(spend)
    play.disputed()
    assert play.stage.chain.happened(ItemDisputed)[0].point == play.stage.claim(play.claim_id).points[0]
    ends(play, play.rules(Verdict.RIGHT), {})


@pytest.mark.parametrize("stage", [ClaimStage.DRAWING, ClaimStage.CALLING])
def test_a_draw_that_the_beacon_forgot_is_recorded_again(stage: ClaimStage) -> None:
    """Finality halts for longer than the beacon remembers. Later beacons draw, which nobody knew either."""
    chain = ClaimChain(checker=lambda *_: CONCEDES, epoch_blocks=100_000)
    claim_id = chain.open()
    chain.run(claim_id, until=stage)
    before = chain.claim(claim_id).recorded_at
    chain.chain.final_lag = 10_000
    chain.chain.blocks(WINDOW_BLOCKS + 40)
    chain.chain.final_lag = 1
    chain.chain.blocks(1)
    claim = chain.claim(claim_id)
    assert (claim.stage, claim.recorded_at) == (stage, chain.chain.height)
    assert chain.chain.now()[Beacon].value_at(before + 2) is None
    assert chain.run(claim_id, until=ClaimStage.COMMITTING) is None


def test_a_claim_of_many_items_pays_by_the_distinct_weight_of_its_samples() -> None:
    play = Play(changed={"items": 1_000, "rate_ppm": 4_000, "price": 1_000 * PRICE})
    play.stage.run(play.claim_id, until=ClaimStage.OPENING)
    claim = play.stage.claim(play.claim_id)
    assert len(dict.fromkeys(point // WEIGHT for point in claim.points)) == 4
    play.stage.run(play.claim_id)
    assert play.flows["customer", "checker 0"] == 4 * FEE


def test_two_that_agree_on_false_weights_charge_the_customer_for_the_heaviest_items_at_most() -> None:
    terms = ClaimChain().terms(items=1_000, price=1_000 * PRICE, item_weight_max=WEIGHT)
    samples = tuple(ItemSample(index, 900 * WEIGHT, b"f" * 16) for index in (0, 1))
    assert closing.fee_of_samples(terms, samples) == 2 * FEE
    assert closing.vote_fee(terms) == FEE
