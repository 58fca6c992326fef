"""Disputes: committees, liars, judges, and every row of the money table on a chain of the real pallets."""

from collections.abc import Callable

import pytest

from gpu_tasks.market.api import GpuTasksApi
from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference import events as ev
from gpu_tasks.market.inference.commitments import InputBad, Recomputed
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.money import collateral
from gpu_tasks.market.inference.units import UNIT_DEPOSIT, Refund, Unit, UnitState
from market_chain import (
    BOND,
    CUSTOMER,
    DEVICE_BOND,
    GENESIS_HASH,
    OGPU,
    Keys,
    MarketChain,
    attach,
    attestation,
    commit,
    judge_commit,
    judge_reveal,
    named_keys,
    refused,
    salt_of,
    signed,
    terms,
)
from runtime.cryptography.signatures import verify
from runtime.encoding.types import Unsigned
from runtime.frame.api import Apis
from runtime.frame.errors import InvalidBlock
from runtime.pallets.balances import Balances
from runtime.pallets.hold_book import HeldAmount
from runtime.pallets.staking.trust_lock import Unlocked
from runtime.pallets.staking.trust_stake import TrustStake

RIGHT, WRONG, OTHER = b"R" * 32, b"W" * 32, b"O" * 32


def raced(chain: MarketChain, roots: dict[int, bytes | None], racers: int = 2) -> tuple[bytes, Unit, list[Keys]]:
    """A unit whose racers (by place) commit and attach these roots; None: stays silent. Ends at the reveals."""
    chain.blocks(3)
    (unit_id,) = chain.post(terms(racers=racers))
    while chain.unit(unit_id).state is UnitState.QUEUED:
        chain.block()
    unit = chain.unit(unit_id)
    keys = [chain.keys_of(one.owner) for one in unit.racers]
    given = {place: root for place, root in roots.items() if root}
    chain.block(*(commit(keys[place], unit_id, unit, root) for place, root in given.items()))
    if len(given) < racers:
        chain.blocks(11)
    chain.block(attach(*(attestation(keys[place], unit_id, unit, root) for place, root in given.items())))
    return unit_id, unit, keys


def judged(chain: MarketChain, unit_id: bytes, verdicts: list[Recomputed | InputBad | None]) -> list[Keys]:
    """The committee that is drawn next gives these verdicts, in the order of its seats; None: stays silent."""
    committee = None
    while committee is None or committee.round is None:
        chain.block()
        committee = chain.now()[InferenceMarket].committees[unit_id]
    judges = [chain.keys_of(one.account) for one in committee.members]
    given = [(judge, verdict) for judge, verdict in zip(judges, verdicts, strict=False) if verdict is not None]
    chain.block(*(judge_commit(judge, unit_id, committee.number, verdict) for judge, verdict in given))
    if len(given) < len(judges):
        chain.blocks(20 + 2)
    chain.block(*(judge_reveal(judge, unit_id, committee.number, verdict) for judge, verdict in given))
    return judges


def owned(chain: MarketChain, account: bytes) -> int:
    balances = chain.now()[Balances]
    return balances.free_balance(account) + balances.reserved_balance(account)


def test_a_liar_is_slashed_and_the_right_racer_is_paid() -> None:
    chain = MarketChain(named_keys(6))
    unit_id, unit, (liar, honest) = raced(chain, {0: WRONG, 1: RIGHT})
    before = {one.stash: owned(chain, one.stash) for one in chain.validators}
    customer = owned(chain, CUSTOMER.stash)
    judges = judged(chain, unit_id, [Recomputed(RIGHT)] * 3)
    assert len(judges) == 3
    assert liar not in judges
    assert honest not in judges
    (slashed,) = chain.happened(ev.ProviderSlashed)
    secured = collateral(unit.rules, unit.price, unit.terms.price_max)
    assert (slashed.provider, slashed.collateral, slashed.bond) == (liar.stash, secured, BOND // 10)
    assert before[liar.stash] - owned(chain, liar.stash) == secured + BOND // 10
    assert owned(chain, honest.stash) - before[honest.stash] == unit.price - unit.price // 50
    lost = secured + BOND // 10
    witness = unit.price * 30 // 100
    assert customer - owned(chain, CUSTOMER.stash) == unit.price + witness - secured * 4 // 10 - BOND // 10 * 4 // 10
    for judge in judges:
        gained = owned(chain, judge.stash) - before[judge.stash]
        expected = secured // 10 // 3 + BOND // 10 // 10 // 3 + (witness - witness // 50) // 3
        assert gained == expected
    assert lost > 5 * unit.price
    device = chain.now()[Devices].devices[liar.device]
    assert device is not None
    assert device.is_paused
    assert device.bond == DEVICE_BOND - secured
    assert liar.stash not in chain.now()[TrustStake].tombstones


def test_fast_garbage_does_not_win_by_shutting_the_other_out() -> None:
    chain = MarketChain(named_keys(6))
    unit_id, _, (liar, _) = raced(chain, {0: WRONG})
    judged(chain, unit_id, [Recomputed(RIGHT), Recomputed(RIGHT)])
    (slashed,) = chain.happened(ev.ProviderSlashed)
    assert slashed.provider == liar.stash
    assert chain.unit(unit_id).state is UnitState.QUEUED, "nobody was right: the unit is drawn again"


def test_a_lone_right_reveal_is_paid_and_the_judges_are_the_witness() -> None:
    chain = MarketChain(named_keys(6))
    unit_id, unit, (winner, _) = raced(chain, {0: RIGHT})
    judges = judged(chain, unit_id, [Recomputed(RIGHT)] * 3)
    (settled,) = chain.happened(ev.UnitSettled)
    assert (settled.winner, settled.witness) == (winner.stash, None)
    witness = unit.price * 30 // 100
    assert settled.paid == unit.price + witness
    assert not chain.happened(ev.ProviderSlashed)
    assert len(judges) == 3


def test_two_lie_alike_and_the_third_is_right() -> None:
    chain = MarketChain(named_keys(7))
    unit_id, _, keys = raced(chain, {0: WRONG, 1: WRONG, 2: RIGHT}, racers=3)
    judged(chain, unit_id, [Recomputed(RIGHT), Recomputed(RIGHT), Recomputed(RIGHT)])
    assert {one.provider for one in chain.happened(ev.ProviderSlashed)} == {keys[0].stash, keys[1].stash}
    (settled,) = chain.happened(ev.UnitSettled)
    assert settled.winner == keys[2].stash


def test_bad_input() -> None:
    chain = MarketChain(named_keys(6))
    customer = owned(chain, CUSTOMER.stash)
    unit_id, _, _ = raced(chain, {0: WRONG, 1: RIGHT})
    judges = judged(chain, unit_id, [InputBad(), InputBad(), Recomputed(RIGHT)])
    (refunded,) = chain.happened(ev.UnitRefunded)
    assert (refunded.refund, refunded.burned) == (Refund.INPUT_BAD, OGPU * 5 // 200)
    assert customer - owned(chain, CUSTOMER.stash) == OGPU * 5 // 100 + 10 * 4_000
    assert owned(chain, judges[0].stash) > owned(chain, judges[2].stash)
    assert not chain.happened(ev.ProviderSlashed)


def test_a_committee_of_two_must_agree_and_without_more_members_nobody_is_slashed() -> None:
    chain = MarketChain(named_keys(4))
    customer = owned(chain, CUSTOMER.stash)
    unit_id, _, _ = raced(chain, {0: WRONG, 1: RIGHT})
    judges = judged(chain, unit_id, [Recomputed(RIGHT), Recomputed(WRONG)])
    assert len(judges) == 2
    chain.blocks(3)
    (refunded,) = chain.happened(ev.UnitRefunded)
    assert (refunded.refund, refunded.burned) == (Refund.INCONCLUSIVE, 0)
    assert customer - owned(chain, CUSTOMER.stash) == 10 * 4_000
    assert not chain.happened(ev.ProviderSlashed)


def _cancel(chain: MarketChain) -> None:
    chain.blocks(3)
    (unit_id,) = chain.post(terms())
    chain.block(signed(CUSTOMER.stash, InferenceMarket.cancel(unit=unit_id)))


def _expire(chain: MarketChain) -> None:
    chain.blocks(3)
    chain.post(terms(racers=7))
    chain.blocks(20)


def _decline(chain: MarketChain) -> None:
    chain.blocks(3)
    (unit_id,) = chain.post(terms())
    for attempt in (1, 2):
        while chain.unit(unit_id).state is UnitState.QUEUED:
            chain.block()
        racer = chain.keys_of(chain.unit(unit_id).racers[0].owner)
        chain.block(signed(racer.provider, InferenceMarket.decline(unit=unit_id, attempt=attempt)))


def _agree(chain: MarketChain) -> None:
    raced(chain, {0: RIGHT, 1: RIGHT})


def _judge(verdict: Recomputed | InputBad | None) -> Callable[[MarketChain], None]:
    def end(chain: MarketChain) -> None:
        unit_id, _, _ = raced(chain, {0: WRONG, 1: RIGHT})
        judged(chain, unit_id, [verdict] * 3)
        chain.blocks(3)

    return end


@pytest.mark.parametrize(
    ("end", "kind"),
    [
        (_agree, None),
        (_judge(Recomputed(RIGHT)), None),
        (_judge(InputBad()), Refund.INPUT_BAD),
        (_judge(None), Refund.INCONCLUSIVE),
        (_decline, Refund.INPUT_DECLINED),
        (_expire, Refund.EXPIRED),
        (_cancel, Refund.CANCELLED),
    ],
)
def test_the_deposit_comes_back_with_the_record_at_every_end(
    end: Callable[[MarketChain], None], kind: Refund | None
) -> None:
    keep = {"InferenceMarket.queue_blocks": 20, "InferenceMarket.unit_keep": 9}
    chain = MarketChain(named_keys(6), constants=keep)
    end(chain)
    assert chain.now()[Balances].holds[CUSTOMER.stash] == (HeldAmount(UNIT_DEPOSIT, OGPU // 10),)
    assert not [happened for happened in chain.happened(Unlocked) if happened.reason is UNIT_DEPOSIT]
    ((unit_id, _),) = chain.now()[InferenceMarket].units.items()
    (record,) = [unit for _, unit in chain.now()[InferenceMarket].units.items() if unit is not None]
    chain.blocks(record.ended_at + 9 - chain.height)
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
    quote = api.quote(0, OGPU, racers)
    assert quote is not None
    chain.post(terms(racers=racers))
    assert chain.now()[Balances].reserved_balance(CUSTOMER.stash) == quote.locked
    assert before - chain.now()[Balances].free_balance(CUSTOMER.stash) == quote.locked + quote.prepaid


def test_silent_judges_end_in_a_refund_too() -> None:
    chain = MarketChain(named_keys(4))
    unit_id, _, _ = raced(chain, {0: WRONG, 1: RIGHT})
    chain.blocks(3 + 1 + 20 + 4)
    (refunded,) = chain.happened(ev.UnitRefunded)
    assert (refunded.unit, refunded.refund) == (unit_id, Refund.INCONCLUSIVE)


def test_no_majority_escalates_to_fresh_members() -> None:
    chain = MarketChain(named_keys(7))
    unit_id, _, racers = raced(chain, {0: WRONG, 1: RIGHT})
    first = judged(chain, unit_id, [Recomputed(RIGHT), Recomputed(WRONG), InputBad()])
    second = judged(chain, unit_id, [Recomputed(RIGHT)] * 5)
    assert len(second) == 7 - 2 - 3, "all that are left"
    assert not {one.name for one in second} & {one.name for one in [*first, *racers]}
    chain.blocks(3)
    (refunded,) = chain.happened(ev.UnitRefunded)
    assert refunded.refund is Refund.INCONCLUSIVE, "one success is not two, and nobody is left to ask"


def test_a_verdict_copied_from_another_judge_opens_nothing() -> None:
    chain = MarketChain(named_keys(6))
    unit_id, _, _ = raced(chain, {0: WRONG, 1: RIGHT})
    committee = None
    while committee is None or committee.round is None:
        chain.block()
        committee = chain.now()[InferenceMarket].committees[unit_id]
    one, two, three = (chain.keys_of(member.account) for member in committee.members)
    verdict = Recomputed(RIGHT)
    chain.block(judge_commit(one, unit_id, 0, verdict))
    stolen = chain.now()[InferenceMarket].committees[unit_id].members[0].commitment  # type: ignore[union-attr]
    call = InferenceMarket.commit_verdict(unit=unit_id, committee=0, commitment=stolen or b"")
    early = InferenceMarket.reveal_verdict(unit=unit_id, committee=0, verdict=verdict, salt=bytes(32))
    chain.block(
        signed(two.provider, call),
        refused(one.provider, early, ev.WindowClosed),
        judge_commit(three, unit_id, 0, verdict),
        refused(CUSTOMER.stash, call, ev.NotAssigned),
    )
    from_one = judge_reveal(one, unit_id, 0, verdict)
    copied = InferenceMarket.reveal_verdict(unit=unit_id, committee=0, verdict=verdict, salt=salt_of(one, unit_id))
    chain.block(from_one, refused(two.provider, copied, ev.WrongOpening))


BAD_FORMS: dict[str, dict[str, object]] = {
    "another racer's key": {"provider_key": b"k" * 32},
    "another device": {"device": b"d" * 32},
    "another attempt": {"attempt": 2},
    "no such place": {"replica": 7},
    "the other racer's place": {"replica": 1},
    "another model": {"model": b"x" * 32},
    "another workload": {"workload": b"x" * 32},
    "another input": {"input_root": b"x" * 32},
    "another salt": {"salt": b"s" * 32},
    "another proof": {"proof_hash": WRONG},
    "a proof inline": {"proof_inline": b"p"},
    "too many tokens": {"output_tokens": 65},
    "finished in the future": {"finished_at": 10_000},
    "began before the draw": {"started_at": 1},
    "an unknown version": {"version": 2},
    "an unknown unit": {"unit": b"u" * 32},
}


@pytest.mark.parametrize("name", BAD_FORMS)
def test_a_block_with_a_malformed_attestation_is_invalid(name: str) -> None:
    chain = MarketChain(named_keys(2))
    chain.blocks(3)
    (unit_id,) = chain.post(terms())
    chain.blocks(3)
    unit = chain.unit(unit_id)
    racers = [chain.keys_of(one.owner) for one in unit.racers]
    chain.block(*(commit(one, unit_id, unit, RIGHT) for one in racers))
    good = attestation(racers[0], unit_id, unit, RIGHT)
    bad = attestation(racers[0], unit_id, unit, RIGHT, **BAD_FORMS[name])
    with pytest.raises(InvalidBlock):
        chain.block(attach(bad))
    chain.height -= 1
    chain.block(attach(good))


def test_signature_order_duplicates_and_replays() -> None:
    chain = MarketChain(named_keys(2))
    chain.blocks(3)
    (unit_id,) = chain.post(terms())
    chain.blocks(3)
    unit = chain.unit(unit_id)
    one, two = (chain.keys_of(racer.owner) for racer in unit.racers)
    first, second = (attestation(keys, unit_id, unit, RIGHT) for keys in (one, two))
    other = attestation(one, unit_id, unit, WRONG)
    chain.block(commit(one, unit_id, unit, RIGHT), commit(two, unit_id, unit, RIGHT))
    forged = type(first)(first.statement, second.signature)
    for attestations in ((forged,), (other,), (second, first), (first, first), ()):
        with pytest.raises(InvalidBlock):
            chain.block(lambda bound, these=attestations: _attach_as_is(bound, these))  # type: ignore[misc]
        chain.height -= 1
    chain.block(attach(first))
    with pytest.raises(InvalidBlock):
        chain.block(attach(first))
    chain.height -= 1
    chain.block(attach(second))
    assert chain.happened(ev.UnitSettled)
    with pytest.raises(InvalidBlock):
        chain.block(attach(second))


def _attach_as_is(bound: object, attestations: tuple[object, ...]) -> None:
    bound.dispatch(Attestations.attach(attestations=attestations), Unsigned())  # type: ignore[attr-defined, arg-type]


def test_one_judge_alone_is_not_asked() -> None:
    chain = MarketChain(named_keys(3))
    raced(chain, {0: WRONG, 1: RIGHT})
    chain.blocks(3)
    (refunded,) = chain.happened(ev.UnitRefunded)
    assert refunded.refund is Refund.INCONCLUSIVE
    assert not chain.happened(ev.CommitteeDrawn)
