"""Keys: make, import, list.

Invariant: a key is stored only after its phrase or address has been shown.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cli.output import Account
from cli.prompts import typed_secret
from cli.session import WalletSession
from runtime.cryptography.signatures import Scheme
from wallet import mnemonic
from wallet.errors import SuriError, WalletError
from wallet.suri import keypair_from_suri

SCHEMES = {"sr25519": Scheme.SR25519, "ed25519": Scheme.ED25519}


def new(session: WalletSession, name: str, scheme: str, words: str) -> None:
    """Make and store a key."""
    session.keyring.require_free(name)
    recovery_phrase = mnemonic.generate(int(words))
    keypair = keypair_from_suri(recovery_phrase, SCHEMES[scheme])

    def show() -> None:
        session.output.facts({"name": name, "address": Account(keypair.account), "recovery_phrase": recovery_phrase})

    # Shown before it is stored: if the terminal closes, no key is left whose phrase nobody has seen.
    session.keyring.add(name, keypair, session.new_password(), before_stored=show)
    click.echo("Write the phrase down. Anyone who has it owns the account. It is not shown again.", err=True)


def import_key(session: WalletSession, name: str, scheme: str, path: Path | None) -> None:
    """Store a key from a phrase, a secret URI or a key file."""

    def show(account: bytes) -> None:
        session.output.facts({"name": name, "address": Account(account)})

    session.keyring.require_free(name)
    if path is not None:
        passwords = session.passwords(f"Password of {path.name}")
        session.keyring.import_file(name, path, *passwords, before_stored=lambda key_file: show(key_file.account))
        return
    # Never as an argument: other users of the machine see arguments.
    is_last = session.password_file is not None
    secret_text = typed_secret("Recovery phrase or secret URI", "write it to standard input", is_last=is_last)
    if "\n" in secret_text and "///" in secret_text:
        raise SuriError("a secret with a password must be one line, and these are several", code="secret_lines")
    keypair = keypair_from_suri(secret_text, SCHEMES[scheme])
    password = session.new_password()
    session.keyring.add(name, keypair, password, before_stored=lambda: show(keypair.account))


def list_keys(session: WalletSession) -> None:
    """Print the stored keys."""
    rows: list[dict[str, Any]] = []
    for name in session.keyring.names():
        try:
            key_file = session.keyring.get(name)
        except WalletError as error:
            rows.append({"name": name, "address": None, "scheme": str(error)})
            continue
        rows.append({"name": name, "address": Account(key_file.account), "scheme": key_file.scheme.name.lower()})
    session.output.rows("Keys", ("name", "address", "scheme"), rows)
