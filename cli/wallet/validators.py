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
async def offer(planning: Planning, node_keys: str, provider_key: str, commission: int) -> PlannedCall:
    """Plan a candidacy."""
    proven_keys = read_node_keys(node_keys, planning.payer.account, planning.client)
    provider = planning.session.account(provider_key)
    view = await open_view(planning.client)
    own_bond = await view.staked(planning.payer.account, planning.payer.account)
    least_bond, least_commission = await view.look(_least_of_offers)
    call = TrustStake.validate(
        keys=proven_keys.keys, proof=proven_keys.proof, provider_key=provider, commission_ppm=commission
    )
    facts = {
        "session_key": proven_keys.keys.session,
        "vrf_key": proven_keys.keys.vrf,
        "provider_key": provider,
        "commission": percent_text(commission),
        "commission_min": percent_text(least_commission),
        "bond": Grains(own_bond),
        "validator_bond_min": Grains(least_bond),
        "may_sit_from": f"{view.time.era_text(await view.look(_open_era))}, at the earliest",
        **view.present_facts(),
        "can_go_wrong": RISK_OF_BOND,
    }
    return PlannedCall(call, facts)


@sends
async def set_keys(planning: Planning, node_keys: str) -> PlannedCall:
    """Plan the replacement of session and VRF key."""
    proven_keys = read_node_keys(node_keys, planning.payer.account, planning.client)
    view = await open_view(planning.client)
    facts = {
        "session_key": proven_keys.keys.session,
        "vrf_key": proven_keys.keys.vrf,
        "hold_from": f"{view.time.era_text(await view.look(_open_era))}, or later if this is not soon in a block",
        "until_then": "the old keys sign: keep them where they are",
        **view.present_facts(),
    }
    return PlannedCall(Session.set_keys(keys=proven_keys.keys, proof=proven_keys.proof), facts)


@sends
async def chill(planning: Planning) -> PlannedCall:
    """Plan the withdrawal of a candidacy."""
    view = await open_view(planning.client)
    pool = await view.look(lambda state: state[TrustStake].pools[planning.payer.account])
    facts = {
        "bond": Grains(await view.staked(planning.payer.account, planning.payer.account)),
        "behind_you": f"{pool.delegators} delegators; they earn nothing from the next era on",
        "no_seat_from": f"{view.time.era_text(await view.look(_open_era))}, at the earliest",
        "until_then": "a seat that you have goes on: keep the node running until its log says that it has none",
        **view.present_facts(),
    }
    return PlannedCall(TrustStake.chill(), facts)


@sends
async def unjail(planning: Planning) -> PlannedCall:
    """Plan a return from jail."""
    view = await open_view(planning.client)
    jailed_era, jail_epochs = await view.look(lambda state: _jail_of(state, planning.payer.account))
    facts = {
        "in_jail_since_era": jailed_era,
        "jailed_again": f"after {jail_epochs} whole epochs in office without a block, and in no certificate",
        **view.present_facts(),
    }
    return PlannedCall(TrustStake.unjail(), facts)


def _open_era(state: Bound) -> int:
    """Return the first era without elected validators. The call counts in its election."""
    trust_stake = state[TrustStake]
    return (trust_stake.last_elected_epoch.get() + 1) // trust_stake.era_epochs


def _jail_of(state: Bound, stash: bytes) -> tuple[int | None, int]:
    """Return the era since which it is in jail, and the epochs of absence that lead there."""
    trust_stake = state[TrustStake]
    return trust_stake.jailed[stash], trust_stake.jail_epochs


@sends
async def commission(planning: Planning, percent: int) -> PlannedCall:
    """Plan the announcement of a commission."""
    view = await open_view(planning.client)
    present_ppm, least_commission, step_ppm = await view.look(
        lambda state: _commission_now(state, planning.payer.account)
    )
    facts = {
        "commission_now": None if present_ppm is None else percent_text(present_ppm),
        "commission_then": percent_text(percent),
        "holds_from": view.time.era_text(view.time.era + NOTICE_ERAS),
        "commission_min": percent_text(least_commission),
        "commission_step": percent_text(step_ppm),
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
        present_profile, deposit_grains = await view.look(
            lambda state: (state[TrustStake].profiles[payer.account], state[TrustStake].profile_deposit)
        )
        held_grains = 0 if present_profile is None else present_profile.deposit
        deposit_facts = (
            {"comes_back": Grains(held_grains)} if clear else {"deposit": Grains(held_grains or deposit_grains)}
        )
        facts = {"name": name or None, "web": web or None, **deposit_facts, **view.present_facts()}
        call = TrustStake.set_profile(name=name.encode(), web=web.encode())
        return PlannedCall(call, facts, moves=0 if clear or held_grains else deposit_grains)

    make(session, key_text, sending, plan)


def _least_of_offers(state: Bound) -> tuple[int, int]:
    """Return the least bond and the least commission."""
    return state[TrustStake].validator_bond_min, state[TrustStake].commission_min


def _commission_now(state: Bound, account: bytes) -> tuple[int | None, int, int]:
    """Return a validator's commission, the least commission, and the greatest change of an announcement."""
    trust_stake = state[TrustStake]
    return trust_stake.commission_of(account), trust_stake.commission_min, trust_stake.commission_step


def _check_web(web: str) -> None:
    if web and web_text(web.encode()) is None:
        raise WalletError(f"{web!r} is not a web address. Begin it with http:// or https://", code="web_unusable")


def _check_length(what: str, text: str, length_max: int) -> None:
    length_bytes = len(text.encode())
    if length_bytes > length_max:
        raise WalletError(
            f"the {what} has {length_bytes} bytes in UTF-8, {length_bytes - length_max} more than the most",
            code="too_long",
        )
