"""Named keys of one person: a folder with one encrypted key file for each, by default `~/.ogpu/wallet`."""

import re
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from wallet import keyfile
from wallet.errors import KeyringError
from wallet.keyfile import DEFAULT_COST, MAX_FILE_BYTES, KeyFile, ScryptCost
from wallet.keypair import Keypair
from wallet.private_file import read_plain, read_private, write_new
from wallet.suggestions import suggestion

MAX_ACCOUNTS = 10_000
NAMES_SHOWN = 10

ADDRESS_LETTERS_MIN = 40
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}", re.ASCII)
_ENTROPY_BYTES = 56


class Keyring:
    """The key files `NAME.json` in a folder; a name is 1 to 32 of a-z, 0-9, `_` and `-`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.expanduser()

    def names(self) -> list[str]:
        """Return the names of all keys, sorted."""
        key_names = sorted(key_path.stem for key_path in self.folder.glob("*.json") if _NAME.fullmatch(key_path.stem))
        if len(key_names) > MAX_ACCOUNTS:
            raise KeyringError(f"{self.folder} holds more than {MAX_ACCOUNTS:,} keys", code="too_many_keys")
        return key_names

    def require_free(self, name: str) -> None:
        """Raise KeyringError if a name is taken or invalid, before the user is asked for a password."""
        if self._path(name).exists():
            raise self._taken(name)

    def add(
        self,
        name: str,
        keypair: Keypair,
        password: str,
        *,
        cost: ScryptCost = DEFAULT_COST,
        before_stored: Callable[[], None] = lambda: None,
    ) -> KeyFile:
        """Lock a key and store it under a free name.

        `before_stored` runs last, just before the key is stored: if it raises, the key is not stored.
        """
        metadata = {"name": name, "whenCreated": time.time_ns() // 1_000_000}
        key_file = keyfile.lock(
            keypair, password, metadata, entropy=secrets.token_bytes(_ENTROPY_BYTES), scrypt_cost=cost
        )
        self._store(name, key_file, before_stored)
        return key_file

    def import_file(
        self, name: str, source: Path, *passwords: str, before_stored: Callable[[KeyFile], None] = lambda _: None
    ) -> KeyFile:
        """Copy a key file, such as a browser wallet's export; it keeps its password.

        It is unlocked first, so that a wrong address or a damaged copy is found at once, not when the key is needed.
        Raise CannotUnlockError if that fails.
        """
        key_file = keyfile.load(read_plain(source, MAX_FILE_BYTES))
        keyfile.unlock(key_file, *passwords)
        self._store(name, key_file, lambda: before_stored(key_file))
        return key_file

    def get(self, name: str) -> KeyFile:
        """Return the locked key of a name, which shows account and scheme."""
        key_path = self._path(name)
        try:
            return keyfile.load(read_private(key_path, MAX_FILE_BYTES))
        except FileNotFoundError:
            raise self._missing(name) from None

    def unlock(self, name: str, *passwords: str) -> Keypair:
        """Return the key of a name, unlocked with the first password that fits."""
        return keyfile.unlock(self.get(name), *passwords)

    def remove(self, name: str) -> None:
        """Delete a key file; without its phrase or another copy the key is lost."""
        try:
            self._path(name).unlink()
        except FileNotFoundError:
            raise self._missing(name) from None

    def _missing(self, name: str) -> KeyringError:
        """Return the error for a name without a key, with the name that was meant, or all names."""
        key_names = self.names()
        similar_name = suggestion(name, key_names)
        if similar_name is not None:
            return KeyringError(
                f"there is no key {name!r} in {self.folder}. Did you mean {similar_name}?", code="unknown_key"
            )
        shown_names = ", ".join(key_names[:NAMES_SHOWN]) + (", …" if len(key_names) > NAMES_SHOWN else "")
        next_step = (
            f"There are: {shown_names}"
            if key_names
            else "Make one with `ogpu-wallet new`, or store one with `ogpu-wallet import`"
        )
        return KeyringError(f"there is no key {name!r} in {self.folder}. {next_step}", code="unknown_key")

    def _store(self, name: str, key_file: KeyFile, before_stored: Callable[[], None]) -> None:
        try:
            write_new(self._path(name), keyfile.dump(key_file), before_stored)
        except FileExistsError:
            raise self._taken(name) from None

    @staticmethod
    def _taken(name: str) -> KeyringError:
        return KeyringError(f"the name {name!r} is taken. Choose another name", code="name_taken")

    def _path(self, name: str) -> Path:
        if _NAME.fullmatch(name) is None:
            suggestion = f". Did you mean {name.lower()}?" if name.lower() in self.names() else ""
            if len(name) > ADDRESS_LETTERS_MIN:
                suggestion = ". An address does not sign. Give the name of its key"
            raise KeyringError(
                f"{name!r} is not a key name. Use 1 to 32 of a-z, 0-9, _ and -{suggestion}", code="invalid_name"
            )
        return self.folder / f"{name}.json"
