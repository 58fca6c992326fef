"""A file that cannot be used, or an output that takes no more, ends each program in a sentence and an exit code."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from cli.program import EXIT_OUTPUT_LOST, EXIT_PIPE_CLOSED, EXIT_UNUSABLE, ProgramGroup
from cli.wallet import program as wallet_cli
from devnet.launcher import cli as devnet_cli
from gpu_tasks.provider import cli as provider_cli
from nightly_but import nightly_but
from node import cli as node_cli
from node.errors import BadInputError
from node.ledger.storage import _open_error
from wallet.errors import KeyringError
from wallet.keyring import Keyring
from wallet.suri import keypair_from_suri

PROGRAMS = {
    "ogpu-wallet": "cli.wallet.program",
    "ogpu": "gpu_tasks.client.cli",
    "ogpu-provider": "gpu_tasks.provider.cli",
    "ogpu-node": "node.cli",
    "ogpu-devnet": "devnet.launcher.cli",
}
FULL = Path("/dev/full")
STAKER = "//Alice"


def ended(module: str, *words: str, output: Path | int = subprocess.PIPE, **more: object) -> tuple[int, str]:
    """Run a module, and return its exit code and its text on standard error."""
    command = [sys.executable, "-m", module, *words]
    descriptor = os.open(output, os.O_WRONLY) if isinstance(output, Path) else output
    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=subprocess.PIPE,
            start_new_session=True,
            check=False,
            **more,  # type: ignore[call-overload]
        )
    finally:
        if isinstance(output, Path):
            os.close(descriptor)
    return result.returncode, result.stderr.decode()


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_output_without_room_has_a_code_of_its_own(program: str) -> None:
    code, said = ended(PROGRAMS[program], "--help", output=FULL)
    assert (code, said.count("\n")) == (EXIT_OUTPUT_LOST, 1), said


def test_both_outputs_may_be_full() -> None:
    assert ended("cli.wallet.program", "--help", output=FULL, preexec_fn=_fill_errors)[0] == EXIT_OUTPUT_LOST
    assert ended("cli.wallet.program", "bogus", preexec_fn=_fill_errors)[0] == EXIT_OUTPUT_LOST


def _fill_errors() -> None:
    os.dup2(os.open(FULL, os.O_WRONLY), 2)


def _close_output() -> None:
    os.close(1)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("new", ("--json",)),
        *(pytest.param(command, words, marks=pytest.mark.nightly) for command, words in (("new", ()), ("import", ()))),
    ],
)
def test_a_key_that_could_not_be_shown_is_not_stored(tmp_path: Path, command: str, words: tuple[str, ...]) -> None:
    """A phrase that nobody has seen can never be had again."""
    password, exported = tmp_path / "password", tmp_path / "keys" / "exported.json"
    password.write_text("secret")
    password.chmod(0o600)
    options = (*words, "--keyring", str(tmp_path / "keys"), "--password-file", str(password))
    Keyring(tmp_path / "keys").add("exported", keypair_from_suri(STAKER), "secret")
    make = (command, "carol", *(("--file", str(exported)) if command == "import" else ()))
    for more in ({"output": FULL}, {"preexec_fn": _close_output}):
        code, said = ended("cli.wallet.program", *options, *make, **more)
        assert (code, "Traceback" in said) == (EXIT_OUTPUT_LOST, False), said
        assert not words or [json.loads(line)["exit_code"] for line in said.splitlines()] == [EXIT_OUTPUT_LOST]
        assert [path.name for path in (tmp_path / "keys").iterdir()] == ["exported.json"]
    assert ended("cli.wallet.program", *options, *make)[0] == 0


def test_a_full_disk_elsewhere_is_not_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    @click.group(cls=ProgramGroup)
    def program() -> None:
        pass

    @program.command()
    @click.argument("number", type=int)
    @click.argument("names", nargs=-1)
    def fail(number: int, names: tuple[str, ...]) -> None:
        raise ExceptionGroup("all", [OSError(number, "No space", *names)])

    with pytest.raises(SystemExit) as stopped:
        program(["fail", str(errno.ENOSPC), "journal"])
    assert (stopped.value.code, "journal" in capsys.readouterr().err) == (EXIT_UNUSABLE, True)
    with pytest.raises(ExceptionGroup):  # a connection's error is no matter of files
        program(["fail", str(errno.ECONNRESET)])


class Gone(io.StringIO):
    """An output whose reader has left, as the last flush finds out."""

    def flush(self) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def test_a_reader_that_leaves_before_the_last_flush_is_no_fault(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.group(cls=ProgramGroup)
    def program() -> None:
        pass

    @program.command()
    def show() -> None:
        sys.stdout.write("something")

    monkeypatch.setattr(sys, "stdout", Gone())
    with pytest.raises(SystemExit) as ended:
        program(["show"])
    assert (ended.value.code, capsys.readouterr().err) == (EXIT_PIPE_CLOSED, "")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(errno.EDQUOT, "quota"), EXIT_OUTPUT_LOST),
        (OSError(errno.EIO, "input/output"), EXIT_OUTPUT_LOST),
        (OSError(errno.EFBIG, "too large"), EXIT_OUTPUT_LOST),
        (OSError(errno.EBADF, "closed"), EXIT_OUTPUT_LOST),
        (OSError(errno.EPIPE, "broken"), EXIT_PIPE_CLOSED),
        (ExceptionGroup("a", [ExceptionGroup("b", [OSError(errno.EACCES, "not yours", "key")])]), EXIT_UNUSABLE),
        (ExceptionGroup("a", [OSError(errno.EACCES, "not yours", "key"), ValueError("a bug")]), None),
        (ExceptionGroup("a", [ValueError("a bug")]), None),
        (RuntimeError("a bug"), None),
    ],
)
def test_only_what_a_user_can_set_right_is_no_traceback(error: Exception, code: int | None) -> None:
    @click.group(cls=ProgramGroup)
    def program() -> None:
        pass

    @program.command()
    def fail() -> None:
        raise error

    with pytest.raises(type(error) if code is None else SystemExit) as ended:
        program(["fail"])
    assert code is None or ended.value.code == code  # type: ignore[attr-defined]


def test_a_reader_that_went_away_is_no_fault(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    options = ("--json", "--keyring", str(tmp_path / "keys"), "list")
    assert ended("cli.wallet.program", *options, output=writing) == (EXIT_PIPE_CLOSED, "")
    os.close(writing)


def test_a_name_in_capitals_leads_to_the_key_that_is_there(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path)
    (tmp_path / "carol.json").write_text("{}")
    for name, is_there in (("Carol", True), ("Dave", False)):
        with pytest.raises(KeyringError) as refused:
            keyring.get(name)
        assert ("carol?" in str(refused.value)) == is_there


def test_a_taken_name_is_refused_before_a_password_is_asked_for(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.mkdir()
    (keys / "carol.json").write_text("{}")
    for words in (("new", "carol"), ("import", "carol"), ("import", "carol", "--file", "nowhere")):
        code, said = ended("cli.wallet.program", "--keyring", str(keys), *words)
        assert (code, "'carol'" in said) == (EXIT_UNUSABLE, True), said


def unusable(folder: Path) -> dict[str, Path]:
    """Paths where no folder can be made."""
    (folder / "file").write_text("")
    return {
        "a file": folder / "file",
        "below a file": folder / "file" / "below",
        "a name too long": folder / ("n" * 300),
        "no file system for folders": Path("/proc/none"),
    }


COMMANDS: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "key insert": (node_cli.main, ("key", "insert", "--key-type", "ogpu", "--suri", STAKER, "--base-path", "PATH")),
    "key rotate": (node_cli.main, ("key", "rotate", "--owner", "0x" + "11" * 32, "--base-path", "PATH")),
    "generate-node-key": (node_cli.main, ("key", "generate-node-key", "--file", "PATH/key")),
    "purge-chain": (node_cli.main, ("purge-chain", "-y", "--base-path", "PATH")),
    "chain-info": (node_cli.main, ("chain-info", "--base-path", "PATH")),
    "genesis check": (node_cli.main, ("genesis", "check", "--chain", "PATH")),
    "new": (wallet_cli.main, ("--keyring", "PATH/keys", "--password-file", "PASSWORD", "new", "carol")),
    "import --file": (wallet_cli.main, ("--password-file", "PASSWORD", "import", "carol", "--file", "PATH/key")),
    "status of a devnet": (devnet_cli.main, ("--folder", "PATH", "status")),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_path_that_cannot_be_used_is_named(
    tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program, words = COMMANDS[command]
    password = tmp_path / "password"
    password.write_text("secret")
    password.chmod(0o600)
    for kind, path in unusable(tmp_path).items():
        given = [word.replace("PATH", str(path)).replace("PASSWORD", str(password)) for word in words]
        monkeypatch.setattr(sys, "argv", ["program", *given])
        with pytest.raises(SystemExit) as stopped:
            program()
        said = capsys.readouterr().err
        if (command, kind) != ("purge-chain", "no file system for folders"):  # there is nothing to remove
            assert (stopped.value.code, str(path) in said) == (EXIT_UNUSABLE, True), (kind, said)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (node_cli.main, ("chain-info",)),
        (wallet_cli.main, ("list",)),
        (wallet_cli.main, ("--json", "list")),
        (wallet_cli.main, ("--keyring", "~nobody-of-this-name/keys", "list")),
        (provider_cli.main, ("policy",)),
    ],
)
def test_a_user_without_a_home_is_told(
    program: Callable[[], Any],
    words: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a container under any number."""
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    for variable in ("OGPU_KEYRING", "OGPU_PROVIDER_BASE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(sys, "argv", ["program", *words])
    with pytest.raises(SystemExit) as stopped:
        program()
    assert stopped.value.code == EXIT_UNUSABLE
    assert "home" in capsys.readouterr().err


@pytest.mark.parametrize("kind", nightly_but(1, ["a file", "a name too long"]))
def test_a_node_without_a_usable_folder_names_it(tmp_path: Path, kind: str) -> None:
    path = unusable(tmp_path)[kind]
    words = ("--chain", "local", "--no-rpc", "--no-prometheus", "--port", "0", "--base-path", str(path))
    code, said = ended("node.cli", *words)
    assert (code, str(path) in said, "Traceback" in said) == (EXIT_UNUSABLE, True, False)


@pytest.mark.parametrize("reason", ["Permission denied", "Operation not permitted", "Read-only file system"])
def test_a_database_of_another_user_is_not_called_damaged(tmp_path: Path, reason: str) -> None:
    """Such a file is its lock, which is in use by nobody."""
    error = _open_error(tmp_path, OSError(f"IO error: {tmp_path}/LOCK: {reason}"))
    assert isinstance(error, BadInputError)
    assert "purge-chain" not in str(error)
    assert reason in str(error)
