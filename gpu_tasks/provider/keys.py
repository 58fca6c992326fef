"""The provider key from an encrypted key file or a development path.

A development path such as `//Alice//provider` contains no secret. Any other secret belongs in a key file, because every
user of the machine can read command lines.
"""

from __future__ import annotations

from pathlib import Path

from runtime.cryptography.signatures import Scheme
from wallet import keyfile
from wallet.amounts import format_amount
from wallet.errors import WalletError
from wallet.keyfile import MAX_FILE_BYTES
from wallet.keypair import Keypair
from wallet.password_file import read_passwords
from wallet.private_file import read_private
from wallet.suri import keypair_from_suri

PROVIDER_KEY_BALANCE = 100_000_000
"""Grains that the provider key receives. Successful duty calls are free, but need a balance that covers their fees."""
PROVIDER_KEY_LEAST = PROVIDER_KEY_BALANCE // 10
"""Grains below which some duty calls may cost more than the provider key has."""
FUND_KEY = "run `ogpu-provider register` again: it sends the key 1 oGPU of the stash"


def provider_key(key_text: str, password_file: Path | None) -> Keypair:
    """Return the ed25519 key of a `//path` or of a key file, opened with the password in `password_file`.

    Raise WalletError if there is no usable key.
    """
    if key_text.startswith("//"):
        return keypair_from_suri(key_text, Scheme.ED25519)
    key_path = Path(key_text)
    # The file is checked before the password: without a file a password is no help.
    if not key_path.exists():
        raise WalletError(
            f"there is no key file {key_path}. Make one with `ogpu-wallet new NAME --scheme ed25519` and give its path "
            "with --provider-key, or give a development path like //Alice//provider",
            code="no_key_file",
        )
    if password_file is None:
        raise WalletError(f"the key file {key_path} needs --password-file", code="password_file_missing")
    try:
        key_file = keyfile.load(read_private(key_path, MAX_FILE_BYTES))
    except FileNotFoundError:
        raise WalletError(f"{key_path} does not exist", code="no_key_file") from None
    unlocked_key = keyfile.unlock(key_file, *read_passwords(password_file))
    # The chain verifies attestations as ed25519, so an sr25519 key would fail only at the first result.
    if unlocked_key.scheme is not Scheme.ED25519:
        raise WalletError(
            f"{key_path} has an sr25519 key, but attestations are signed with ed25519. Make such a key with "
            "`ogpu-wallet new NAME --scheme ed25519`",
            code="wrong_key_scheme",
        )
    return unlocked_key


def poor_key(key_grains: int) -> str:
    """Return a sentence about a provider key with less than `PROVIDER_KEY_LEAST`."""
    return f"the provider key has {format_amount(key_grains)} oGPU, too little for the possible cost of its calls"
