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


def name_text(raw: bytes) -> str:
    """Return a name on one line, without control characters."""
    return " ".join(harmless(raw.decode(errors="replace")).split())


def web_text(raw: bytes) -> str | None:
    """Return a profile's web address if its scheme is http or https, else None, because pages link to it."""
    text = name_text(raw)
    try:
        parts = urlsplit(text)
        is_web = parts.scheme in WEB_SCHEMES and bool(parts.hostname)
    except ValueError:
        is_web = False
    return text if is_web and " " not in text else None


def alike(name: str) -> str:
    """Return a name without the differences that people overlook: case, width, blanks."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


async def names_of(client: ChainClient, accounts: Collection[bytes], at: bytes) -> dict[bytes, str]:
    """Return the names of some accounts, without those that have none."""
    asked = sorted(set(accounts))
    profiles = await client.read_many(TrustStake.profiles, asked, at=at)
    return {who: name_text(profile.name) for who, profile in zip(asked, profiles, strict=True) if profile is not None}


async def names_of_candidates(client: ChainClient, at: bytes) -> dict[bytes, str]:
    """Everybody who offers to validate, with what each calls itself: nothing where it does not."""
    table: tuple[ValidatorSummary, ...] = await client.query("OgpuApi_candidates", at=at)
    return {each.stash: name_text(each.name) for each in table}


async def known_validator(
    session: WalletSession, client: ChainClient, text: str, among: Collection[bytes] | None, *, is_looked_at: bool
) -> bytes:
    """The account that `text` names: as everywhere, or a validator by its own name.

    `among`: only those, which the account chose before, are meant by a name. Where it may be anybody, somebody has to
    look at the address that a name stands for (`is_looked_at`). WalletError for a name of none, or of several.
    """
    try:
        return session.account(text)
    except WalletError as unknown:
        at = await client.finalized()
        if among is None:
            found = named(text, await names_of_candidates(client, at))
        else:  # also those that offer no more, or may not: who leaves them calls them as before
            found = named(text, await names_of(client, among, at), "with your stake")
        if isinstance(found, str):
            raise WalletError(f"{unknown}. {found}", code="unknown_validator") from None
    address = ss58.encode(found)
    if among is None and not is_looked_at:
        raise WalletError(
            f"{text!r} is a name that {address} chose, and any validator may choose it. With --yes, give the address",
            code="name_unchecked",
        )
    note(f"{text!r} is a name that {address} chose. Nobody checks names: check the address")
    return found


def named(text: str, names: Mapping[bytes, str], where: str = "here") -> bytes | str:
    """Return the only account of this name, or the reason for none; `where` names the searched validators."""
    wanted = alike(text)
    fitting = [who for who, name in names.items() if name and alike(name) == wanted]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        return f"{len(fitting)} validators have the name {text!r}. Give an address: {_listed(names, fitting)}"
    bearers = [who for who, name in names.items() if name]
    if not bearers:
        return f"No validator {where} has a name"
    return f"No validator {where} has this name. There are: {_listed(names, bearers)}"


def _listed(names: Mapping[bytes, str], accounts: list[bytes]) -> str:
    shown = [f"{names[who]} {ss58.encode(who)}" for who in sorted(accounts)[:NAMED_MAX]]
    more = len(accounts) - len(shown)
    return "; ".join(shown) + (f"; and {more} more (`candidates`)" if more else "")
