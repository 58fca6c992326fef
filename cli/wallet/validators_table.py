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
    table = [each for each in await _offers(view) if each.in_office or each.elected]
    done = await view.look(lambda bound: _work_done(bound, [each.stash for each in table]))
    returns: tuple[ExpectedReturn, ...] = await client.query(
        "OgpuApi_expected_returns", view.time.eras_of_a_year, at=view.at
    )
    expected = {each.stash: each for each in returns}
    rows = [_validator_row(each, done, expected, has_ended=view.time.era > 0) for each in table]
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
    table = await _offers(view)
    last = await view.look(_last_seat)
    chances: tuple[Chance, ...] = await client.query("OgpuApi_election", at=view.at)
    outlook = {chance.stash: chance for chance in chances}
    rows = [_offer_row(each, last, outlook[each.stash]) for each in table]
    columns = OFFERS_FOR_PROGRAMS if session.output.as_json else OFFERS_FOR_PEOPLE
    session.output.rows("Candidates (oGPU)", columns, rows)
    note(
        f"it is {view.time.present_text}. The next election is in {view.time.era_text(view.time.era + 1)}. `outlook` "
        "is its result if it were now, among the candidates that were online in the last epoch. Candidates choose "
        "their names, and nobody checks them"
    )


async def _offers(view: StakingView) -> list[ValidatorSummary]:
    """Return all candidates, most stake first."""
    table: tuple[ValidatorSummary, ...] = await view.client.query("OgpuApi_candidates", at=view.at)
    return sorted(table, key=lambda each: -each.total)


def _work_done(bound: Bound, stashes: Sequence[bytes]) -> EraWork:
    stake = bound[TrustStake]
    last = stake.current_era.get() - 1
    points = {entry.stash: entry.points for entry in stake.eras_reward_points[last]} if last >= 0 else {}
    return EraWork(points, {stash: len(stake.slash_factors[stash]) for stash in stashes})


def _last_seat(bound: Bound) -> int | None:
    """Return the least elected stake; None while a seat is free."""
    stake = bound[TrustStake]
    elected = stake.elected.get()
    return min(each.total for each in elected) if len(elected) >= stake.validator_count else None


def _validator_row(
    each: ValidatorSummary, done: EraWork, expected: dict[bytes, ExpectedReturn], *, has_ended: bool
) -> dict[str, Any]:
    hoped = None if each.tombstoned else expected.get(each.stash)  # elected for the era still, and not again
    change, ppm = each.commission_change, _return_ppm(hoped, has_ended=has_ended)
    return {
        "stash": Account(each.stash),
        "name": name_text(each.name) or None,
        "web": web_text(each.web),
        "in_office": each.in_office,
        "elected": each.elected,
        "own": BareGrains(each.own),
        "total": BareGrains(each.total),
        "delegators": each.delegators,
        "commission": percent_text(each.commission_ppm),
        "commission_then": None if change is None else percent_text(change.commission_ppm),
        "commission_from_era": None if change is None else change.era,
        "blocks": each.points // BLOCK_POINTS,
        "blocks_last_era": done.last_era.get(each.stash, 0) // BLOCK_POINTS,
        "slashes_held": each.slashes_held,
        "slashes_taken": done.slashes[each.stash],
        "tombstoned": each.tombstoned,
        "points": each.points,
        "return_a_year": None if ppm is None else _return_text(ppm),
        "return_a_year_ppm": ppm,
    }


def _for_people(row: dict[str, Any], time: ChainTime) -> dict[str, Any]:
    """Return a row with fewer, richer columns."""
    era = row["commission_from_era"]
    is_ahead = era is not None and era > time.era
    then = f"; {row['commission_then']} from {time.era_text(era)}" if is_ahead else ""
    said = [f"{row['slashes_held']} waiting"] if row["slashes_held"] else []
    said += [f"{row['slashes_taken']} taken"] if row["slashes_taken"] else []
    said += ["may not return"] if row["tombstoned"] else []
    return {
        **row,
        "commission": f"{row['commission']}{then}",
        "blocks": f"{row['blocks']}, {row['blocks_last_era']} in the last era",
        "slashes": ", ".join(said) or "none",
    }


def _outlook(chance: Chance) -> str:
    """Return an outlook in words. A seat can outlast its reason until another candidate may take it."""
    stays = chance.weight and chance.why not in (Why.ELECTED, Why.MUST_STAY)
    return OUTLOOKS[chance.why] + (", must stay for now" if stays else "")


def _offer_row(each: ValidatorSummary, last_seat: int | None, chance: Chance) -> dict[str, Any]:
    lacks = BareGrains(0 if last_seat is None else max(0, last_seat + 1 - each.total))
    is_short = not each.elected and chance.why in SHORT_OF_STAKE
    return {
        "stash": Account(each.stash),
        "name": name_text(each.name) or None,
        "web": web_text(each.web),
        "session_key": each.session_key,
        "provider_key": Account(each.provider_key),
        "in_office": each.in_office,
        "elected": each.elected,
        "to_be_elected": lacks if is_short else None,
        "outlook": _outlook(chance),
        "weight": BareGrains(chance.weight),
        "own": BareGrains(each.own),
        "total": BareGrains(each.total),
        "delegators": each.delegators,
        "commission": percent_text(each.commission_ppm),
        "tombstoned": each.tombstoned,
    }


def _return_ppm(expected: ExpectedReturn | None, *, has_ended: bool) -> int | None:
    """Return the return rounded down; 0 without election, None before the first era has ended."""
    if not has_ended:
        return None
    return 0 if expected is None or not expected.stake else expected.paid * PPM // expected.stake


def _return_text(ppm: int) -> str:
    """Return a percentage rounded down to hundredths."""
    whole, decimals = divmod(ppm // 100, 100)
    return f"{whole:,}.{decimals:02} %"
