"""The development chain with more funded accounts. Their funds come out of the reserve."""

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace

from genesis.presets import load_spec
from genesis.spec import ChainSpec
from runtime.cryptography.ss58 import encode as ss58
from runtime.pallets.pots import RESERVE


def funded(accounts: Iterable[bytes], grains: int) -> ChainSpec:
    """Return the preset `dev` in which each of these new accounts has `grains` grains."""
    spec = load_spec("dev")
    patch = deepcopy(spec.patch or {})
    given = [[ss58(account), grains] for account in accounts]
    reserve = ss58(RESERVE)
    before = dict(patch["balances"]["balances"])
    left = before | {reserve: before[reserve] - len(given) * grains}
    patch["balances"]["balances"] = [[address, amount] for address, amount in left.items()] + given
    return replace(spec, patch=patch)
