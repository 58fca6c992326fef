"""The rows of `ogpu-provider sessions`."""

import re
from dataclasses import replace
from pathlib import Path

from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.sessions import records
from gpu_tasks.market.sessions.sessions_api import SessionStatus
from gpu_tasks.market.sessions.vouchers import Voucher
from gpu_tasks.provider import cli
from gpu_tasks.provider.commands.sessions import COLUMNS, session_row
from gpu_tasks.provider.sessions.session_store import KeptPeriod, PeriodState
from played_sessions import OTHER_STASH, STASH, FakeSessions
from wallet.amounts import Grains

SESSION = bytes([31]) * 32


async def _status(*, period: int = 0) -> SessionStatus:
    chain = FakeSessions()
    chain.sessions[SESSION] = replace(chain.open(SESSION), period=period)
    status = await chain.session(SESSION)
    assert status is not None
    return status


def _kept(period: int, tokens: int) -> KeptPeriod:
    voucher = Voucher(SESSION, period, Totals(1, 0, tokens, bytes(32)))
    return KeptPeriod(voucher, bytes(65), bytes(32), PeriodState.CLOSED)


async def test_a_row_has_the_pay_of_the_periods_that_no_claim_covers() -> None:
    """Claimed periods count as claimed."""
    row = session_row(await _status(period=1), STASH, [_kept(0, 50), _kept(1, 7), _kept(2, 5)])
    assert set(row) == set(COLUMNS)
    assert (row["role"], row["period"], row["tokens"], row["unclaimed"]) == ("serves", 1, 12, Grains(12_000))


async def test_without_a_journal_the_unclaimed_pay_is_unknown() -> None:
    """Another base path than the daemon's has no vouchers; zero would be a wrong figure."""
    row = session_row(await _status(), STASH, None)
    assert (row["role"], row["tokens"], row["unclaimed"]) == ("serves", None, None)
    row = session_row(await _status(), STASH, [])
    assert (row["tokens"], row["unclaimed"]) == (0, Grains(0))


async def test_a_spare_has_claimed_the_price_of_its_proof() -> None:
    """Its row names its own device."""
    status = await _status()
    assert session_row(status, bytes([77]) * 32, [])["claimed"] == Grains(0)
    spare = status.session.spare
    assert spare is not None
    proven = replace(status, session=replace(status.session, spare=replace(spare, claimed=16_000)))
    assert session_row(proven, bytes([77]) * 32, [])["claimed"] == Grains(16_000)
    row = session_row(status, bytes([77]) * 32, [])
    assert set(row) == set(COLUMNS)
    assert (row["role"], row["tokens"], row["unclaimed"]) == ("spare", 0, Grains(0))
    assert status.session.spare is not None
    assert status.session.spare.owner == OTHER_STASH


def test_the_greatest_number_of_places_is_the_chain_s() -> None:
    """The command line may not import the chain's rules."""
    assert cli.PLACES_MAX == records.PLACES_MAX


DOCUMENT = Path(__file__).parents[4] / "docs" / "providers.md"


def test_the_fields_of_a_session_are_documented() -> None:
    """Programs read them with `--json`."""
    told = DOCUMENT.read_text(encoding="utf-8").partition("| field of a session |")[2].partition("\n\n")[0]
    fields = [name for row in told.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert set(fields) == set(COLUMNS)
