"""`ogpu unit list`, `show` and `result --out`: states of units, paid providers, and the bytes of results."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cli.chain_time import ChainTime
from error_codes import ended_code
from genesis import dev_accounts
from gpu_tasks.client.cli import main
from gpu_tasks.client.commands import units
from gpu_tasks.client.units import watch
from gpu_tasks.client.units.costs import UnitSums
from gpu_tasks.client.units.file_plan import ACCOUNT
from gpu_tasks.client.units.run_record import BatchRecord, RunPlan, run_id
from gpu_tasks.client.units.watch import FORGOTTEN
from gpu_tasks.data import market_reads
from gpu_tasks.data.sealing import SealKey, address_of, seal
from gpu_tasks.data.unit_input import commitment_of, encode_input
from gpu_tasks.market.claims.claims import Check, ClaimStage, ClaimTerms, ResultClaim
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.numbers import DUTY_FEE
from gpu_tasks.market.inference.units import Racer, Reveal, Unit, UnitState, UnitTerms
from gpu_tasks.workloads.model_forms import form_named, open_workload
from gpu_tasks.workloads.render_tile.request import WORKLOAD_ID
from painted_tiles import PaintedReads
from planted_state import chain_with
from planted_tasks import BOB
from runtime.cryptography import ss58
from runtime.frame.runtime import Bound
from task_customer import OF_BOB, ogpu
from wallet.outbox import FILE
from wallet.suri import keypair_from_suri
from wallet_runner import answer, chain

# `ogpu unit list`: what the chain knows of a key's units, and what the records of this machine add.


pytestmark = pytest.mark.usefixtures("stored_nowhere")


def posted(folder: Path, url: str, *more: str) -> list[str]:
    (folder / "prompts").write_text("def f():\nimport os\n")
    post = ["unit", "post", str(folder / "prompts"), *OF_BOB, "--racers", "3", "--anyway", "--yes", *more]
    return [row["unit"] for row in answer(ogpu(folder, url, *post))]


def test_open_and_ended_units_are_listed_with_their_cost(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        assert answer(ogpu(tmp_path, url, "unit", "list", *OF_BOB)) == []
        first, second = posted(tmp_path, url)
        burned = int(
            answer(ogpu(tmp_path, url, "unit", "cancel", first, *OF_BOB, "--yes", "--dry-run"))["burned"]["grains"]
        )
        answer(ogpu(tmp_path, url, "unit", "cancel", first, *OF_BOB, "--yes"))
        rows = answer(ogpu(tmp_path, url, "unit", "list", "--key", ss58.encode(BOB)))
        assert [row["unit"] for row in rows] == [first, second]
        assert [row["state"] for row in rows] == ["refunded, cancelled", "queued"]
        assert [row["service"] for row in rows] == [0, 0]
        ended, waiting = rows
        prepaid = int(waiting["cost_before_fees"]["grains"])
        assert prepaid > 0
        assert int(ended["cost_before_fees"]["grains"]) == prepaid + burned
        assert ended["posted_in_block"] < ended["ended_in_block"]
        assert ended["posted_about"] <= ended["ended_about"]
        assert (waiting["ended_in_block"], waiting["ended_about"], waiting["run"]) == (None, None, None)
        assert [row["unit"] for row in answer(ogpu(tmp_path, url, "unit", "list", *OF_BOB, "--open"))] == [second]
        assert first[:10] in ogpu(tmp_path, url, "unit", "list", *OF_BOB, as_json=False).stdout.replace("\n", "")


def test_a_unit_of_several_requests_says_how_many(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        (unit,) = posted(tmp_path, url, "--batch", "2")
        (row,) = answer(ogpu(tmp_path, url, "unit", "list", *OF_BOB))
        assert (row["unit"], row["requests"]) == (unit, 2)


def test_units_that_the_chain_has_forgotten_are_known_by_the_record_of_their_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, runs = market_reads.units, list[str]()
    with chain(tmp_path) as url:
        first, second = posted(tmp_path, url)
        for number, account in enumerate((BOB, bytes(32))):
            settings = {ACCOUNT: account.hex()}
            plan = RunPlan("ab", "lines", None, "00", settings, 1, "/out", "/errors", 0, [(0, 2)])
            with BatchRecord.open(tmp_path / "postings", bytes([number])) as record:
                record.begin(plan)
                record.note_posted(0, (first, second)[number][2:], UnitSums(locked=9, prepaid=4))
                record.note_written(0, 2, 0, record.ends, (3, 2))
                runs.append(run_id(record))
        (row, other) = answer(ogpu(tmp_path, url, "unit", "list", *OF_BOB))
        assert (row["run"], other["run"]) == (runs[0], None)

        async def forgotten(client: Any, ids: Any, *at: Any) -> list[Any]:
            return [None, *(await honest(client, ids, *at))[1:]]

        monkeypatch.setattr(market_reads, "units", forgotten)
        row, other = answer(ogpu(tmp_path, url, "unit", "list", *OF_BOB))
        assert (row["unit"], row["state"], row["run"]) == (first, FORGOTTEN, runs[0])
        assert row["cost_before_fees"]["grains"] == "7"
        assert other["unit"] == second
        assert [row["unit"] for row in answer(ogpu(tmp_path, url, "unit", "list", *OF_BOB, "--open"))] == [second]
        (tmp_path / "postings" / FILE).write_bytes(b"damaged" * 1_000)
        (row,) = answer(ogpu(tmp_path, url, "unit", "list", *OF_BOB))
        assert (row["unit"], row["run"]) == (second, None)


def test_of_many_units_the_newest_are_listed_with_times_by_the_chain_s_slots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "slot_ms", lambda _: 86_400_000)
    with chain(tmp_path) as url:
        _, second = posted(tmp_path, url)
        answer(ogpu(tmp_path, url, "unit", "cancel", second, *OF_BOB, "--yes"))
        assert "older" not in ogpu(tmp_path, url, "unit", "list", *OF_BOB).stderr
        monkeypatch.setattr(watch, "UNITS_LISTED_MAX", 1)
        listed = ogpu(tmp_path, url, "unit", "list", *OF_BOB)
        (row,) = answer(listed)
        assert row["unit"] == second
        assert "older" in listed.stderr
        begin, end = (date.fromisoformat(row[name][:10]) for name in ("posted_about", "ended_about"))
        assert len(row["posted_about"]) == len("2026-11-26 02:16 UTC"), "no second of a block is known"
        assert (end - begin).days == row["ended_in_block"] - row["posted_in_block"] > 0


def test_who_watches_nothing_is_told_so(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        done = ogpu(tmp_path, url, "unit", "watch", *OF_BOB)
        assert (done.exit_code, done.stdout) == (0, "")
        assert "ogpu unit list" in done.stderr


def test_who_watches_without_a_terminal_is_told_what_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    async def moments(_: object) -> AsyncIterator[None]:
        for _each in range(2):
            yield
            while not any("is queued" in text for text in told):  # until the command has said it
                await asyncio.sleep(0.01)
        raise KeyboardInterrupt

    with chain(tmp_path) as url:
        first, _ = posted(tmp_path, url)
        monkeypatch.setattr("gpu_tasks.client.units.watch.moments", moments)
        monkeypatch.setattr("cli.session.WAIT_SECONDS", 0.05)
        monkeypatch.setattr("cli.session.note", told.append)
        for as_json in (True, False):
            told.clear()
            assert ogpu(tmp_path, url, "unit", "watch", *OF_BOB, as_json=as_json).exit_code == 1
            said = next(text for text in told if "is queued" in text)
            assert first[:10] in said
            assert "needs 3 owners" in said


# `ogpu unit show`: whoever asks sees how a unit stands, who races, why it ended, and who was paid what.


ALICE, EVE = dev_accounts.stash("Alice"), dev_accounts.stash("Eve")
TERMS = UnitTerms(10_000_000, 2, b"i" * 32, b"h" * 32, 1, 8)
SUMS = ("locked", "prepaid", "fees", "paid", "returned", "still_locked", "cost")
RACERS = (
    Racer(ALICE, b"a" * 32, 0, b"c" * 32, 3, Reveal(b"r" * 32, b"o" * 32, 8, 5)),
    Racer(EVE, b"e" * 32, 0, b"c" * 32, 4, Reveal(b"r" * 32, b"o" * 32, 8, 6)),
)
SETTLED = Unit(
    0, dev_accounts.stash("Bob"), TERMS, 14_000_000, 500_000, 3, 1, 1, UnitState.SETTLED, 1, 10_000_000,
    racers=RACERS, output_root=b"r" * 32, paid=13_500_000, ended_at=7,
)  # fmt: skip
UNITS = {b"s" * 32: SETTLED, b"q" * 32: Unit(0, dev_accounts.stash("Bob"), TERMS, 1, 1, 0, 1, 1)}
SETTLED_UNIT, QUEUED_UNIT = ("0x" + unit.hex() for unit in UNITS)


def plant(bound: Bound) -> None:
    for unit, record in UNITS.items():
        bound[InferenceMarket].units[unit] = record


CLAIMED_UNIT = b"k" * 32
CLAIMED = replace(SETTLED, state=UnitState.CLAIMED, paid=0, ended_at=0)


def claim_of(stage: ClaimStage = ClaimStage.COMMITTING, **changed: Any) -> ResultClaim:
    """Return the claim of Alice's answer, which Eve checks until block 40."""
    terms = ClaimTerms(
        InferenceMarket.index, ALICE, BOB, b"r" * 32, 1, 8, 8, 10_000_000, 372_000_000, 100_000, 240_000,
        100_000, 4_800_000, 1, 30, (),
    )  # fmt: skip
    check = Check(EVE, b"s" * 32, is_second=False, held=372_000_000)
    claim = ResultClaim(terms, 90, stage, 5, deadline=40, points=(3,), pending=1, checks=(check,))
    return replace(claim, **changed)


def plant_claim(bound: Bound) -> None:
    bound[InferenceMarket].units[CLAIMED_UNIT] = CLAIMED
    bound[ResultClaims].claims[CLAIMED_UNIT] = claim_of()


def show(url: str, folder: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["--url", url, "--keyring", str(folder / "keys"), *words])


def test_show_has_the_times_of_a_unit_s_own_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def a_minute_a_block(*_: Any) -> ChainTime:
        return ChainTime(height=8, now_ms=8 * 60_000, passed_ms=60_000, passed_blocks=1, epoch_blocks=10, era_epochs=1)

    monkeypatch.setattr(units, "read_time", a_minute_a_block)
    with chain_with(tmp_path, plant) as url:
        shown = answer(show(url, tmp_path, "--json", "unit", "show", SETTLED_UNIT))
    assert (shown["posted_about"], shown["ended_about"]) == ("1970-01-01 00:01 UTC", "1970-01-01 00:07 UTC")


def test_show_says_who_raced_and_was_paid(tmp_path: Path) -> None:
    with chain_with(tmp_path, plant) as url:
        shown = answer(show(url, tmp_path, "--json", "unit", "show", SETTLED_UNIT))
        assert (shown["state"], shown["ended_in_block"], shown["paid"]["grains"]) == ("settled", 7, "13500000")
        assert [shown[name] and shown[name]["grains"] for name in SUMS] == [
            "14500003", str(money.duty_calls(2) * DUTY_FEE), None, "13500000", "1000000", "3", None,
        ], "which extrinsic posted it, no block says here"  # fmt: skip
        assert [row["answer"] for row in shown["race"]] == ["0x" + (b"r" * 32).hex()] * 2
        paid = {row["to"]: (row["account"], row["amount"]["grains"]) for row in shown["payments"]}
        assert paid["winner"] == (ss58.encode(ALICE), "9800000")
        assert paid["witness"] == (ss58.encode(EVE), "2940000")
        assert sum(int(row["amount"]["grains"]) for row in shown["payments"]) == SETTLED.paid
        assert shown["payments_not_shown"].startswith("payments to checkers")
        table = show(url, tmp_path, "unit", "show", SETTLED_UNIT).output
        assert "Who was paid" in table
        assert ss58.encode(ALICE) in table


def test_show_of_an_open_unit_says_why_it_waits(tmp_path: Path) -> None:
    with chain_with(tmp_path, plant) as url:
        shown = answer(show(url, tmp_path, "--json", "unit", "show", QUEUED_UNIT))
        assert (shown["state"], shown["payments"], shown["race"]) == ("queued", [], [])
        assert shown["why"].startswith("needs 2 owners, 1 offers the service")
        unknown = show(url, tmp_path, "unit", "show", "0x" + "ee" * 32)
        assert (unknown.exit_code, "the chain knows no such unit" in unknown.stderr) == (2, True)
        short = show(url, tmp_path, "--json", "unit", "show", "0x12")
        assert (short.exit_code, ended_code(short)) == (2, "invalid_id")


def test_show_has_the_open_claim_with_its_actor_and_its_last_block(tmp_path: Path) -> None:
    with chain_with(tmp_path, plant_claim) as url:
        shown = answer(show(url, tmp_path, "--json", "unit", "show", "0x" + CLAIMED_UNIT.hex()))
        assert (shown["state"], shown["dispute"], shown["payments"], shown["checks"]) == ("claimed", None, [], [])
        claim = shown["claim"]
        assert (claim["stage"], claim["actor"], claim["account"]) == ("committing", "checker", ss58.encode(EVE))
        assert (claim["until_block"], claim["points"], claim["checks"][0]["end"]) == (40, 1, "open")
        assert "payment waits for a check" in shown["why"]
        assert (shown["paid"]["grains"], shown["still_locked"]["grains"]) == ("0", "14500003")
        table = show(url, tmp_path, "unit", "show", "0x" + CLAIMED_UNIT.hex())
        assert "by block 40 (in" in " ".join(table.output.split())
        assert ss58.encode(EVE) in table.output
        assert "check fees max" in table.output


# `ogpu unit result UNIT --out`: the bytes that were paid for, in a file that nothing else was in.


BOB_PAIR = keypair_from_suri("//Bob")
UNIT, WAITING = b"u" * 32, b"w" * 32
SCENE = "picture 8 6; samples 1; bounces 1; camera 0 1 -5 0 1 0 1; sky #406080 #ffffff 1; sphere 0 1 0 1 matte #c04030"
REQUEST = form_named("render-tile").encode(SCENE, 100, {}, bytes(32))
CONTENT = encode_input(b"s" * 32, SealKey.of(BOB_PAIR).public, REQUEST)
INPUT = seal(CONTENT, [SealKey.of(BOB_PAIR).public])
TERMS_OF_RESULT_FILES = UnitTerms(10_000_000, 1, address_of(INPUT), commitment_of(CONTENT), 0, 100)
QUEUED = Unit(0, BOB_PAIR.account, TERMS_OF_RESULT_FILES, 14_000_000, 500_000, 0, 1, 1)


@pytest.fixture
def url(tmp_path: Path, blobs: dict[bytes, bytes], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    blobs[address_of(INPUT)] = INPUT
    PaintedReads(BOB_PAIR, blobs).plant(monkeypatch)

    def plant(bound: Bound) -> None:
        market = bound[InferenceMarket]
        market.units[UNIT] = QUEUED
        market.units[WAITING] = replace(QUEUED, terms=replace(TERMS_OF_RESULT_FILES, input_root=b"n" * 32))
        service = market.services[0]
        assert service is not None
        market.services[0] = replace(service, terms=replace(service.terms, workload=WORKLOAD_ID))

    with chain_with(tmp_path, plant) as url:
        yield url


def result(url: str, folder: Path, *words: str) -> Result:
    options = ["--url", url, "--keyring", str(folder / "keys"), "--json"]
    return CliRunner().invoke(main, [*options, "unit", "result", *words, "--key", "//Bob"])


def test_the_bytes_that_were_paid_for_go_into_a_file(tmp_path: Path, url: str, blobs: dict[bytes, bytes]) -> None:
    out, name = tmp_path / "tile.bin", "0x" + UNIT.hex()
    shown = answer(result(url, tmp_path, name, "--out", str(out)))
    assert out.read_bytes() == open_workload("render-tile", "numpy").run(REQUEST)
    assert (shown["written_to"], shown["output_bytes"]) == (str(out), len(out.read_bytes()))
    assert (shown["state"], shown["payee"]) == ("settled", ss58.encode(dev_accounts.stash("Alice")))

    out.write_bytes(b"mine")
    refused = result(url, tmp_path, name, "--out", str(out))
    assert (refused.exit_code, "--force" in refused.stderr, out.read_bytes()) == (2, True, b"mine")
    answer(result(url, tmp_path, name, "--out", str(out), "--force"))
    assert out.read_bytes() != b"mine"

    answer(result(url, tmp_path, name, "--out", str(tmp_path)))
    assert (tmp_path / f"{name}.bin").read_bytes() == out.read_bytes()

    blobs.clear()
    gone = result(url, tmp_path, name, "--out", str(tmp_path / "gone"))
    assert (gone.exit_code, "no store serves the input" in gone.stderr, (tmp_path / "gone").exists()) == (
        2,
        True,
        False,
    )


def test_a_claimed_answer_is_shown_at_once_with_the_check_that_its_payment_waits_for(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = market_reads.unit

    async def claimed(*asked: Any) -> Any:
        status = await real(*asked)
        assert status is not None
        unit = replace(status.unit, state=UnitState.CLAIMED, paid=0, ended_at=0)
        return replace(status, unit=unit, claim=claim_of(ClaimStage.DRAWING, deadline=0, checks=(), recorded_at=17))

    monkeypatch.setattr(market_reads, "unit", claimed)
    out, name = tmp_path / "tile.bin", "0x" + UNIT.hex()
    written = result(url, tmp_path, name, "--out", str(out))
    facts = answer(written)
    assert out.read_bytes() == open_workload("render-tile", "numpy").run(REQUEST)
    assert (facts["state"], facts["claim"]["stage"], facts["claim"]["actor"]) == ("claimed", "drawing", "beacon")
    assert (facts["claim"]["until_block"], facts["dispute"]) == (48, None)
    assert "payment waits for a check" in written.stderr
    shown = answer(result(url, tmp_path, name))
    assert (shown["state"], shown["claim"]["stage"], shown["ended_in_block"]) == ("claimed", "drawing", None)
    assert shown["completion"]
    assert "payment waits for a check" in shown["why"]


def test_without_a_result_there_is_no_file(tmp_path: Path, url: str) -> None:
    out = tmp_path / "tile.bin"
    waiting = result(url, tmp_path, "0x" + WAITING.hex(), "--out", str(out))
    assert (waiting.exit_code, "`ogpu unit watch 0x7777" in waiting.stderr) == (2, True)
    assert not out.exists()
    alone = result(url, tmp_path, "0x" + UNIT.hex(), "--force")
    assert (alone.exit_code, "--out" in alone.stderr) == (2, True)
