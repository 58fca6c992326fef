"""What every command shares: which node, which keys, how results are shown, and how a call is made.

Invariant: under `--dry-run` a call is shown with its exact fee, and nothing is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from runtime.cryptography import ss58
from runtime.frame.call import Call
from wallet.client import ChainClient, Outcome
from wallet.errors import WalletError
from wallet.keypair import Keypair
from wallet.keyring import Keyring
from wallet.output import Account, Grains, Output, harmless
from wallet.rpc import NodeUnreachableError, RpcError
from wallet.suri import keypair_from_suri
from wallet.trust import Trust
from wallet.verified import VerifiedClient

PASSWORD_BYTES_MAX = 1024
EXIT_INPUT = 2
EXIT_FAILED = 1


class CallFailedError(WalletError):
    """The call is in a block and failed there."""


@dataclass(frozen=True, slots=True)
class WalletSession:
    """The options given before the command."""

    url: str
    keyring: Keyring
    output: Output
    password_file: Path | None
    trust: Trust | None = None
    """What a node has to prove; None: nothing."""

    def run(self, body: Callable[[ChainClient], Coroutine[Any, Any, None]]) -> None:
        """Connect to the node, held to its proofs, and do `body`; errors end the program with a sentence."""

        async def main() -> None:
            async with await self._connect() as client:
                await body(client)

        explained(lambda: asyncio.run(main()))

    async def _connect(self) -> ChainClient:
        if self.trust is None:
            return await ChainClient.connect(self.url)
        return await VerifiedClient.connect_by(self.url, self.trust, note)

    def account(self, text: str) -> bytes:
        """An account by address, 0x key, name in the keyring, or development path like `//Alice`."""
        if text.startswith("//"):
            return keypair_from_suri(text).account
        if text in self.keyring.names():
            return self.keyring.get(text).account
        try:
            return ss58.account_from_text(text)
        except ValueError as error:
            names = ", ".join(self.keyring.names()) or "none yet"
            raise WalletError(
                f"{text!r} is no account ({error}): give an address, 0x and 64 hex digits, "
                f"or a name from the keyring ({names})"
            ) from None

    def key(self, text: str) -> Keypair:
        """The key to sign with: a name in the keyring, or a development path like `//Alice`, which has no secret."""
        if text.startswith("//"):
            return keypair_from_suri(text)
        self.keyring.get(text)  # whether it is there is said before a password is asked for
        return self.keyring.unlock(text, self.password(f"Password of {text}"))

    def password(self, prompt: str, *, confirm: bool = False) -> str:
        """From `--password-file`, else typed."""
        if self.password_file is None:
            typed: str = click.prompt(prompt, hide_input=True, confirmation_prompt=confirm, err=True)
            return typed
        try:
            with self.password_file.open(encoding="utf-8") as stream:
                return stream.read(PASSWORD_BYTES_MAX).rstrip("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise WalletError(f"the password file {self.password_file} cannot be read: {error}") from None

    async def make(self, client: ChainClient, call: Call, key: Keypair, *, dry_run: bool, moves: int = 0) -> None:
        """Send a call and wait until it is final, or with `dry_run` only say what it would cost."""
        if dry_run:
            self.output.facts(await self._cost(client, call, key, moves))
            return
        with self.output.console.status("waiting for finality"):
            outcome = await client.submit(call, key)
        self.output.facts(_outcome_facts(call, outcome))
        if not outcome.is_success:
            raise CallFailedError(f"{call.name} failed in block {outcome.block_number}: {outcome.error}")

    async def _cost(self, client: ChainClient, call: Call, key: Keypair, moves: int) -> dict[str, Any]:
        fee = await client.fee(call, key)
        return {
            "call": call.name,
            "from": Account(key.account),
            "amount": Grains(moves),
            "fee": Grains(fee),
            "total": Grains(moves + fee),
            "sent": False,
        }


def note(text: str) -> None:
    """Say something beside the result."""
    click.echo(f"note: {harmless(text)}", err=True)  # it may name what a node said


def explained(action: Callable[[], Awaitable[None] | None]) -> None:
    """Do something; what the user can set right becomes a sentence and an exit code."""
    try:
        action()
    except CallFailedError as error:
        raise click.exceptions.Exit(_say(error, EXIT_FAILED)) from None
    except (WalletError, NodeUnreachableError) as error:
        raise click.exceptions.Exit(_say(error, EXIT_INPUT)) from None
    except RpcError as error:
        raise click.exceptions.Exit(_say(f"the node refused: {error}", EXIT_FAILED)) from None


def _say(text: object, code: int) -> int:
    click.echo(f"error: {harmless(str(text))}", err=True)  # a node may have written it
    return code


def _outcome_facts(call: Call, outcome: Outcome) -> dict[str, Any]:
    return {
        "call": call.name,
        "extrinsic": outcome.extrinsic_hash,
        "block": outcome.block_number,
        "block_hash": outcome.block_hash,
        "status": "final",
        "success": outcome.is_success,
        "fee": Grains(outcome.fee),
    }
