"""`ogpu-wallet call` against a real RPC server with a played node behind it."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from unittest.mock import patch

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from cli import calls as making
from cli.calls import _shown_changes as shown_changes
from cli.wallet.program import main
from error_codes import ended_code
from gpu_tasks.market.training.orders import CheckedBy
from runtime.cryptography import ss58
from runtime.frame.holds import HoldReason
from runtime.pallets.pots import STAKES
from task_chain import an_order
from wallet.trial import HeldChange
from wallet_runner import answer, chain, said, wallet

ALICE_ADDRESS = "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY"
NOBODY = "ws://127.0.0.1:9"
SEND = ("call", "Balances.transfer_keep_alive", "//Bob", "value=1.5oGPU", "--key", "//Alice")


def test_a_call_is_planned_and_sent(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        planned = answer(wallet(tmp_path, url, *SEND, "--dry-run"))
        assert planned["sent"] is False
        assert planned["arguments"]["value"] == "150000000"
        assert planned["encoded"].startswith("0x02")
        assert planned["from"] == ALICE_ADDRESS
        assert planned["sends"]["ogpu"] == "1.5"
        assert int(planned["total"]["grains"]) == 150_000_000 + int(planned["fee"]["grains"])

        before = int(answer(wallet(tmp_path, url, "balance", "//Bob"))[0]["free"]["grains"])
        sent = answer(wallet(tmp_path, url, *SEND, "--yes"))
        assert sent["success"]
        assert sent["fee"] == planned["fee"]
        assert int(answer(wallet(tmp_path, url, "balance", "//Bob"))[0]["free"]["grains"]) == before + 150_000_000


def test_it_asks_before_it_sends(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        refused = wallet(tmp_path, url, *SEND, typed="n\n", attended=True)
        assert refused.exit_code == 1
        assert "Send Balances.transfer_keep_alive" in refused.stderr
        assert refused.stdout == ""
        agreed = wallet(tmp_path, url, *SEND, typed="y\n", attended=True)
        assert answer(agreed)["success"]

        with patch.object(making, "is_attended", lambda: True):
            for_people = CliRunner().invoke(main, ["--url", url, *SEND], input="n\n")
        assert "value = 1.5 oGPU" in for_people.stdout
        assert "Send it?" in for_people.stderr


def test_calls_without_a_command_of_their_own(tmp_path: Path) -> None:
    """A batch of nested calls, a call by the sudo key, a bond that is locked, and one that the chain refuses."""
    with chain(tmp_path) as url:
        calls = json.dumps([{"System.remark": {"remark": "hello"}}, {"TrustStake.bond": {"value": "20oGPU"}}])
        batch = ("call", "Utility.batch_all", calls, "--key", "//Bob")
        assert answer(wallet(tmp_path, url, *batch, "--dry-run"))["locks"]["ogpu"] == "20"
        assert answer(wallet(tmp_path, url, *batch, "--yes"))["success"]
        inner = json.dumps({"System.remark": {"remark": "0x00"}})
        assert answer(wallet(tmp_path, url, "call", "Sudo.sudo", inner, "--key", "//Alice", "--yes"))["success"]
        unit = "0x" + "11" * 32
        cancel = wallet(tmp_path, url, "call", "InferenceMarket.cancel", unit, "--key", "//Bob", "--yes")
        assert cancel.exit_code == 1
        assert "InferenceMarket." in cancel.stderr


def test_what_a_call_locks_by_the_rules_of_the_chain_is_shown_and_asked_for(tmp_path: Path) -> None:
    """A task's order does not state its holds. The dry run shows them, in JSON and as text."""
    fields = asdict(an_order()).items()
    order = {name: "0x" + value.hex() if isinstance(value, bytes) else value for name, value in fields}
    order["checked_by"] = CheckedBy.EXECUTED.name
    submit = ("call", "TrainingMarket.submit", json.dumps(order), "--key", "//Bob")
    with chain(tmp_path) as url:
        planned = answer(wallet(tmp_path, url, *submit, "--dry-run"))
        told = {row["reason"]: int(row["change"]["grains"]) for row in planned["holds"]}
        assert int(planned["total"]["grains"]) >= sum(told.values()) + int(planned["fee"]["grains"])
        with patch.object(making, "is_attended", lambda: True):
            for_people = CliRunner().invoke(main, ["--url", url, *submit], input="n\n")
        assert "+1 oGPU for TrainingMarket.TaskDeposit" in for_people.stdout
        assert answer(wallet(tmp_path, url, *submit, "--yes"))["success"]
        held = {row["reason"]: int(row["amount"]["grains"]) for row in answer(wallet(tmp_path, url, "locks", "//Bob"))}
        assert told == held
        assert set(told) == {f"TrainingMarket.Task{name}" for name in ("Escrow", "Bond", "Deposit")}
        nothing = ("call", "System.remark", "hello", "--key", "//Bob", "--dry-run")
        assert "holds" not in answer(wallet(tmp_path, url, *nothing))


def test_the_fee_is_that_of_the_work_that_the_chain_will_do(tmp_path: Path) -> None:
    """A batch ends with its first failure, and a withdrawal frees fewer parts than there may be."""
    calls = json.dumps([{"TrustStake.chill": {}}, *[{"TrustStake.unjail": {}}] * 9])
    batch = ("call", "Utility.batch", calls, "--key", "//Bob", "--tip", "0.5")
    with chain(tmp_path) as url:
        planned = answer(wallet(tmp_path, url, *batch, "--dry-run"))
        paid = int(json.loads(wallet(tmp_path, url, *batch, "--yes").stdout)["fee"]["grains"])
        fee, tip = (int(planned[name]["grains"]) for name in ("fee", "tip"))
        assert (fee + tip, int(planned["total"]["grains"])) == (paid, paid)
        free = answer(wallet(tmp_path, url, "call", "System.remark", "hello", "--key", "//Bob", "--dry-run"))
        assert free["total"] == free["fee"]


def held_reason() -> HoldReason:
    reason = HoldReason("Bond", "For a case.")
    reason.belong_to("Pallet", 200, 0)
    return reason


def test_rounding_of_delegations_is_no_change_for_a_person() -> None:
    """A redelegation frees nothing, and burns the grain that no share of the pool owns."""
    dust, more = [HeldChange(STAKES, held_reason(), grains) for grains in (-1, -100_000_000)]
    assert shown_changes([dust], bytes(32), as_json=False) == ""
    assert shown_changes([dust, more], bytes(32), as_json=False) == shown_changes([more], bytes(32), as_json=False)
    assert shown_changes([more], bytes(32), as_json=False).startswith("-1 oGPU of ")
    assert shown_changes([HeldChange(bytes(32), held_reason(), -1)], bytes(32), as_json=False)
    shown = [
        bool(shown_changes([replace(dust, grains=grains)], bytes(32), as_json=False)) for grains in (-999, -1_000, 1)
    ]
    assert shown == [False, True, True]
    assert shown_changes([dust], bytes(32), as_json=True)


def test_what_a_call_locks_of_another_account_names_that() -> None:
    reason = held_reason()
    signer, other = bytes(32), b"o" * 32
    changes = [HeldChange(signer, reason, 150_000_000), HeldChange(other, reason, -100_000_000)]
    assert shown_changes(changes, signer, as_json=False).splitlines() == [
        "+1.5 oGPU for Pallet.Bond: For a case.",
        f"-1 oGPU of {ss58.encode(other)} for Pallet.Bond: For a case.",
    ]


def test_what_a_post_locks_is_asked_for(tmp_path: Path) -> None:
    zero = "0x" + "00" * 32
    terms = {
        "price_max": "0.05oGPU", "racers": 2, "input_root": zero, "input_commitment": zero, "sealed_at": 0,
        "tokens_max": 64,
        "requests": 1,
        "tokens_in": 0,
    }  # fmt: skip
    with chain(tmp_path) as url:
        post = ("call", "InferenceMarket.post", "0", json.dumps([terms, terms]), "--key", "//Bob", "--dry-run")
        planned = answer(wallet(tmp_path, url, *post))
        units = json.dumps([{**terms, "device_class": "Cpu"}])
        named = answer(wallet(tmp_path, url, "call", "InferenceMarket.post", "0", units, "--key", "//Bob", "--dry-run"))
        assert int(planned["prepays"]["grains"]) == 2 * int(named["prepays"]["grains"]) > 0, (
            "what may be null is left out"
        )
        assert int(planned["locks"]["grains"]) > 2 * 5_000_000


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (("Balances.transfer", "//Bob", "1"), "unknown_call", "transfer_keep_alive"),
        (("Blances.burn",), "unknown_pallet", "Balances?"),
        (("Blances",), "unknown_pallet", "Balances?"),
        (("Balanses.transfer",), "unknown_pallet", "Balances?"),
        (("Balances.burn", "1.5", "true", "--key", "//Alice"), "argument_unreadable", "value (Balance)"),
        (("Balances.burn", "1", "true"), "key_missing", "--key"),
        (("Timestamp.set", "1", "--key", "//Alice"), "inherent", "Timestamp.set"),
        (("TrustStake.chill", "--key", "dave"), "unknown_key", "dave"),
    ],
)
def test_mistakes_need_no_node(tmp_path: Path, arguments: tuple[str, ...], code: str, named: str) -> None:
    result = wallet(tmp_path, NOBODY, "call", *arguments)
    assert (result.exit_code, ended_code(result)) == (2, code)
    assert named in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_list_of_calls_and_their_arguments_need_no_node(tmp_path: Path) -> None:
    listed = answer(wallet(tmp_path, NOBODY, "call"))
    assert all(row["what_it_does"] for row in listed)
    assert {row["call"] for row in listed} >= {"InferenceMarket.cancel", "Devices.unregister_provider", "Sudo.sudo"}
    some = answer(wallet(tmp_path, NOBODY, "call", "Devices"))
    assert {row["call"].split(".")[0] for row in some} == {"Devices"}

    shown = answer(wallet(tmp_path, NOBODY, "call", "InferenceMarket.post"))
    assert [row["argument"] for row in shown] == ["service", "units"]
    assert '"price_max": Balance' in shown[1]["how_to_write_it"]
    assert answer(wallet(tmp_path, NOBODY, "call", "TrustStake.chill", "--help-args")) == []


def test_the_help_shows_an_example_a_line() -> None:
    shown = CliRunner().invoke(main, ["call", "--help"], terminal_width=100).output.splitlines()
    examples = [line.strip() for line in shown if line.strip().startswith("ogpu-wallet call ")]
    assert [example.split()[2] for example in examples] == [
        "InferenceMarket.cancel", "Balances.transfer_keep_alive", "Utility.batch",
    ]  # fmt: skip
    assert not [line for line in shown if "\\b" in line]


def completions(*words: str) -> list[str]:
    complete = ShellComplete(main, {}, "ogpu-wallet", "_OGPU_WALLET_COMPLETE")
    return [item.value for item in complete.get_completions(list(words[:-1]), words[-1])]


def test_the_shell_completes_pallets_calls_and_arguments() -> None:
    assert completions("call", "bal") == ["Balances."]
    assert completions("call", "Balances.transfer_k") == ["Balances.transfer_keep_alive"]
    assert completions("call", "Balances.burn", "") == ["value=", "keep_alive="]
    assert completions("call", "Nothing.here", "") == []


@pytest.mark.parametrize(
    ("call", "arguments", "told"),
    [
        (
            "Sudo.sudo",
            '{"TrustLock.cancel_slashes": {"offender": "//Alice"}}',
            "TrustLock.NoSlashHeld",
        ),
        (
            "Utility.batch",
            '[{"System.remark": {"remark": "bye"}}, {"TrustStake.unjail": {}}]',
            "TrustStake.NotJailed",
        ),
    ],
)
def test_what_fails_inside_a_call_that_succeeds_is_a_failure(
    tmp_path: Path, call: str, arguments: str, told: str
) -> None:
    with chain(tmp_path) as url:
        ended = wallet(tmp_path, url, "call", call, arguments, "--key", "//Alice", "--yes")
        shown = json.loads(ended.stdout)
        assert (ended.exit_code, shown["success"]) == (1, False)
        assert told in shown["why"]
        assert told in said(ended, "error")[0]
        assert ended_code(ended) == "inner_call_failed"
