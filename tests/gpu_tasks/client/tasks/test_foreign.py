"""Secrets among variables, by name and by value."""

import pytest

from gpu_tasks.client.tasks.foreign import looks_secret

PLAIN = ("", "0", "1", "True", "false", "yes", "no", "on", "off", "None", "$OTHER", "${OTHER}")


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "DB_PASSWORD", "PGPASSWORD", "dbPassword", "OPENAI_API_KEY", "apikey", "SECRET_KEY_BASE", "RPC_PASS",
     "MYSQL_PWD", "WALLET_MNEMONIC", "sshKey", "AUTHTOKEN", "AWS_SECRET_ACCESS_KEY", "CLIENT_SECRET", "APP_SECRETS",
     "DB_PASSWD", "GPG_PASSPHRASE", "CLOUD_CREDENTIALS", "CLOUD_CREDENTIAL"],
)  # fmt: skip
def test_a_secret_is_known_by_its_name(name: str) -> None:
    assert looks_secret(name, "hunter2")
    assert not any(looks_secret(name, value) for value in PLAIN)


@pytest.mark.parametrize(
    "name",
    ["MAX_TOKENS", "TOKENIZERS_PARALLELISM", "PASSWORD_FILE", "SSH_PUBKEY", "PUBLIC_KEY", "KEYBOARD", "TOKEN_LIMIT",
     "SECRET_NAME", "PASSENGERS", "KEY_PATH", "MODEL", "TOKEN_URL", "TOKEN_URI", "KEY_FILES", "SECRETS_DIR",
     "TOKEN_HOST", "TOKEN_USER", "AWS_ACCESS_KEY_ID", "KEY_LENGTH", "KEY_SIZE", "MAX_TOKEN", "PASSWORD_MIN",
     "TOKEN_TTL", "TOKEN_COUNT", "TOKEN_EXPIRY", "KEY_TYPE"],
)  # fmt: skip
def test_others_are_none(name: str) -> None:
    assert not looks_secret(name, "hunter2")


@pytest.mark.parametrize(
    ("value", "is_secret"),
    [
        ("postgres://me:hunter2@db:5432/x", True),
        ("redis://:hunter2@db", True),
        ("http://me:@host", False),
        ("postgres://db:5432/x", False),
        ("http://me@host", False),
        ("a:b@c", False),
        ("://" * 10_000, False),
    ],
)
def test_a_password_in_an_address_is_one(value: str, is_secret: bool) -> None:
    assert looks_secret("ADDRESS", value) is is_secret
