"""What every command shares: which node, which keys, how results are shown, and how a call is made.

Invariants: everything that is sent goes through `make`, which notes it first; every error is one sentence, without what
a terminal would take for a command, whoever wrote it (`messages`).
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.messages import note as note  # noqa: PLC0414  # part of what commands share
from cli.messages import report_error
from cli.output import Output
from cli.prompts import typed_secret
from genesis.preset_names import CUSTOMER_NAMES, DEV_NAMES
from runtime.cryptography import ss58
from wallet.amounts import Grains
from wallet.errors import WalletError
from wallet.keypair import Keypair
from wallet.keyring import Keyring
from wallet.password_file import read_passwords
from wallet.rpc import NodeUnreachableError, RpcError
from wallet.suri import keypair_from_suri
from wallet.trust import Trust

if TYPE_CHECKING:  # the rules of the chain take half a second to import, and keys need none of them
    from runtime.frame.call import Call
    from wallet.client import ChainClient, Outcome, Payer

SENT_FOLDER = "sent"
WAIT_SECONDS = 15.0
Doing = str | Callable[[], str | None] | None
"""What goes on: a sentence, or what finds it when it is asked for; None where a command shows that itself."""
NAMES_ALIKE = 0.75
"""By difflib's measure: a letter more, less or other of five."""
EXIT_INPUT = 2
EXIT_FAILED = 1


class CallFailedError(WalletError):
    """The chain refused the call."""


def account_named(keyring: Keyring, text: str) -> bytes:
    """Return an account by address, 0x key, name in the keyring, or development path like `//Alice`. WalletError."""
    if text.startswith("//"):
        return keypair_from_suri(text).account
    if text in keyring.names():
        return keyring.get(text).account
    try:
        return ss58.account_from_text(text)
    except ValueError as error:
        hint = _meant_account(keyring.names(), text)
        raise WalletError(f"{text!r} is not an account: {error}. {hint}", code="unknown_account") from None


def _meant_account(names: list[str], text: str) -> str:
    """Return what to type instead of a text that is no account."""
    if text in (*DEV_NAMES, *CUSTOMER_NAMES):
        return f"On a development chain, write //{text}"
    near = get_close_matches(text, names, n=1, cutoff=NAMES_ALIKE)
    if near:
        return f"Did you mean {near[0]}?"
    return f"Give an address, 0x and 64 hex digits, or a stored key ({', '.join(names) or 'there are none'})"


@dataclass(frozen=True, slots=True)
class WalletSession:
    """The options given before the command."""

    url: str
    keyring: Keyring
    output: Output
    password_file: Path | None
    trust: Trust | None = None
    """What a node has to prove; None: nothing."""
    _typos: set[str] = field(default_factory=set, init=False, repr=False, compare=False)
    _doings: list[Doing] = field(default_factory=list, init=False, repr=False, compare=False)

    @contextmanager
    def doing(self, what: Doing) -> Iterator[None]:
        """Meanwhile a note about a long wait says `what` goes on then, and not that a node is slow.

        None: nothing is said, because the command itself shows how far it is.
        """
        self._doings.append(what)
        try:
            yield
        finally:
            self._doings.remove(what)

    def run(self, body: Callable[[ChainClient], Coroutine[Any, Any, None]], *, tells: bool = False) -> None:
        """Connect to the node, held to its proofs, and do `body`; errors end the program with a sentence.

        What takes hours by its nature `tells` itself how far it is.
        """

        async def main() -> None:
            async with await self.connect() as client:
                await body(client)

        explained(lambda: asyncio.run(main() if tells else self._telling_of_waits(main())))

    def run_connecting(self, body: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do what connects by itself, with `connect`, maybe several times; errors end the program with a sentence."""
        explained(lambda: asyncio.run(self._telling_of_waits(body())))

    async def _telling_of_waits(self, doing: Coroutine[Any, Any, None]) -> None:
        """Do it; now and then say that it is not done yet, and what it waits for."""

        async def tell() -> None:
            awaited = (
                f"{self.url} is slow, or no block has become final. You can stop without loss: a sent call stays sent"
            )
            for turn in count(1):
                await asyncio.sleep(WAIT_SECONDS)
                doing_now = self._doings[-1] if self._doings else awaited
                what = doing_now() if callable(doing_now) else doing_now
                if what is not None:
                    note(f"not done after {turn * WAIT_SECONDS:.0f} s: {what}")

        telling = asyncio.create_task(tell())
        try:
            await doing
        finally:
            telling.cancel()

    async def connect(self) -> ChainClient:
        """The node, held to its proofs; the caller closes it."""
        from wallet.client import ChainClient  # noqa: PLC0415  # as above
        from wallet.verified import VerifiedClient  # noqa: PLC0415

        if self.trust is None:
            return await ChainClient.connect(self.url)
        return await VerifiedClient.connect_by(self.url, self.trust, note)

    def account(self, text: str) -> bytes:
        """Return an account as `account_named` does, with this keyring."""
        if text.startswith("//"):
            self._note_typo(text)
        return account_named(self.keyring, text)

    def key(self, text: str) -> Keypair:
        """The key to sign with: a name in the keyring, or a development path like `//Alice`, which has no secret."""
        if text.startswith("//"):
            self._note_typo(text)
            return keypair_from_suri(text)
        self._require_name(text)
        self.keyring.get(text)  # whether it is there is said before a password is asked for
        return self.keyring.unlock(text, *self.passwords(f"Password of {text}"))

    def payer(self, text: str) -> Payer:
        """Who `key` would be, without its password: enough to ask what a call costs."""
        if text.startswith("//"):
            self._note_typo(text)
            return keypair_from_suri(text)
        self._require_name(text)
        return self.keyring.get(text)

    def _require_name(self, text: str) -> None:
        """Raise WalletError for an address, which is not enough to sign with."""
        if is_address(text):
            raise WalletError(
                f"{text} is an address, and only a key signs. Give the key's name from `ogpu-wallet list`, or a "
                "development key like //Alice",
                code="address_cannot_sign",
            )

    def _note_typo(self, path: str) -> None:
        """Say once that a development path names another account than the known one that it resembles."""
        name = path.removeprefix("//").partition("/")[0]
        known = {each.lower(): each for each in (*DEV_NAMES, *CUSTOMER_NAMES)}
        near = [] if name in known.values() else get_close_matches(name.lower(), known, n=1, cutoff=NAMES_ALIKE)
        if near and path not in self._typos:
            self._typos.add(path)
            note(f"//{name} is not //{known[near[0]]}, to which development chains give money")

    def new_password(self) -> str:
        """For a key that is about to be stored; an empty one is warned of."""
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
        """Send a call, wait until it is final, show what became of it; CallFailedError if it failed in its block.

        `result` says more of a call that did what it asked for.
        """
        from wallet.sent_notes import SentNotes  # noqa: PLC0415
        from wallet.submission import inner_failure, send_once  # noqa: PLC0415  # as above

        notes = SentNotes(self.keyring.folder / SENT_FOLDER, client.genesis_hash)
        with self.output.console.status("waiting for finality"):
            outcome = await send_once(client, call, key, notes, note, tip=tip)
        why = outcome.error or inner_failure(client.runtime, outcome.events)
        more = {"why": why} if why else result(outcome)
        self.output.facts({**_outcome_facts(call, outcome), "success": why is None, **more})
        if why is not None:
            code = "inner_call_failed" if outcome.error is None else outcome.error_code
            raise CallFailedError(f"{call.name} failed in block {outcome.block_number}: {why}", code=code)


def reads(command: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make a command's body of a coroutine, which gets the session, a connected client and the parameters."""

    @functools.wraps(command)
    def connected(session: WalletSession, *given: Any, **named: Any) -> None:
        session.run(lambda client: command(session, client, *given, **named))

    return connected


def reads_chain(command: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make a click command's function of a coroutine, as `reads` does."""
    return click.pass_obj(reads(command))


def is_address(text: str) -> bool:
    """Tell whether a text is the address of an account."""
    try:
        ss58.account_from_text(text)
    except ValueError:
        return False
    return True


def explained(action: Callable[[], Awaitable[None] | None]) -> None:
    """Do something; what the user can set right becomes a sentence and an exit code."""
    try:
        action()
    except CallFailedError as error:
        raise click.exceptions.Exit(report_error(error, EXIT_FAILED)) from None
    except (WalletError, NodeUnreachableError) as error:
        raise click.exceptions.Exit(report_error(error, EXIT_INPUT)) from None
    except RpcError as error:
        raise click.exceptions.Exit(
            report_error(error, EXIT_FAILED, code="node_refused", text=f"the node refused: {error}")
        ) from None


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
