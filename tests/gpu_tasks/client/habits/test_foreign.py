"""Secrets among variables, by name and by value."""

import pytest

from gpu_tasks.client.habits.foreign import looks_secret


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "DB_PASSWORD", "PGPASSWORD", "dbPassword", "OPENAI_API_KEY", "apikey", "SECRET_KEY_BASE", "RPC_PASS",
     "MYSQL_PWD", "WALLET_MNEMONIC", "sshKey", "AUTHTOKEN", "AWS_SECRET_ACCESS_KEY"],
)  # fmt: skip
def test_a_secret_is_known_by_its_name(name: str) -> None:
    assert looks_secret(name, "hunter2")
    assert not any(looks_secret(name, value) for value in ("", "yes", "false", "0", "$OTHER", "${OTHER}"))


@pytest.mark.parametrize(
    "name",
    ["MAX_TOKENS", "TOKENIZERS_PARALLELISM", "PASSWORD_FILE", "SSH_PUBKEY", "PUBLIC_KEY", "KEYBOARD", "TOKEN_LIMIT",
     "SECRET_NAME", "PASSENGERS", "KEY_PATH", "MODEL", "TOKEN_URL"],
)  # fmt: skip
def test_others_are_none(name: str) -> None:
    assert not looks_secret(name, "hunter2")


@pytest.mark.parametrize(
    ("value", "is_secret"),
    [
        ("postgres://me:hunter2@db:5432/x", True),
        ("postgres://db:5432/x", False),
        ("http://me@host", False),
        ("a:b@c", False),
        ("://" * 10_000, False),
    ],
)
def test_a_password_in_an_address_is_one(value: str, is_secret: bool) -> None:
    assert looks_secret("ADDRESS", value) is is_secret
