"""Options and parameter types that programs share. This module is light, because every command line imports it.

`session_options` stand before the commands of a program that works with keys. They import a session's modules only when
a command runs.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from wallet.amounts import parse_amount, parse_percent
from wallet.errors import AmountError
from wallet.suggestions import suggestion
from wallet.trust import DEFAULT_URL, Trust, hash_typed, socket_url

DEFAULT_FOLDER = Path("~/.ogpu/wallet")
KEYRING_VARIABLE = "OGPU_KEYRING"
HELP_NAMES = {"help_option_names": ["-h", "--help"]}
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
ACCOUNT_STARTS = ("//", "0x")
"""The beginnings of a development key and of an account in hex."""
ALL = -1
"""The value of an amount that the user gave as `all`."""


class NodeUrl(click.ParamType[str]):
    """The address of a node's JSON-RPC, as a WebSocket address: HTTP has the same port."""

    name = "URL"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the address with `ws://` or `wss://`."""
        address = socket_url(value)
        try:
            is_usable = address.startswith(("ws://", "wss://")) and bool(urlsplit(address).hostname)
        # `urlsplit` refuses an open bracket, as of an IPv6 address.
        except ValueError:
            is_usable = False
        if not is_usable:
            self.fail(f"{value!r} is not a node's address. Write ws://127.0.0.1:9944", param, ctx)
        return address


class BlockHash(click.ParamType[bytes]):
    """0x and 64 hexadecimal digits on the command line, bytes in the program."""

    name = "HASH"

    def __init__(self, subject: str) -> None:
        """`subject` stands in messages."""
        self._subject = subject

    def convert(self, value: str | bytes, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """Return 32 bytes."""
        if isinstance(value, bytes):
            return value
        digest = hash_typed(value)
        if digest is None:
            self.fail(f"{value!r} is not a {self._subject} hash. Write 0x and 64 hex digits", param, ctx)
        return digest


class AccountAsAmountError(click.BadParameter):
    """An account in the place of an amount."""


class Amount(click.ParamType[int]):
    """An amount in oGPU on the command line, grains in the program."""

    name = "oGPU"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return grains."""
        # click converts defaults too, and those are numbers.
        if isinstance(value, int):
            return value
        if value.startswith(ACCOUNT_STARTS):
            message = f"{value!r} is an account. Amounts stand behind accounts, as in {value} 12"
            raise AccountAsAmountError(message, ctx, param)
        try:
            return parse_amount(value)
        except AmountError as error:
            self.fail(str(error), param, ctx)


class AmountOrAll(Amount):
    """An amount, or `all`."""

    name = "oGPU|all"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return grains, or `ALL`."""
        return ALL if value == "all" else super().convert(value, param, ctx)


class Percent(click.ParamType[int]):
    """A percentage on the command line, millionths in the program, without rounding."""

    name = "%"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return millionths."""
        if isinstance(value, int):
            return value
        try:
            return parse_percent(value)
        except AmountError as error:
            self.fail(str(error), param, ctx)


class OneOf(click.Choice[str]):
    """A choice whose error suggests the word that was meant."""

    def __init__(self, choices: Sequence[str], advice: str = "") -> None:
        """`advice` is shown for a word that resembles no choice."""
        super().__init__(choices)
        self._advice = advice

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the choice."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            similar_choice = suggestion(str(value), self.choices)
            advice_text = f"Did you mean {similar_choice!r}?" if similar_choice else self._advice
            raise click.BadParameter(f"{error.message} {advice_text}".rstrip(), ctx, param) from None


AMOUNT = Amount()
AMOUNT_OR_ALL = AmountOrAll()
PERCENT = Percent()


def add_options(*options: Decorator) -> Decorator:
    """Return a decorator that adds options, in the order in which the help shows them."""
    # Decorators are applied from the last to the first.
    return lambda command: functools.reduce(lambda decorated, option: option(decorated), reversed(options), command)


def keyring_folder() -> Path:
    """Return the keyring's folder for a command without the option `--keyring`."""
    return Path(os.environ.get(KEYRING_VARIABLE) or DEFAULT_FOLDER)


url_option = click.option(
    "--url",
    type=NodeUrl(),
    default=DEFAULT_URL,
    show_default=True,
    envvar="OGPU_URL",
    help="The node's JSON-RPC address.",
)
keyring_option = click.option(
    "--keyring",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEFAULT_FOLDER,
    show_default=True,
    envvar=KEYRING_VARIABLE,
    help="The folder with the key files.",
)
# Never the password itself: other users of the machine see a program's arguments.
password_option = click.option(
    "--password-file", type=click.Path(path_type=Path), help="Read the password from this file."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, also for errors.")
json_errors_option = click.option("--json", is_flag=True, expose_value=False, help="Print errors as JSON objects.")
genesis_option = click.option("--genesis", type=BlockHash("genesis"), help="Genesis hash. Refuse any other chain.")
checkpoint_option = click.option(
    "--checkpoint", type=BlockHash("block"), help="Hash of a recent final block that you trust."
)
trust_option = click.option("--trust-node", is_flag=True, help="Believe the node without proofs.")
key_option = click.option(
    "--key", "key_text", required=True, metavar="KEY", help="The key that signs: a stored name, or //Alice."
)


def reading_key_option(use: str) -> Decorator:
    """Return `--key` for a command that sends no call. `use` completes "Key that ..."."""
    told = f"Key that {use}: a stored name, or //Alice."
    return click.option("--key", "key_text", required=True, metavar="KEY", help=told)


dry_run_option = click.option("--dry-run", is_flag=True, help="Show the exact cost, and send nothing.")
tip_option = click.option(
    "--tip", type=AMOUNT, default=0, help="Pay the block's author a tip in oGPU, to come first.  [default: 0]"
)
yes_option = click.option("--yes", is_flag=True, help="Send without asking.")
scheme_option = click.option(
    "--scheme",
    type=click.Choice(["sr25519", "ed25519"]),
    default="sr25519",
    show_default=True,
    help="Signature scheme. Session and provider keys are ed25519.",
)
words_option = click.option(
    "--words",
    type=click.Choice(["12", "15", "18", "21", "24"]),
    default="12",
    show_default=True,
    help="Words of the recovery phrase.",
)
anyway_option = click.option("--anyway", is_flag=True, help="Send despite a warning or an expected refusal.")


@dataclass(frozen=True, slots=True)
class SendingOptions:
    """The options about sending."""

    dry_run: bool
    is_agreed: bool
    is_anyway: bool
    tip: int
    """Grains."""


def sending_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--dry-run`, `--yes`, `--anyway` and `--tip`, which arrive together as `sending`."""

    @functools.wraps(command)
    def with_sending(*given: Any, dry_run: bool, yes: bool, anyway: bool, tip: int, **named: Any) -> Any:
        return command(*given, sending=SendingOptions(dry_run, yes, anyway, tip), **named)

    return add_options(dry_run_option, yes_option, anyway_option, tip_option)(with_sending)


def session_options(program: Callable[[], None]) -> Callable[..., None]:
    """Add the options of node, keys, proofs and output. They make the `WalletSession` of the commands."""

    @functools.wraps(program)
    def opened(
        url: str, keyring: Path, password_file: Path | None, as_json: bool, genesis: bytes | None,
        checkpoint: bytes | None, trust_node: bool,
    ) -> None:  # fmt: skip
        from cli.output import Output  # noqa: PLC0415
        from cli.session import WalletSession  # noqa: PLC0415
        from wallet.keyring import Keyring  # noqa: PLC0415  # here and below: the help of the program needs none of these

        trust = Trust(keyring.expanduser(), genesis, trust_node, checkpoint)
        session = WalletSession(url, Keyring(keyring), Output(as_json=as_json), password_file, trust)
        click.get_current_context().obj = session
        program()

    return add_options(
        url_option, keyring_option, password_option, json_option, genesis_option, checkpoint_option, trust_option
    )(opened)
