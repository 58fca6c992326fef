"""Commands of the provider on a development chain: a real RPC server, a played node, real pallets."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cli import calls
from cli.wallet.program import main as wallet
from genesis import dev_accounts
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus
from gpu_tasks.provider.cli import main
from gpu_tasks.provider.commands import inventory, leave, offers
from gpu_tasks.provider.commands.options import devices_of
from gpu_tasks.provider.programs.means import ProgramMeans
from gpu_tasks.provider.tasks.policy import BidPolicy, price_of, price_text
from provider_runner import Operator
from runtime.cryptography import ss58
from runtime.cryptography.signatures import Scheme
from wallet.calls.node_keys import NodeKeys
from wallet.client import ChainClient
from wallet.keyfile import ScryptCost
from wallet.keypair import Keypair
from wallet.keyring import Keyring
from wallet.trial import Trial
from wallet_runner import chain

ALICE, EVE = (ss58.encode(dev_accounts.stash(name)) for name in ("Alice", "Eve"))
KEYS = ["--node-keys", "//Eve"]
JOIN = ["register", "--yes", "--key", "//Eve", "--bond", "1000", "--device-bond", "100", *KEYS]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with chain(tmp_path_factory.mktemp("chain")) as url:
        yield url


@pytest.fixture
def alice(tmp_path: Path, url: str) -> Operator:
    """Return an owner of one device, of the genesis. Other tests of this module do not change it."""
    return Operator(tmp_path, url, "Alice")


@pytest.fixture
def eve(tmp_path: Path) -> Iterator[Operator]:
    """Return an account with money only, on a separate chain."""
    (tmp_path / "chain").mkdir()
    with chain(tmp_path / "chain") as url:
        yield Operator(tmp_path, url, "Eve")


COMMANDS = {
    "status": [],
    "pause": [],
    "resume": [],
    "offer": ["0xb3", "--service", "0", "--ask", "1"],
    "withdraw-offer": ["0xb3", "--service", "0"],
    "run": [],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_key_file_that_is_not_there_is_one_sentence(tmp_path: Path, url: str, command: str) -> None:
    options = ["--url", url, "--provider-key", str(tmp_path / "none.json"), "--base-path", str(tmp_path)]
    answer = CliRunner().invoke(main, [*options, command, *COMMANDS[command]])
    assert answer.exit_code == 2
    assert "no key file" in answer.output


def own_device(operator: Operator) -> str:
    (device,) = operator.answer("status")["devices"]
    name: str = device["device"]
    return name


def test_json_status_says_what_the_table_shows(alice: Operator) -> None:
    (device,) = alice.answer("status")["devices"]
    assert device["class"] == "cpu"
    assert int(device["bond"]["grains"]) > 0
    assert device["secured"]["grains"] == "0"
    assert [alice.answer("status")[name] for name in ("claims", "ballots")] == [[], []]
    assert device["paused"] is False
    assert device["assignment"] is None
    assert device["asks"][0]["service"] == 0
    assert set(device["asks"][0]["ask"]) == {"grains", "ogpu"}
    table = alice.run("status", as_json=False).output
    assert f"service 0: {device['asks'][0]['ask']['ogpu']} oGPU" in table


@pytest.mark.parametrize("command", ["pause", "resume"])
@pytest.mark.parametrize("text", ["nonsense", "0x", "0x" + "ab" * 32, "//Alice"])
def test_a_device_that_is_not_ones_own_is_refused_with_those_that_are(alice: Operator, command: str, text: str) -> None:
    assert own_device(alice) in alice.refusal(command, text)


def test_a_device_may_be_named_by_its_beginning(alice: Operator) -> None:
    device = own_device(alice)
    for text in (device[:10], device[2:8], device.upper().replace("0X", "0x")):
        assert alice.answer("pause", text, "--dry-run")["calls"] == "Devices.pause"


def test_a_device_is_paused_and_resumed(eve: Operator) -> None:
    alice = Operator(eve.folder, eve.options[1], "Alice")
    device = own_device(alice)
    assert alice.answer("pause", device[:10])["success"]
    assert alice.answer("status")["devices"][0]["paused"] is True
    assert alice.answer("pause")["changed"] is False
    assert alice.answer("resume")["success"]
    assert alice.answer("status")["devices"][0]["paused"] is False


def test_a_key_that_works_for_nobody_is_told_so(tmp_path: Path, url: str) -> None:
    assert Operator(tmp_path, url, "Dave").refused_code("pause") == "not_registered"


@pytest.mark.parametrize("stash", ["//Eve", EVE, "0x" + dev_accounts.stash("Eve").hex()])
def test_run_takes_a_stash_as_register_does_and_refuses_anothers(alice: Operator, stash: str) -> None:
    said = alice.refusal("run", "--stash", stash)
    assert f"{ALICE}, not for {EVE}" in said


def test_a_stash_that_is_none_is_told_so_in_both(alice: Operator) -> None:
    for command in (
        ["run", "--stash"],
        ["register", "--key"],
        ["unregister", "0x1", "--key"],
        ["withdraw-bond", "--key"],
    ):
        assert alice.refused_code(*command, "nonsense") == "unknown_account"


def test_a_stash_is_found_in_the_keyring_by_name_and_by_address(alice: Operator) -> None:
    key = Keypair.from_seed(Scheme.SR25519, os.urandom(32))
    Keyring(alice.folder / "keys").add("mine", key, "secret", cost=ScryptCost(1 << 15, 1, 8))
    password = alice.folder / "password"
    password.write_text("secret")
    password.chmod(0o600)
    for text in ("mine", key.address):
        assert f"not for {key.address}" in alice.refusal("run", "--stash", text)
        said = alice.refusal("register", "--yes", "--key", text, "--key-password-file", str(password))
        assert "not a candidate yet" in said
    assert alice.refused_code("register", "--yes", "--key", EVE) == "unknown_key"


def test_the_stash_s_own_password_file_comes_before_the_provider_key_s(alice: Operator) -> None:
    key = Keypair.from_seed(Scheme.SR25519, os.urandom(32))
    Keyring(alice.folder / "keys").add("mine", key, "secret", cost=ScryptCost(1 << 15, 1, 8))
    files = []
    for text in ("secret", "another"):
        (path := alice.folder / text).write_text(text)
        path.chmod(0o600)
        files.append(str(path))
    own, others = files
    alice.options += ["--password-file", others]
    withdraw = ("withdraw-bond", "--key", "mine", "--dry-run")
    assert alice.refused_code(*withdraw) == "cannot_unlock"
    assert alice.answer(*withdraw, "--key-password-file", own)["left"] is True


def test_nobody_s_money_is_bound_unasked(eve: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    """`register` binds all of it in one extrinsic, so a user at the terminal sees the sum first."""
    unasked = [word for word in JOIN if word != "--yes"]
    assert eve.refused_code(*unasked) == "no_terminal"
    monkeypatch.setattr(calls, "is_attended", lambda: True)
    for typed, code in (("n\n", 1), ("", 1), ("y\n", 0)):
        result = eve.run(*unasked, as_json=False, typed=typed)
        assert result.exit_code == code, result.output
        assert "send 1100." in result.output
        assert ("success" in result.output) is (code == 0)
    assert len(eve.answer("status")["devices"]) == 1


@pytest.mark.parametrize("command", [["run"], ["devices"], ["register", "--yes", "--key", "//Eve", *KEYS]])
def test_a_base_path_that_cannot_be_made_is_said(url: str, command: list[str]) -> None:
    options = ["--url", url, "--provider-key", "//Alice//provider", "--base-path", "/dev/null/x"]
    result = CliRunner().invoke(main, [*options, *command])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "/dev/null/x" in result.stderr
    assert "Not a directory" in result.stderr


def test_run_refuses_hardware_and_workloads_that_there_are_not(alice: Operator) -> None:
    assert alice.refused_code("run", "--device", "99") == "unknown_device"
    assert alice.refused_code("run", "--workload", "nonsense") == "unknown_workload"


def test_a_dry_run_shows_every_amount_and_sends_nothing(eve: Operator) -> None:
    shown = eve.answer(*JOIN, "--dry-run")
    purposes = {
        "stash_bond": "1000", "device_bond": "100", "offer_deposit": "0.1", "provider_deposit": "0.1",
    }  # fmt: skip
    assert {name: shown[name]["ogpu"] for name in purposes} == purposes
    assert shown["amount"]["ogpu"] == "1100.2"
    assert "to_the_provider_key" not in shown, "the genesis gave it 10"
    assert int(shown["total"]["grains"]) == int(shown["amount"]["grains"]) + int(shown["fee"]["grains"])
    assert (shown["refused"], shown["sent"]) == (None, False)
    assert eve.answer(*JOIN, "--dry-run") == shown


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (["--bond", "1"], "TrustStake.bond: TrustStake.BondTooSmall"),
        (["--bond", "20000000"], "TrustStake.bond: FundsUnavailable"),
        (["--node-keys", "//Alice"], "TrustStake.KeyTaken"),
    ],
)
def test_a_dry_run_says_what_the_chain_would_refuse(eve: Operator, changed: list[str], reason: str) -> None:
    assert reason in eve.refusal(*JOIN, *changed, "--dry-run", code=1)


@pytest.mark.parametrize("endpoint", ["foo", "http://gpu.example.org/admin#", "http://user:pass@gpu.example.org"])
def test_an_endpoint_is_host_and_port(eve: Operator, endpoint: str) -> None:
    assert eve.refused_code(*JOIN, "--endpoint", endpoint, "--dry-run") == "endpoint_unusable"


def test_keys_without_a_proof_for_the_stash_are_named_before_anything_is_sent(eve: Operator, tmp_path: Path) -> None:
    assert eve.refused_code(*JOIN, "--node-keys", str(tmp_path / "none")) == "file_unusable"
    other = tmp_path / "keys.json"
    genesis = bytes(32)
    other.write_text(NodeKeys(dev_accounts.node_keys("Eve"), dev_accounts.keys_proof("Eve", genesis)).as_json())
    assert eve.refused_code(*JOIN, "--node-keys", str(other)) == "proof_of_another_key"


def test_a_service_that_there_is_not_is_not_offered(alice: Operator, eve: Operator) -> None:
    assert eve.refused_code(*JOIN, "--service", "7") == "unknown_service"
    assert alice.refused_code("offer", own_device(alice)[:8], "--service", "7", "--ask", "1") == "unknown_service"


def test_what_the_chain_would_refuse_is_sent_by_no_command(alice: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that bind no money were signed without a dry run, and a refusal cost its fee."""

    async def refused(*_: object) -> Trial:
        return Trial(refusal="not now", code="NotNow")

    monkeypatch.setattr("wallet.trial.attempt", refused)
    assert "not now" in alice.refusal("pause", code=1)
    assert alice.refused_code("pause", code=1) == "NotNow"
    monkeypatch.undo()
    assert alice.answer("resume")["calls"] == "none", "none is paused"


def _leaves_asked(operator: Operator, *command: str) -> None:
    """A provider's exit from the market needs consent, or --yes."""
    command = (*command, "--key", "//Eve")
    assert operator.refused_code(*command) == "no_terminal"
    with pytest.MonkeyPatch.context() as terminal:
        terminal.setattr(calls, "is_attended", lambda: True)
        declined = operator.run(*command, as_json=False, typed="n\n")
        assert (declined.exit_code, "Send this, for a fee of 0." in declined.output) == (1, True), declined.output
    assert operator.answer(*command, "--yes")["success"]


def test_a_provider_joins_changes_its_offer_and_leaves(eve: Operator) -> None:
    shown = eve.answer(*JOIN, "--dry-run")
    assert eve.answer(*JOIN)["fee"] == shown["fee"]
    assert eve.answer(*JOIN)["calls"] == "none"
    device = own_device(eve)

    assert eve.refused_code("withdraw-offer", device, "--service", "5") == "not_offered"
    eve.answer("withdraw-offer", device[:10], "--service", "0")
    assert eve.answer("status")["devices"][0]["asks"] == []
    offer = ("offer", device[:10], "--service", "0", "--ask", "0.5")
    assert eve.answer(*offer, "--dry-run")["stash_locks"]["ogpu"] == "0.1", "the fee alone is the provider key's"
    eve.answer(*offer)
    assert "stash_locks" not in eve.answer(*offer, "--dry-run"), "for another price nothing more is locked"
    planned = eve.answer(*offer, "--places", "3", "--dry-run")
    assert planned["calls"] == "InferenceMarket.offer, Sessions.offer_places"
    with pytest.MonkeyPatch.context() as unpaced:
        unpaced.setattr(offers, "pace_of", lambda *_: 0)
        assert eve.refused_code(*offer, "--places", "3", "--dry-run") == "no_pace"
    eve.answer(*offer, "--places", "3")
    ask = {"service": 0, "ask": {"grains": "50000000", "ogpu": "0.5"}, "places": 3}
    assert eve.answer("sessions") == []
    assert eve.answer("status")["devices"][0]["asks"] == [ask]

    assert device in eve.refusal("withdraw-bond", "--key", "//Eve")
    planned = eve.answer("unregister", device[:10], "--key", "//Eve", "--dry-run")
    assert planned["comes_back"]["ogpu"] == "100.1"
    assert planned["calls"] == "Sessions.offer_places, InferenceMarket.withdraw_offer, Devices.unregister_device"
    planned = eve.answer("withdraw-offer", device[:10], "--service", "0", "--dry-run")
    assert planned["calls"] == "Sessions.offer_places, InferenceMarket.withdraw_offer"
    _leaves_asked(eve, "unregister", device[:10])
    assert eve.answer("status")["devices"] == []
    assert eve.refused_code("unregister", device, "--key", "//Eve") == "unknown_device"

    planned = eve.answer("withdraw-bond", "--key", "//Eve", "--dry-run")
    assert planned["calls"] == "Devices.unregister_provider, TrustStake.chill, TrustStake.unbond"
    assert planned["comes_back"]["ogpu"] == "0.1"
    assert planned["begins_to_unbond"]["ogpu"] == "1000"
    assert 9 < float(planned["stays_on_the_provider_key"]["ogpu"]) < 10, "of the 10 of the genesis, less fees"
    _leaves_asked(eve, "withdraw-bond")
    waiting = eve.answer("withdraw-bond", "--key", "//Eve")
    assert (waiting["left"], waiting["unlocking"]["ogpu"]) == (False, "1000")
    assert waiting["free_from_epoch"] > waiting["epoch"]
    assert waiting["free_from"].startswith("about ")

    assert eve.refused_code("status") == "not_registered"
    left = eve.answer("status", "--stash", "//Eve")
    assert (left["stash"], left["provider"], left["bonded"]["ogpu"]) == (EVE, False, "0")
    assert (left["unlocking"]["ogpu"], left["free_now"]["ogpu"]) == ("1000", "0")
    assert left["free_from"] == left["all_free_from"]
    assert eve.refused_code("status", "--stash", "//Ferdie") == "not_registered"


def test_what_a_provider_has_is_said_and_what_changes_is_asked(eve: Operator) -> None:
    eve.answer(*JOIN)
    again = eve.run(*JOIN)
    assert json.loads(again.stdout)["bonded"]["ogpu"] == "1000"
    assert "bonded 1000 oGPU, commission 5 %, endpoint http" in again.stderr
    moved = [*JOIN, "--endpoint", "http://127.0.0.1:9999", "--ask", "0.5"]
    assert eve.refused_code(*[word for word in moved if word != "--yes"]) == "no_terminal"
    shown = eve.answer(*moved, "--dry-run")
    assert shown["calls"] == "Devices.register_provider, InferenceMarket.offer"
    assert shown["endpoint"].endswith(" at present, then http://127.0.0.1:9999")
    assert shown["ask"] == "0.01 oGPU at present, then 0.5 oGPU"
    assert "seal_key" not in shown
    assert "unstake`" in again.stderr
    assert {"unstake", "commission", "set-keys"} <= set(wallet.commands)


def test_what_a_second_register_does_not_name_stays(eve: Operator) -> None:
    eve.answer(*JOIN)
    eve.answer(*JOIN, "--endpoint", "http://127.0.0.1:9999", "--ask", "0.5")
    assert eve.answer(*JOIN)["calls"] == "none"
    shown = eve.answer(*JOIN, "--bond", "1200", "--dry-run")
    assert shown["calls"] == "TrustStake.bond_extra", "neither endpoint nor ask goes back to what a first one has"


def test_a_device_that_comes_beside_others_is_said(eve: Operator) -> None:
    eve.answer(*JOIN)
    elsewhere = Operator(eve.folder / "elsewhere", eve.options[1], "Eve")
    again = elsewhere.run(*JOIN, "--dry-run")
    assert json.loads(again.stdout)["devices_until_now"] == own_device(eve)
    assert "devices_until_now" not in eve.answer(*JOIN, "--ask", "0.5", "--dry-run")


def test_more_bond_is_bonded_and_another_provider_key_is_refused(eve: Operator) -> None:
    eve.answer(*JOIN)
    shown = eve.answer(*JOIN, "--bond", "1200", "--dry-run")
    assert (shown["calls"], shown["stash_bond"]["ogpu"]) == ("TrustStake.bond_extra", "200")
    assert shown["bonded_until_now"]["ogpu"] == "1000"
    assert eve.answer(*JOIN, "--bond", "1")["calls"] == "none"
    dave = Operator(eve.folder, eve.options[1], "Dave")
    assert "the stash has the provider key " in dave.refusal(*JOIN)


@pytest.mark.parametrize("tie", [{"assignment": b"u" * 32}, {"secured": 1}])
def test_a_device_that_is_not_done_is_not_unregistered(
    alice: Operator, monkeypatch: pytest.MonkeyPatch, tie: dict[str, Any]
) -> None:
    async def tied(client: ChainClient, stash: bytes) -> list[DeviceStatus]:
        found = await devices_of(client, stash)
        return [replace(status, device=replace(status.device, **tie)) for status in found]

    monkeypatch.setattr(leave, "devices_of", tied)
    device = own_device(alice)
    assert alice.refused_code("unregister", device, "--key", "//Alice", "--dry-run") == "device_busy"


def test_the_commission_of_a_candidate_is_the_wallets_default_or_what_was_said(eve: Operator) -> None:
    eve.answer(*JOIN)
    shown = CliRunner().invoke(wallet, ["--url", eve.options[1], "--json", "candidates"])
    commissions = {row["stash"]: row["commission"] for row in json.loads(shown.stdout)}
    assert commissions[EVE] == "5 %"


def test_the_inventory_shows_each_part_of_the_policy_as_itself() -> None:
    means = ProgramMeans(("a", "b"), False, True, 1_500, 2 << 20, 3 << 20)
    policy = BidPolicy(kinds=("container", "train-int8"), least_price=price_of("0.5 oGPU/h"), containers=means)
    shown = {
        "bids_for": "container, train-int8", "least_price": price_text(policy.least_price), "container_memory_mib": 2,
        "container_disk_mib": 3, "container_cores": "1.5", "container_network": True, "container_images": 2,
    }  # fmt: skip
    assert inventory._policy(policy) == shown
    any_image = replace(policy, containers=replace(means, any_archive=True, outbound=False))
    assert inventory._policy(any_image) == shown | {"container_network": False, "container_images": "any archive"}


def test_the_inventory_is_what_the_door_would_tell(alice: Operator) -> None:
    shown = alice.answer("inventory")
    assert shown["cores"] >= 1
    assert shown["memory_mib"] > 0
    assert shown["devices"][0]["can_be_offered"] is True
    assert (shown["bids_for"], shown["container_memory_mib"]) == ("nothing", 2_048)
    assert "Devices" in alice.run("inventory", as_json=False).output


def test_register_funds_the_key_of_a_stash_that_validates_already(eve: Operator) -> None:
    key = Operator(eve.folder, eve.options[1], "Gina")  # a key that no genesis gave anything
    address = ss58.encode(dev_accounts.key("Gina", "provider"))
    for command in (["stake", "1000"], ["validate", "//Eve", address]):
        made = CliRunner().invoke(wallet, ["--url", eve.options[1], *command, "--key", "//Eve", "--yes"])
        assert made.exit_code == 0, made.output
    join = ["register", "--yes", "--key", "//Eve", "--device-bond", "100"]
    assert key.answer(*join, "--dry-run")["to_the_provider_key"]["ogpu"] == "1"
    key.answer(*join)
    assert key.answer(*join)["calls"] == "none", "the key has its balance"
    key.answer("pause")
    key.answer("resume")
    assert key.answer(*join)["calls"] == "none", "a key that paid some fees needs no more"
