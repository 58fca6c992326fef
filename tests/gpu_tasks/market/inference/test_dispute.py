"""Units before the courts: liars, lone answers, declines, audits, on a chain of the real pallets."""

from collections.abc import Callable

import pytest

from gpu_tasks.market.attestations.attestations import Attestations, NotAdmissible
from gpu_tasks.market.courts import hearing
from gpu_tasks.market.courts.benches import BenchKind
from gpu_tasks.market.courts.cases import AUDIT_POT, CaseStage, PartyFault
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.events import BenchDrawn, OpensNothing, OutOfTurn
from gpu_tasks.market.courts.opinions import Answered, Unanswerable
from gpu_tasks.market.inference import events as ev
from gpu_tasks.market.inference.gpu_tasks_api import GpuTasksApi
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.money import collateral
from gpu_tasks.market.inference.numbers import DUTY_FEE
from gpu_tasks.market.inference.units import UNIT_DEPOSIT, Refund, UnitState
from runtime.cryptography.signatures import verify
from runtime.frame.api import Apis
from runtime.pallets.balances import Balances
from runtime.pallets.hold_book import HeldAmount
from runtime.pallets.staking.trust_lock import Unlocked
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.market_chain import (
    BOND,
    CUSTOMER,
    DEVICE_BOND,
    GENESIS_HASH,
    OGPU,
    MarketChain,
    attestation,
    judge_commit,
    judge_open,
    named_keys,
    opens,
    refused,
    salt_of,
    signed,
    terms,
    validates,
)
from unit_cases import (
    RIGHT,
    WRONG,
    Verdict,
    all_owned,
    committed,
    declined_twice,
    ended,
    judged,
    matched,
    raced,
    revealed,
)


@pytest.mark.parametrize("validators", [6, 8])
def test_a_liar_loses_its_collateral_and_the_right_racer_is_paid(validators: int) -> None:
    """With eight a court of three is left for an appeal; with six, more than a third of the stake decides."""
    chain = MarketChain(named_keys(validators))
    unit_id, unit, (liar, honest) = raced(chain, {0: WRONG, 1: RIGHT})
    before = all_owned(chain)
    judges = judged(chain, unit_id, [Answered(RIGHT)] * 3)
    assert len(judges) == 3
    assert not {liar, honest} & set(judges)
    settled = ended(chain, unit_id)
    gained = {who: chain.owned(who) - had for who, had in before.items()}
    fee, lost = unit.price // 2, collateral(unit.rules, unit.price)
    (slashed,) = chain.happened(ev.ProviderSlashed)
    assert slashed == ev.ProviderSlashed(unit_id, liar.stash, liar.device, PartyFault.LIED, lost)
    assert gained[liar.stash] == -lost
    assert gained[honest.stash] == unit.price - unit.price // 50
    assert [gained[judge.stash] for judge in judges] == [fee] * 3
    premium = -(-2 * fee * 50_000 // 1_000_000)
    assert gained[CUSTOMER.stash] == -unit.price - premium + unit.price, "the price back from the liar"
    assert (settled.state, settled.output_root) == (UnitState.SETTLED, RIGHT)
    device = chain.device(liar)
    assert device.is_paused
    assert (device.bond, device.secured) == (DEVICE_BOND - lost, 0)
    assert liar.stash not in chain.now()[TrustStake].tombstones
    assert chain.now()[TrustStake].bonds[liar.stash] == BOND, "what it holds elsewhere is untouched"


def test_d3_a_convicted_racer_loses_no_more_than_the_collateral_of_the_unit() -> None:
    """A third of the judges and a Sybil racer cannot take a rich racer's stake: after an appeal, they pay."""
    chain = MarketChain(named_keys(9))
    unit_id, _, (sybil, honest) = raced(chain, {0: WRONG, 1: RIGHT})
    before = all_owned(chain)
    colluding = judged(chain, unit_id, [Answered(WRONG), Answered(WRONG), Answered(RIGHT)])
    chain.block(signed(honest.stash, Courts.appeal(case_id=unit_id)))
    court = judged(chain, unit_id, [Answered(RIGHT)] * 4)
    assert len(court) == 9 - 2 - 3
    settled = ended(chain, unit_id)
    assert settled.output_root == RIGHT
    gained = {who: chain.owned(who) - had for who, had in before.items()}
    assert gained[honest.stash] == settled.price - settled.price // 50 + 2 * settled.price
    assert all(gained[judge.stash] < -10 * settled.price for judge in colluding[:2])
    assert gained[sybil.stash] < 0
    assert sum(gained[one.stash] for one in (sybil, *colluding[:2])) + gained[CUSTOMER.stash] < 0


def test_fast_garbage_does_not_win_by_shutting_the_other_out() -> None:
    chain = MarketChain(named_keys(8))
    unit_id, _, (liar, _) = raced(chain, {0: WRONG})
    judged(chain, unit_id, [Answered(RIGHT), Answered(RIGHT)])
    judged(chain, unit_id, [Answered(RIGHT), Answered(RIGHT), Answered(RIGHT)])
    ended(chain, unit_id)
    (slashed,) = chain.happened(ev.ProviderSlashed)
    assert (slashed.provider, slashed.fault) == (liar.stash, PartyFault.LIED)
    assert chain.happened(ev.UnitRequeued), "nobody was right: the unit is drawn again"


def test_a_lone_right_answer_is_paid_once_a_pair_has_looked_at_it() -> None:
    """Its customer pays for that and the pot pays nothing, so late racers cannot empty it."""
    chain = MarketChain(named_keys(8))
    unit_id, unit, (winner, shut_out) = raced(chain, {0: RIGHT})
    assert chain.unit(unit_id).state is UnitState.JUDGING
    assert chain.case(unit_id).stage is CaseStage.PAIR
    chain.block(lambda bound: bound[Courts].pay_premium(CUSTOMER.stash, OGPU))
    before, pot = all_owned(chain), chain.owned(AUDIT_POT)
    judges = judged(chain, unit_id, [Answered(RIGHT)] * 2)
    assert len(judges) == 2
    settled = ended(chain, unit_id)
    gained = {who: chain.owned(who) - had for who, had in before.items()}
    fee = unit.price // 2
    premium = -(-2 * fee * 50_000 // 1_000_000)
    assert [gained[judge.stash] for judge in judges] == [fee] * 2
    assert gained[winner.stash] == unit.price - unit.price // 50
    assert gained[shut_out.stash] == 0
    assert gained[CUSTOMER.stash] == -(unit.price + 2 * fee + premium)
    assert chain.owned(AUDIT_POT) - pot == premium
    assert settled.output_root == RIGHT
    assert not chain.happened(ev.ProviderSlashed)


@pytest.mark.parametrize("opens_late", [False, True])
def test_d7_withholding_is_no_cheap_way_to_lie(*, opens_late: bool) -> None:
    """A commitment that stays closed beside a right answer is a lie. Opened late and right, it is a miss."""
    chain = MarketChain(named_keys(8))
    unit_id, unit, (honest, silent) = matched(chain)
    committed(chain, unit_id, (honest, silent))
    chain.blocks(1)
    revealed(chain, unit_id, [honest])
    while chain.unit(unit_id).state is UnitState.RACING:
        chain.block()
    assert not chain.happened(ev.RaceMissed), "what it was, the case says"
    if opens_late:
        late = Attestations.reveal(attestation=attestation(silent, unit_id, unit, RIGHT))
        chain.block(signed(silent.provider, late), refused(silent.provider, late, NotAdmissible))
    judged(chain, unit_id, [Answered(RIGHT)] * 2)
    settled = ended(chain, unit_id)
    (slashed,) = chain.happened(ev.ProviderSlashed)
    fee = unit.price // 2
    missed = -(-unit.price // 4) + 2 * fee
    assert slashed.provider == silent.stash
    assert slashed.fault is (PartyFault.MISSED if opens_late else PartyFault.LIED)
    assert slashed.amount == (missed if opens_late else collateral(unit.rules, unit.price))
    (paid,) = chain.happened(ev.UnitSettled)
    assert (paid.winner, paid.witness) == (honest.stash, None), "what comes late is not paid"
    assert settled.output_root == RIGHT


def test_a_customer_appeals_for_itself_whoever_calls_its_account_a_provider_key() -> None:
    """No proof binds a provider key to an account: the liar could appeal in the customer's place or block it."""
    chain = MarketChain(named_keys(12))
    unit_id, _, (_, liar) = raced(chain, {0: RIGHT, 1: WRONG})
    judged(chain, unit_id, [Answered(WRONG)] * 3)
    chain.block(signed(liar.stash, validates(liar, commission_ppm=100_000, provider_key=CUSTOMER.stash)))
    chain.block(signed(CUSTOMER.stash, Courts.appeal(case_id=unit_id)))
    appeal = chain.case(unit_id).appeal
    assert appeal is not None
    assert appeal.appellant == CUSTOMER.stash


def test_two_lie_alike_and_the_third_is_right() -> None:
    chain = MarketChain(named_keys(9))
    unit_id, _, keys = raced(chain, {0: WRONG, 1: WRONG, 2: RIGHT}, racers=3)
    judged(chain, unit_id, [Answered(RIGHT)] * 3)
    ended(chain, unit_id)
    assert {one.provider for one in chain.happened(ev.ProviderSlashed)} == {keys[0].stash, keys[1].stash}
    (settled,) = chain.happened(ev.UnitSettled)
    assert settled.winner == keys[2].stash


def test_bad_input() -> None:
    chain = MarketChain(named_keys(6))
    customer = chain.owned(CUSTOMER.stash)
    unit_id, unit, racers = raced(chain, {0: WRONG, 1: RIGHT})
    before = all_owned(chain)
    judges = judged(chain, unit_id, [Unanswerable(), Unanswerable(), Answered(RIGHT)])
    ended(chain, unit_id)
    bond, fees = OGPU * 5 // 100, 2 * (unit.price // 2)
    (refunded,) = chain.happened(ev.UnitRefunded)
    assert (refunded.refund, refunded.lost) == (Refund.INPUT_BAD, fees)
    assert fees > bond, "the bond first, then the price"
    assert customer - chain.owned(CUSTOMER.stash) == fees + 10 * DUTY_FEE
    assert [chain.owned(judge.stash) - before[judge.stash] for judge in judges] == [fees // 2, fees // 2, 0]
    assert [chain.owned(racer.stash) - before[racer.stash] for racer in racers] == [0, 0]
    assert not chain.happened(ev.ProviderSlashed)


def test_a_committee_of_two_must_agree_and_without_more_judges_nobody_is_slashed() -> None:
    chain = MarketChain(named_keys(4))
    customer = chain.owned(CUSTOMER.stash)
    unit_id, _, _ = raced(chain, {0: WRONG, 1: RIGHT})
    judges = judged(chain, unit_id, [Answered(RIGHT), Answered(WRONG)])
    assert len(judges) == 2
    ended(chain, unit_id)
    (refunded,) = chain.happened(ev.UnitRefunded)
    assert (refunded.refund, refunded.lost) == (Refund.INCONCLUSIVE, 0)
    assert customer - chain.owned(CUSTOMER.stash) == 10 * DUTY_FEE
    assert not chain.happened(ev.ProviderSlashed)


@pytest.mark.parametrize("is_good", [False, True])
def test_d4_who_declines_a_good_input_pays_its_judges(*, is_good: bool) -> None:
    chain = MarketChain(named_keys(8))
    chain.block(lambda bound: bound[Courts].pay_premium(CUSTOMER.stash, OGPU))
    unit_id, racers = declined_twice(chain)
    unit, before = chain.unit(unit_id), all_owned(chain)
    assert unit.state is UnitState.JUDGING
    judges = judged(chain, unit_id, [Answered(RIGHT) if is_good else Unanswerable()] * 3)
    while chain.unit(unit_id).state is UnitState.JUDGING:
        chain.block()
    gained = {who: chain.owned(who) - had for who, had in before.items()}
    fee, bond = unit.price // 2, OGPU * 5 // 100
    assert [gained[judge.stash] for judge in judges] == [fee] * 3
    share = -(-unit.price // 4) + 3 * fee // 2
    assert [gained[racer.stash] for racer in racers] == [-share if is_good else 0] * 2
    assert gained[CUSTOMER.stash] == (0 if is_good else -(bond + unit.price)), "the pot pays what they do not cover"
    faults = [one.fault for one in chain.happened(ev.ProviderSlashed)]
    assert faults == [PartyFault.DECLINED] * (2 if is_good else 0)
    if is_good:
        assert chain.unit(unit_id).state is not UnitState.REFUNDED, "it is drawn again, without those two"
        assert set(chain.unit(unit_id).declined_by) == {racer.stash for racer in racers}
    else:
        assert [one.refund for one in chain.happened(ev.UnitRefunded)] == [Refund.INPUT_BAD]


def test_a_decline_leaves_the_others_in_the_race_and_pays_for_the_look_at_their_answer() -> None:
    chain = MarketChain(named_keys(8))
    unit_id, unit, (decliner, worker) = matched(chain)
    chain.block(signed(decliner.provider, InferenceMarket.decline(unit=unit_id, attempt=1)))
    committed(chain, unit_id, [worker])
    revealed(chain, unit_id, [worker])
    judged(chain, unit_id, [Answered(RIGHT)] * 2)
    ended(chain, unit_id)
    (slashed,) = chain.happened(ev.ProviderSlashed)
    assert (slashed.provider, slashed.fault) == (decliner.stash, PartyFault.DECLINED)
    (settled,) = chain.happened(ev.UnitSettled)
    assert (settled.winner, settled.paid) == (worker.stash, unit.price + settled.paid - unit.price)


def _cancel(chain: MarketChain) -> None:
    chain.blocks(3)
    (unit_id,) = chain.post(terms())
    chain.block(signed(CUSTOMER.stash, InferenceMarket.cancel(unit=unit_id)))


def _expire(chain: MarketChain) -> None:
    chain.blocks(3)
    chain.post(terms(racers=7))
    chain.blocks(20)


def _declined(chain: MarketChain) -> None:
    unit_id, _ = declined_twice(chain)
    judged(chain, unit_id, [Unanswerable()] * 3)


def _agree(chain: MarketChain) -> None:
    raced(chain, {0: RIGHT, 1: RIGHT})


def _judge(opinion: Verdict | None) -> Callable[[MarketChain], None]:
    def end(chain: MarketChain) -> None:
        unit_id, _, _ = raced(chain, {0: WRONG, 1: RIGHT})
        judged(chain, unit_id, [opinion] * 3)

    return end


@pytest.mark.parametrize(
    ("end", "kind"),
    [
        (_agree, None),
        (_judge(Answered(RIGHT)), None),
        (_judge(Unanswerable()), Refund.INPUT_BAD),
        (_judge(None), Refund.INCONCLUSIVE),
        (_declined, Refund.INPUT_BAD),
        (_expire, Refund.EXPIRED),
        (_cancel, Refund.CANCELLED),
    ],
)
def test_the_deposit_comes_back_with_the_record_at_every_end(
    end: Callable[[MarketChain], None], kind: Refund | None
) -> None:
    keep = {"InferenceMarket.queue_blocks": 20, "InferenceMarket.unit_keep": 99}
    chain = MarketChain(named_keys(6), constants=keep)
    end(chain)
    assert chain.now()[Balances].holds[CUSTOMER.stash] == (HeldAmount(UNIT_DEPOSIT, OGPU // 10),)
    assert not [happened for happened in chain.happened(Unlocked) if happened.reason is UNIT_DEPOSIT]
    ((unit_id, _),) = chain.now()[InferenceMarket].units.items()
    ended(chain, unit_id)
    chain.blocks(chain.now()[InferenceMarket].expiring.places[unit_id] - chain.height)
    assert [one.refund for one in chain.happened(ev.UnitRefunded)] == ([] if kind is None else [kind])
    assert len(chain.happened(ev.UnitSettled)) == (kind is None)
    returned = [one for one in chain.happened(Unlocked) if one.reason is UNIT_DEPOSIT]
    assert returned == [Unlocked(CUSTOMER.stash, UNIT_DEPOSIT, unit_id, OGPU // 10)]
    assert not chain.now()[Balances].holds[CUSTOMER.stash]


@pytest.mark.parametrize("racers", [1, 2, 8])
def test_the_quote_is_what_is_locked(racers: int) -> None:
    chain = MarketChain(named_keys(2))
    chain.blocks(3)
    before = chain.now()[Balances].free_balance(CUSTOMER.stash)
    api = GpuTasksApi(Apis(chain.runtime, (GpuTasksApi,)), chain.state, GENESIS_HASH, verify)
    quote = api.quote(0, OGPU, racers, 1)
    assert quote is not None
    chain.post(terms(racers=racers))
    assert chain.now()[Balances].reserved_balance(CUSTOMER.stash) == quote.locked
    assert before - chain.now()[Balances].free_balance(CUSTOMER.stash) == quote.locked + quote.prepaid


def test_silent_judges_end_in_a_refund_too() -> None:
    chain = MarketChain(named_keys(4))
    unit_id, _, _ = raced(chain, {0: WRONG, 1: RIGHT})
    before = all_owned(chain)
    judges = judged(chain, unit_id, [None, None])
    ended(chain, unit_id)
    (refunded,) = chain.happened(ev.UnitRefunded)
    assert (refunded.unit, refunded.refund) == (unit_id, Refund.INCONCLUSIVE)
    assert [chain.owned(judge.stash) - before[judge.stash] for judge in judges] == [0, 0]


def test_an_opinion_copied_from_another_judge_opens_nothing() -> None:
    chain = MarketChain(named_keys(6))
    unit_id, _, _ = raced(chain, {0: WRONG, 1: RIGHT})
    while not chain.case(unit_id).benches:
        chain.block()
    one, two, three = (chain.keys_of(member) for member in chain.case(unit_id).benches[0].members)
    opinion = Answered(RIGHT)
    chain.block(judge_commit(one, unit_id, BenchKind.COMMITTEE, opinion))
    seat = chain.now()[Courts].seats[one.stash, unit_id]
    assert seat is not None
    call = Courts.commit_opinion(case_id=unit_id, commitment=seat.commitment or b"")
    said = opens(one, unit_id, opinion)
    early = Courts.open_opinion(case_id=unit_id, statement=said, salt=salt_of(one, unit_id))
    chain.block(
        signed(two.provider, call),
        refused(one.provider, early, OutOfTurn),
        judge_commit(three, unit_id, BenchKind.COMMITTEE, opinion),
    )
    chain.block()
    chain.block(judge_open(one, unit_id, opinion), refused(two.provider, early, OpensNothing))


def test_one_judge_alone_is_not_asked() -> None:
    chain = MarketChain(named_keys(3))
    unit_id, _, _ = raced(chain, {0: WRONG, 1: RIGHT})
    ended(chain, unit_id)
    (refunded,) = chain.happened(ev.UnitRefunded)
    assert refunded.refund is Refund.INCONCLUSIVE
    assert not chain.happened(BenchDrawn)


# --------------------------------------------------------------------------------------------------------------- audits


@pytest.fixture
def _audits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the beacon audit everything."""
    monkeypatch.setattr(hearing, "is_audited", lambda *_: True)


@pytest.mark.usefixtures("_audits")
@pytest.mark.parametrize("racers", [1, 2])
def test_a_settled_result_that_an_audit_finds_wrong_costs_its_racers_the_collateral(racers: int) -> None:
    chain = MarketChain(named_keys(10))
    unit_id, unit, liars = raced(chain, dict.fromkeys(range(racers), WRONG), racers=racers)
    paid = chain.unit(unit_id)
    assert (paid.state, paid.is_watched) == (UnitState.SETTLED, True)
    before = all_owned(chain)
    while chain.case(unit_id).stage is CaseStage.CHANCE:
        chain.block()
    judged(chain, unit_id, [Answered(RIGHT)] * 2)
    judges = judged(chain, unit_id, [Answered(RIGHT)] * 3)
    refuted = ended(chain, unit_id)
    gained = {who: chain.owned(who) - had for who, had in before.items()}
    secured = collateral(unit.rules, unit.price)
    assert [gained[liar.stash] for liar in liars] == [-secured] * racers
    assert gained[CUSTOMER.stash] == unit.price, "once, however many lied"
    assert [gained[judge.stash] for judge in judges] == [unit.price // 2] * 3
    assert (refuted.is_refuted, refuted.is_watched) == (True, False)
    assert [one.output_root for one in chain.happened(ev.ResultRefuted)] == [WRONG]
    assert all(chain.device(liar).secured == 0 for liar in liars)


@pytest.mark.usefixtures("_audits")
def test_a_right_result_that_is_audited_costs_its_racers_nothing_and_frees_their_collateral() -> None:
    chain = MarketChain(named_keys(9))
    unit_id, _, racers = raced(chain, {0: RIGHT, 1: RIGHT})
    before = all_owned(chain)
    while chain.case(unit_id).stage is CaseStage.CHANCE:
        chain.block()
    judged(chain, unit_id, [Answered(RIGHT)] * 2)
    settled = ended(chain, unit_id)
    assert not settled.is_refuted
    assert [chain.owned(racer.stash) - before[racer.stash] for racer in racers] == [0, 0]
    assert [chain.device(racer).secured for racer in racers] == [0, 0]
    assert not chain.happened(ev.ProviderSlashed)


def test_without_an_audit_the_collateral_is_free_after_a_few_blocks() -> None:
    chain = MarketChain(named_keys(6), constants={"Courts.audit_rate_ppm": 1_000})
    unit_id, unit, racers = raced(chain, {0: RIGHT, 1: RIGHT})
    device = chain.device(racers[0])
    assert device.secured == collateral(unit.rules, unit.price)
    chain.blocks(5 + 1)
    assert not chain.unit(unit_id).is_watched
    assert chain.device(racers[0]).secured == 0


@pytest.mark.usefixtures("_audits")
def test_a_network_of_two_judges_nobody() -> None:
    chain = MarketChain(named_keys(2))
    unit_id, _, _ = raced(chain, {0: RIGHT, 1: RIGHT})
    settled = ended(chain, unit_id)
    assert (settled.state, settled.is_refuted) == (UnitState.SETTLED, False)
    assert not chain.happened(BenchDrawn)


@pytest.mark.usefixtures("_audits")
def test_who_withheld_beside_answers_that_agreed_has_paid_for_that_and_is_no_party_to_an_audit() -> None:
    """It lost all of it if an audit confirmed the others, and had no way to open its result."""
    chain = MarketChain(named_keys(10))
    unit_id, unit, (first, second, silent) = matched(chain, racers=3)
    committed(chain, unit_id, (first, second, silent))
    chain.blocks(1)
    revealed(chain, unit_id, (first, second))
    while chain.unit(unit_id).state is UnitState.RACING:
        chain.block()
    (missed,) = chain.happened(ev.RaceMissed)
    assert (missed.provider, missed.amount) == (silent.stash, -(-unit.price // 4))
    before = chain.owned(silent.stash)
    while chain.case(unit_id).stage is CaseStage.CHANCE:
        chain.block()
    late = Attestations.reveal(attestation=attestation(silent, unit_id, unit, RIGHT))
    chain.block(refused(silent.provider, late, NotAdmissible))
    judged(chain, unit_id, [Answered(RIGHT)] * 2)
    assert not ended(chain, unit_id).is_refuted
    assert not chain.happened(ev.ProviderSlashed)
    assert chain.owned(silent.stash) == before
