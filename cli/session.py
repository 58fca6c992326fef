"""The session of a command: its node, its keys, its output, and the sending of calls.

Invariant: every extrinsic goes through `make`, which records it before it is sent.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.messages import note as note  # noqa: PLC0414  # part of what commands share
from cli.output import Output
from cli.prompts import typed_secret
from genesis.preset_names import CUSTOMER_NAMES, DEV_NAMES
from runtime.cryptography import ss58
from wallet.amounts import Grains
from wallet.errors import WalletError
from wallet.keypair import Keypair
from wallet.keyring import Keyring
from wallet.password_file import read_passwords
from wallet.rpc import RpcError
from wallet.suggestions import suggestion
from wallet.suri import keypair_from_suri
from wallet.trust import Trust

if TYPE_CHECKING:  # the rules of the chain take half a second to import, and keys need none of them
    from runtime.frame.call import Call
    from wallet.client import ChainClient, Outcome, Payer

SENT_FOLDER = "sent"
WAIT_SECONDS = 15.0
Doing = str | Callable[[], str | None] | None
"""The present activity in words, or a function that returns it; None if the command shows it itself."""
EXIT_FAILED = 1


class CallFailedError(WalletError):
    """The chain refused the call."""

    exit_code = EXIT_FAILED


class NodeRefusedError(WalletError):
    """The node refused a request."""

    exit_code = EXIT_FAILED


def account_named(keyring: Keyring, account_text: str) -> bytes:
    """Return the account of an address, a 0x key, a stored name, or a development key such as `//Alice`.

    Raise WalletError if the text is none of these.
    """
    if account_text.startswith("//"):
        return keypair_from_suri(account_text).account
    if account_text in keyring.names():
        return keyring.get(account_text).account
    try:
        return ss58.account_from_text(account_text)
    except ValueError as error:
        advice = _meant_account(keyring.names(), account_text)
        raise WalletError(f"{account_text!r} is not an account: {error}. {advice}", code="unknown_account") from None


def _meant_account(stored_names: list[str], account_text: str) -> str:
    """Return what to type instead of a text that is no account."""
    if account_text in (*DEV_NAMES, *CUSTOMER_NAMES):
        return f"On a development chain, write //{account_text}"
    similar_name = suggestion(account_text, stored_names)
    if similar_name is not None:
        return f"Did you mean {similar_name}?"
    return f"Give an address, 0x and 64 hex digits, or a stored key ({', '.join(stored_names) or 'there are none'})"


@dataclass(frozen=True, slots=True)
class WalletSession:
    """The options before the command."""

    url: str
    keyring: Keyring
    output: Output
    password_file: Path | None
    trust: Trust | None = None
    """The proofs that a node must give; None: none."""
    _noted_paths: set[str] = field(default_factory=set, init=False, repr=False, compare=False)
    _activities: list[Doing] = field(default_factory=list, init=False, repr=False, compare=False)
    _unlocked: dict[str, Keypair] = field(default_factory=dict, init=False, repr=False, compare=False)

    @contextmanager
    def doing(self, activity: Doing) -> Iterator[None]:
        """Name the activity in notes about a long wait, which otherwise blame a slow node.

        None: there are no notes, because the command shows its progress.
        """
        self._activities.append(activity)
        try:
            yield
        finally:
            self._activities.remove(activity)

    def run(self, body: Callable[[ChainClient], Coroutine[Any, Any, None]], *, reports_progress: bool = False) -> None:
        """Connect to the node, verify its proofs, and run `body`. Errors end the program with a message.

        `reports_progress`: the body reports its own progress.
        """

        async def main() -> None:
            async with await self.connect() as client:
                await body(client)

        with refusals_explained():
            asyncio.run(main() if reports_progress else self._telling_of_waits(main()))

    def run_connecting(self, body: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a body that calls `connect` itself. Errors end the program with a message."""
        with refusals_explained():
            asyncio.run(self._telling_of_waits(body()))

    async def _telling_of_waits(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine, and print a note about the wait now and then."""

        async def tell() -> None:
            default_activity = (
                f"{self.url} is slow, or no block has become final. You can stop without loss: a sent call stays sent"
            )
            for waits in count(1):
                await asyncio.sleep(WAIT_SECONDS)
                present_activity = self._activities[-1] if self._activities else default_activity
                activity = present_activity() if callable(present_activity) else present_activity
                if activity is not None:
                    note(f"not done after {waits * WAIT_SECONDS:.0f} s: {activity}")

        reporter = asyncio.create_task(tell())
        try:
            await coroutine
        finally:
            reporter.cancel()

    async def connect(self) -> ChainClient:
        """Connect to the node, and verify its proofs. The caller closes the client."""
        from wallet.client import ChainClient  # noqa: PLC0415  # as above
        from wallet.verified import VerifiedClient  # noqa: PLC0415

        if self.trust is None:
            return await ChainClient.connect(self.url)
        return await VerifiedClient.connect_by(self.url, self.trust, note)

    def account(self, text: str) -> bytes:
        """Return an account by its text, with this keyring."""
        if text.startswith("//"):
            self._note_typo(text)
        return account_named(self.keyring, text)

    def key(self, text: str) -> Keypair:
        """Return the key that signs: a stored name, or a development key such as `//Alice`.

        The password of a name is asked once in the session.
        """
        if text.startswith("//"):
            self._note_typo(text)
            return keypair_from_suri(text)
        self._require_name(text)
        if text not in self._unlocked:
            self.keyring.get(text)  # an unknown name is an error before the password prompt
            self._unlocked[text] = self.keyring.unlock(text, *self.passwords(f"Password of {text}"))
        return self._unlocked[text]

    def payer(self, text: str) -> Payer:
        """Return the public part of a key, which needs no password and is enough for a dry run."""
        if text.startswith("//"):
            self._note_typo(text)
            return keypair_from_suri(text)
        self._require_name(text)
        return self.keyring.get(text)

    def _require_name(self, key_text: str) -> None:
        """Raise WalletError for an address, which cannot sign."""
        if is_address(key_text):
            raise WalletError(
                f"{key_text} is an address, and only a key signs. Give the key's name from `ogpu-wallet list`, or a "
                "development key like //Alice",
                code="address_cannot_sign",
            )

    def _note_typo(self, key_path: str) -> None:
        """Print one note if a development path resembles a known account and is another."""
        path_name = key_path.removeprefix("//").partition("/")[0]
        # Every path is a valid key, so a typo would silently be an account without money.
        known_names = (*DEV_NAMES, *CUSTOMER_NAMES)
        similar_name = None if path_name in known_names else suggestion(path_name, known_names)
        if similar_name is not None and key_path not in self._noted_paths:
            self._noted_paths.add(key_path)
            note(f"//{path_name} is not //{similar_name}, to which development chains give money")

    def new_password(self) -> str:
        """Return the password for a new key. Print a warning if it is empty."""
        password = self.passwords("New password", confirm=True)[0]
        if not password:
            note("warning: the password is empty. Anyone with the key file can use the key")
        return password

    def passwords(self, prompt: str, *, confirm: bool = False) -> tuple[str, ...]:
        """Return the password from `--password-file`, with its other readings, or the typed one."""
        if self.password_file is None:
            return (typed_secret(prompt, "add --password-file", confirm=confirm),)
        return read_passwords(self.password_file)

    async def make(
        self,
        client: ChainClient,
        call: Call,
        key: Keypair,
        *,
        tip: int = 0,
        result: Callable[[Outcome], Mapping[str, Any]] = lambda _: {},
    ) -> None:
        """Send a call, wait until it is final, and show its outcome. Raise CallFailedError if it failed in its block.

        `result` returns further facts of a call that succeeded.
        """
        from wallet.outbox import SentNotes  # noqa: PLC0415
        from wallet.submission import inner_failure, send_once  # noqa: PLC0415  # as above

        sent_notes = SentNotes(self.keyring.folder / SENT_FOLDER, client.genesis_hash)
        with self.output.console.status("waiting for finality"):
            outcome = await send_once(client, call, key, sent_notes, note, tip=tip)
        # As in Substrate, `Utility.batch` succeeds in its block even if one of its calls failed.
        failure_text = outcome.error or inner_failure(client.runtime, outcome.events)
        more_facts = {"why": failure_text} if failure_text else result(outcome)
        self.output.facts({**_outcome_facts(call, outcome), "success": failure_text is None, **more_facts})
        if failure_text is not None:
            error_code = "inner_call_failed" if outcome.error is None else outcome.error_code
            raise CallFailedError(
                f"{call.name} failed in block {outcome.block_number}: {failure_text}", code=error_code
            )


def reads(command: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make a command's body of a coroutine, which gets the session, a connected client and the parameters."""

    @functools.wraps(command)
    def connected(session: WalletSession, *given: Any, **named: Any) -> None:
        session.run(lambda client: command(session, client, *given, **named))

    return connected


def is_address(account_text: str) -> bool:
    """Return True if a text is the address of an account."""
    try:
        ss58.account_from_text(account_text)
    except ValueError:
        return False
    return True


@contextmanager
def refusals_explained() -> Iterator[None]:
    """Turn a node's JSON-RPC error into a NodeRefusedError, which ends the program with a message."""
    try:
        yield
    except RpcError as error:
        raise NodeRefusedError(f"the node refused: {error}") from None


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
