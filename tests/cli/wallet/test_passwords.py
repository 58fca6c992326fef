"""Passwords from files: private ones only, and an empty one is warned of (B12); a node without a word ends in one."""

import json
import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import websockets
from click.testing import CliRunner, Result
from websockets.asyncio.server import ServerConnection

from cli import prompts
from cli.output import Output
from cli.session import WalletSession
from cli.wallet.program import main
from error_codes import ended_code
from gpu_tasks.provider.keys import provider_key
from runtime.cryptography import ss58
from runtime.cryptography.signatures import Scheme
from wallet import password_file, rpc
from wallet.errors import CannotUnlockError, KeyFileError, WalletError
from wallet.keyfile import ScryptCost
from wallet.keyring import Keyring
from wallet.password_file import read_passwords
from wallet.private_file import write_new
from wallet.rpc import NodeUnreachableError, RpcConnection
from wallet.suri import keypair_from_suri


def run(folder: Path, password: Path, *words: str, typed: str = "") -> Result:
    options = ["--keyring", str(folder / "keys"), "--password-file", str(password), "--json"]
    return CliRunner().invoke(main, [*options, *words], input=typed)


def private(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o666])
def test_b12_a_password_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    password = private(tmp_path / "password", "secret\n")
    password.chmod(mode)
    result = run(tmp_path, password, "new", "carol")
    assert (result.exit_code, ended_code(result)) == (2, "file_not_private")
    assert not list(tmp_path.rglob("carol.json"))
    password.chmod(0o600)
    assert run(tmp_path, password, "new", "carol").exit_code == 0


PHRASE = "legal winner thank year wave sausage worth useful legal winner thank yellow"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (PHRASE.replace(" ", "\n"), PHRASE),
        (PHRASE.replace(" thank ", "\r\n thank\r\n\r\n") + "\n//hard\n\n", PHRASE + "//hard"),
        (PHRASE + "///pass\n", PHRASE + "///pass"),
        (PHRASE + "///pass\nword\n", None),
        (PHRASE + "//ha\nrd\n", None),
        (PHRASE + "\nlegal\n", None),
    ],
)
def test_a_phrase_may_stand_on_several_lines(tmp_path: Path, typed: str, meant: str | None) -> None:
    """Two halves of a longer phrase may each be a phrase: all lines count, or the text is refused."""
    result = run(tmp_path, private(tmp_path / "password", "secret"), "import", "carol", typed=typed)
    if meant is None:
        assert (result.exit_code, list(tmp_path.rglob("carol.json"))) == (2, [])
    else:
        assert json.loads(result.stdout)["address"] == ss58.encode(keypair_from_suri(meant).account)


def test_a_new_password_is_typed_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompts, "has_terminal", lambda: True)
    typed = "mistyped\nother\nsecret\nsecret\n"
    made = CliRunner().invoke(main, ["--keyring", str(tmp_path / "keys"), "new", "carol"], input=typed)
    assert made.exit_code == 0, made.output
    assert Keyring(tmp_path / "keys").unlock("carol", "secret").account


@pytest.mark.parametrize("scheme", ["sr25519", "ed25519"])
def test_a_key_is_of_the_scheme_that_is_named_and_its_phrase_as_long_as_asked(tmp_path: Path, scheme: str) -> None:
    password = private(tmp_path / "password", "secret")
    made = json.loads(run(tmp_path, password, "new", "carol", "--scheme", scheme, "--words", "24").stdout)
    phrase = made["recovery_phrase"]
    assert len(phrase.split()) == 24
    address = ss58.encode(keypair_from_suri(phrase, Scheme[scheme.upper()]).account)
    assert made["address"] == address
    imported = run(tmp_path, password, "import", "dave", "--scheme", scheme, typed=phrase)
    assert json.loads(imported.stdout)["address"] == address
    assert Keyring(tmp_path / "keys").unlock("carol", "secret") == Keyring(tmp_path / "keys").unlock("dave", "secret")


@pytest.mark.parametrize(("content", "code"), [(b"\xff", "password_file_unusable"), (b"x" * 2_000, "file_too_large")])
def test_a_password_file_that_is_none_is_refused(tmp_path: Path, content: bytes, code: str) -> None:
    password = private(tmp_path / "password", "")
    password.write_bytes(content)
    assert ended_code(run(tmp_path, password, "new", "carol")) == code
    assert ended_code(run(tmp_path, tmp_path / "absent", "new", "carol")) == "password_file_missing"


@pytest.mark.parametrize("command", [("new", "carol"), ("import", "carol")])
def test_b12_an_empty_password_is_warned_of(tmp_path: Path, command: tuple[str, ...]) -> None:
    warning = "the password is empty"
    result = run(tmp_path, private(tmp_path / "empty", "\n"), *command, typed="//Alice\n")
    assert (result.exit_code, warning in result.stderr) == (0, True)
    result = run(tmp_path, private(tmp_path / "full", "secret"), *command[:1], "dave", typed="//Alice\n")
    assert (result.exit_code, warning in result.stderr) == (0, False)


@pytest.mark.parametrize(
    ("command", "otherwise"),
    [(("new", "carol"), "add --password-file"), (("import", "carol"), "write it to standard input")],
)
def test_a_secret_that_nobody_can_type_is_asked_for_in_a_sentence(
    tmp_path: Path, command: tuple[str, ...], otherwise: str
) -> None:
    """In a session of its own, so without a terminal: no `Aborted!`, and no warning of Python's beside it."""
    words = [sys.executable, "-m", "cli.wallet.program", "--keyring", str(tmp_path), *command]
    asked = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, start_new_session=True, check=False
    )
    assert asked.returncode == 2
    assert asked.stderr.startswith("error: ")
    assert asked.stderr.endswith(f" {otherwise}\n")
    assert asked.stderr.count("\n") == 1


def test_folders_of_keys_are_made_for_their_owner_alone(tmp_path: Path) -> None:
    write_new(tmp_path / "wallet" / "sent" / "chain" / "note.json", b"{}")
    for folder in ("wallet", "wallet/sent", "wallet/sent/chain"):
        assert (tmp_path / folder).stat().st_mode & 0o777 == 0o700, folder


def test_a12_import_of_a_file_asks_for_its_password(tmp_path: Path) -> None:
    assert run(tmp_path, private(tmp_path / "password", "secret"), "new", "carol").exit_code == 0
    exported = str(tmp_path / "keys" / "carol.json")
    wrong = run(tmp_path, private(tmp_path / "wrong", "other"), "import", "copy", "--file", exported)
    assert (wrong.exit_code, ended_code(wrong)) == (2, "cannot_unlock")
    assert not (tmp_path / "keys" / "copy.json").exists()
    assert run(tmp_path, tmp_path / "password", "import", "copy", "--file", exported).exit_code == 0


async def test_b12_a_node_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits are what bounds it; they are shortened here."""
    assert rpc.CONNECT_SECONDS + rpc.CALL_SECONDS + 2 * rpc.GOODBYE_SECONDS <= 35
    monkeypatch.setattr(rpc, "CALL_SECONDS", 0.2)
    monkeypatch.setattr(rpc, "GOODBYE_SECONDS", 0.1)

    async def mute(socket: ServerConnection) -> None:
        async for _ in socket:
            pass

    async with websockets.serve(mute, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with await RpcConnection.open(f"ws://127.0.0.1:{port}") as connection:
            with pytest.raises(NodeUnreachableError, match="did not answer system_chain within"):
                await connection.call("system_chain")
        monkeypatch.setattr(rpc, "CALL_SECONDS", 60.0)
        socket = await websockets.connect(f"ws://127.0.0.1:{port}", proxy=None)  # which has the time it needs
        async with RpcConnection(f"ws://127.0.0.1:{port}", socket, patience=0.2) as connection:
            with pytest.raises(NodeUnreachableError, match="did not answer system_chain within 0 s"):
                await connection.call("system_chain")


def made_with(folder: Path, name: str, password: str) -> None:
    Keyring(folder / "keys").add(name, keypair_from_suri("//Alice"), password, cost=ScryptCost(1 << 15, 1, 8))


FORMS = {"line feed": b"secret\n", "Windows": b"secret\r\n", "a mark": b"\xef\xbb\xbfsecret\r\n", "nothing": b"secret"}


@pytest.mark.parametrize("form", FORMS)
def test_the_end_of_a_line_is_no_part_of_a_password(tmp_path: Path, form: str) -> None:
    password = private(tmp_path / "password", "")
    password.write_bytes(FORMS[form])
    assert read_passwords(password)[0] == "secret"
    password.write_bytes(FORMS[form].replace(b"secret", b"secret \t"))
    assert read_passwords(password)[0] == "secret \t", "blanks are typed"
    password.write_bytes(FORMS[form])
    assert run(tmp_path, password, "import", "carol", typed="//Alice\n").exit_code == 0
    assert Keyring(tmp_path / "keys").unlock("carol", "secret").account == keypair_from_suri("//Alice").account


@pytest.mark.parametrize("made", ["secret", "secret\r"])
def test_keys_that_were_made_with_the_end_of_the_line_still_open(tmp_path: Path, made: str) -> None:
    password = private(tmp_path / "password", "")
    password.write_bytes(b"secret\r\n")
    made_with(tmp_path, "carol", made)
    exported = str(tmp_path / "keys" / "carol.json")
    assert run(tmp_path, password, "import", "copy", "--file", exported).exit_code == 0
    session = WalletSession("ws://nobody", Keyring(tmp_path / "keys"), Output(as_json=False), password)
    assert session.key("carol") == keypair_from_suri("//Alice")
    ed25519 = keypair_from_suri("//Alice", Scheme.ED25519)
    Keyring(tmp_path / "keys").add("provider", ed25519, made, cost=ScryptCost(1 << 15, 1, 8))
    assert provider_key(str(tmp_path / "keys" / "provider.json"), password) == ed25519
    with pytest.raises(CannotUnlockError):
        Keyring(tmp_path / "keys").unlock("carol", "other", "another")


def test_a_command_asks_once_for_the_password_of_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_with(tmp_path, "carol", "secret")
    session = WalletSession("ws://nobody", Keyring(tmp_path / "keys"), Output(as_json=False), None)
    monkeypatch.setattr(prompts, "has_terminal", lambda: False)
    with CliRunner().isolation(input="secret\n"):
        assert [session.key("carol") for _ in range(3)] == [keypair_from_suri("//Alice")] * 3


def test_a_password_may_come_through_a_link_or_a_pipe(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(private(tmp_path / "password", "secret\n"))
    assert read_passwords(link) == ("secret",)
    command = [sys.executable, "-m", "cli.wallet.program", "--keyring", str(tmp_path / "keys"), "--password-file"]
    piped = f"{shlex.join(command)} <(echo secret) new carol"
    assert subprocess.run(["bash", "-c", piped], capture_output=True, check=False).returncode == 0
    assert Keyring(tmp_path / "keys").unlock("carol", "secret").account
    failed = subprocess.run(["bash", "-c", piped.replace("echo secret", "false")], capture_output=True, check=False)
    assert failed.returncode == 2, "a key with an empty password was not meant"


def test_a_named_pipe_is_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    writer = threading.Thread(target=lambda: pipe.write_text("secret\n"))
    writer.start()
    assert read_passwords(pipe) == ("secret",)
    writer.join()


def test_a_file_may_be_empty_and_as_long_as_its_reader_says(tmp_path: Path) -> None:
    assert read_passwords(private(tmp_path / "empty", "")) == ("",)
    for size, limit in ((1_024, None), (2_000, 2_000), (10, 10)):
        path = private(tmp_path / "password", "x" * size)
        assert read_passwords(path, *([] if limit is None else [limit])) == ("x" * size,)
        path.write_text("x" * (size + 1))
        with pytest.raises(KeyFileError):
            read_passwords(path, *([] if limit is None else [limit]))


def test_others_may_read_secrets_of_containers_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (Path("/run/secrets"), Path("/run/credentials")) == password_file.SECRET_FOLDERS
    secrets = tmp_path / "secrets"
    (secrets / "..data").mkdir(parents=True)
    password = private(secrets / "..data" / "password", "secret")
    password.chmod(0o444)
    (secrets / "password").symlink_to(Path("..data") / "password")
    outside = tmp_path / "outside"
    outside.symlink_to(password)
    for path in (password, secrets / "password", outside):
        with pytest.raises(KeyFileError):
            read_passwords(path)
    monkeypatch.setattr(password_file, "SECRET_FOLDERS", (secrets,))
    for path in (password, secrets / "password", outside):
        assert read_passwords(path) == ("secret",)
    inside = secrets / "inside"
    inside.symlink_to(private(tmp_path / "elsewhere", "other"))
    (tmp_path / "elsewhere").chmod(0o644)
    with pytest.raises(KeyFileError):
        read_passwords(inside)


def changed_around_opening(
    monkeypatch: pytest.MonkeyPatch, before: Callable[[], object] = lambda: None, after: Callable[[], object] = bool
) -> None:
    opened = os.open

    def open_amid_changes(path: Path, flags: int) -> int:
        before()
        descriptor = opened(path, flags)
        after()
        return descriptor

    monkeypatch.setattr("wallet.password_file.os.open", open_amid_changes)


def test_the_opened_file_is_judged_not_another_one_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secrets").mkdir()
    monkeypatch.setattr(password_file, "SECRET_FOLDERS", (tmp_path / "secrets",))
    for place in ("secrets/password", "outside"):
        private(tmp_path / place, place).chmod(0o644)
    link = tmp_path / "link"
    link.symlink_to("outside")

    def point_to_the_secret() -> None:
        link.unlink()
        link.symlink_to("secrets/password")

    changed_around_opening(monkeypatch, after=point_to_the_secret)
    with pytest.raises(KeyFileError):
        read_passwords(link)


def test_a_pipe_that_takes_a_file_s_place_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    password = private(tmp_path / "password", "other")
    writer = threading.Thread(target=lambda: password.write_text("secret\n"))

    def replace() -> None:
        password.unlink()
        os.mkfifo(password, 0o600)

    changed_around_opening(monkeypatch, before=replace, after=writer.start)
    assert read_passwords(password) == ("secret",)
    writer.join()


@pytest.mark.parametrize("parts", [["sec", "ret\n"], []])
def test_a_pipe_is_read_to_its_end(parts: list[str]) -> None:
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "w") as end:
            for part in parts:
                time.sleep(0.05)
                end.write(part)
                end.flush()

    writer = threading.Thread(target=write)
    writer.start()
    path = Path(f"/dev/fd/{reading}")
    if parts:
        assert read_passwords(path) == ("secret",)
    else:
        with pytest.raises(KeyFileError):
            read_passwords(path)
    writer.join()
    os.close(reading)


@pytest.mark.parametrize("kind", ["a folder", "itself", "below a file", "too long"])
def test_a_password_file_of_another_kind_is_refused(tmp_path: Path, kind: str) -> None:
    (tmp_path / "itself").symlink_to("itself")
    private(tmp_path / "file", "secret")
    path = {"a folder": "", "itself": "itself", "below a file": "file/password", "too long": "n" * 300}[kind]
    with pytest.raises(WalletError):
        read_passwords(tmp_path / path)
