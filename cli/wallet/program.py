"""`ogpu-wallet`: the declarations of its commands. Each body is a function of this package.

Exit codes: 0 done, 1 the chain or the node refused, 2 the user can correct the input. Under `--json`, which may stand
anywhere, an error is a JSON object on standard error.
"""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem

from cli.deferred import loaded, runs
from cli.options import (
    AMOUNT,
    AMOUNT_OR_ALL,
    HELP_NAMES,
    PERCENT,
    key_option,
    scheme_option,
    sending_options,
    session_options,
    words_option,
)
from cli.program import ProgramGroup

BLOCKS_OF_HISTORY = 240
BLOCKS_OF_HISTORY_MAX = 20_000
ROWS_OF_HISTORY = 1_000
ROWS_OF_HISTORY_MAX = 100_000
BLOCKS_OF_WHY = 600
BLOCKS_OF_WHY_MAX = 100_000
FOREIGN_WORDS = {
    "create": "ogpu-wallet new",
    "generate": "ogpu-wallet new",
    "add": "ogpu-wallet new or ogpu-wallet import",
    "restore": "ogpu-wallet import",
    "recover": "ogpu-wallet import",
    "login": "There is no login: a stored key signs. Make one with `ogpu-wallet new`.",
    "transfer": "ogpu-wallet send",
    "bond": "ogpu-wallet stake",
    "bond-extra": "ogpu-wallet stake",
    "unbond": "ogpu-wallet unstake",
    "withdraw-unbonded": "ogpu-wallet withdraw",
    "nominate": "ogpu-wallet delegate",
    "denominate": "ogpu-wallet undelegate",
    "payout": "ogpu-wallet rewards --claim",
    "payout-stakers": "ogpu-wallet rewards --claim",
    "staking": "ogpu-wallet stakes",
    "accounts": "ogpu-wallet list",
    "holds": "ogpu-wallet locks",
    "stake --validator": "To stake with a validator, use `ogpu-wallet delegate VALIDATOR AMOUNT`.",
}
"""Words of Substrate's wallets and of earlier versions, and the commands that do the same."""


@click.group("ogpu-wallet", cls=ProgramGroup, context_settings=HELP_NAMES, foreign_words=FOREIGN_WORDS)
@session_options
@click.version_option(package_name="ogpu")
def main() -> None:
    """The wallet of an ogpu chain: keys, transfers, stake, any other call.

    ACCOUNT and VALIDATOR are a stored key's name, an address, 0x and 64 hex digits, or a development key like //Alice.
    VALIDATOR may also be the name that a validator gave itself. AMOUNT is in oGPU, with or without the unit.

    Shell completion: eval "$(_OGPU_WALLET_COMPLETE=bash_source ogpu-wallet)" (or zsh_source, fish_source).
    """


# --- keys


@main.command()
@click.argument("name")
@scheme_option
@words_option
@runs("cli.wallet.keys:new")
def new() -> None:
    """Make a key and store it encrypted.

    The command shows the recovery phrase once. Write it down: it restores the key.
    """


@main.command("import")
@click.argument("name")
@scheme_option
@click.option("--file", "path", type=click.Path(path_type=Path), help="A key file, such as one of polkadot.js.")
@runs("cli.wallet.keys:import_key")
def import_key() -> None:
    """Store a key from a recovery phrase or a key file.

    Without --file, the command asks for a recovery phrase or a secret URI.
    """


@main.command("list")
@runs("cli.wallet.keys:list_keys")
def list_keys() -> None:
    """List the stored keys."""


# --- money


@main.command()
@click.argument("accounts", nargs=-1, metavar="[ACCOUNT]...")
@runs("cli.wallet.money:balance")
def balance() -> None:
    """Show balances of accounts, or of all stored keys."""


@main.command()
@click.argument("account", required=False, metavar="[ACCOUNT]")
@runs("cli.wallet.locks:locks")
def locks() -> None:
    """Show locked money: the reason, until when, the risk.

    Without ACCOUNT, the command shows all stored keys. It reads the newest final block.
    """


@main.command()
@click.argument("to", metavar="ACCOUNT")
@click.argument("amount", type=AMOUNT, metavar="AMOUNT")
@key_option
@click.option("--allow-death", is_flag=True, help="Allow a transfer that closes the sending account.")
@sending_options
@runs("cli.wallet.money:send")
def send() -> None:
    """Send oGPU to an account."""


@main.command()
@click.argument("account")
@click.option(
    "--blocks", type=click.IntRange(1, BLOCKS_OF_HISTORY_MAX), default=BLOCKS_OF_HISTORY, show_default=True,
    help="Final blocks to read, newest first.",
)  # fmt: skip
@click.option(
    "--limit", type=click.IntRange(1, ROWS_OF_HISTORY_MAX), default=ROWS_OF_HISTORY, show_default=True,
    help="Entries to print at most, newest first.",
)  # fmt: skip
@click.option("--csv", "is_csv", is_flag=True, help="Print lines for a spreadsheet, amounts in oGPU.")
@runs("cli.wallet.history:history")
def history() -> None:
    """Show an account's transfers, stake, rewards and slashes."""


@main.command()
@click.argument("transaction", metavar="TX")
@click.option(
    "--blocks", type=click.IntRange(1, BLOCKS_OF_WHY_MAX), default=BLOCKS_OF_WHY, show_default=True,
    help="Blocks to search, newest first.",
)  # fmt: skip
@runs("cli.wallet.why:why")
def why() -> None:
    """Explain a transaction: its block, its effects, its error.

    TX is the extrinsic hash that a sending command prints.
    """


# --- stake


@main.command()
@click.argument("amount", type=AMOUNT, metavar="AMOUNT")
@key_option
@sending_options
@runs("cli.wallet.bonds:stake")
def stake() -> None:
    """Bond your own oGPU, to validate or to provide GPUs.

    A later call adds to the bond.
    """


@main.command()
@click.argument("amount", type=AMOUNT_OR_ALL, metavar="AMOUNT|all")
@click.option("--validator", help="Take back from this validator, not from your own bond.")
@key_option
@sending_options
@runs("cli.wallet.bonds:unstake")
def unstake() -> None:
    """Begin to take bonded oGPU out.

    The amount is free after the unbonding time. Run `withdraw` then.
    """


@main.command()
@click.argument("validator")
@click.argument("amount", type=AMOUNT, metavar="AMOUNT")
@key_option
@sending_options
@runs("cli.wallet.delegations:delegate")
def delegate() -> None:
    """Delegate oGPU to a validator.

    You share its rewards and its slashes.
    """


@main.command()
@click.argument("source", metavar="FROM_VALIDATOR")
@click.argument("target", metavar="TO_VALIDATOR")
@click.argument("amount", type=AMOUNT_OR_ALL, metavar="AMOUNT|all")
@key_option
@sending_options
@runs("cli.wallet.delegations:redelegate")
def redelegate() -> None:
    """Move a delegation to another validator at once.

    For a time, offences of both validators can reduce it.
    """


@main.command()
@click.argument("validator")
@click.argument("amount", type=AMOUNT_OR_ALL, metavar="AMOUNT|all")
@key_option
@sending_options
@runs("cli.wallet.delegations:undelegate")
def undelegate() -> None:
    """Begin to take delegated oGPU back.

    The amount is free after the unbonding time. Run `withdraw` then.
    """


@main.command()
@key_option
@sending_options
@runs("cli.wallet.bonds:withdraw")
def withdraw() -> None:
    """Free unstaked oGPU whose unbonding time is over."""


@main.command("stakes")
@click.argument("account")
@runs("cli.wallet.stakes_table:show_stakes")
def stakes() -> None:
    """Show an account's bond, delegations and unbonding stake."""


@main.command()
@click.argument("account")
@click.option("--claim", is_flag=True, help="Pay the rewards out. ACCOUNT signs.")
@click.option("--compound", is_flag=True, help="Delegate each reward to its validator. ACCOUNT signs.")
@sending_options
@runs("cli.wallet.rewards:rewards")
def rewards() -> None:
    """Show or claim an account's unpaid rewards."""


@main.command()
@runs("cli.wallet.validators_table:validators")
def validators() -> None:
    """List the validators: stake, commission, slashes, return."""


@main.command()
@runs("cli.wallet.validators_table:candidates")
def candidates() -> None:
    """List the candidates and their chance of election."""


# --- validators


@main.command("validate")
@click.argument("node_keys")
@click.argument("provider_key")
@click.option(
    "--commission", type=PERCENT, default="5", show_default=True, help="Your part of the delegators' rewards, in %."
)
@key_option
@sending_options
@runs("cli.wallet.validators:offer")
def validate() -> None:
    """Become a candidate: offer to validate and provide GPUs.

    NODE_KEYS is a file with the output of `ogpu-node key rotate` or `prove`. PROVIDER_KEY is the account of the
    provider's ed25519 key.
    """


@main.command()
@click.argument("percent", type=PERCENT, metavar="PERCENT")
@key_option
@sending_options
@runs("cli.wallet.validators:commission")
def commission() -> None:
    """Announce a new commission.

    It applies from the second era after this one.
    """


@main.command()
@click.argument("name", required=False, default="")
@click.argument("web", required=False, default="")
@click.option("--clear", is_flag=True, help="Remove name and web address. The deposit returns.")
@key_option
@sending_options
@runs("cli.wallet.validators:profile")
def profile() -> None:
    """Set your validator's public name and web address.

    The chain holds a deposit until you run `profile --clear`. It does not check the name.
    """


@main.command("set-keys")
@click.argument("node_keys")
@key_option
@sending_options
@runs("cli.wallet.validators:set_keys")
def set_keys() -> None:
    """Replace your node's session and VRF keys.

    NODE_KEYS is a file with the output of `ogpu-node key rotate`. Keep the node running with the new and the old keys.
    """


@main.command()
@key_option
@sending_options
@runs("cli.wallet.validators:chill")
def chill() -> None:
    """Withdraw your candidacy: stop validating and providing."""


@main.command()
@key_option
@sending_options
@runs("cli.wallet.validators:unjail")
def unjail() -> None:
    """Leave jail after your node was offline for too long."""


# --- any call of the chain


def _complete_call(context: click.Context, parameter: click.Parameter, begun_text: str) -> list[CompletionItem]:
    completions: list[CompletionItem] = loaded("cli.wallet.call:complete_call")(context, parameter, begun_text)
    return completions


def _complete_argument(context: click.Context, parameter: click.Parameter, begun_text: str) -> list[CompletionItem]:
    completions: list[CompletionItem] = loaded("cli.wallet.call:complete_argument")(context, parameter, begun_text)
    return completions


# below the options, where each keeps its line: \b tells click not to join them
EXAMPLES = """\b
ogpu-wallet call InferenceMarket.cancel 0x1f.. --key savings
ogpu-wallet call Balances.transfer_keep_alive dest=//Bob value=1.5oGPU --key //Alice --dry-run
ogpu-wallet call Utility.batch '[{"TrustStake.chill": {}}, {"System.remark": {"remark": "bye"}}]' --key savings
"""


@main.command(epilog=EXAMPLES)
@click.argument("name", required=False, metavar="[PALLET.CALL]", shell_complete=_complete_call)
@click.argument("arguments", nargs=-1, metavar="[ARGUMENT]...", shell_complete=_complete_argument)
@click.option("--key", "sender", metavar="KEY", help="The key that signs: a stored name, or //Alice.")
@sending_options
@click.option("--help-args", is_flag=True, help="Show the call's arguments and types.")
@runs("cli.wallet.call:call")
def call() -> None:
    """Make any call of the chain.

    An ARGUMENT is `value` or `name=value`. Without PALLET.CALL the command lists all calls, with PALLET the calls of
    that pallet. A call without its arguments shows them.

    Write numbers as digits, amounts as grains or 1.5oGPU, bytes as 0x and hex digits or as text, and nothing as null.
    Write structures, lists and inner calls as JSON: {"System.remark": {"remark": "hello"}}.
    """


@main.command()
@click.argument("begun", required=False, default="", metavar="[NAME]")
@runs("cli.wallet.parameters:parameters")
def parameters() -> None:
    """Show the chain's parameters.

    NAME is the beginning of a parameter's name.
    """


@main.command("set-parameter")
@click.argument("name")
@click.argument("value")
@key_option
@sending_options
@runs("cli.wallet.parameters:set_parameter")
def set_parameter() -> None:
    """Change a parameter on a development chain.

    The sudo key signs. Work that has begun keeps the earlier value.
    """


if __name__ == "__main__":
    main()
