"""`auctions`, `policy`, `drain` and `earnings` as an operator runs them."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_tasks.market.capacity.standing import NOT_ASKED
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.provider.commands.auctions import (
    BIDS_OPENED,
    FOR_NOTHING,
    NEXT_START,
    NO_CONTAINERS,
    NO_IMAGE,
    ONLY_TRIED,
    auction_rows,
)
from gpu_tasks.provider.commands.earnings import NO_PAYMENTS
from gpu_tasks.provider.earnings import EarningsBook
from gpu_tasks.provider.journal.schema import JOURNAL_FILE, open_journal
from gpu_tasks.provider.tasks.policy import BidPolicy
from gpu_tasks.provider.tasks.policy_file import POLICY_FILE, is_draining
from planted_tasks import stored_in
from priced_tasks import a_task
from provider_runner import Operator
from task_customer import OF_BOB, ogpu
from wallet_runner import answer, chain

NOWHERE = "ws://127.0.0.1:1"
MINIMAL = str(Path(__file__).parents[3] / "examples" / "minimal.yaml")
NOTHING = {
    "kinds": "none", "least_price": "0 oGPU/h", "schedule": "always", "only_when_idle": False, "gangs": False,
    "images": "none", "any_archive": False, "outbound": False,
}  # fmt: skip


@pytest.fixture
def operator(tmp_path: Path) -> Operator:
    """Return an operator without a node. These commands read and write only the base path."""
    return Operator(tmp_path, NOWHERE, "Alice")


def test_a_policy_is_shown_and_changed_key_by_key(operator: Operator) -> None:
    assert operator.answer("policy") == NOTHING | {"changed": False}
    assert not (operator.folder / "Alice" / POLICY_FILE).exists()
    first = operator.answer("policy", "--kind", "train-int8", "--least-price", "0.5 oGPU/h")
    assert first == NOTHING | {"kinds": "train-int8", "least_price": "0.5 oGPU/h", "changed": True}
    second = operator.answer("policy", "--schedule", "mon-fri 22:00-06:00", "--schedule", "sat-sun", "--only-when-idle")
    assert second == first | {"schedule": "mon-fri 22:00-06:00, sat-sun", "only_when_idle": True}
    assert operator.answer("policy") == second | {"changed": False}
    third = operator.answer("policy", "--schedule", "always", "--also-when-busy", "--gangs", "--none")
    assert third == NOTHING | {"least_price": "0.5 oGPU/h", "gangs": True, "changed": True}


def test_what_containers_may_be_is_changed_by_itself(operator: Operator) -> None:
    first = operator.answer("policy", "--kind", "container", "--image", "ghcr.io/a/b", "--image", "c", "--outbound")
    assert first == NOTHING | {"kinds": "container", "images": "ghcr.io/a/b, c", "outbound": True, "changed": True}
    second = operator.answer("policy", "--image", "d", "--no-outbound")
    assert second == first | {"images": "d", "outbound": False}
    third = operator.answer("policy", "--image", f"sha256:{'ab' * 32}", "--any-archive")
    assert third == second | {"images": f"sha256:{'ab' * 32}", "any_archive": True}
    assert operator.refused_code("policy", "--image", "c:latest@1") == "invalid_image"
    assert "ghcr.io/acme/lora for" in operator.refusal("policy", "--image", "ghcr.io/acme/lora:v2")
    assert operator.refused_code("policy", "--image", "lora:v2") == "image_with_tag"


def test_who_offers_containers_is_told_what_lacks_and_when_it_counts(operator: Operator) -> None:
    lacks, idle, later = NO_IMAGE, NO_CONTAINERS, NEXT_START
    first = operator.run("policy", "--kind", "container").stderr
    assert (lacks in first, idle in first, later in first) == (True, False, True)
    second = operator.run("policy", "--image", "ghcr.io/a/b").stderr
    assert (lacks in second, idle in second, later in second) == (False, False, True)
    assert later not in operator.run("policy", "--least-price", "1 oGPU/h").stderr
    operator.run("policy", "--none")
    assert "no image" not in operator.run("policy").stderr


def test_any_archive_is_something_to_run(operator: Operator) -> None:
    assert "no image may run" not in operator.run("policy", "--kind", "container", "--any-archive").stderr


def test_images_without_the_kind_are_said(operator: Operator) -> None:
    assert NO_CONTAINERS in operator.run("policy", "--image", "ghcr.io/a/b").stderr


def test_who_names_no_least_price_is_told_that_it_bids_a_grain(operator: Operator) -> None:
    assert "a bid is one grain" not in operator.run("policy").stderr, "it bids for nothing yet"
    assert FOR_NOTHING in operator.run("policy", "--kind", "train-int8").stderr
    assert "a bid is one grain" not in operator.run("policy", "--least-price", "0.5 oGPU/h").stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--kind", "train-int-8"], "did you mean train-int8"),
        (["--kind", "matmul-hash"], "ogpu-provider offer"),
        (["--kind", "chess"], "there is no kind"),
        (["--least-price", "5"], "least_price"),
        (["--schedule", "nights"], "schedule"),
        (["--none", "--kind", "train-int8"], "--none and --kind"),
    ],
)
def test_a_slip_of_the_pen_changes_nothing(operator: Operator, words: list[str], reason: str) -> None:
    assert reason in operator.refusal("policy", *words)
    assert not (operator.folder / "Alice" / POLICY_FILE).exists()


def test_a_file_that_is_no_policy_is_one_sentence(operator: Operator) -> None:
    (operator.folder / "Alice").mkdir()
    (operator.folder / "Alice" / POLICY_FILE).write_text('{"kind": []}')
    assert "did you mean kinds" in operator.refusal("policy")
    assert operator.refused_code("policy") == "unknown_key"


def test_a_provider_drains_until_it_is_told_otherwise(operator: Operator) -> None:
    assert operator.answer("drain") == {"draining": True, "changed": True}
    assert operator.answer("drain") == {"draining": True, "changed": False}
    assert is_draining(operator.folder / "Alice")
    assert operator.answer("drain", "--off") == {"draining": False, "changed": True}
    assert operator.answer("drain", "--off") == {"draining": False, "changed": False}


def test_earnings_are_added_up_as_a_table_or_for_a_spreadsheet(operator: Operator) -> None:
    assert operator.answer("earnings") == []
    book = EarningsBook(open_journal(operator.folder / "Alice" / JOURNAL_FILE), lambda: 0)
    book.note("unit", b"u" * 32, 1, device=b"d" * 32, service="service 0", grains=5)
    book.note("task", b"t" * 32, 1, device=b"d" * 32, service="train-int8", grains=200_000_000)
    (row,) = operator.answer("earnings")
    assert (row["day"], row["payments"], row["earned"]["grains"]) == ("1970-01-01", 2, "200000005")
    by_service = operator.answer("earnings", "--by", "service")
    assert [each["service"] for each in by_service] == ["service 0", "train-int8"]
    text = operator.run("earnings", "--by", "service", "--csv", as_json=False).stdout
    assert text == (
        "service,payments,grains,tokens,grains_per_thousand,losses,lost_grains\nservice 0,1,5,0,,0,0\n"
        "train-int8,1,200000000,0,,0,0\n"
    )
    assert "not one of" in operator.refusal("earnings", "--by", "hour")


def test_what_is_on_sale_is_listed_with_why_it_is_let_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs: dict[bytes, bytes] = {}
    stored_in(blobs, monkeypatch)
    with chain(tmp_path) as url:
        alice = Operator(tmp_path, url, "Alice")
        assert alice.answer("auctions") == []
        result = alice.run("auctions")
        assert (json.loads(result.stdout), "no task" in result.stderr) == ([], True)
        task = answer(ogpu(tmp_path, url, "task", "submit", MINIMAL, *OF_BOB, "--yes"))["task"]
        (row,) = alice.answer("auctions")
        assert (row["task"], row["kind"], row["state"], row["bids"]) == (task, "train-int8", "committing", 0)
        assert "bids for nothing" in row["not_bid"]
        alice.answer("policy", "--kind", "train-int8")
        (row,) = alice.answer("auctions")
        assert (row["own_bid"], row["not_bid"]) == (False, ONLY_TRIED), "an empty reason is read as none"
        shown = alice.run("auctions", as_json=False)
        assert "Auctions at block" in shown.stdout
    assert json.loads((tmp_path / "Alice" / POLICY_FILE).read_text())["kinds"] == ["train-int8"]


def test_what_this_provider_has_bid_for_is_told_and_needs_no_reason() -> None:
    mine, others = (a_task(state=TaskState.REVEALING) for _ in range(2))

    async def auctions() -> dict[bytes, Any]:
        return {b"m" * 32: mine, b"o" * 32: others}

    async def own_devices() -> list[Any]:
        return [SimpleNamespace(id=b"d" * 32, device=SimpleNamespace(assignment=b"m" * 32, kind=DeviceClass.CPU))]

    async def roll_call(devices: list[bytes]) -> Any:
        return SimpleNamespace(rates=NOT_ASKED)

    async def spendable() -> int:
        return 0

    port: Any = SimpleNamespace(
        stash=bytes(32), auctions=auctions, own_devices=own_devices, spendable=spendable, roll_call=roll_call
    )
    rows = asyncio.run(auction_rows(port, BidPolicy(), 1))
    assert [(row["own_bid"], row["not_bid"]) for row in rows] == [
        (True, None), (False, BIDS_OPENED),
    ]  # fmt: skip


def test_where_nothing_was_earned_it_is_said_where_that_was_looked_up(operator: Operator) -> None:
    said = operator.run("earnings")
    assert (said.exit_code, json.loads(said.stdout)) == (0, [])
    assert [json.loads(line) for line in said.stderr.splitlines()] == [
        {"note": NO_PAYMENTS.format(operator.folder / "Alice")}
    ]
