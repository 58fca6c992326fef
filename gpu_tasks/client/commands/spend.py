"""`ogpu spend`: the cost of this machine's units and sessions, by day, key or model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from cli.output import Account
from cli.session import WalletSession, reads
from gpu_tasks.client.commands.sessions import sessions_folder
from gpu_tasks.client.spending import ESTIMATED, OPEN, UNIT, BoughtItem, settle, spending
from wallet.amounts import Grains
from wallet.client import ChainClient

FIGURES = ("units", "sessions", "paid", "fees", "cost", "open", "estimated")
ALL = "all"


@reads
async def spend(session: WalletSession, client: ChainClient, by: str) -> None:
    """Carry out `ogpu spend`."""
    with spending(session, client) as file:
        await settle(client, file, sessions_folder(session, client))
        items = file.items()
    groups: dict[Any, list[BoughtItem]] = {}
    for item in items:
        groups.setdefault(GROUPS[by](item), []).append(item)
    rows = [{by: group, **_figures(members)} for group, members in groups.items()]
    if not session.output.as_json:
        rows.append({by: ALL, **_figures(items)})
    session.output.rows("Spent on units and sessions of this machine", (by, *FIGURES), rows)


GROUPS: dict[str, Callable[[BoughtItem], Any]] = {
    "day": lambda item: datetime.fromtimestamp(item.bought_at, UTC).date().isoformat(),
    "key": lambda item: Account(item.key),
    "model": lambda item: item.model,
}


def _figures(items: Sequence[BoughtItem]) -> dict[str, Any]:
    units = sum(item.kind == UNIT for item in items)
    return {
        "units": units,
        "sessions": len(items) - units,
        "paid": Grains(sum(item.paid for item in items)),
        "fees": Grains(sum(item.fees for item in items)),
        "cost": Grains(sum(item.cost for item in items)),
        "open": sum(item.state == OPEN for item in items),
        "estimated": sum(item.state == ESTIMATED for item in items),
    }
