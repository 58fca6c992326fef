"""`sessions`: the open sessions of a provider, by the chain and by the vouchers of this base path."""

from __future__ import annotations

from typing import Any

from cli.session import note
from gpu_tasks.data import session_reads
from gpu_tasks.market.sessions.records import leg_of
from gpu_tasks.market.sessions.sessions_api import SessionStatus
from gpu_tasks.market.sessions.vouchers import amount_of
from gpu_tasks.provider.commands.options import ProviderOptions, own_devices, told
from gpu_tasks.provider.journal.schema import read_journal
from gpu_tasks.provider.sessions.session_store import KeptPeriod, SessionStore
from wallet.amounts import Grains
from wallet.client import ChainClient

COLUMNS = (
    "session", "device", "role", "state", "service", "since", "until", "period", "tokens", "unclaimed", "claimed",
)  # fmt: skip
SPARE, SERVING, LEFT = "spare", "serves", "has left"
NO_JOURNAL = "{} has no journal, so tokens and unclaimed pay are unknown. Give the daemon's --base-path"


def sessions(options: ProviderOptions) -> None:
    """Print the sessions of all devices of the provider key."""
    found: list[tuple[bytes, SessionStatus]] = []

    async def look(client: ChainClient) -> None:
        at = await client.tried_at()
        for status in await own_devices(client, options.key):
            found.extend(
                (status.device.owner, session)
                for session in await session_reads.sessions_of_device(client, status.id, at)
            )

    options.session.run(lambda client: told(lambda: look(client)))
    by_id = {session.id: (owner, session) for owner, session in found}
    kept = dict(
        read_journal(
            options.base_path,
            lambda database: ((session_id, SessionStore(database).periods(session_id)) for session_id in by_id),
        )
    )
    if not by_id:
        note("no open sessions. A customer's session comes by a draw, once a device offers places: "
             "`ogpu-provider offer DEVICE --service N --ask OGPU --places N`")  # fmt: skip
    elif not kept:
        note(NO_JOURNAL.format(options.base_path))
    rows = [session_row(session, owner, kept.get(session.id)) for owner, session in by_id.values()]
    options.output.rows("Sessions", COLUMNS, rows)


def session_row(status: SessionStatus, owner: bytes, kept: list[KeptPeriod] | None) -> dict[str, Any]:
    """Return a row. `kept` are the vouchers of the session in the journal, None without a journal."""
    session, number = status.session, leg_of(status.session, owner)
    row: dict[str, Any] = {
        "session": f"0x{status.id.hex()}",
        "state": session.state.name.lower(),
        "service": session.service,
        "until": session.expires_at,
    }
    if number is None:
        spare = session.spare
        device, since, claimed = (b"", 0, 0) if spare is None else (spare.device, spare.since, spare.claimed)
        none = {"period": 0, "tokens": 0, "unclaimed": Grains(0), "claimed": Grains(claimed)}
        return row | none | {"device": f"0x{device.hex()}", "role": SPARE, "since": since}
    leg, period = session.legs[number], status.legs[number].period
    open_totals = [each.voucher.totals for each in kept or () if each.voucher.period >= period]
    unclaimed = sum(amount_of(session.rate, session.input_share, totals) for totals in open_totals)
    return row | {
        "device": f"0x{leg.device.hex()}",
        "role": LEFT if leg.left_at else SERVING,
        "since": leg.since,
        "period": period,
        "tokens": None if kept is None else sum(totals.tokens_out for totals in open_totals),
        "unclaimed": None if kept is None else Grains(unclaimed),
        "claimed": Grains(leg.claimed),
    }
