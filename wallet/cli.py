"""`ogpu-wallet`: keys, transfers, stake, and any other call.

Exit codes: 0 done, 1 the chain or the node refused, 2 something to set right in what was given.
"""

from __future__ import annotations

from pathlib import Path

import click

from wallet.commands import call, keys, money, staking, why
from wallet.keyring import DEFAULT_FOLDER, Keyring
from wallet.output import Output
from wallet.rpc import DEFAULT_URL
from wallet.session import WalletSession
from wallet.trust import Trust, genesis_option, trust_option


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--url", default=DEFAULT_URL, show_default=True, envvar="OGPU_URL", help="The node's JSON-RPC address.")
@click.option(
    "--keyring",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEFAULT_FOLDER,
    show_default=True,
    envvar="OGPU_KEYRING",
    help="The folder of the key files.",
)
@click.option("--password-file", type=click.Path(path_type=Path), help="Read the password here instead of asking.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@genesis_option
@trust_option
@click.version_option(package_name="ogpu")
@click.pass_context
def main(
    context: click.Context,
    url: str,
    keyring: Path,
    password_file: Path | None,
    as_json: bool,
    genesis: bytes | None,
    trust_node: bool,
) -> None:
    """The wallet of an ogpu chain: keys, transfers, stake, and any other call.

    Shell completion: eval "$(_OGPU_WALLET_COMPLETE=bash_source ogpu-wallet)" (or zsh_source, fish_source).
    """
    trust = Trust(keyring.expanduser(), genesis, is_blind=trust_node)
    context.obj = WalletSession(url, Keyring(keyring), Output(as_json=as_json), password_file, trust)


for command in (
    keys.new, keys.import_key, keys.list_keys,
    money.balance, money.send,
    staking.stake, staking.delegate, staking.unstake, staking.withdraw, staking.show_stakes, staking.rewards,
    staking.validators, staking.offer, staking.chill,
    call.call, why.why,
):  # fmt: skip
    main.add_command(command)

if __name__ == "__main__":
    main()
