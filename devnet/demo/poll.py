"""Show one Snowflake poll of a node: the validators drawn, their answers, and the node's confidence."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from rich.table import Table

from devnet.stage.actors.purchase import name_of
from devnet.stage.network import Stage
from wallet.rpc import RpcConnection


def show(stage: Stage) -> dict[str, Any] | None:
    """The newest poll that every asked validator answered; None if there is none."""
    node, tell = stage.net.members[0], stage.tell
    polls = asyncio.run(_inspect(node.rpc_url))
    whole = [poll for poll in polls if poll["answered"] and poll["answered"] == poll["asked"]]
    whole.sort(key=lambda poll: not poll["confidence"])  # those that led to an acceptance first
    if not whole:
        tell.line(f"{node.name} has no answered poll to show: {json.dumps(polls)[:200]}")
        return None
    poll: dict[str, Any] = whole[0]
    tell.line(
        f"{node.name} draws {poll['votes']} units of stake, and asks their holders for the preferred block at height "
        f"{poll['height']}"
    )
    tell.console.print(_table(poll, node.name))
    left_out = poll["validators"] - len(poll["drawn"])
    tell.line(f"not drawn and not asked: {left_out} of {poll['validators']} validators; the next poll draws anew")
    for condition in poll["confidence"]:
        tell.line(
            f"confidence: {condition['polls']} polls in a row with {condition['alpha']} of {poll['votes']} votes; "
            f"{condition['beta']} accept a block"
        )
    accepted = poll["accepted_after_ms"]
    end = f"accepted {accepted} ms after the question" if accepted is not None else "not accepted yet"
    tell.line(f"{poll['agreed']} of {poll['answered']} agree with its preference {poll['block'][:12]}; {end}")
    return poll


def _table(poll: dict[str, Any], asker: str) -> Table:
    """The drawn validators by stake, with their answers."""
    table = Table("drawn", "of the stake", "votes", "prefers", "at that height", "after")
    answers = {answer["validator"]: answer for answer in poll["answers"]}
    for drawn in poll["drawn"]:
        who = name_of(bytes.fromhex(drawn["validator"][2:]))
        share = f"{drawn['stake'] * 100 / poll['stake']:.0f} %"
        table.add_row(who, share, str(drawn["votes"]), *_answer(answers.get(drawn["validator"]), is_own=who == asker))
    return table


def _answer(answer: dict[str, Any] | None, *, is_own: bool) -> tuple[str, str, str]:
    if answer is None or "after_ms" not in answer:
        return ("-", "-", "its own vote" if is_own else "no answer")
    return (answer["prefers"][:12], answer["at_height"][:12], f"{answer['after_ms']} ms")


async def _inspect(url: str) -> list[dict[str, Any]]:
    async with await RpcConnection.open(url) as rpc:
        found: list[dict[str, Any]] = await rpc.call("ogpu_inspect", "polls")
        return found
