"""One Snowflake poll of a node, shown: who was asked, what they answered, how sure the node became."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from rich.table import Table

from devnet.demo.purchase import name_of
from devnet.demo.telling import Narrator
from devnet.launcher.layout import Devnet
from runtime.cryptography.ss58 import encode as ss58
from wallet.rpc import RpcConnection


def show(net: Devnet, tell: Narrator) -> dict[str, Any] | None:
    """The newest poll that every asked validator answered; None if there is none."""
    node = net.members[0]
    polls = asyncio.run(_inspect(node.rpc_url))
    whole = [poll for poll in polls if poll["answered"] and poll["answered"] == poll["asked"]]
    whole.sort(key=lambda poll: not poll["confidence"])  # those that led to an acceptance first
    if not whole:
        tell.line(f"{node.name} has no answered poll to show: {json.dumps(polls)[:200]}")
        return None
    poll: dict[str, Any] = whole[0]
    tell.line(f"{node.name} asked {poll['asked']} validators which block they prefer at height {poll['height']}")
    tell.console.print(_table(poll))
    for condition in poll["confidence"]:
        share = condition["alpha"] * 100 // poll["confidence"][-1]["alpha"]
        tell.line(
            f"confidence: {condition['polls']} polls in a row with {share} % of the stake; "
            f"{condition['beta']} accept a block"
        )
    accepted = poll["accepted_after_ms"]
    end = f"accepted {accepted} ms after the question" if accepted is not None else "not accepted yet"
    tell.line(f"{poll['agreed']} of {poll['answered']} agree with its preference {poll['block'][:12]}; {end}")
    return poll


def _table(poll: dict[str, Any]) -> Table:
    table = Table("asked", "prefers", "at that height", "after")
    for answer in poll["answers"]:
        who = name_of(ss58(bytes.fromhex(answer["validator"][2:]))) if answer["validator"] else answer["peer"]
        after = "no answer" if answer["after_ms"] is None else f"{answer['after_ms']} ms"
        table.add_row(who, (answer["prefers"] or "-")[:12], (answer["at_height"] or "-")[:12], after)
    return table


async def _inspect(url: str) -> list[dict[str, Any]]:
    async with await RpcConnection.open(url) as rpc:
        found: list[dict[str, Any]] = await rpc.call("ogpu_inspect", "polls")
        return found
