"""Commands of a validator: offer, commission, profile, keys, withdrawal."""

from __future__ import annotations

import click

from cli.calls import PlannedCall, Planning, SendingOptions, make, sends
from cli.session import WalletSession
from cli.wallet.staking_facts import RISK_OF_BOND, open_view
from cli.wallet.validator_names import web_text
from runtime.frame.runtime import Bound
from runtime.pallets.session import Session
from runtime.pallets.staking.stakers import NAME_BYTES_MAX, WEB_BYTES_MAX
from runtime.pallets.staking.trust_stake import NOTICE_ERAS, TrustStake
from wallet.amounts import Grains
from wallet.calls.node_keys import read_node_keys
from wallet.client import ChainClient, Payer
from wallet.errors import WalletError
from wallet.refusals.refused_call import percent_text


@sends
async def offer(by: Planning, node_keys: str, provider_key: str, commission: int) -> PlannedCall:
    """Plan a candidacy."""
    named, provider = read_node_keys(node_keys, by.payer.account, by.client), by.session.account(provider_key)
    view = await open_view(by.client)
    bond = await view.staked(by.payer.account, by.payer.account)
    least, floor = await view.look(_least_of_offers)
    call = TrustStake.validate(keys=named.keys, proof=named.proof, provider_key=provider, commission_ppm=commission)
    facts = {
        "session_key": named.keys.session,
        "vrf_key": named.keys.vrf,
        "provider_key": provider,
        "commission": percent_text(commission),
        "commission_min": percent_text(floor),
        "bond": Grains(bond),
        "validator_bond_min": Grains(least),
        "may_sit_from": f"{view.time.era_text(await view.look(_open_era))}, at the earliest",
        **view.present_facts(),
        "can_go_wrong": RISK_OF_BOND,
    }
    return PlannedCall(call, facts)


@sends
async def set_keys(by: Planning, node_keys: str) -> PlannedCall:
    """Plan the replacement of session and VRF key."""
    named = read_node_keys(node_keys, by.payer.account, by.client)
    view = await open_view(by.client)
    facts = {
        "session_key": named.keys.session,
        "vrf_key": named.keys.vrf,
        "hold_from": f"{view.time.era_text(await view.look(_open_era))}, or later if this is not soon in a block",
        "until_then": "the old keys sign: keep them where they are",
        **view.present_facts(),
    }
    return PlannedCall(Session.set_keys(keys=named.keys, proof=named.proof), facts)


@sends
async def chill(by: Planning) -> PlannedCall:
    """Plan the withdrawal of a candidacy."""
    view = await open_view(by.client)
    pool = await view.look(lambda bound: bound[TrustStake].pools[by.payer.account])
    facts = {
        "bond": Grains(await view.staked(by.payer.account, by.payer.account)),
        "behind_you": f"{pool.delegators} delegators, who earn nothing from the next era on",
        "no_seat_from": f"{view.time.era_text(await view.look(_open_era))}, at the earliest",
        "until_then": "a seat that you have goes on: keep the node running until its log says that it has none",
        **view.present_facts(),
    }
    return PlannedCall(TrustStake.chill(), facts)


@sends
async def unjail(by: Planning) -> PlannedCall:
    """Plan a return from jail."""
    view = await open_view(by.client)
    since, epochs = await view.look(lambda bound: _jail_of(bound, by.payer.account))
    facts = {
        "in_jail_since_era": since,
        "jailed_again": f"after {epochs} whole epochs in office without a block, and in no certificate",
        **view.present_facts(),
    }
    return PlannedCall(TrustStake.unjail(), facts)


def _open_era(bound: Bound) -> int:
    """Return the first era without elected validators. The call counts in its election."""
    stake = bound[TrustStake]
    return (stake.last_elected_epoch.get() + 1) // stake.era_epochs


def _jail_of(bound: Bound, stash: bytes) -> tuple[int | None, int]:
    """Return the era since which it is in jail, and the epochs of absence that lead there."""
    stake = bound[TrustStake]
    return stake.jailed[stash], stake.jail_epochs


@sends
async def commission(by: Planning, percent: int) -> PlannedCall:
    """Plan the announcement of a commission."""
    view = await open_view(by.client)
    now, floor, step = await view.look(lambda bound: _commission_now(bound, by.payer.account))
    facts = {
        "commission_now": None if now is None else percent_text(now),
        "commission_then": percent_text(percent),
        "holds_from": view.time.era_text(view.time.era + NOTICE_ERAS),
        "commission_min": percent_text(floor),
        "commission_step": percent_text(step),
        **view.present_facts(),
    }
    return PlannedCall(TrustStake.announce_commission(commission_ppm=percent), facts)


def profile(session: WalletSession, name: str, web: str, clear: bool, key_text: str, sending: SendingOptions) -> None:
    """Set name and web address, or remove both."""
    if clear == bool(name or web):
        raise click.UsageError("give a NAME, or --clear to remove name and web address")
    _check_length("name", name, NAME_BYTES_MAX)
    _check_length("web address", web, WEB_BYTES_MAX)
    _check_web(web)

    async def plan(client: ChainClient, payer: Payer) -> PlannedCall:
        view = await open_view(client)
        before, asked = await view.look(
            lambda bound: (bound[TrustStake].profiles[payer.account], bound[TrustStake].profile_deposit)
        )
        held = 0 if before is None else before.deposit
        money = {"comes_back": Grains(held)} if clear else {"deposit": Grains(held or asked)}
        facts = {"name": name or None, "web": web or None, **money, **view.present_facts()}
        call = TrustStake.set_profile(name=name.encode(), web=web.encode())
        return PlannedCall(call, facts, moves=0 if clear or held else asked)

    make(session, key_text, sending, plan)


def _least_of_offers(bound: Bound) -> tuple[int, int]:
    """Return the least bond and the least commission."""
    return bound[TrustStake].validator_bond_min, bound[TrustStake].commission_min


def _commission_now(bound: Bound, who: bytes) -> tuple[int | None, int, int]:
    """Return a validator's commission, the least commission, and the greatest change of an announcement."""
    stake = bound[TrustStake]
    return stake.commission_of(who), stake.commission_min, stake.commission_step


def _check_web(web: str) -> None:
    if web and web_text(web.encode()) is None:
        raise WalletError(f"{web!r} is not a web address. Begin it with http:// or https://", code="web_unusable")


def _check_length(what: str, text: str, most: int) -> None:
    length = len(text.encode())
    if length > most:
        raise WalletError(
            f"the {what} has {length} bytes in UTF-8, {length - most} more than the most", code="too_long"
        )
