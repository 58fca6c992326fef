"""`ogpu-wallet`: keys, transfers, stake, and any other call.

Exit codes: 0 done, 1 the chain or the node refused, 2 something to set right in what was given.
"""

from __future__ import annotations

import click

from wallet.commands.opening import session_options
from wallet.deferred import add_deferred
from wallet.program_options import HELP_NAMES

COMMANDS = {
    "new": ("keys:new", "Make a key and store it, encrypted, under NAME."),
    "import": (
        "keys:import_key",
        "Store a key under NAME: a recovery phrase or secret URI, typed at the prompt, or a key FILE.",
    ),
    "list": ("keys:list_keys", "Show the stored keys."),
    "balance": ("money:balance", "Show final balances of accounts, or of every stored key."),
    "holds": ("money:holds", "Show what is held of an account: for which reason, and for which case."),
    "locks": (
        "locks:locks",
        "Show what is locked of an account: for what, until when, what could take how much of it.",
    ),
    "send": ("money:send", "Send AMOUNT oGPU to an account."),
    "stake": (
        "staking:stake",
        "Bond AMOUNT oGPU of your own, the first step to validate and to mine; adds to a bond that is there.",
    ),
    "delegate": ("staking:delegate", "Put AMOUNT oGPU behind a validator, to share its rewards and its slashes."),
    "redelegate": (
        "staking:redelegate",
        "Put AMOUNT oGPU from behind a validator behind another, without waiting; for a time it answers for both.",
    ),
    "unstake": (
        "staking:unstake",
        "Begin to take AMOUNT oGPU out; it is free after the unbonding time, with `withdraw`.",
    ),
    "withdraw": ("staking:withdraw", "Free everything that was unstaked long enough ago."),
    "stakes": ("staking:show_stakes", "Show what an account has bonded, delegated, unstaked and held."),
    "rewards": ("staking:rewards", "Show what an account has earned and not claimed, or claim it."),
    "validators": ("staking:validators", "Show everybody who offers to validate and to mine."),
    "validate": ("staking:offer", "Offer to validate and to mine, with these three public keys (0x and hex digits)."),
    "chill": ("staking:chill", "Stop to offer to validate and to mine."),
    "call": ("call:call", "Make any call of the chain: PALLET.CALL with its arguments, each `value` or `name=value`."),
    "parameters": (
        "parameters:parameters",
        "Show the numbers that the chain goes by and may change, all or those whose names begin with NAME.",
    ),
    "set-parameter": (
        "parameters:set_parameter",
        "Give the parameter NAME another VALUE, as Root; the holder of the sudo key signs (development chains only).",
    ),
    "why": ("why:why", "Explain the extrinsic with this hash: where it is, what it did, why it failed."),
}


@click.group(context_settings=HELP_NAMES)
@session_options
@click.version_option(package_name="ogpu")
def main() -> None:
    """The wallet of an ogpu chain: keys, transfers, stake, and any other call.

    Shell completion: eval "$(_OGPU_WALLET_COMPLETE=bash_source ogpu-wallet)" (or zsh_source, fish_source).
    """


add_deferred(main, "wallet.commands", COMMANDS)

if __name__ == "__main__":
    main()
