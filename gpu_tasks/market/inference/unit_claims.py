"""The claims of units: the market as a handler of ResultClaims.

Invariants: a claim has the id of its unit, and a unit has at most one claim. While it is open, only the winner holds
collateral for the unit, and the customer holds all its money.
"""

from collections.abc import Sequence
from dataclasses import replace

from gpu_tasks.batches.leaf_draws import total_weight, weight_floor
from gpu_tasks.batches.requests import TOKEN
from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.claims.claims import ClaimOutcome, ClaimTerms
from gpu_tasks.market.claims.collateral import item_rate
from gpu_tasks.market.inference import money, race_results, schedules, settlement
from gpu_tasks.market.inference.events import ProviderSlashed, ResultClaimed
from gpu_tasks.market.inference.race_results import RaceResult
from gpu_tasks.market.inference.storage import InferenceStorage
from gpu_tasks.market.inference.units import UNIT_MONEY, OpenUnit, Racer, Refund, Reveal, Unit, UnitState
from runtime.frame.holds import Hold
from runtime.pallets.staking.slashing import Share


def claim(market: InferenceStorage, unit: OpenUnit, result: RaceResult) -> None:
    """Let the winner claim its pay for a result. The customer can read it at once."""
    record = settlement.release_others(market, unit, result.winner)
    record = replace(record, state=UnitState.CLAIMED, output_root=result.output_root)
    market.units[unit.id] = record
    schedules.drop(market, record.posted_at, unit.id)
    winning = _reveal_of(result.winner)
    market.emit(
        ResultClaimed(
            unit=unit.id,
            winner=result.winner.owner,
            output_root=result.output_root,
            output_blob=winning.output_blob,
            witness=None if result.witness is None else result.witness.owner,
        )
    )
    market.result_claims.open(unit.id, _terms(market, record, result.winner, winning))


def charge_provider(market: InferenceStorage, unit_id: bytes, shares: Sequence[Share]) -> None:
    """Pay the shares out of the winner's collateral."""
    unit = market.claimed(unit_id)
    winner = _result(unit.record).winner
    market.devices.charge(winner.device, unit_id, shares)
    charged = replace(winner, collateral=winner.collateral - sum(share.amount for share in shares))
    racers = race_results.with_racer(unit.record.racers, charged)
    market.units[unit_id] = replace(unit.record, racers=racers)


def charge_customer(market: InferenceStorage, unit_id: bytes, shares: Sequence[Share]) -> None:
    """Pay the shares out of the customer's money for the unit."""
    market.lock.pay_out(market.claimed(unit_id).record.customer, Hold(UNIT_MONEY, unit_id), shares)


def conclude(market: InferenceStorage, unit_id: bytes, outcome: ClaimOutcome) -> None:
    """Pay for the result, or refund the customer."""
    unit = market.claimed(unit_id)
    result = _result(unit.record)
    if outcome is ClaimOutcome.PASSED:
        settlement.settle(market, unit, result)
        return
    if outcome is ClaimOutcome.REFUTED:
        winner = result.winner
        market.devices.halt(winner.device, unit_id)
        lost_grains = money.collateral_of(unit.record) - winner.collateral
        market.emit(ProviderSlashed(unit_id, winner.owner, winner.device, lost_grains))
    settlement.refund(market, unit, Refund.REFUTED if outcome is ClaimOutcome.REFUTED else Refund.INCONCLUSIVE)


def outside(record: Unit, *parties: bytes) -> tuple[bytes, ...]:
    """Return the owners, beside the parties, that have or had a part in the unit: they neither check nor vote."""
    owners = (*record.declined_by, *(racer.owner for racer in (*record.racers, *record.decliners)))
    return tuple(owner for owner in dict.fromkeys(owners) if owner not in parties)


def _terms(market: InferenceStorage, record: Unit, winner: Racer, winning: Reveal) -> ClaimTerms:
    rules, requests, price_due = record.rules, record.terms.requests, money.due(record, winner)
    totals = Totals(requests, winning.input_tokens, winning.output_tokens, winning.output_root)
    floor = weight_floor(-(-money.work_allowed(record) // TOKEN), requests)
    weight = total_weight(totals, floor, input_share=record.input_share)
    return ClaimTerms(
        handler=market.index,
        provider=winner.owner,
        customer=record.customer,
        root=winning.output_root,
        items=requests,
        weight=weight,
        # One request may have nearly all tokens.
        item_weight_max=weight,
        price=price_due,
        collateral=winner.collateral,
        rate_ppm=item_rate(requests, rules.check_rate_ppm),
        check_ppm=rules.check_ppm,
        fee_min=rules.check_fee_min,
        fees_held=money.check_fees_max(rules, price_due),
        sealed_at=record.terms.sealed_at,
        run_blocks=market.run_blocks_of(record),
        excluded=outside(record, winner.owner),
    )


def _result(record: Unit) -> RaceResult:
    assert record.output_root is not None, "a claimed unit has a result"
    result = race_results.result(record.racers, record.output_root)
    assert result is not None, "a claimed result has a winner"
    return result


def _reveal_of(winner: Racer) -> Reveal:
    assert winner.reveal is not None, "a winner has a reveal"
    return winner.reveal
