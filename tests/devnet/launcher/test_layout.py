import json
import os
from dataclasses import asdict, fields
from itertools import pairwise
from pathlib import Path
from unittest.mock import DEFAULT, Mock

import pytest
from click.testing import CliRunner

from devnet.launcher import layout, processes
from devnet.launcher.cli import ogpu_devnet
from devnet.launcher.folder import DevnetError
from devnet.launcher.lifecycle import provider_process
from error_codes import ended_code, raises_code
from genesis import dev_accounts
from genesis.presets import ENDOWMENT, customer_names, load_spec
from runtime.cryptography import ss58
from runtime.encoding.types import CAP_GRAINS


def test_what_is_saved_is_loaded_again(tmp_path: Path) -> None:
    net = layout.create(tmp_path / "net", 4, providers=True, any_ports=True)
    net, _ = layout.add_full_node(net, "Late", any_ports=True)
    net, _ = layout.add_guest(net, "Eve", "some.program", ("--mode", "odd"))
    assert layout.load(tmp_path / "net") == net


def test_a_guest_runs_its_own_program_as_any_provider_is_run(tmp_path: Path) -> None:
    net = layout.create(tmp_path / "net", 4, providers=True, any_ports=True)
    net, guest = layout.add_guest(net, "Eve", "some.program", ("--mode", "odd"))
    beside = provider_process(net, net.members[0])
    joined = provider_process(net, guest)
    assert (beside.module, joined.module) == (processes.PROVIDER, "some.program")
    assert joined.arguments[:2] == ("--mode", "odd")
    assert len(joined.arguments) == len(beside.arguments) + 2


def test_no_two_services_share_a_port(tmp_path: Path) -> None:
    net = layout.create(tmp_path / "net", 7, any_ports=True)
    net, _ = layout.add_full_node(net, "Late", any_ports=True)
    ports = [port for member in net.members for port in asdict(member.ports).values()]
    assert len(set(ports)) == 4 * 8


def test_the_chain_names_the_blob_stores_where_they_are(tmp_path: Path) -> None:
    net = layout.create(tmp_path / "net", 4, any_ports=True)
    patch = load_spec(net.chain_spec.read_bytes()).patch
    assert patch is not None
    assert [each["endpoint"] for each in patch["devices"]["providers"]] == [member.blob_url for member in net.members]


def test_each_node_is_told_of_all_others_and_listens_on_loopback(tmp_path: Path) -> None:
    net = layout.create(tmp_path / "net", 3, any_ports=True)
    words = net.node_command(net.member("bob"))
    boot = [word for before, word in pairwise(words) if before == "--bootnodes"]
    assert boot == [net.members[0].address, net.members[2].address]
    assert words[words.index("--listen-host") + 1] == "127.0.0.1"
    assert "--bob" in words


def samples(words: list[str]) -> list[str]:
    return [word for before, word in pairwise(words) if before == "--sample"]


def test_each_node_polls_the_devnets_sample_whenever_it_is_started(tmp_path: Path) -> None:
    made = layout.create(tmp_path / "net", 4, any_ports=True, sample=3)
    made, _ = layout.add_full_node(made, "Late", any_ports=True)
    loaded = layout.load(tmp_path / "net")
    assert loaded == made
    assert [samples(loaded.node_command(member)) for member in loaded.members] == [["3"]] * 5
    everybody = layout.create(tmp_path / "other", 4, any_ports=True)
    assert samples(everybody.node_command(everybody.members[0])) == []
    assert layout.create(tmp_path / "all", 4, any_ports=True, seats=3, sample=3).sample == 3


@pytest.mark.parametrize(("validators", "seats", "sample"), [(4, None, 2), (4, None, 5), (5, 4, 5), (2, None, 3)])
def test_a_sample_is_no_greater_than_the_set(tmp_path: Path, validators: int, seats: int | None, sample: int) -> None:
    with raises_code(DevnetError, "sample_out_of_bounds"):
        layout.create(tmp_path / "net", validators, any_ports=True, seats=seats, sample=sample)
    assert not (tmp_path / "net").exists()


def test_who_is_to_be_something_else_is_no_validator_and_has_money_all_the_same(tmp_path: Path) -> None:
    net = layout.create(tmp_path / "net", 5, providers=True, any_ports=True, apart=("Eve", "Ferdie"))
    assert [member.name for member in net.members] == ["Alice", "Bob", "Charlie", "Dave", "Node7"]
    patch = load_spec(net.chain_spec.read_bytes()).patch
    assert patch is not None
    rich = {account for account, _ in patch["balances"]["balances"]}
    assert {ss58.encode(dev_accounts.stash(name)) for name in ("Eve", "Ferdie")} <= rich
    with pytest.raises(ValueError, match="1 to 14"):
        layout.create(tmp_path / "more", 15, apart=("Eve", "Ferdie"))


@pytest.mark.parametrize(
    ("validators", "customers"),
    [(4, ("Eve", "Ferdie")), (5, ("Ferdie",)), (6, ("Grace", "Heidi")), (16, ("Grace", "Heidi"))],
)
def test_somebody_has_money_who_validates_nothing(tmp_path: Path, validators: int, customers: tuple[str, ...]) -> None:
    net = layout.create(tmp_path / "net", validators, any_ports=True)
    names = tuple(member.name for member in net.members)
    assert customer_names(names) == customers
    patch = load_spec(net.chain_spec.read_bytes()).patch
    assert patch is not None
    balances = dict(patch["balances"]["balances"])
    assert {balances[ss58.encode(dev_accounts.stash(name))] for name in customers} == {ENDOWMENT}
    stashes = {each["stash"] for each in patch["trustStake"]["validators"]}
    assert not stashes & {ss58.encode(dev_accounts.stash(name)) for name in customers}
    assert sum(balances.values()) == CAP_GRAINS, "whatever is given is the reserve's no more"


def test_a_seventh_validator_has_its_keys_in_its_keystore(tmp_path: Path) -> None:
    net = layout.create(tmp_path / "net", 7, any_ports=True)
    seventh = net.members[6]
    assert "--validator" in net.node_command(seventh)
    assert len(list(net.paths(seventh).keystore.iterdir())) == 2


def test_what_cannot_be_is_said_with_what_to_do(tmp_path: Path) -> None:
    folder = tmp_path / "net"
    with raises_code(DevnetError, "no_devnet"):
        layout.load(folder)
    with raises_code(DevnetError, "too_many_validators"):
        layout.create(folder, 17)
    net = layout.create(folder, 1, any_ports=True)
    with pytest.raises(DevnetError, match=f"`ogpu-devnet --folder {folder} up`"):
        layout.create(folder, 1)
    with raises_code(DevnetError, "unknown_node"):
        net.member("Mallory")
    with pytest.raises(DevnetError, match="no free name"):
        layout.add_full_node(net, "alice")


NETWORK = {"has_providers": False, "guests": [], "broker_port": None, "relay_port": None, "sample": None}
PORT_NAMES = [field.name for field in fields(layout.Ports)]
GUEST_ELSEWHERE = {"name": "../../mine", "rpc_url": "", "blob_port": 1, "program": "", "options": []}
ELSEWHERE = {"is_validator": True, "address": "", "ports": dict.fromkeys(PORT_NAMES, 1)}


@pytest.mark.parametrize(
    "content",
    [
        *("", "{", "[]", "{}", json.dumps({"members": [{}]}), "\x00", "[" * 100_000, " " * (1 << 21)),
        json.dumps({**NETWORK, "members": [], "broker_port": float("inf")}),
        *(json.dumps({**NETWORK, "members": [{**ELSEWHERE, "name": name}]}) for name in ("../../mine", "..", ".", "")),
        json.dumps({**NETWORK, "members": [], "guests": [GUEST_ELSEWHERE]}),
    ],
)
def test_a_damaged_description_is_an_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "devnet.json").write_text(content)
    with raises_code(DevnetError, "devnet_damaged"):
        layout.load(tmp_path)


def test_a_pipe_in_place_of_the_description_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "devnet.json")
    with raises_code(DevnetError, "devnet_damaged"):
        layout.load(tmp_path)


def test_a_killed_start_and_a_killed_removal_leave_a_devnet_to_purge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kill the first start before each write, and the removal in the middle: `down --purge` finishes both."""
    for target in ("_with", "Keystore", "save", "_spec", "to_json"):
        folder = tmp_path / target
        with monkeypatch.context() as patched:
            is_second = target == "save"  # the first one writes the description
            patched.setattr(
                layout, target, Mock(wraps=layout.save, side_effect=[DEFAULT] * is_second + [KeyboardInterrupt])
            )
            with pytest.raises(KeyboardInterrupt):
                layout.create(folder, 7, any_ports=True)
        up = CliRunner().invoke(ogpu_devnet, ["--json", "--folder", str(folder), "up", "--detach"])
        assert ended_code(up) == "devnet_unfinished"
        down = ["--folder", str(folder), "down", "--purge"]
        with monkeypatch.context() as patched:
            patched.setattr(layout, "_remove", Mock(wraps=layout._remove, side_effect=[DEFAULT, KeyboardInterrupt]))
            CliRunner().invoke(ogpu_devnet, down)
        assert (folder / layout.DESCRIPTION).exists()
        assert CliRunner().invoke(ogpu_devnet, down).exit_code == 0
        assert not folder.exists()


def test_purge_removes_the_files_of_the_devnet_alone(tmp_path: Path) -> None:
    folder = tmp_path / "net"
    net = layout.create(folder, 2, providers=True, any_ports=True)
    net, _ = layout.add_full_node(net, "Late_one", any_ports=True)
    net, guest = layout.add_guest(net, "Eve", "some.program")
    mine = [folder / "notes.txt", folder / "keys" / "mine.json"]
    for path in (net.home(guest) / "log", net.broker_home / "log", net.keyring / "a", net.purchases / "b.txt", *mine):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (folder / "bob").rename(folder / "elsewhere")
    (folder / "bob").symlink_to(folder / "elsewhere")
    down = CliRunner().invoke(ogpu_devnet, ["--folder", str(folder), "down", "--purge"])
    assert down.exit_code == 0, down.output
    assert sorted(path.name for path in folder.iterdir()) == ["elsewhere", "keys", "notes.txt"]
    assert all(path.exists() for path in mine)
    assert "elsewhere, keys, notes.txt" in down.output
    with raises_code(DevnetError, "folder_not_empty"):
        layout.create(folder, 2, any_ports=True)
