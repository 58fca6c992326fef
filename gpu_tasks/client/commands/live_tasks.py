"""What `describe` shows of a task beside the chain's facts: what its providers tell now, marked as their word."""

from __future__ import annotations

import time
from typing import Any

from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.training.tasks import Task
from runtime.cryptography import ss58
from wallet.client import ChainClient
from wallet.output import Output
from wallet.session import WalletSession, note

LISTEN_SECONDS = 12.0
"""A provider beats every ten."""
WHOSE = "the provider's word: nothing proves it, and no payment rests on it"
NOBODY = "nobody works on the task now: its providers tell nothing"
PERSON_COLUMNS = (
    "place", "event", "done", "total", "percent", "seconds_left", "gpu_percent", "memory_mib", "celsius", "watts",
    "heard_seconds_ago", "problem",
)  # fmt: skip


async def told_now(
    session: WalletSession, client: ChainClient, key_text: str, task_id: bytes, task: Task, mqtt: str | None,
    seconds: float,
) -> dict[str, Any] | None:  # fmt: skip
    """What is heard in so many seconds; None, with a note why, where that is nothing: the chain's facts stand."""
    from gpu_tasks.client.telemetry.hearing import BrokerTrouble  # noqa: PLC0415  # loads MQTT: for who listens alone
    from gpu_tasks.client.telemetry.live import live_table  # noqa: PLC0415  # as above

    key = session.key(key_text)
    if task.customer != key.account:
        note(f"the task is {ss58.encode(task.customer)}'s: only the key that submitted it hears what providers tell")
        return None
    table = await live_table(client, SealKey.of(key), task_id, task, mqtt, seconds)
    if table is None:
        note(NOBODY)
        return None
    lines = table.lines()
    slots = [
        {name: value for name, value in row.items() if name not in {"task", "state", "milestones", "last_line"}}
        | {"lines": lines.get(row["place"], [])}
        for row in table.rows(time.time_ns() // 1_000_000)
    ]
    troubles = dict.fromkeys(row["trouble"] for row in slots if row["trouble"] is not None)
    said = {name: BrokerTrouble[name.upper()].value for name in troubles}
    return {"whose": WHOSE, "is_proved": False, "slots": slots, "troubles": said}


def show_told(output: Output, live: dict[str, Any] | None) -> None:
    """For people: a table, the last lines of the program, and in a sentence each what is wrong with a broker."""
    if live is None:
        return
    output.rows(f"What its providers tell now: {WHOSE}", PERSON_COLUMNS, live["slots"])
    for slot in live["slots"]:
        if slot["lines"]:
            rows = [{"line": line} for line in slot["lines"]]
            output.rows(f"Last lines of slot {slot['place']}, by its provider's word", ("line",), rows)
    for text in live["troubles"].values():
        note(f"{text}; what the chain says above stands")
