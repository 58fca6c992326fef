"""Validators by the names that they give themselves, as far as that is safe.

Nobody checks a name, and two validators may have the same. Always: a name stands for one account, or the command ends
with those that it could be; money never goes behind a name without somebody who looks at its address.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from cli.session import WalletSession, note
from runtime.cryptography import ss58
from runtime.interface.staking_api import ValidatorSummary
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.client import ChainClient
from wallet.errors import WalletError, harmless

WEB_SCHEMES = ("http", "https")
NAMED_MAX = 8
"""The most accounts that an error names."""


def name_text(profile_bytes: bytes) -> str:
    """Return a name on one line, without control characters."""
    return " ".join(harmless(profile_bytes.decode(errors="replace")).split())


def web_text(profile_bytes: bytes) -> str | None:
    """Return a profile's web address if its scheme is http or https, else None, because pages link to it."""
    web_address = name_text(profile_bytes)
    try:
        parts = urlsplit(web_address)
        is_web = parts.scheme in WEB_SCHEMES and bool(parts.hostname)
    except ValueError:
        is_web = False
    return web_address if is_web and " " not in web_address else None


def alike(name: str) -> str:
    """Return a name without the differences that people overlook: case, width, blanks."""
    # By Unicode's NFKC, full-width letters and ligatures equal the plain ones (UAX #15).
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


async def names_of(client: ChainClient, accounts: Collection[bytes], block_hash: bytes) -> dict[bytes, str]:
    """Return the names of some accounts, without those that have none."""
    sorted_accounts = sorted(set(accounts))
    profiles = await client.read_many(TrustStake.profiles, sorted_accounts, at=block_hash)
    return {
        account: name_text(profile.name)
        for account, profile in zip(sorted_accounts, profiles, strict=True)
        if profile is not None
    }


async def names_of_candidates(client: ChainClient, block_hash: bytes) -> dict[bytes, str]:
    """Return the names of all candidates by stash; empty for a candidate without one."""
    candidates: tuple[ValidatorSummary, ...] = await client.query("OgpuApi_candidates", at=block_hash)
    return {candidate.stash: name_text(candidate.name) for candidate in candidates}


async def known_validator(
    session: WalletSession,
    client: ChainClient,
    validator_text: str,
    known_accounts: Collection[bytes] | None,
    *,
    is_looked_at: bool,
) -> bytes:
    """Return the account that a text names: in a usual form, or a validator's own name.

    With `known_accounts`, a name means only these validators, which the user chose before. Without them a person has to
    see the address behind the name (`is_looked_at`). Raise WalletError for an unknown or ambiguous name.
    """
    try:
        return session.account(validator_text)
    except WalletError as error:
        block_hash = await client.finalized()
        if known_accounts is None:
            validator_id = named(validator_text, await names_of_candidates(client, block_hash))
        else:  # also withdrawn and tombstoned ones: a delegator that leaves them uses the old name
            validator_id = named(validator_text, await names_of(client, known_accounts, block_hash), "with your stake")
        if isinstance(validator_id, str):
            raise WalletError(f"{error}. {validator_id}", code="unknown_validator") from None
    address_text = ss58.encode(validator_id)
    if known_accounts is None and not is_looked_at:
        raise WalletError(
            f"{validator_text!r} is a name that {address_text} chose, and any validator may choose it. "
            "With --yes, give the address",
            code="name_unchecked",
        )
    note(f"{validator_text!r} is a name that {address_text} chose. Nobody checks names: check the address")
    return validator_id


def named(validator_text: str, names_by_account: Mapping[bytes, str], place: str = "here") -> bytes | str:
    """Return the only account of this name, or the reason for none; `place` names the searched validators."""
    wanted_name = alike(validator_text)
    fitting_accounts = [account for account, name in names_by_account.items() if name and alike(name) == wanted_name]
    if len(fitting_accounts) == 1:
        return fitting_accounts[0]
    if fitting_accounts:
        shown = _listed(names_by_account, fitting_accounts)
        return f"{len(fitting_accounts)} validators have the name {validator_text!r}. Give an address: {shown}"
    named_accounts = [account for account, name in names_by_account.items() if name]
    if not named_accounts:
        return f"No validator {place} has a name"
    return f"No validator {place} has this name. There are: {_listed(names_by_account, named_accounts)}"


def _listed(names_by_account: Mapping[bytes, str], accounts: list[bytes]) -> str:
    shown_names = [f"{names_by_account[account]} {ss58.encode(account)}" for account in sorted(accounts)[:NAMED_MAX]]
    hidden_count = len(accounts) - len(shown_names)
    return "; ".join(shown_names) + (f"; and {hidden_count} more (`candidates`)" if hidden_count else "")
