"""`call`: any call of the chain, built from the declarations of its pallets.

Invariant: the arguments that the user confirms are decoded from the bytes that will be signed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from cli.calls import PlannedCall, SendingOptions, make
from cli.session import WalletSession
from genesis.chain import DEVELOPMENT_PALLETS, PALLETS
from runtime.encoding.scale import EncodeError
from runtime.encoding.types import Signed
from runtime.frame.call import Call
from runtime.frame.pallet import Pallet
from wallet.amounts import Grains
from wallet.calls.declared import arguments_of, written_arguments
from wallet.calls.directory import Directory, Method, full_name, require_pallets
from wallet.calls.form import Style
from wallet.calls.money import DEPOSITS, Moved, moved_by, posts_in
from wallet.client import ChainClient
from wallet.errors import CallInputError
from wallet.proved.pins import read_pin

ALL_PALLETS = (*PALLETS, *DEVELOPMENT_PALLETS)


def _methods() -> dict[str, Method]:
    """Return every call by its full name."""
    return {full_name(method): method for pallet in ALL_PALLETS for method in pallet.methods}


def complete_call(_context: click.Context, _parameter: click.Parameter, begun_text: str) -> list[CompletionItem]:
    """Complete a pallet, and behind the point its calls."""
    if "." in begun_text:
        matches = {name: method for name, method in _methods().items() if name.startswith(begun_text)}
        return [CompletionItem(name, help=_summary(method)) for name, method in matches.items()]
    pallet_names = dict.fromkeys(name.partition(".")[0] for name in _methods())
    return [CompletionItem(f"{name}.") for name in pallet_names if name.lower().startswith(begun_text.lower())]


def complete_argument(context: click.Context, _parameter: click.Parameter, begun_text: str) -> list[CompletionItem]:
    """Complete the name of an argument, as `name=`."""
    method = _methods().get(context.params.get("name") or "")
    if method is None:
        return []
    matches = [argument for argument in arguments_of(method) if argument.name.startswith(begun_text)]
    return [CompletionItem(f"{argument.name}=", help=argument.form.type_name) for argument in matches]


def call(
    session: WalletSession,
    name: str | None,
    arguments: tuple[str, ...],
    sender: str | None,
    help_args: bool,
    sending: SendingOptions,
) -> None:
    """Make any call of the chain, or list calls or arguments."""
    if name is None or "." not in name:
        _list(session, Directory(_pallets_met(session), session.account), name or "")
        return
    directory = Directory(ALL_PALLETS, session.account)
    method = directory.find(name)
    if help_args or (arguments_of(method) and not arguments):
        _show_arguments(session, method)
        return
    built_call = directory.build(method, arguments)
    _require_signer(method)
    if sender is None:
        raise CallInputError("--key is missing. Name the key that signs", code="key_missing")
    session.payer(sender)  # an unknown name is an error before a node is asked
    style = Style.PROGRAMS if session.output.as_json else Style.PEOPLE
    make(session, sender, sending, lambda client, _: _plan(client, built_call, style))


def _pallets_met(session: WalletSession) -> Sequence[type[Pallet]]:
    """Return the pallets of the keyring's chain; all pallets if it has not met a chain yet."""
    chain_pin = None if session.trust is None or session.trust.is_blind else read_pin(session.trust.folder)
    return PALLETS if chain_pin is not None and not chain_pin.is_development else ALL_PALLETS


def _list(session: WalletSession, directory: Directory, pallet: str) -> None:
    rows = [{"call": full_name(method), "what_it_does": _summary(method)} for method in directory.methods(pallet)]
    session.output.rows("Calls", ("call", "what_it_does"), rows)


def _show_arguments(session: WalletSession, method: Method) -> None:
    rows = [
        {"argument": argument.name, "type": argument.form.type_name, "how_to_write_it": argument.form.how_to_write}
        for argument in arguments_of(method)
    ]
    title = f"{full_name(method)}: {_summary(method)}"
    session.output.rows(title, ("argument", "type", "how_to_write_it"), rows)


def _summary(method: Method) -> str:
    return method.docs[0] if method.docs else ""


def _require_signer(method: Method) -> None:
    method.hints()  # settles the origins
    if method.is_inherent:
        raise CallInputError(f"only block authors make {full_name(method)}. Nobody can sign it", code="inherent")
    if Signed not in method.origins:
        raise CallInputError(
            f"{full_name(method)} needs Root. On a development chain, make it through Sudo.sudo", code="needs_root"
        )


async def _plan(client: ChainClient, built_call: Call, style: Style) -> PlannedCall:
    """Plan the call as the chain will read it, with the money that it moves."""
    require_pallets(built_call, client.runtime.pallets, client.chain)
    try:
        encoded_call = client.runtime.call_codec.encode(built_call)
    except EncodeError as error:
        raise CallInputError(f"{built_call.name} cannot be encoded: {error}", code="not_encodable") from None
    # Read back from the bytes to sign, so that a mistake in encoding shows before the signature.
    arguments: Any = written_arguments(client.runtime.call_codec.decode(encoded_call), style)
    if style is Style.PEOPLE:
        arguments = "\n".join(f"{name} = {_as_word(value)}" for name, value in arguments.items()) or "none"
    declared = client.runtime.parameters.parameters
    deposits = {name: await client.read(declared[name].item) for name in DEPOSITS.values()}
    moved_money = moved_by(built_call, deposits) + await _moved_by_posts(client, built_call)
    by_kind = {
        "sends": moved_money.sent,
        "locks": moved_money.locked,
        "prepays": moved_money.prepaid,
        "burns": moved_money.burned,
    }
    facts = {"arguments": arguments, "encoded": encoded_call}
    facts |= {name: Grains(grains) for name, grains in by_kind.items() if grains}
    return PlannedCall(built_call, facts, moved_money.total)


async def _moved_by_posts(client: ChainClient, built_call: Call) -> Moved:
    """Return the locks and prepayments of posted units, by the terms of their service."""
    moved_money = Moved()
    for post in posts_in(built_call):
        service, units = post.arguments
        for unit in units:
            quote = await client.query("GpuTasksApi_quote", service, unit.price_max, unit.racers)
            if quote is not None:
                moved_money += Moved(locked=quote.locked, prepaid=quote.prepaid)
    return moved_money


def _as_word(value: Any) -> str:
    """Return a value as on the command line."""
    return value if isinstance(value, str) else json.dumps(value)
