"""The second workload on a network of real nodes, providers and programs: sold, offered, bought, raced and voted about.

Only the workload's name in the seller's command line selects it. Eve lies: her provider flips a bit of every output.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devnet.launcher import layout, programs
from devnet.launcher import lifecycle as network
from devnet.launcher.layout import Devnet
from devnet.stage.measuring import ledger
from devnet.stage.measuring.ledger import DevnetLedger
from devnet.stage.network import Stage, fresh_network
from devnet.stage.report import Narrator
from genesis import dev_accounts
from genesis.presets import DEVICE_BOND
from gpu_tasks.market.claims.dispute_events import VoteOpened
from gpu_tasks.market.inference.events import ProviderSlashed, RaceMissed, UnitDisputed
from gpu_tasks.workloads.model_forms import form_named
from runtime.cryptography import ss58
from wallet.client import ChainClient

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]

WORKLOAD = "matmul-hash"
PRODUCTS = 20
PRICE = "0.01"
VOTERS = 3  # of four validators, one is a party
BLOCKS_OF_A_DISPUTE = 150
"""With the claim that follows it."""
TERMS = ["--price-min", "0.001", "--price-max", "0.1", "--ramp", "2", "--commit-window", "20", "--max-tokens", "256"]
STASH = {name: ss58.encode(dev_accounts.stash(name)) for name in ("Bob", "Charlie", "Eve")}


@pytest.fixture
def net(tmp_path: Path) -> Iterator[Devnet]:
    """Four validators with a provider each, and Eve's provider, which lies."""
    try:
        tell = Narrator(1)
        stage = Stage(fresh_network(tmp_path, narrator=tell), tell)
        stage.add_cheat("flip-bit")
        yield stage.devnet
    finally:
        network.down(layout.load(tmp_path))


def test_a_service_of_it_is_sold_offered_bought_raced_and_voted_about(net: Devnet, tmp_path: Path) -> None:
    created = run(
        net, "ogpu", "offer", "create-service", "--workload", WORKLOAD, "--name", "products", *TERMS, *seller()
    )
    service = str(created["service"])
    devices = {row["provider"]: row["device"] for row in run(net, "ogpu", "offer", "providers")}

    # Bob and Eve are all who offer it, so both are drawn, and their results differ.
    offer(net, "Bob", devices, service)
    offer(net, "Eve", devices, service)
    (disputed,) = bought(net, tmp_path, service, "7\n")
    assert "disputed" in disputed["states"]
    shown = run(net, "ogpu", "unit", "result", disputed["unit"], "--key", "//Ferdie")
    assert (shown["state"], shown["completion"]) == ("settled", disputed["completion"])

    # The chain paused Eve's device: Bob and Charlie agree, and nobody has to vote.
    offer(net, "Charlie", devices, service)
    agreed = bought(net, tmp_path, service, "8\n9 5 3\n")
    assert not any("disputed" in row["states"] for row in agreed)
    assert {row["payee"] for row in agreed} <= {STASH["Bob"], STASH["Charlie"]}
    assert run(net, "ogpu", "offer", "close-service", service, *seller())["open_units"] == 0
    assert_the_liar_paid(net, disputed, agreed)


def assert_the_liar_paid(net: Devnet, disputed: dict[str, Any], agreed: list[dict[str, Any]]) -> None:
    """Check that validators voted: Eve was slashed and paused, Bob was paid, and no other account changed."""
    book = asyncio.run(ledger_of(net, max(1, disputed["ended_in_block"] - BLOCKS_OF_A_DISPUTE)))
    unit = bytes.fromhex(disputed["unit"][2:])
    assert disputed["payee"] == STASH["Bob"]
    assert book.unit(unit).all(UnitDisputed)
    assert [(slash.unit, slash.provider) for _, slash in book.all(ProviderSlashed)] == [
        (unit, dev_accounts.stash("Eve"))
    ]
    assert book.all(RaceMissed) == []
    assert sum(len(record.settled) for record in book.units.values()) == 1 + len(agreed)
    eve = next(row for row in run(net, "ogpu", "offer", "providers") if row["provider"] == STASH["Eve"])
    assert eve["state"] == "paused"
    assert int(eve["bond"]["grains"]) < DEVICE_BOND
    # Fewer than nine may vote, so their stake decides. On a busy machine one may come too late.
    assert 2 <= len(book.all(VoteOpened)) <= VOTERS


def bought(net: Devnet, folder: Path, service: str, lines: str) -> list[dict[str, Any]]:
    """Post, and follow to the end. Return each unit's last row with its `states`, results compared."""
    file = folder / "seeds"
    file.write_text(lines)
    words = ["unit", "post", str(file), "--key", "//Ferdie", "--service", service, "--racers", "2", "--watch"]
    words += ["--max-tokens", str(PRODUCTS), "--set", "size=8", "--price", PRICE, "--yes"]
    rows: dict[str, dict[str, Any]] = {}
    for row in programs.lines("ogpu", "--url", net.members[0].rpc_url, *words, keyring=net.keyring):
        states = rows.get(row["unit"], {}).get("states", [])
        rows[row["unit"]] = {**row, "states": [*states, row["state"]]}
    form = form_named(WORKLOAD)
    answers = {}
    for line in lines.splitlines():
        request = form.encode(line, PRODUCTS, {"size": "8"}, bytes(32))
        answers[form.show_request(request)] = form.show_output(form.open("reference").run(request))
    assert {row["prompt"]: row["completion"] for row in rows.values()} == answers
    assert {row["state"] for row in rows.values()} == {"settled"}
    return list(rows.values())


def offer(net: Devnet, name: str, devices: dict[str, str], service: str) -> None:
    """A device is named by what `ogpu offer providers` shows of it."""
    words = ["offer", devices[STASH[name]], "--service", service, "--ask", "0.001"]
    assert run(net, "ogpu-provider", "--provider-key", f"//{name}//provider", *words)["success"]


def seller() -> list[str]:
    return ["--key", "//Dave", "--yes"]


def run(net: Devnet, program: str, *words: str) -> Any:
    """Return a program's answer with --json."""
    return json.loads(programs.run(program, "--url", net.members[0].rpc_url, *words, keyring=net.keyring))


async def ledger_of(net: Devnet, first: int) -> DevnetLedger:
    """The events of the final blocks from a height on."""
    async with await ChainClient.connect(net.members[0].rpc_url) as chain:
        return await ledger.read_ledger(chain, first)
