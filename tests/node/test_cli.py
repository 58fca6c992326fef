"""The command line without a started node: specifications, keys, purge, and messages about mistakes."""

from __future__ import annotations

import io
import json
import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli import prompts
from consensus.headers import TrustedBlock
from error_codes import ended_code, raises_code
from genesis.chain import genesis_state
from genesis.presets import load_spec
from genesis.spec import from_json
from node import run as running
from node.chain_commands import genesis_warnings
from node.cli import main, ogpu_node
from node.config import Config, Paths, RpcConfig, read_checkpoint
from node.duty.keystore import SESSION, Keystore
from node.errors import BadInputError
from node.ledger.storage import Storage, StoredBlock


def run(*words: str, typed: str = "") -> str:
    outcome = CliRunner().invoke(ogpu_node, words, input=typed, catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    return outcome.stdout


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Exit status and message of the program."""
    with pytest.raises(SystemExit) as stopped:
        main(words)
    status = stopped.value.code
    assert isinstance(status, int)
    return status, capsys.readouterr().err


def test_specs_are_printed_in_both_forms_and_are_one_chain() -> None:
    plain, raw = from_json(run("build-spec", "--dev").encode()), from_json(run("build-spec", "--dev", "--raw").encode())
    assert plain.patch is not None
    assert raw.raw == genesis_state(plain)


def test_keys_are_made_and_stored(tmp_path: Path) -> None:
    generated = json.loads(run("key", "generate", "--output-type", "json"))
    assert len(generated["secretPhrase"].split()) == 12
    assert (
        json.loads(run("key", "inspect", generated["secretPhrase"], "--output-type", "json"))["publicKey"]
        == generated["publicKey"]
    )
    assert "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY" in run("key", "inspect", "//Alice")
    public = run(
        "key",
        "insert",
        "--base-path",
        str(tmp_path),
        "--chain",
        "dev",
        "--key-type",
        "ogpu",
        "--suri",
        "//Alice//session",
    )
    store = Keystore(Paths(tmp_path, "dev").keystore)
    assert ["0x" + key.hex() for key in store.public_keys(SESSION)] == [public.strip()]
    path = tmp_path / "node-key"
    run("key", "generate-node-key", "--file", str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert run("key", "inspect-node-key", "--file", str(path)).startswith("12D3KooW")
    assert run("key", "inspect-node-key", typed=path.read_text()).startswith("12D3KooW")
    os.mkfifo(tmp_path / "pipe")
    ended = CliRunner().invoke(ogpu_node, ["--json", "key", "inspect-node-key", "--file", str(tmp_path / "pipe")])
    assert ended_code(ended) == "not_a_file"


def test_purging_keeps_keys_and_sign_state(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    paths = Paths(tmp_path, "dev")
    storage = Storage(paths.database, free_bytes_floor=0)
    storage.initialise(StoredBlock(0, b"g" * 32, b"", b""), {})
    storage.close()
    paths.sign_states.mkdir()
    paths.sign_state(b"k").write_bytes(b"kept")
    holder = Storage(paths.database, free_bytes_floor=0)
    status, said = refused(capsys, "--json", "purge-chain", "--dev", "--base-path", str(tmp_path), "--yes")
    assert (status, json.loads(said)["code"], paths.database.exists()) == (2, "database_in_use", True)
    holder.close()
    info = json.loads(run("chain-info", "--dev", "--base-path", str(tmp_path)))
    assert (info["finalized_number"], info["checkpoint"]) == (0, f"0:{info['finalized_hash']}")
    monkeypatch.setattr(prompts, "has_terminal", lambda: False)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    status, said = refused(capsys, "--json", "purge-chain", "--dev", "--base-path", str(tmp_path))
    assert (status, json.loads(said.splitlines()[-1])["code"], "--yes" in said) == (2, "no_terminal", True)
    assert "kept" in run("purge-chain", "--dev", "--base-path", str(tmp_path), "-y")
    assert not paths.database.exists()
    assert paths.sign_state(b"k").read_bytes() == b"kept"
    assert "nothing to do" in run("purge-chain", "--dev", "--base-path", str(tmp_path), "-y")


def test_keys_go_to_the_chain_of_the_base_path(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Without `--chain`, keys of another chain beside the running node's would never sign."""
    secret = tmp_path / "secret"
    secret.write_text("//Alice//session\n")
    secret.chmod(0o600)
    words = ("key", "insert", "--key-type", "ogpu", "--suri-file", str(secret), "--base-path", str(tmp_path))
    Paths(tmp_path, "dev").keystore.mkdir(parents=True)
    run(*words)
    assert len(Keystore(Paths(tmp_path, "dev").keystore).public_keys(SESSION)) == 1
    Paths(tmp_path, "acme").chain.mkdir(parents=True)
    assert json.loads(refused(capsys, "--json", *words)[1])["code"] == "several_chains"
    shutil.rmtree(Paths(tmp_path, "dev").chain)
    assert json.loads(refused(capsys, "--json", *words)[1])["code"] == "chain_needed"


def test_a_network_key_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "node-key"
    run("key", "generate-node-key", "--file", str(path))
    assert running._network_key(None, path) == bytes.fromhex(path.read_text())


def test_a_live_chain_with_development_numbers_is_warned_of() -> None:
    spec = load_spec("local")
    assert not list(genesis_warnings(spec))
    live = replace(spec, chain_type="Live", boot_nodes=("/ip4/1.1.1.1/tcp/1",), start_time=1)
    assert (len(list(genesis_warnings(live))), live.parameters) == (1, "devnet")
    assert len(list(genesis_warnings(replace(live, boot_nodes=(), start_time=0)))) == 3


HASH = "0x" + "ab" * 32
WRONG_CHECKPOINTS = (
    "12", f":{HASH}", f"0:{HASH}", f"-1:{HASH}", f"4294967296:{HASH}", f"1e3:{HASH}", f"\u0663:{HASH}", f"7:{HASH}0",
    f"7:{HASH[:-1]}", f"7:{HASH[:-1]}g", f"7: {HASH}", f"7:0x{HASH}", f"7:{HASH}:7", f"{'9' * 5_000}:{HASH}",
)  # fmt: skip


@pytest.mark.parametrize("text", [f"7:{HASH}", f"7:{HASH[2:]}", f"07:{HASH.upper().replace('X', 'x')}"])
def test_a_checkpoint_is_a_height_and_a_hash(text: str) -> None:
    assert read_checkpoint(text) == TrustedBlock(7, b"\xab" * 32)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--chain", "nowhere"), "unknown_chain"),
        (("--chain", "local", "--dev"), "options_exclude_each_other"),
        (("--dev", "--node-key", "xyz"), "not_a_network_key"),
        (("--dev", "--node-key", "00"), "not_a_network_key"),
        (("--dev", "--node-key", "00", "--node-key-file", "key"), "options_exclude_each_other"),
        (("--dev", "--bootnodes", "nonsense", "--no-rpc", "--no-prometheus", "--port", "0"), "bad_input"),
        (("--dev", "--public-addr", "/ip4/0.0.0.0/tcp/1", "--no-rpc", "--no-prometheus", "--port", "0"), "bad_input"),
        (("--bootnodes", "/ip4/10.0.0.1/tcp/1", "/ip4/10.0.0.2/tcp/1"), "several_addresses"),
        (("--dev", "--public-addr", "/ip4/1.1.1.1/tcp/1", "/ip4/1.1.1.2/tcp/1"), "several_addresses"),
        (("--dev", "--listen-host", "0.0.0.0"), "dev_is_local"),
        (("--dev", "--sample", "2"), "bad_parameter"),
        (("--dev", "--sample", "257"), "bad_parameter"),
        (("--dev", "-l", "foo=bar", "--no-rpc", "--no-prometheus", "--port", "0"), "bad_input"),
        (("--dev", "--name", "x" * 100), "name_unusable"),
        *((("--dev", "--checkpoint", text), "checkpoint_unusable") for text in WRONG_CHECKPOINTS),
        (("key", "inspect", "not a phrase at all"), "phrase_length"),
        (("key", "insert", "--key-type", "ogpu"), "secret_needed"),
        (("chain-info", "--base-path", "/nonexistent"), "no_database"),
        (("--dev", "--port", "70000"), "bad_parameter"),
        (("--dev", "--unknown"), "no_such_option"),
    ],
)
def test_mistakes_are_named_with_exit_code_2(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: str
) -> None:
    status, said = refused(capsys, "--json", *words)
    assert (status, json.loads(said)["code"]) == (2, code), said


def test_a_mistyped_chain_is_answered_with_the_one_that_is_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--chain local?" in refused(capsys, "build-spec", "--chain", "locl")[1]
    assert "`ogpu-node key rotate`" in refused(capsys, "key", "rotat")[1]


@pytest.mark.parametrize(
    ("is_dev", "given", "host"),
    [(True, None, "127.0.0.1"), (True, "127.0.0.1", "127.0.0.1"), (False, None, "0.0.0.0"), (False, "::1", "::1")],
)
def test_where_peers_are_heard(is_dev: bool, given: str | None, host: str) -> None:
    assert running._listen_host({"dev": is_dev, "listen_host": given}) == host


def test_words_of_the_shell_are_looked_at_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["ogpu-node", "--bootnodes", "/ip4/10.0.0.1/tcp/1", "/ip4/10.0.0.2/tcp/1"])
    with pytest.raises(SystemExit):
        main()
    assert "--bootnodes /ip4/10.0.0.1/tcp/1 --bootnodes" in capsys.readouterr().err


def test_a_command_may_stand_behind_an_address(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--bootnodes", "/ip4/10.0.0.1/tcp/1", "build-spec", "--dev"])
    assert ended.value.code == 0
    assert json.loads(capsys.readouterr().out)["chainType"] == "Development"


def test_a_damaged_spec_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    content = json.loads(run("build-spec", "--dev"))
    content["genesis"]["runtimeGenesis"]["patch"]["balances"]["balances"].pop()
    path.write_text(json.dumps(content))
    status, said = refused(capsys, "--chain", str(path), "--base-path", str(tmp_path / "base"))
    assert (status, "add up to" in said) == (2, True), said
    assert not (tmp_path / "base").exists() or not list((tmp_path / "base").rglob("*.ldb"))


def test_b10_a_spec_is_no_command_for_the_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    path.write_text(json.dumps({"\x1b[2J\x1b]0;owned\x07All is well": 1}))
    status, said = refused(capsys, "build-spec", "--chain", str(path))
    assert (status, "All is well" in said) == (2, True), said
    assert all(letter.isprintable() for letter in said.removesuffix("\n"))


def test_an_exposed_validator_needs_a_clear_wish() -> None:
    with raises_code(BadInputError, "rpc_exposed"):
        Config("dev", Path(), "x", is_validator=True, rpc=RpcConfig(external=True))
    Config("dev", Path(), "x", is_validator=True, rpc=RpcConfig(external=True, methods="unsafe"))
    with raises_code(BadInputError, "ports_collide"):
        Config("dev", Path(), "x", port=9944)


def test_the_socket_of_a_deep_folder_has_a_short_path(tmp_path: Path) -> None:
    assert Paths(Path("/base"), "dev").rpc_socket == Path("/base/chains/dev/rpc.sock")
    deep = Paths(tmp_path / ("x" * 150), "dev").rpc_socket
    assert len(bytes(deep)) <= 100
    assert deep != Paths(tmp_path / ("y" * 150), "dev").rpc_socket


def test_presets_are_different_chains() -> None:
    assert genesis_state(load_spec("dev")) != genesis_state(load_spec("local"))


@pytest.mark.parametrize(
    ("content", "mode", "code"),
    [
        (b"//Alice\n", 0o644, "file_not_private"),
        (b"\xff\xfe", 0o600, "password_file_unusable"),
        (None, 0, "password_file_missing"),
        (b"a" * 5_000, 0o600, "file_too_large"),
    ],
)
def test_a_secret_of_a_file_is_private_text(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes | None, mode: int, code: str
) -> None:
    secret = tmp_path / "secret"
    if content is not None:
        secret.write_bytes(content)
        secret.chmod(mode)
    words = (
        "key",
        "insert",
        "--key-type",
        "ogpu",
        "--suri-file",
        str(secret),
        "--base-path",
        str(tmp_path),
        "--chain",
        "local",
    )
    assert json.loads(refused(capsys, "--json", *words)[1])["code"] == code


def test_a_network_key_goes_into_a_new_private_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A draft or link that another user prepared must not receive the key."""
    path, victim = tmp_path / "node-key", tmp_path / "victim"
    victim.write_text("")
    (tmp_path / ".node-key.new").symlink_to(victim)
    run("key", "generate-node-key", "--file", str(path))
    assert (path.stat().st_mode & 0o777, path.is_symlink(), victim.read_text()) == (0o600, False, "")
    before = path.read_text()
    assert (
        json.loads(refused(capsys, "--json", "key", "generate-node-key", "--file", str(path))[1])["code"]
        == "file_exists"
    )
    assert path.read_text() == before
