"""`ogpu budget`, and purchases with `--budget`, against a played node: amounts, each refusal, and ids."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result

from error_codes import ended_code
from gpu_tasks.client.cli import main
from gpu_tasks.client.commands import sessions
from gpu_tasks.client.sessions.session_reads import KnownSession, session_of
from gpu_tasks.client.units.posting import Sealer
from gpu_tasks.market.inference.units import UnitTerms
from runtime.cryptography import ss58
from runtime.encoding.types import GRAINS_PER_OGPU
from wallet.client import ChainClient
from wallet.suri import keypair_from_suri
from wallet_runner import answer, chain

pytestmark = pytest.mark.usefixtures("stored_nowhere")

OWNER, DELEGATE = ("--key", "//Ferdie"), ("--key", "//Till")
TILL = ss58.encode(keypair_from_suri("//Till").account)
CAPS = ("--per-unit", "3", "--per-day", "6", "--total", "8")
DEPOSIT = 10 * GRAINS_PER_OGPU


class Shop:
    """The program with a chain, a file of prompts and a folder of records."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.records = ("--postings", str(folder / "records"))
        self.prompts = folder / "prompts"
        self.prompts.write_text("def f():\nimport os\n")

    def __call__(self, *words: str, typed: str | None = None) -> Result:
        options = ["--url", self.url, "--keyring", str(self.folder / "keys"), "--json"]
        return CliRunner().invoke(main, [*options, *words], input=typed)

    def budget(self) -> str:
        """Create a budget, and return its id."""
        return str(answer(self("budget", "create", "--deposit", "10", *OWNER, "--yes"))["budget"])

    def granted(self, *caps: str) -> str:
        """Create a budget with a delegate, and return its id."""
        budget = self.budget()
        self.grant(budget, *(caps or (*CAPS, "--for", "1d")))
        return budget

    def grant(self, budget: str, *caps: str) -> None:
        found = self("budget", "grant", budget, "//Till", *caps, *OWNER, "--yes")
        assert found.exit_code == 0, found.output

    def owned(self, key: str = "//Ferdie") -> Any:
        return answer(self("budget", "ps", "--key", key))

    def post(self, budget: str, *words: str) -> Result:
        post = ("unit", "post", str(self.prompts), "--budget", budget, "--racers", "3", "--anyway", "--yes")
        return self(*post, *self.records, *(words or DELEGATE))


@pytest.fixture
def shop(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Inputs are sealed as of block 0: the played chain learns of no other that is final."""

    async def terms(self: Sealer, *given: Any, seal: Any = Sealer.terms) -> list[UnitTerms]:
        return [replace(each, sealed_at=0) for each in await seal(self, *given)]

    monkeypatch.setattr(Sealer, "terms", terms)
    return Shop(url, tmp_path)


def grains(amount: dict[str, str]) -> int:
    return int(amount["grains"])


def test_a_budget_is_created_granted_revoked_and_closed(shop: Shop) -> None:
    dry = answer(shop("budget", "create", "--deposit", "10", *OWNER, "--dry-run"))
    assert (grains(dry["deposit"]), grains(dry["record_deposit"])) == (DEPOSIT, GRAINS_PER_OGPU // 10)
    budget = shop.granted(*CAPS, "--service", "0", "--service", "7", "--until-block", "5000")
    (row,) = shop.owned()
    (delegate,) = row["delegates"]
    assert (grains(row["free"]), grains(row["held"])) == (DEPOSIT, 0)
    assert (delegate["key"], delegate["services"], delegate["expires_at_block"]) == (TILL, [0, 7], 5_000)
    assert [grains(delegate[name]) // GRAINS_PER_OGPU for name in ("per_unit", "per_day", "total")] == [3, 6, 8]
    assert delegate["expires_about"].endswith("UTC")
    assert shop.owned("//Till") == [row]
    assert shop.owned("//Bob") == []
    assert grains(answer(shop("budget", "withdraw", budget[:10], "4", *OWNER, "--yes", "--dry-run"))["amount"]) > 0
    shop("budget", "withdraw", budget[:10], "4", *OWNER, "--yes")
    assert grains(shop.owned()[0]["free"]) == DEPOSIT - 4 * GRAINS_PER_OGPU
    assert ended_code(shop("budget", "close", budget, *OWNER, "--yes")) == "Budgets.BudgetHasDelegates"
    shop("budget", "revoke", budget, "//Till", *OWNER, "--yes")
    assert shop.owned("//Till") == []
    closed = shop("budget", "close", budget, *OWNER, "--yes")
    assert closed.exit_code == 0, closed.output
    assert shop.owned() == []


def test_a_grant_brings_fees_to_an_empty_account_alone(shop: Shop) -> None:
    budget = shop.granted()
    first = answer(shop("budget", "grant", budget, "//Empty", *CAPS, "--for", "30d", *OWNER, "--dry-run"))
    assert (first["call"], grains(first["for_its_fees"])) == ("Utility.batch_all", GRAINS_PER_OGPU // 10)
    again = answer(shop("budget", "grant", budget, "//Till", *CAPS, "--for", "30d", *OWNER, "--dry-run"))
    assert (again["call"], grains(again["for_its_fees"]), grains(again["spent_before"])) == ("Budgets.grant", 0, 0)
    named = answer(shop("budget", "grant", budget, "//Till", *CAPS, "--for", "1d", "--fees", "2", *OWNER, "--dry-run"))
    assert (named["call"], grains(named["for_its_fees"])) == ("Utility.batch_all", 2 * GRAINS_PER_OGPU)
    assert (first["services"], shop.owned()[0]["delegates"][0]["services"]) == ([], [])


def test_a_delegate_posts_once_and_finds_its_units(shop: Shop) -> None:
    budget = shop.granted()
    before = answer(shop("budget", "ps", *DELEGATE))[0]
    units = [row["unit"] for row in answer(shop.post(budget))]
    assert len(set(units)) == 2
    (row,) = shop.owned()
    (delegate,) = row["delegates"]
    deposits = 2 * GRAINS_PER_OGPU // 10
    gone = grains(before["free"]) - grains(row["free"])
    assert grains(delegate["spent_today"]) == grains(delegate["spent_in_all"]) == gone - deposits > 0
    listed = answer(shop("unit", "list", *DELEGATE))
    assert [each["unit"] for each in listed] == units
    shown = answer(shop("unit", "show", units[0]))
    assert shown["customer"] == row["account"]
    assert ended_code(shop("unit", "cancel", units[0], *DELEGATE, "--yes")) == "not_owner"
    assert answer(shop("unit", "result", units[0][:10], *DELEGATE))["state"] == "queued"
    shop("budget", "revoke", budget, "//Till", *OWNER, "--yes")
    assert ended_code(shop("budget", "close", budget, *OWNER, "--yes")) == "budget_in_use"
    # Ferdie is another key, and its own units are other units.
    assert answer(shop("unit", "list", *OWNER)) == []


def test_an_interrupted_post_of_a_delegate_posts_nothing_twice(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    budget = shop.granted()

    async def killed(client: ChainClient, extrinsic: bytes, send: Any = ChainClient.send) -> None:
        await send(client, extrinsic)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ChainClient, "send", killed)
        assert shop.post(budget).exit_code != 0
    units = [row["unit"] for row in answer(shop.post(budget))]
    assert len(units) == 2
    assert [row["unit"] for row in answer(shop("unit", "list", *DELEGATE))] == units


def test_each_cap_has_its_refusal_before_anything_is_sent(shop: Shop) -> None:
    budget = shop.budget()
    assert ended_code(shop.post(budget)) == "not_delegate"
    cases = (
        (("--per-unit", "0.000001", "--per-day", "6", "--total", "8"), "unit_cap"),
        (("--per-unit", "3", "--per-day", "0.001", "--total", "8"), "day_cap"),
        (("--per-unit", "3", "--per-day", "6", "--total", "0.001"), "total_cap"),
        ((*CAPS, "--service", "5"), "service_not_allowed"),
    )
    for caps, code in cases:
        shop.grant(budget, *caps, "--for", "1d")
        assert ended_code(shop.post(budget)) == code
        opening = ("session", "open", "ogpu-bytes", "--rate", "0.05", "--deposit", "1", "--term", "100")
        assert ended_code(shop(*opening, "--budget", budget, *DELEGATE, "--yes")) == code
        chat = ("chat", "ogpu-bytes", "--rate", "0.05", "--deposit", "1", "--term", "100", "--yes")
        assert ended_code(shop(*chat, "--budget", budget, *DELEGATE, typed="why")) == code
    assert shop.owned()[0]["delegates"][0]["spent_in_all"]["grains"] == "0"
    shop.grant(budget, "--per-unit", "3", "--per-day", "50", "--total", "80", "--for", "1d")
    shop("budget", "withdraw", budget, "9.9", *OWNER, "--yes")
    assert ended_code(shop.post(budget)) == "funds"
    shop("budget", "revoke", budget, "//Till", *OWNER, "--yes")
    assert ended_code(shop.post(budget)) == "not_delegate"


def test_a_grant_ends_at_its_block(shop: Shop) -> None:
    budget = shop.granted(*CAPS, "--for", "3")
    until = shop.owned()[0]["delegates"][0]["expires_at_block"]

    async def wait() -> None:
        async with await ChainClient.connect(shop.url) as client:
            while await client.height(await client.finalized()) < until:
                await asyncio.sleep(0.05)

    asyncio.run(wait())
    assert shop.owned()[0]["delegates"][0]["is_expired"]
    assert ended_code(shop.post(budget)) == "budget_expired"


def test_wrong_input_is_refused_with_a_code(shop: Shop) -> None:
    budget = shop.budget()
    grant = ("budget", "grant", budget, "//Till", *CAPS, *OWNER, "--yes")
    for words in (
        grant,
        (*grant, "--for", "1d", "--until-block", "9999"),
        (*grant, "--for", "soon"),
        (*grant, "--for", "50000000000"),
        (*grant, "--for", "1d", *(word for number in range(17) for word in ("--service", str(number)))),
        ("budget", "create", *OWNER),
        ("unit", "post", str(shop.prompts), *DELEGATE, "--budget", budget, "--out", "/o", "--completion-window", "24h"),
        ("budget", "create", "--deposit", "-1", *OWNER),
        ("budget", "withdraw", budget, "all", *OWNER),
        ("session", "open", "ogpu-bytes", "--budget", budget, "--signer", "//Bob", *DELEGATE, "--yes"),
    ):
        refused = shop(*words)
        assert refused.exit_code == 2, words
        assert "Traceback" not in refused.output
    for words, code in {
        (*grant, "--until-block", "1"): "grant_term",
        ("budget", "grant", budget, "nobody", *CAPS, "--for", "1d", *OWNER, "--yes"): "unknown_account",
        ("budget", "revoke", budget, "//Till", *OWNER, "--yes"): "Budgets.UnknownDelegate",
        ("budget", "revoke", budget, "//Till", "--key", "//Bob", "--yes"): "Budgets.NotBudgetOwner",
        ("budget", "close", "0x123", *OWNER, "--yes"): "invalid_id",
        ("budget", "close", "budget", *OWNER, "--yes"): "invalid_id",
        ("budget", "close", "0x" + "12" * 32, *OWNER, "--yes"): "budget_unknown",
        ("budget", "close", "0x12345", *OWNER, "--yes"): "budget_unknown",
        ("budget", "withdraw", budget, "11", *OWNER, "--yes"): "funds",
        ("budget", "close", budget, "--key", "//Bob", "--yes"): "Budgets.NotBudgetOwner",
        ("budget", "create", "--deposit", "1", *OWNER): "no_terminal",
    }.items():  # fmt: skip
        assert ended_code(shop(*words)) == code, words
    two = (shop.budget(), budget)
    assert len(set(two)) == 2


def test_a_delegate_opens_lists_and_closes_a_session(tmp_path: Path) -> None:
    """The chain makes a block for each call alone, so the session waits for its draw."""

    async def waiting(_: Any, client: Any, session_id: bytes) -> KnownSession:
        return await session_of(client, session_id)

    opening = ("session", "open", "ogpu-bytes", "--rate", "0.05", "--deposit", "2", "--term", "100")
    with chain(tmp_path) as url, patch.object(sessions, "seated", waiting):
        shop = Shop(url, tmp_path)
        budget = shop.granted()
        opened = shop(*opening, "--budget", budget[:12], *DELEGATE, "--yes")
        assert opened.exit_code == 0, opened.output
        (row,) = shop.owned()
        assert grains(row["delegates"][0]["spent_in_all"]) == 2 * GRAINS_PER_OGPU
        (listed,) = answer(shop("session", "ps", *DELEGATE))
        assert (listed["session"] in opened.stdout, listed["state"]) == (True, "waiting")
        assert answer(shop("session", "ps", "--key", row["account"])) == [listed]
        assert answer(shop("session", "ps", *OWNER)) == []
        closed = answer(shop("session", "close", listed["session"][:12], *DELEGATE, "--yes"))
        assert closed["success"]
        assert grains(shop.owned()[0]["free"]) == DEPOSIT
        shop(*opening, "--budget", budget, *DELEGATE, "--yes")
        revoked = answer(shop("budget", "revoke", budget, "//Till", *OWNER, "--dry-run"))
        assert revoked["closes"].startswith("1 session")


def test_spending_adds_up_to_the_grain(shop: Shop) -> None:
    assert answer(shop("spend")) == []
    budget = shop.granted()
    before = answer(shop("budget", "ps", *DELEGATE))[0]
    (first, second) = [row["unit"] for row in answer(shop.post(budget))]
    own = answer(shop("unit", "post", str(shop.prompts), *OWNER, "--racers", "3", "--anyway", "--yes", *shop.records))
    rows = {row["key"]: row for row in answer(shop("spend", "--by", "key"))}
    assert [(row["units"], row["sessions"], row["open"], row["estimated"]) for row in rows.values()] == [
        (2, 0, 2, 0)
    ] * 2
    fees = sum(grains(answer(shop("unit", "result", unit, *DELEGATE))["sums"]["fees"]) for unit in (first, second))
    after = answer(shop("budget", "ps", *DELEGATE))[0]
    prepaid = grains(before["free"]) - grains(after["free"]) - (grains(after["held"]) - grains(before["held"]))
    assert grains(rows[TILL]["cost"]) == grains(rows[TILL]["fees"]) == fees + prepaid > 0
    gone = own[0]["unit"]
    shop("unit", "cancel", gone, *OWNER, "--yes")
    burned = grains(answer(shop("unit", "result", gone, *OWNER))["sums"]["paid"])
    (day,) = answer(shop("spend"))
    assert (day["units"], day["open"], grains(day["paid"])) == (4, 3, burned)
    (model,) = answer(shop("spend", "--by", "model"))
    assert model == {
        **{name: value for name, value in day.items() if name != "day"},
        "model": "decoder-int8:ogpu-bytes",
    }
    assert ended_code(shop("spend", "--by", "year")) == "bad_parameter"


def test_a_damaged_file_of_purchases_stops_no_purchase(shop: Shop) -> None:
    budget = shop.granted()
    answer(shop("spend"))
    (file,) = (shop.folder / "keys" / "spending").glob("*.db")
    for each in file.parent.iterdir():
        each.unlink()
    file.touch(0o600)
    file.write_bytes(b"no database" * 100)
    posted = shop.post(budget)
    assert posted.exit_code == 0, posted.output
    assert ended_code(shop("spend")) == "spending_damaged"
