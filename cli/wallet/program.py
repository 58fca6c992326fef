"""`ogpu-wallet`: keys, transfers, stake, and any other call.

Exit codes: 0 done, 1 the chain or the node refused, 2 something to set right in what was given. Under `--json`, which
may stand anywhere, an error is a JSON object on standard error.
"""

from __future__ import annotations

import click

from cli.deferred import add_deferred
from cli.options import HELP_NAMES, session_options
from cli.program import ProgramGroup

COMMANDS = {
    "new": ("keys:new", "Make a key and store it, encrypted, under NAME."),
    "import": (
        "keys:import_key",
        "Store a key under NAME: a recovery phrase or secret URI, typed at the prompt, or a key FILE.",
    ),
    "list": ("keys:list_keys", "Show the stored keys."),
    "balance": ("money:balance", "Show final balances of accounts, or of every stored key."),
    "locks": (
        "locks:locks",
        "Show what is locked of an account: for what, until when, what could take how much of it.",
    ),
    "send": ("money:send", "Send AMOUNT oGPU to an account."),
    "stake": (
        "bonds:stake",
        "Bond AMOUNT oGPU of your own, the first step to validate and to mine; adds to a bond that is there.",
    ),
    "delegate": ("delegations:delegate", "Put AMOUNT oGPU behind a validator, to share its rewards and its slashes."),
    "redelegate": (
        "delegations:redelegate",
        "Put AMOUNT oGPU (or `all`) from behind one validator behind another at once; for a time it answers for both.",
    ),
    "unstake": (
        "bonds:unstake",
        "Begin to take AMOUNT oGPU (or `all`) out; it is free after the unbonding time, with `withdraw`.",
    ),
    "undelegate": (
        "delegations:undelegate",
        "Begin to take AMOUNT oGPU (or `all`) back from behind a validator; it is free after the unbonding time.",
    ),
    "withdraw": ("bonds:withdraw", "Free everything that was unstaked long enough ago."),
    "stakes": ("stakes_table:show_stakes", "Show what an account has bonded, delegated, unstaked and held."),
    "rewards": ("rewards:rewards", "Show what an account has earned and not claimed, or claim it."),
    "validators": (
        "validators_table:validators",
        "Show who holds office or is elected: stake, commission, blocks, slashes, what stake behind them would earn.",
    ),
    "candidates": (
        "validators_table:candidates",
        "Show everybody who offers to validate and to mine, and what each lacks to be elected.",
    ),
    "history": (
        "history:history",
        "Show what an account did, earned and lost with its stake, in the newest final blocks.",
    ),
    "validate": ("validators:offer", "Offer to validate and to mine."),
    "commission": (
        "validators:commission",
        "Announce that you will keep PERCENT of your delegators' rewards, from the second era after this one on.",
    ),
    "profile": (
        "validators:profile",
        "Give yourself, a validator, a NAME and a WEB address, for a deposit that comes back; nobody checks them.",
    ),
    "set-keys": ("validators:set_keys", "Replace the session and VRF key of your node by those of NODE_KEYS."),
    "chill": ("validators:chill", "Stop to offer to validate and to mine."),
    "unjail": ("validators:unjail", "Leave jail, where a validator comes that gave no sign of life for too long."),
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

SUBSTRATE_WORDS = {
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
}
"""Words of Substrate's wallets, and the commands here."""


@click.group(cls=ProgramGroup, context_settings=HELP_NAMES, foreign_words=SUBSTRATE_WORDS)
@session_options
@click.version_option(package_name="ogpu")
def main() -> None:
    """The wallet of an ogpu chain: keys, transfers, stake, and any other call.

    Shell completion: eval "$(_OGPU_WALLET_COMPLETE=bash_source ogpu-wallet)" (or zsh_source, fish_source).
    """


add_deferred(main, "cli.wallet", COMMANDS)

if __name__ == "__main__":
    main()
