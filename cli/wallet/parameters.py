"""`parameters` and `set-parameter`: show the chain's parameters, and change one as Root."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cli.calls import PlannedCall, SendingOptions, make
from cli.session import WalletSession, reads
from runtime.frame.call import Call
from runtime.frame.parameter import ParameterChange
from runtime.interface.parameters_api import ParameterStatus
from runtime.pallets.chain_parameters import ChainParameters
from runtime.pallets.sudo import Sudo
from wallet.calls.declared import form_of
from wallet.calls.directory import require_pallets
from wallet.calls.form import ArgumentPlace
from wallet.calls.parameter_form import ParameterForm
from wallet.client import ChainClient, Payer
from wallet.errors import WalletError
from wallet.suggestions import suggestion

PARAMETER_COLUMNS = ("name", "value", "unit", "least", "greatest", "frozen", "reason")


@reads
async def parameters(session: WalletSession, client: ChainClient, begun: str) -> None:
    """Print the chain's parameters."""
    statuses = await _statuses(client)
    rows = [_row(each) for each in statuses if each.name.lower().startswith(begun.lower())]
    if not rows:
        raise WalletError(_unknown_parameter(begun, [each.name for each in statuses]), code="unknown_parameter")
    session.output.rows("Parameters", PARAMETER_COLUMNS, rows)


def _unknown_parameter(begun: str, names: list[str]) -> str:
    similar = suggestion(begun, names)
    hint = f"Did you mean {similar}?" if similar else "Leave NAME out to see all"
    return f"no parameter's name begins with {begun!r}. {hint}"


def _row(status: ParameterStatus) -> dict[str, Any]:
    return {
        "name": status.name,
        "value": status.value,
        "unit": status.unit,
        "least": status.least,
        "greatest": status.greatest,
        "frozen": status.is_frozen,
        "reason": status.reason,
    }


def set_parameter(session: WalletSession, name: str, value: str, key_text: str, sending: SendingOptions) -> None:
    """Set a parameter through the sudo key."""
    change = _typed(session, name, value)

    async def plan(client: ChainClient, _payer: Payer) -> PlannedCall:
        call = Sudo.sudo(call=ChainParameters.set_parameter(change=change))
        require_pallets(call, client.runtime.pallets, client.chain)
        statuses = await _statuses(client)
        if not sending.is_anyway:
            _check(client, change, {each.name: each.value for each in statuses})
        (now,) = [each for each in statuses if each.name == change.parameter.name]
        facts = {"parameter": now.name, "from_value": now.value, "to_value": change.value, "unit": now.unit}
        return PlannedCall(call, facts)

    make(session, key_text, sending, plan)


async def _statuses(client: ChainClient) -> tuple[ParameterStatus, ...]:
    found: tuple[ParameterStatus, ...] = await client.query("ParametersApi_parameters", at=await client.finalized())
    return found


def _typed(session: WalletSession, name: str, value: str) -> ParameterChange:
    """Read the typed change by the chain's declaration."""
    form = form_of(ParameterChange)
    assert isinstance(form, ParameterForm)
    at_name, at_value = (ArgumentPlace(where, session.account, _no_call) for where in ("NAME", "VALUE"))
    change: ParameterChange = form.read({form.named(name, at_name): value}, at_value)
    return change


def _no_call(name: str, _arguments: Any, _place: ArgumentPlace) -> Call:
    raise AssertionError(name)


def _check(client: ChainClient, change: ParameterChange, values: Mapping[str, int]) -> None:
    """Raise WalletError for a change that the chain would refuse, with the numbers that forbid it."""
    parameter, table = change.parameter, client.runtime.parameters
    if parameter.is_frozen:
        raise WalletError(f"{parameter.name} is frozen: nobody can change it", code="parameter_frozen")
    if not parameter.holds(change.value):
        bounds = f"{parameter.least} to {parameter.greatest} {parameter.unit}"
        raise WalletError(
            f"{parameter.name} goes from {bounds}, and {change.value} is outside", code="parameter_out_of_bounds"
        )
    changed = {**values, parameter.name: change.value}
    for relation in table.broken(changed):
        raise WalletError(
            f"{relation.explained({**table.fixed, **changed})}, which must hold: {relation.reason}",
            code="numbers_contradict",
        )
