"""The seats in `ogpu-devnet status`: active, leaving, waiting with their places, and jailed validators."""

from __future__ import annotations

import asyncio
import io
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import aiohttp
from rich.console import Console

from devnet.launcher.free_ports import one_free_port
from devnet.launcher.status import MemberProcesses, MemberStatus, StatusTable, _ask, _queued, _state, as_json
from gpu_tasks.market.claims.claims import ClaimOutcome
from node.monitoring.metrics import CLAIM_STATUSES, DISPUTE_STATUSES, Metrics
from node.monitoring.metrics_server import MetricsServer
from standing_member import ALICE

WAITING = replace(ALICE, name="Bob", seat=0, next_seat=0)


def test_who_waits_is_placed_by_stake_and_nobody_else_is() -> None:
    standing = [
        ALICE,
        replace(WAITING, name="little", stake=5),
        replace(WAITING, name="much", stake=50),
        replace(WAITING, name="jailed", stake=70, is_jailed=True),
        replace(WAITING, name="elected", stake=80, next_seat=80),
        replace(WAITING, name="none", stake=0),
        replace(WAITING, name="down", stake=60, is_up=False),
    ]
    assert {each.name: each.queue for each in _queued(standing) if each.queue} == {"much": 1, "little": 2}


def test_each_state_has_its_words() -> None:
    cases = {
        "sits": ALICE,
        "sits, leaves": replace(ALICE, next_seat=0),
        "is elected": replace(WAITING, next_seat=5),
        "waits, no. 2": replace(WAITING, queue=2),
        "waits": WAITING,
        "[red]in jail": replace(WAITING, is_jailed=True),
        "[red]in jail, sits": replace(ALICE, is_jailed=True),
        "follows": replace(WAITING, is_validator=False),
        "[red]down": replace(ALICE, is_up=False),
    }
    assert {words: _state(status) for words, status in cases.items()} == {words: words for words in cases}


def shown_at(width: int, standing: list[MemberStatus]) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(StatusTable(standing, {each.name: MemberProcesses(3, "runs") for each in standing}, "devnet"))
    return console.export_text()


def test_the_table_and_the_json_show_stake_and_seats() -> None:
    text = shown_at(200, [ALICE])
    assert all(word in text for word in ("stake", "seat", "next", "100", "90"))
    assert text.count("Alice") == 1
    (shown,) = as_json([ALICE], {"Alice": MemberProcesses(0, None)})
    assert (shown["stash"], shown["stake"], shown["is_jailed"], shown["queue"]) == ("5alice", 100, False, 0)


def test_one_table_is_shown_where_its_columns_just_have_room() -> None:
    text = shown_at(400, [ALICE])
    width = max(len(line) for line in text.splitlines() if "Alice" in line)
    assert shown_at(width, [ALICE]).count("Alice") == 1
    assert shown_at(width - 1, [ALICE]).count("Alice") == 3


def test_claims_and_disputes_are_shown_and_counted() -> None:
    busy = replace(
        ALICE, claims={"drawing": 11, "showing": 2}, claims_ended={"passed": 400, "refuted": 57, "returned": 6},
        disputes={"voting": 17}, disputes_ended={"right": 9},
    )  # fmt: skip
    for width in (200, 80):
        text = shown_at(width, [busy])
        assert all(word in text for word in ("claims", "wrong", "disputes", " 13 ", " 57 ", " 17 "))
    (shown,) = as_json([busy], {"Alice": MemberProcesses(0, None)})
    assert (shown["claims"], shown["disputes"]) == ({"drawing": 11, "showing": 2}, {"voting": 17})
    assert (shown["claims_ended"]["refuted"], shown["disputes_ended"]) == (57, {"right": 9})


def test_figures_with_a_status_or_an_outcome_are_read_as_a_node_tells_them() -> None:
    metrics = Metrics("test", "node", "0", is_validator=True)
    metrics.claims["showing"].set(2)
    metrics.claims_ended[ClaimOutcome.REFUTED].inc(5)
    metrics.disputes["voting"].set(3)
    metrics.disputes_ended["right"].inc(4)

    async def asked() -> MemberStatus:
        port = one_free_port()
        server = MetricsServer(metrics.registry, port, external=False)
        try:
            async with aiohttp.ClientSession() as session:
                layout: Any = SimpleNamespace(
                    name="Alice",
                    is_validator=True,
                    rpc_url="",
                    ports=SimpleNamespace(metrics=port, rpc=one_free_port()),
                )
                return await _ask(session, layout)
        finally:
            server.close()

    status = asyncio.run(asked())
    assert status.is_up
    assert status.claims == dict.fromkeys(CLAIM_STATUSES, 0) | {"showing": 2}
    assert status.claims_ended == {"passed": 0, "refuted": 5, "returned": 0}
    assert status.disputes == dict.fromkeys(DISPUTE_STATUSES, 0) | {"voting": 3}
    assert status.disputes_ended["right"] == 4
    assert (status.open_claims, status.found_wrong, status.open_disputes) == (2, 5, 3)


def test_a_narrow_console_cuts_nothing_off() -> None:
    waits = replace(
        ALICE, name="Charlie", seat=0, next_seat=0, queue=12, stake=123_456, attested=123_456, accepted=123_456,
        final=123_450, peers=40, ready=5_000, units=4_096, rpc="ws://127.0.0.1:19944",
    )  # fmt: skip
    for width in (40, 60, 70):
        words = shown_at(width, [ALICE, waits])
        assert (words.count("Charlie"), "waits, no. 12" in words, "123456" in words) == (1, True, True), width
        assert "\u2026" not in words
        assert all(len(line) <= width for line in words.splitlines())
        assert "[red]" not in shown_at(width, [replace(waits, is_jailed=True)])
    text = shown_at(80, [ALICE, waits])
    assert "\u2026" not in text
    for value in ("waits, no. 12", "19944", "restarts", "attested", *map(str, (123_456, 123_450, 5_000, 4_096, 40))):
        assert value in text
    assert text.count("Charlie") == 3
