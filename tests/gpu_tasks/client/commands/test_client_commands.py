"""`ogpu` as people call it, against a real RPC server in front of a chain that grows by hand.

The chain's one provider is Alice's; its beacon stands still, so no unit is ever drawn. Inputs are "stored" nowhere.
"""

import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result

from cli import calls
from error_codes import ended_code
from gpu_tasks.client.cli import main
from gpu_tasks.client.commands import services
from gpu_tasks.client.units.posting import Sealer
from gpu_tasks.data.blob_client import BlobClient, BlobError
from gpu_tasks.data.inventory import ClaimedDevice, ClaimedMachine, MachineInventory, sign_inventory
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.units import UnitTerms
from gpu_tasks.tasks.offers import OfferRow, rows_of
from gpu_tasks.tasks.plan import Hindrance
from gpu_tasks.workloads import model_forms, registry
from offered import device, service
from played_node import DevChain
from runtime.cryptography.signatures import Scheme
from runtime.encoding.types import GRAINS_PER_OGPU
from wallet.amounts import format_amount, format_percent
from wallet.suri import keypair_from_suri

Ogpu = Callable[..., Result]
EXAMPLES = Path(__file__).parents[4] / "examples"


pytestmark = pytest.mark.usefixtures("stored_nowhere")


@pytest.fixture
def ogpu(url: str) -> Ogpu:
    def run(*words: str, typed: str | None = None) -> Result:
        """With `typed` as if somebody sat at the terminal."""
        with patch.object(calls, "is_attended", lambda: typed is not None):
            return CliRunner().invoke(main, ["--url", url, *words], input=typed)

    return run


def as_json(answer: Result) -> Any:
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


@pytest.fixture
def prompts(tmp_path: Path) -> str:
    path = tmp_path / "prompts"
    path.write_text("def f():\nimport os\n")
    return str(path)


def test_a_post_is_refused_with_what_to_set_right(ogpu: Ogpu, prompts: str) -> None:
    for options, why in (
        (["--service", "7"], "there is no open service 7"),
        (["--racers", "2"], "a unit with --racers 2 needs as many owners; service 0 is offered by 1, and by 1 of"),
        (
            ["--racers", "1", "--price", "0.00000001"],
            "--price is 0.01 to 20 oGPU per thousand tokens for service 0",
        ),
        (["--racers", "1", "--max-tokens", "0"], "--max-tokens is 1 to"),
        (["--racers", "1", "--max-tokens", "257"], "--max-tokens is 1 to 256 for service 0, in tokens, not 257"),
        (["--racers", "1", "--set", "top-p=0"], "line 1: top-p is above 0"),
        (["--racers", "1", "--set", "colour=red"], "--set: there is no option 'colour' here; there are: temper"),
        (["--racers", "1", "--set", "temperature=warm"], "line 1: a temperature is 0 to 10"),
        (["--racers", "1", "--key", "//Nobody"], "the account can spend 0 oGPU, and posting 2 units takes 0."),
    ):
        answer = ogpu("unit", "post", prompts, "--key", "//Bob", *options)
        assert answer.exit_code == 2, answer.output
        assert why in answer.output


def test_what_nobody_means_as_prompts_is_not_bought(ogpu: Ogpu, tmp_path: Path) -> None:
    """Both ways of posting refuse other encodings and other forms."""
    file = tmp_path / "file"
    post = ["--json", "unit", "post", str(file), "--key", "//Bob", "--racers", "1", "--dry-run"]
    followed = [*post, "--out", str(tmp_path / "answers"), "--postings", str(tmp_path / "records")]
    for data in ("one\r\ntwo\r\n".encode("utf-16"), "one\n".encode("utf-16-be"), b'[\n{"prompt": "x"}\n]\n',
                 b'one\n{"custom_id": "a"}\n'):  # fmt: skip
        file.write_bytes(data)
        assert [ogpu(*words).exit_code for words in (post, followed)] == [2, 2], data
    file.write_bytes(b'{"prompt": "x"}\n')
    assert [ogpu(*words).exit_code for words in (post, followed)] == [2, 0]
    assert as_json(ogpu(*post, "--form", "lines"))["requests"] == 1
    file.write_bytes("\ufeffone\x0cpage\r\ntwo\n".encode())
    found = [as_json(ogpu(*words)) for words in (post, followed)]
    assert [(each["requests"], each["tokens_in"]) for each in found] == [(2, len("one page") + len("two"))] * 2


def test_a_dry_run_shows_need_and_balance_and_sends_nothing(ogpu: Ogpu, prompts: str) -> None:
    cost = as_json(ogpu("--json", "unit", "post", prompts, "--key", "//Bob", "--racers", "8", "--anyway", "--dry-run"))
    assert (cost["units"], cost["sent"]) == (2, False)
    assert float(cost["spendable"]["ogpu"]) > float(cost["locked"]["ogpu"]) > 0
    parts = {name: int(part["grains"]) for name, part in cost["locked_for"].items()}
    assert sum(parts.values()) == int(cost["locked"]["grains"])
    assert parts["deposit"] == 2 * GRAINS_PER_OGPU // 10
    assert parts["witness"] == parts["price"] * 3 // 10
    assert (0 < parts["bond"] < parts["witness"], parts["checks"]) == (True, 0), "one validator checks nobody"
    assert (cost["requests"], cost["tokens_in"], cost["tokens_out_at_most"]) == (2, 17, 128)
    assert (cost["price_at_draw"], cost["expected"], cost["devices"]) == (None, None, 0), "no 8 owners offer it"
    one = as_json(ogpu("--json", "unit", "post", prompts, "--key", "//Bob", "--racers", "1", "--dry-run"))
    assert (one["price_at_draw"]["ogpu"], one["drawn_after_blocks"]) == ("0.022", 3)
    assert (one["price_at_last"]["ogpu"], one["price_at_last_after_blocks"]) == ("0.05", 10)
    gone = int(one["prepaid"]["grains"]) + int(one["fees"]["grains"])
    assert gone < int(one["expected"]["grains"]) < int(one["most"]["grains"])
    assert one["ends_after_blocks"] == one["ends_after_seconds"] == 3 + 3 + 4, "132 tokens, 64 to a block"
    shown = ogpu("unit", "post", prompts, "--key", "//Bob", "--racers", "1", "--dry-run").output
    assert "you pay 0.022 oGPU per thousand tokens; that rises to 0.05 after 10 blocks without a draw" in shown


def test_without_a_terminal_nothing_is_posted_unless_it_was_agreed_to(ogpu: Ogpu, prompts: str, tmp_path: Path) -> None:
    postings = tmp_path / "postings"
    post = [
        "--json",
        "unit",
        "post",
        prompts,
        "--key",
        "//Bob",
        "--racers",
        "3",
        "--anyway",
        "--postings",
        str(postings),
    ]
    for more in ([], ["--out", str(tmp_path / "results")]):
        refused = ogpu(*post, *more)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "--yes" in refused.stderr
        assert not postings.exists(), "nothing was sealed or written down"
    assert len(as_json(ogpu(*post, "--yes"))) == 2


def test_a_command_that_posts_once_more_names_the_earlier_units_first(
    ogpu: Ogpu, prompts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Sealer.terms

    async def sealed_at_genesis(*given: Any) -> list[UnitTerms]:
        return [replace(each, sealed_at=0) for each in await honest(*given)]  # all that this chain's beacon calls final

    monkeypatch.setattr(Sealer, "terms", sealed_at_genesis)
    post = (
        "--json",
        "unit",
        "post",
        prompts,
        "--key",
        "//Bob",
        "--racers",
        "3",
        "--anyway",
        "--postings",
        str(tmp_path / "p"),
    )
    first = ogpu(*post, "--yes")
    units = [row["unit"] for row in as_json(first)]
    for more in (["--dry-run"], []):
        assert [unit in ogpu(*post, *more).stderr for unit in units] == [True, True], more
    said = ogpu(*post, "--yes")
    assert [unit in said.stderr for unit in units] == [True, True]
    later = [row["unit"] for row in as_json(said)]
    assert len({*later, *units}) == 4
    told = ogpu(*post, "--dry-run").stderr
    assert ([unit in told for unit in units], [unit in told for unit in later]) == ([False] * 2, [True] * 2)
    silent = ogpu(*post, "--again", "--dry-run").stderr
    assert not any(unit in silent for unit in later)


def test_a_queued_unit_says_why_and_can_be_taken_back(ogpu: Ogpu, prompts: str) -> None:
    first, second = as_json(
        ogpu("--json", "unit", "post", prompts, "--key", "//Bob", "--racers", "3", "--anyway", "--yes")
    )
    assert (first["prompt"], second["prompt"]) == ("def f():", "import os")
    unit = first["unit"]
    row = as_json(ogpu("--json", "unit", "result", unit, "--key", "//Bob"))
    assert row["state"] == "queued"
    assert row["why"].startswith("needs 3 owners, 1 offers the service. Refunded at block ")

    refused = ogpu("unit", "cancel", unit, "--key", "//Charlie")
    assert "Only the key of this account" in refused.output
    unknown = ogpu("unit", "cancel", "0x" + "00" * 32, "--key", "//Bob")
    assert "the chain knows no such unit" in unknown.output
    assert {refused.exit_code, unknown.exit_code} == {2}

    said = ogpu("unit", "cancel", unit, "--key", "//Bob", typed="n\n")
    assert said.exit_code == 1
    assert "burned" in said.output
    assert as_json(ogpu("--json", "unit", "result", unit, "--key", "//Bob"))["state"] == "queued"

    dry = as_json(ogpu("--json", "unit", "cancel", unit, "--key", "//Bob", "--dry-run"))
    # a tenth of the bond, which is 5 % of the price; price, 30 % of it for a witness, rest of the bond
    assert (dry["burned"]["ogpu"], dry["comes_back"]["ogpu"], dry["sent"]) == ("0.0000165", "0.0044385", False)
    assert dry["comes_back_later"]["ogpu"] == "0.1"
    done = as_json(ogpu("--json", "unit", "cancel", unit, "--key", "//Bob", "--yes"))
    assert (done["unit"], done["burned"], done["sent"]) == (unit, dry["burned"], True)

    again = ogpu("unit", "cancel", unit, "--key", "//Bob", "--yes")
    assert again.exit_code == 2
    assert "refunded in block" in again.output
    watched = ogpu("unit", "watch", unit, "--key", "//Bob")
    assert watched.exit_code == 1
    assert "\nerror: 1 of 1 unit ended without a result" in watched.output
    assert f"for `ogpu unit result` and `ogpu unit show`:\n{unit}\n" in watched.output
    ended = f"refunded in block {done['block']}: cancelled by the key that posted it"
    assert as_json(ogpu("--json", "unit", "result", unit, "--key", "//Bob"))["why"] == ended
    assert ended in ogpu("unit", "result", unit, "--key", "//Bob").output


@pytest.mark.parametrize("workload", ["matmul-hash", "decoder-int8:ogpu-bytes"])
def test_a_new_service_states_the_cost_of_a_check_of_its_workload(ogpu: Ogpu, workload: str) -> None:
    words = ["--workload", workload, "--name", "new", "--price-min", "0.01", "--price-max", "1", "--max-tokens", "100"]
    words += ["--ramp", "10", "--commit-window", "20"]
    dry = as_json(ogpu("--json", "offer", "create-service", *words, "--key", "//Bob", "--dry-run"))
    assert dry["check_percent"] == format_percent(model_forms.form_named(workload).check_ppm)


def test_a_service_of_any_workload_can_be_created_bought_and_closed(ogpu: Ogpu, tmp_path: Path) -> None:
    form = model_forms.form_named("matmul-hash")
    options = ["--workload", form.name, "--name", "second", "--price-min", "0.01", "--price-max", "1", "--ramp", "10"]
    options += [
        "--commit-window",
        "20",
        "--max-tokens",
        "100",
        "--key",
        "//Bob",
        "--pace",
        "5",
        "--datacenter-pace",
        "90",
    ]
    seeds = tmp_path / "seeds"
    seeds.write_text("17\n")
    dry = as_json(ogpu("--json", "offer", "create-service", *options, "--dry-run"))
    assert (dry["deposit"]["ogpu"], dry["unit_of_cost"], dry["sent"]) == ("10", form.cost_unit, False)
    assert [dry[name] for name in ("commit_window_blocks", "pace", "consumer_pace", "datacenter_pace")] == [
        20,
        5,
        None,
        90,
    ]
    assert ogpu("offer", "create-service", *options, typed="n\n").exit_code == 1
    assert [row["service"] for row in as_json(ogpu("--json", "offer", "services"))] == [0]

    asked = ogpu("offer", "create-service", *options, typed="y\n")
    assert asked.exit_code == 0, asked.output
    assert "deposit" in asked.output
    row = as_json(ogpu("--json", "offer", "services"))[1]
    assert (row["service"], row["name"], row["workload"], row["open"]) == (1, "second", form.name, True)
    assert (row["unit_of_cost"], row["options"]) == (form.cost_unit, "size=64")
    assert (row["ramp_blocks"], row["commit_window_blocks"], row["pace"]) == (10, 20, 5)
    assert (row["consumer_pace"], row["datacenter_pace"]) == (None, 90)
    assert "datacenter" in ogpu("offer", "services").output

    post = ["unit", "post", str(seeds), "--service", "1", "--racers", "1", "--key", "//Bob"]
    assert "service 1 is offered by 0" in ogpu(*post).output
    assert as_json(ogpu("--json", *post, "--anyway", "--set", "size=8", "--dry-run"))["units"] == 1
    assert "line 1: a matrix has 1 to 128 rows, not 999" in ogpu(*post, "--set", "size=999").output
    assert "--max-tokens is 1 to 100 for service 1, in products, not 101" in ogpu(*post, "--max-tokens", "101").output

    assert ended_code(ogpu("--json", "offer", "close-service", "1", "--key", "//Charlie")) == "not_owner"
    dry = as_json(ogpu("--json", "offer", "close-service", "1", "--key", "//Bob", "--dry-run"))
    assert (dry["comes_back"]["ogpu"], dry["sent"]) == ("10", False)
    assert as_json(ogpu("--json", "offer", "close-service", "1", "--key", "//Bob", "--yes"))["sent"] is True
    assert ended_code(ogpu("--json", "offer", "close-service", "1", "--key", "//Bob")) == "service_unknown"


def test_a_unit_names_the_class_that_its_racers_are_of(ogpu: Ogpu, prompts: str, tmp_path: Path) -> None:
    post = ("unit", "post", prompts, "--racers", "1", "--key", "//Bob", "--yes")
    for results in ((), ("--out", str(tmp_path / "results"))):
        refused = ogpu(*post, *results, "--class", "datacenter").output
        assert "owners with a device of class datacenter; service 0 is offered by 0" in refused
    for named, devices in (("cpu", 1), ("datacenter", 0)):
        told = as_json(ogpu("--json", *post, "--class", named, "--anyway", "--dry-run"))
        assert (told["devices"], told["ends_after_blocks"] is None) == (devices, not devices)
    units = as_json(ogpu("--json", *post, "--class", "datacenter", "--anyway"))
    shown = as_json(ogpu("--json", "unit", "show", units[0]["unit"]))
    assert shown["class"] == "datacenter"
    assert "needs 1 owner with a datacenter device, 0 offer the service; from block" in shown["why"]
    assert "'laptop' is not one of 'usual', 'any', 'cpu'" in ogpu(*post, "--class", "laptop").output


def test_an_unknown_workload_is_a_sentence(ogpu: Ogpu, prompts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = model_forms.PACKAGE_FORMS[0]
    monkeypatch.setattr(registry, "MODEL_WORKLOADS", {})
    answer = ogpu("unit", "post", prompts, "--key", "//Bob")
    assert answer.exit_code == 2
    assert f"service 0 is of the workload 0x{unknown.workload_id.hex()}, which this program does not" in answer.output
    assert f"it knows {', '.join(form.name for form in registry.FORMS)}: use a release" in answer.output
    assert as_json(ogpu("--json", "offer", "services"))[0]["workload"] == "0x" + unknown.workload_id.hex()


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        (["--workload", "abacus"], "workload_unknown"),
        (["--name", "x" * 33], "invalid_name"),
        (["--price-min", "2"], "invalid_prices"),
        (["--price-min", "0"], "invalid_prices"),
        (["--price-max", "10000001"], "invalid_prices"),
        (["--commit-window", "601"], "out_of_range"),
        (["--commit-window", "0"], "bad_parameter"),
        (["--ramp", "1d"], "out_of_range"),
        (["--consumer-pace", "9"], "invalid_paces"),
        (["--pace", "9", "--consumer-pace", "5"], "invalid_paces"),
    ],
)
def test_services_that_cannot_be(ogpu: Ogpu, changed: list[str], code: str) -> None:
    options = {
        "--workload": registry.FORMS[0].name, "--name": "x", "--price-min": "1", "--price-max": "1", "--ramp": "0",
        "--commit-window": "20", "--max-tokens": "100", "--key": "//Bob",
        **dict(zip(changed[::2], changed[1::2], strict=True)),
    }  # fmt: skip
    words = [word for pair in options.items() for word in pair]
    assert ended_code(ogpu("--json", "offer", "create-service", *words, "--yes")) == code


@pytest.mark.parametrize("span", ["3m", "180s"])
def test_the_times_of_a_service_may_be_times(ogpu: Ogpu, span: str) -> None:
    words = ["--workload", registry.FORMS[0].name, "--name", "x", "--price-min", "1", "--price-max", "1"]
    words += ["--ramp", span, "--commit-window", span, "--max-tokens", "100", "--key", "//Bob", "--dry-run"]
    dry = as_json(ogpu("--json", "offer", "create-service", *words))
    assert dry["ramp_blocks"] == dry["commit_window_blocks"] == 180


def test_who_cannot_pay_is_told_how_much_there_is(ogpu: Ogpu) -> None:
    words = [
        "--workload",
        registry.FORMS[0].name,
        "--name",
        "x",
        "--price-min",
        "1",
        "--price-max",
        "1",
        "--ramp",
        "0",
    ]
    words += ["--commit-window", "20", "--max-tokens", "100", "--key", "//Nobody", "--yes"]
    answer = ogpu("offer", "create-service", *words)
    assert answer.exit_code == 1
    assert "and the account can spend 0 oGPU. Nothing was sent" in answer.output


def test_offers_are_searched_and_priced(ogpu: Ogpu) -> None:
    (offer,) = as_json(ogpu("--json", "offer", "search"))
    assert (offer["service"], offer["workload"]) == (0, "decoder-int8")
    assert (offer["class"], offer["state"]) == ("cpu", "free")
    ask = offer["price"]["ogpu"]
    assert as_json(ogpu("--json", "offer", "search", f"price={ask}", "state=free")) == [offer]
    nothing = ogpu("--json", "offer", "search", f"price<{ask}")
    assert as_json(nothing) == []
    assert "none of 1 offer " in nothing.stderr
    shown = offer["device"][:10]
    assert f" {shown} " in ogpu("offer", "search", f"device={shown}").output
    refused = ogpu("offer", "search", "clas=cpu")
    assert refused.exit_code == 2
    assert "error: there is no field 'clas'; did you mean class?" in refused.stderr
    (row,) = as_json(ogpu("--json", "offer", "price"))
    assert (row["service"], row["class"], row["offers"], row["free"]) == (0, "cpu", 1, 1)
    assert row["lowest"] == row["median"] == offer["price"]
    assert row["last_paid"] is row["last_paid_in_block"] is None
    assert as_json(ogpu("--json", "offer", "price", "--service", "1")) == []
    assert ask in ogpu("offer", "price").output


def test_what_providers_claim_stands_apart_from_the_chain_s_facts(ogpu: Ogpu, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[bytes | BlobError] = []

    async def inventory_of(self: BlobClient, endpoint: str) -> bytes:
        (answer,) = answers
        if isinstance(answer, BlobError):
            raise answer
        return answer

    monkeypatch.setattr(BlobClient, "inventory_of", inventory_of)
    key = keypair_from_suri("//Alice//provider", Scheme.ED25519)
    (plain,) = as_json(ogpu("--json", "offer", "search"))
    assert (plain["reliability"], plain["proven"], "claimed" in plain) == ("0.800", None, False)
    assert as_json(ogpu("--json", "offer", "search", "reliability>0.8")) == []

    chain = DevChain()
    (uuid_hash,) = [each.uuid_hash for _, each in chain.runtime.at(chain.state)[Devices].devices.items() if each]
    claimed = ClaimedDevice(uuid_hash, "NVIDIA", "RTX 4090", 24_564, "550.54", "cuda", "12.4", is_processor=False)
    machine = ClaimedMachine("EPYC", 16, 65_536, 500_000, 0, 0)
    made_at = time.time_ns() // 1_000_000
    inventory = MachineInventory(2, key.public_key, made_at, machine, (claimed,))
    answers[:] = [sign_inventory(inventory, chain.genesis_hash, key.sign)]
    (offer,) = as_json(ogpu("--json", "offer", "search", "vram>=23Gi model=4090 driver>=535 price<0.5"))
    assert offer["claimed"]["model"] == "RTX 4090"
    assert (offer["claimed"]["platform"], offer["claimed"]["up_kbit"]) == ("cuda 12.4", None)
    assert {name: value for name, value in offer.items() if name != "claimed"} == plain
    assert as_json(ogpu("--json", "offer", "search", "vram>=24Gi")) == []
    text = ogpu("offer", "search", "vram>=23Gi").output
    assert "Offers, from the chain" in text
    assert "Claims of their providers" in text

    answers[:] = [BlobError("was too slow")]
    slow = ogpu("--json", "offer", "search", "vram>=1Gi")
    assert as_json(slow) == []
    assert f"the claims of {plain['provider']} are left out: it was too slow" in slow.stderr
    (offer,) = as_json(ogpu("--json", "offer", "search", "--inventory"))
    assert offer["claimed"] is None


def test_what_is_not_shown_is_said(ogpu: Ogpu, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of([device(number, {0: number + 1}) for number in range(3)], {0: service()})

    async def offers(client: object, at: bytes) -> list[OfferRow]:
        return rows

    monkeypatch.setattr(services, "current_offers", offers)
    answer = ogpu("--json", "offer", "search", "--limit", "2")
    assert [row["price"]["grains"] for row in as_json(answer)] == ["1", "2"]
    assert "1 more" in answer.stderr


def test_a_plan_says_who_could_serve_a_task_and_what_it_costs(ogpu: Ogpu, tmp_path: Path) -> None:
    (tmp_path / "verses.txt").write_text((EXAMPLES / "verses.txt").read_text())
    task = tmp_path / "task.yaml"
    task.write_text((EXAMPLES / "minimal.yaml").read_text())
    answer = as_json(ogpu("--json", "task", "plan", str(task), "--key", "//Bob"))
    (device,) = answer["devices_known"]
    assert (device["could_bid"], device["why_not"], device["class"]) == (True, None, "cpu")
    assert (answer["served"], answer["could_bid"], answer["devices"]) == (True, 1, 1)
    assert answer["price_is_set_by"] == "nobody: the maximum price is paid"
    assert answer["standby"] == "perhaps none"
    assert answer["starts_after"] == "26 blocks, 26 s or more"
    locked = int(answer["locked"]["grains"])
    most, prepaid = int(answer["most"]["grains"]), int(answer["prepaid"]["grains"])
    assert 250_000_000 + prepaid < most < locked < 400_000_000  # a deposit of an oGPU among it
    assert int(answer["spendable"]["grains"]) > locked
    plain = ogpu("task", "plan", str(task)).stderr
    assert "sells no tasks" not in plain
    assert "not binding" in plain
    assert as_json(ogpu("--json", "task", "plan", str(task)))["spendable"] is None


def test_a_task_that_nobody_could_serve_is_refused_with_the_reasons(ogpu: Ogpu, tmp_path: Path) -> None:
    (tmp_path / "verses.txt").write_text((EXAMPLES / "verses.txt").read_text())
    task = tmp_path / "task.yaml"
    plain = (EXAMPLES / "minimal.yaml").read_text()

    def refused(text: str, key: str = "//Bob") -> tuple[Any, str]:
        task.write_text(text)
        answer = ogpu("--json", "task", "plan", str(task), "--key", key)
        assert answer.exit_code == 1, answer.output
        return json.loads(answer.stdout), answer.stderr

    answer, why = refused(plain + "  resources: {classes: [datacenter], devices: 2}\n")
    assert (answer["served"], answer["devices_known"][0]["why_not"]) == (False, "of another class")
    assert re.findall("[0-9]+", why.partition("the task needs ")[2])[:4] == ["2", "0", "1", "1"]
    answer, why = refused(plain, "//Alice")
    assert f"1 {Hindrance.OWN.value}" in why
    answer, why = refused(plain.replace("2.5 oGPU", "2000000 oGPU"))
    assert f"1 {Hindrance.FUNDS.value}" in why
    assert "oGPU for each bid, and it has" in answer["devices_known"][0]["why_not"]
    answer, why = refused(plain, "//Nobody")
    assert answer["served"] is True
    error = json.loads(why.splitlines()[-1])
    locked = sum(int(answer[name]["grains"]) for name in ("locked", "prepaid"))
    assert (error["code"], re.findall(r"\b[0-9.]+\b", error["error"])) == ("funds", ["0", format_amount(locked)])
    assert 3 * GRAINS_PER_OGPU <= locked < 4 * GRAINS_PER_OGPU
    task.write_text(plain.replace("maxPrice", "maxprice"))
    assert "did you mean maxPrice?" in ogpu("task", "plan", str(task)).stderr
