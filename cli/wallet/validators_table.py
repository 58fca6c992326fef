"""`validators` and `candidates`: stake, commission, blocks, slashes, estimated return, outlook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cli.chain_time import ChainTime
from cli.output import Account
from cli.session import WalletSession, note, reads
from cli.wallet.staking_facts import StakingView, open_view
from cli.wallet.validator_names import name_text, web_text
from runtime.frame.runtime import Bound
from runtime.interface.staking_api import ValidatorSummary
from runtime.pallets.staking.elections import Chance
from runtime.pallets.staking.eras import BLOCK_POINTS
from runtime.pallets.staking.returns import ExpectedReturn
from runtime.pallets.staking.stakers import Why
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.amounts import PPM, BareGrains
from wallet.client import ChainClient
from wallet.refusals.refused_call import percent_text

FOR_PROGRAMS = (
    "stash", "name", "web", "in_office", "elected", "own", "total", "delegators", "commission", "commission_then",
    "commission_from_era", "blocks", "blocks_last_era", "slashes_held", "slashes_taken", "tombstoned", "points",
    "return_a_year", "return_a_year_ppm",
)  # fmt: skip
FOR_PEOPLE = ("name", "stash", "total", "own", "commission", "blocks", "slashes", "return_a_year")
OFFERS_FOR_PROGRAMS = (
    "stash", "name", "web", "session_key", "provider_key", "in_office", "elected", "to_be_elected", "outlook", "weight",
    "own", "total", "delegators", "commission", "tombstoned",
)  # fmt: skip
OFFERS_FOR_PEOPLE = ("name", "stash", "elected", "outlook", "to_be_elected", "own", "total", "delegators", "commission")
OUTLOOKS = {
    Why.ELECTED: "takes a seat",
    Why.WAITS: "waits: sets change slowly",
    Why.OUT_RANKED: "out-ranked",
    Why.OFF_LINE: "off line",
    Why.JAILED: "in jail",
    Why.TOMBSTONED: "tombstoned",
    Why.TOO_SMALL: "bond too small",
    Why.NOT_OFFERED: "does not offer",
    Why.MUST_STAY: "must stay for now",
}
"""The outcome for a candidate if the next election were now."""
SHORT_OF_STAKE = (Why.OUT_RANKED, Why.WAITS, Why.ELECTED)
"""The outlooks that more stake improves. It helps no candidate that is offline, in jail or excluded."""
ASSUMPTION = (
    "the return of a year is an estimate. Stake, blocks and reserve stay as in the last era. The commission is the "
    "higher of present and announced. Nothing is slashed or compounded. The reserve shrinks, so later eras pay less."
)


@dataclass(frozen=True, slots=True)
class EraWork:
    """The work and slashes of validators, by stash."""

    last_era: dict[bytes, int]
    """Points of the last ended era."""
    slashes: dict[bytes, int]
    """Slashed offences that the chain still keeps."""


@reads
async def validators(session: WalletSession, client: ChainClient) -> None:
    """Print the validators."""
    view = await open_view(client)
    offers = [candidate for candidate in await _offers(view) if candidate.in_office or candidate.elected]
    era_work = await view.look(lambda state: _work_done(state, [candidate.stash for candidate in offers]))
    expected_returns: tuple[ExpectedReturn, ...] = await client.query(
        "OgpuApi_expected_returns", view.time.eras_of_a_year, at=view.at
    )
    expected = {entry.stash: entry for entry in expected_returns}
    rows = [_validator_row(candidate, era_work, expected, has_ended=view.time.era > 0) for candidate in offers]
    if session.output.as_json:
        session.output.rows("Validators", FOR_PROGRAMS, rows)
    else:
        session.output.rows("Validators (oGPU)", FOR_PEOPLE, [_for_people(row, view.time) for row in rows])
    note(f"{ASSUMPTION} A year has {view.time.eras_of_a_year:,} eras at {view.time.pace_text}")
    note(f"it is {view.time.present_text}. Validators choose their names, and nobody checks them")


@reads
async def candidates(session: WalletSession, client: ChainClient) -> None:
    """Print the candidates."""
    view = await open_view(client)
    offers = await _offers(view)
    last_seat = await view.look(_last_seat)
    election_chances: tuple[Chance, ...] = await client.query("OgpuApi_election", at=view.at)
    chance_by_stash = {chance.stash: chance for chance in election_chances}
    rows = [_offer_row(candidate, last_seat, chance_by_stash[candidate.stash]) for candidate in offers]
    columns = OFFERS_FOR_PROGRAMS if session.output.as_json else OFFERS_FOR_PEOPLE
    session.output.rows("Candidates (oGPU)", columns, rows)
    note(
        f"it is {view.time.present_text}. The next election is in {view.time.era_text(view.time.era + 1)}. `outlook` "
        "is its result if it were now, among the candidates that were online in the last epoch. Candidates choose "
        "their names, and nobody checks them"
    )


async def _offers(view: StakingView) -> list[ValidatorSummary]:
    """Return all candidates, most stake first."""
    offers: tuple[ValidatorSummary, ...] = await view.client.query("OgpuApi_candidates", at=view.at)
    return sorted(offers, key=lambda candidate: -candidate.total)


def _work_done(state: Bound, stashes: Sequence[bytes]) -> EraWork:
    trust_stake = state[TrustStake]
    ended_era = trust_stake.current_era.get() - 1
    points_by_stash = (
        {entry.stash: entry.points for entry in trust_stake.eras_reward_points[ended_era]} if ended_era >= 0 else {}
    )
    return EraWork(points_by_stash, {stash: len(trust_stake.slash_factors[stash]) for stash in stashes})


def _last_seat(state: Bound) -> int | None:
    """Return the least elected stake; None while a seat is free."""
    trust_stake = state[TrustStake]
    elected_standings = trust_stake.elected.get()
    if len(elected_standings) < trust_stake.validator_count:
        return None
    return min(standing.total for standing in elected_standings)


def _validator_row(
    candidate: ValidatorSummary, era_work: EraWork, expected: dict[bytes, ExpectedReturn], *, has_ended: bool
) -> dict[str, Any]:
    # A tombstoned validator may be elected for this era still, and not again.
    expected_return = None if candidate.tombstoned else expected.get(candidate.stash)
    return_ppm = _return_ppm(expected_return, has_ended=has_ended)
    commission_change = candidate.commission_change
    return {
        "stash": Account(candidate.stash),
        "name": name_text(candidate.name) or None,
        "web": web_text(candidate.web),
        "in_office": candidate.in_office,
        "elected": candidate.elected,
        "own": BareGrains(candidate.own),
        "total": BareGrains(candidate.total),
        "delegators": candidate.delegators,
        "commission": percent_text(candidate.commission_ppm),
        "commission_then": None if commission_change is None else percent_text(commission_change.commission_ppm),
        "commission_from_era": None if commission_change is None else commission_change.era,
        "blocks": candidate.points // BLOCK_POINTS,
        "blocks_last_era": era_work.last_era.get(candidate.stash, 0) // BLOCK_POINTS,
        "slashes_held": candidate.slashes_held,
        "slashes_taken": era_work.slashes[candidate.stash],
        "tombstoned": candidate.tombstoned,
        "points": candidate.points,
        "return_a_year": None if return_ppm is None else _return_text(return_ppm),
        "return_a_year_ppm": return_ppm,
    }


def _for_people(row: dict[str, Any], chain_time: ChainTime) -> dict[str, Any]:
    """Return a row with fewer, richer columns."""
    change_era = row["commission_from_era"]
    is_ahead = change_era is not None and change_era > chain_time.era
    change_text = f"; {row['commission_then']} from {chain_time.era_text(change_era)}" if is_ahead else ""
    slashes = [f"{row['slashes_held']} waiting"] if row["slashes_held"] else []
    slashes += [f"{row['slashes_taken']} taken"] if row["slashes_taken"] else []
    slashes += ["may not return"] if row["tombstoned"] else []
    return {
        **row,
        "commission": f"{row['commission']}{change_text}",
        "blocks": f"{row['blocks']}, {row['blocks_last_era']} in the last era",
        "slashes": ", ".join(slashes) or "none",
    }


def _outlook(chance: Chance) -> str:
    """Return an outlook in words. A seat can outlast its reason until another candidate may take it."""
    keeps_seat = chance.weight and chance.why not in (Why.ELECTED, Why.MUST_STAY)
    return OUTLOOKS[chance.why] + (", must stay for now" if keeps_seat else "")


def _offer_row(candidate: ValidatorSummary, last_seat: int | None, chance: Chance) -> dict[str, Any]:
    lacking_grains = BareGrains(0 if last_seat is None else max(0, last_seat + 1 - candidate.total))
    is_short = not candidate.elected and chance.why in SHORT_OF_STAKE
    return {
        "stash": Account(candidate.stash),
        "name": name_text(candidate.name) or None,
        "web": web_text(candidate.web),
        "session_key": candidate.session_key,
        "provider_key": Account(candidate.provider_key),
        "in_office": candidate.in_office,
        "elected": candidate.elected,
        "to_be_elected": lacking_grains if is_short else None,
        "outlook": _outlook(chance),
        "weight": BareGrains(chance.weight),
        "own": BareGrains(candidate.own),
        "total": BareGrains(candidate.total),
        "delegators": candidate.delegators,
        "commission": percent_text(candidate.commission_ppm),
        "tombstoned": candidate.tombstoned,
    }


def _return_ppm(expected: ExpectedReturn | None, *, has_ended: bool) -> int | None:
    """Return the return rounded down; 0 without election, None before the first era has ended."""
    if not has_ended:
        return None
    return 0 if expected is None or not expected.stake else expected.paid * PPM // expected.stake


def _return_text(return_ppm: int) -> str:
    """Return a percentage rounded down to hundredths."""
    percent, decimals = divmod(return_ppm // 100, 100)
    return f"{percent:,}.{decimals:02} %"
