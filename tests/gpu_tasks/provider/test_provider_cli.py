import json
import logging
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.output import Output
from error_codes import raises_code
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.provider import cli, telemetry
from gpu_tasks.provider.commands import status
from gpu_tasks.provider.commands.status import DEVICES, device_shown, earned_facts, journal_facts
from gpu_tasks.provider.earnings import EarningsBook, LossBook, LostPart
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.journal.journal import Journal
from gpu_tasks.provider.journal.records import End, RaceEntry
from gpu_tasks.provider.journal.schema import JOURNAL_FILE, open_journal
from gpu_tasks.provider.keys import provider_key
from gpu_tasks.provider.tasks.bid_terms import UnfitError
from gpu_tasks.provider.telemetry import HarmlessFormatter, JsonLinesTelemetry, LogTelemetry, failure
from provider_runner import Operator
from runtime.cryptography.signatures import Scheme
from wallet import keyfile
from wallet.amounts import Grains
from wallet.errors import WalletError
from wallet.keyfile import ScryptCost
from wallet.keypair import Keypair

CHEAP = ScryptCost(1 << 15, 1, 8)
NOWHERE = ["--url", "ws://127.0.0.1:1", "--provider-key", "//Alice//provider"]


def key_file(path: Path, scheme: Scheme) -> Keypair:
    key = Keypair.from_seed(scheme, b"k" * 32)
    path.write_bytes(keyfile.dump(keyfile.lock(key, "secret", {}, entropy=os.urandom(56), scrypt_cost=CHEAP)))
    path.chmod(0o600)
    return key


def password(tmp_path: Path, text: str = "secret\n") -> Path:
    path = tmp_path / f"password-{len(text)}"
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_devices_are_listed_without_a_node(tmp_path: Path) -> None:
    answer = CliRunner().invoke(cli.main, ["--base-path", str(tmp_path), "--json", "devices"])
    assert answer.exit_code == 0
    rows = json.loads(answer.output)
    assert rows[0]["name"]
    assert rows[0]["class"] in ("cpu", "consumer", "datacenter")
    assert rows[0]["note"].startswith("NVML: ") == (rows[0]["name"] == "CPU (no GPU found)")


def test_without_a_node_every_command_says_so(tmp_path: Path) -> None:
    for command in (["status"], ["resume"], ["pause"], ["register", "--key", "//Eve"]):
        answer = CliRunner().invoke(cli.main, [*NOWHERE, "--base-path", str(tmp_path), *command])
        assert answer.exit_code == 2
        assert "no node answers at ws://127.0.0.1:1" in answer.output


def test_the_key_comes_from_a_path_or_an_encrypted_file(tmp_path: Path) -> None:
    assert provider_key("//Alice//provider", None).scheme is Scheme.ED25519
    key = key_file(tmp_path / "key.json", Scheme.ED25519)
    assert provider_key(str(tmp_path / "key.json"), password(tmp_path)).public_key == key.public_key


def test_keys_that_cannot_be_used_are_refused_in_words(tmp_path: Path) -> None:
    key_file(tmp_path / "sr.json", Scheme.SR25519)
    key_file(tmp_path / "ed.json", Scheme.ED25519)
    for text, file, code in (
        (str(tmp_path / "sr.json"), password(tmp_path), "wrong_key_scheme"),
        (str(tmp_path / "ed.json"), None, "password_file_missing"),
        (str(tmp_path / "none.json"), password(tmp_path), "no_key_file"),
        (str(tmp_path / "none.json"), None, "no_key_file"),
    ):
        with raises_code(WalletError, code):
            provider_key(text, file)
    for text, file, why in (
        (str(tmp_path / "ed.json"), tmp_path / "no-password", "no-password does not exist"),
        (str(tmp_path / "ed.json"), password(tmp_path, "wrong"), "password is wrong"),
        ("//Alice/soft", None, "hard steps only"),
    ):
        with pytest.raises(WalletError, match=why):
            provider_key(text, file)
    shared = password(tmp_path)
    shared.chmod(0o644)
    with pytest.raises(WalletError, match="chmod 600"):
        provider_key(str(tmp_path / "ed.json"), shared)


def test_the_journals_sums_are_shown_while_a_daemon_writes_it(tmp_path: Path) -> None:
    assert journal_facts(tmp_path) == {"journal": "none yet"}
    journal = Journal(tmp_path / JOURNAL_FILE)
    for number, end in enumerate((End.WON, End.WITNESSED, End.UNPAID)):
        journal.races.put((bytes([number]) * 32, 1), RaceEntry(bytes(32), end=end, paid=10 * number + 1))
    journal.races.put((b"z" * 32, 1), RaceEntry(bytes(32)))
    facts = journal_facts(tmp_path)
    assert facts == {"races": 4, "open": 1, "won": 1, "witnessed": 1, "open_tasks": 0}
    journal.close()


def test_what_status_says_was_earned_is_what_earnings_adds_up(tmp_path: Path) -> None:
    assert earned_facts(tmp_path) == {"tasks_paid": 0, "earned": Grains(0)}
    book = EarningsBook(open_journal(tmp_path / JOURNAL_FILE))
    for kind, grains in (("unit", 5), ("task", 70), ("checking", 900), ("standing by", 1_000)):
        book.note(kind, b"n" * 32, 1, device=b"", service="", grains=grains)
    assert earned_facts(tmp_path) == {"tasks_paid": 1, "earned": Grains(1_975)}


def test_losses_stand_in_the_earnings_and_alone(tmp_path: Path) -> None:
    operator = Operator(tmp_path, "ws://127.0.0.1:9", "Eve")
    base = tmp_path / "Eve"
    database = open_journal(base / JOURNAL_FILE)
    EarningsBook(database).note("unit", b"n" * 32, 1, device=b"d", service="s", grains=5)
    assert str(base) in operator.run("earnings", "--losses").stderr, "an empty list is explained"
    LossBook(database).note(LostPart(0, "a", "0x64", 40, "lied", 7, "0xaa", 9, 60_000))
    (row,) = operator.answer("earnings", "--by", "device")
    assert (row["device"], row["earned"]["grains"], row["losses"], row["lost"]["grains"]) == ("0x64", "5", 1, "40")
    (loss,) = operator.answer("earnings", "--losses")
    assert loss.pop("grains")["grains"] == "40"
    assert loss == {
        "noted": "1970-01-01 00:00 UTC", "device": "0x64", "fault": "lied", "block": 7, "case": "0xaa",
        "appealable_until_block": 9, "appealable_until": "1970-01-01 00:01 UTC",
    }  # fmt: skip
    head, line = operator.run("earnings", "--losses", "--csv").stdout.splitlines()
    assert dict(zip(head.split(","), line.split(","), strict=True))["grains"] == "40"
    assert operator.run("earnings", "--csv").stdout.splitlines()[1].endswith(",1,40")


def test_an_unknown_memory_of_a_gpu_is_no_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = Hardware("CPU", "CPU-1", DeviceClass.CPU, 0, None)
    cards = [
        Hardware("GPU", f"GPU-{index}", DeviceClass.CONSUMER, 24_576 * index, index, limits=f"limit {index}")
        for index in range(2)
    ]
    found = [cpu, *cards]
    monkeypatch.setattr(status, "hardware_of", lambda _: found)
    monkeypatch.setattr(status, "lost_gpus", lambda: ["GPU 2: lost"])
    operator = Operator(tmp_path, "ws://127.0.0.1:9", "Eve")
    shown = operator.answer("devices")
    assert [row["memory_mib"] for row in shown] == [0, None, 24_576]
    assert [row["note"] for row in shown[1:]] == ["limit 0", "limit 1"]
    assert "GPU 2: lost" in operator.run("devices").stderr
    found[:] = [cpu]
    assert "GPU 2: lost" not in operator.run("devices").stderr, "the reason stands beside the CPU"


def test_nobody_writes_lines_into_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        LogTelemetry().tell("hindered", unit=bytes(32), problem="503 \x1b[2J\n2026 INFO paid" + "x" * 1000)
    (record,) = caplog.records
    assert record.getMessage().startswith("hindered unit=0x00000000.. problem=503  [2J 2026 INFO paidxxx")
    assert len(record.getMessage()) < 500


def test_each_file_of_telemetry_is_its_owners_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "FILE_BYTES_MAX", 0)
    lines = JsonLinesTelemetry(tmp_path / "t.jsonl")
    lines.tell("executed")
    lines.close()
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {
        "t.jsonl": 0o600, "t.old.jsonl": 0o600,
    }  # fmt: skip


def test_telemetry_is_json_lines(tmp_path: Path) -> None:
    telemetry = JsonLinesTelemetry(tmp_path / "t.jsonl")
    telemetry.tell("executed", unit=b"\x01\x02", tokens=3)
    telemetry.tell("declined", **failure(UnfitError("it is late", code="too_late")))
    telemetry.close()
    first, second = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert (first["event"], first["unit"], first["tokens"]) == ("executed", "0102", 3)
    assert (second["problem"], second["code"]) == ("it is late", "too_late")
    assert second["event"] == "declined"


def test_no_line_of_the_log_is_a_command_to_the_terminal() -> None:
    """B10: a node's error text and a store's answer go into the log."""
    text = "\x1b[2J\x1b]0;owned\x07\u202e\nINFO all is well"
    error = ValueError(text)
    record = logging.LogRecord("x", logging.WARNING, "", 0, "away (%s)", (text,), (ValueError, error, None))
    first, *traceback = HarmlessFormatter("%(levelname)s %(message)s").format(record).splitlines()
    assert first.startswith("WARNING away (")
    assert all(letter.isprintable() for line in (first, *traceback) for letter in line)
    assert traceback
    assert all(line.startswith("  ") for line in traceback)


def test_a_device_that_works_leaves_room_for_every_column(capsys: pytest.CaptureFixture[str]) -> None:
    """Two ids of 66 letters in a row left no room for classes, queues and asks."""
    row = {
        "device": bytes(32),
        "class": "cpu",
        "bond": Grains(500 * 10**8),
        "secured": Grains(255_118_325),
        "paused": False,
        "assignment": bytes.fromhex("e14b355a") + bytes(28),
        "behind": 2,
        "queue": 7,
        "proven": 0,
        "asks": [{"service": 0, "ask": Grains(1_200_000), "places": 2}],
    }
    Output(as_json=False).rows("Devices on the chain", DEVICES, [device_shown(row)])
    shown = capsys.readouterr().out
    assert all(name in shown for name in DEVICES)
    assert "0xe14b355a" in shown
    assert "2 places" in " ".join(shown.split())
    assert "service 0: 0.012 oGPU" in shown
