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
    rows = [_row(status) for status in statuses if status.name.lower().startswith(begun.lower())]
    if not rows:
        raise WalletError(_unknown_parameter(begun, [status.name for status in statuses]), code="unknown_parameter")
    session.output.rows("Parameters", PARAMETER_COLUMNS, rows)


def _unknown_parameter(begun: str, names: list[str]) -> str:
    similar_name = suggestion(begun, names)
    advice = f"Did you mean {similar_name}?" if similar_name else "Leave NAME out to see all"
    return f"no parameter's name begins with {begun!r}. {advice}"


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
    typed_change = _typed(session, name, value)

    async def plan(client: ChainClient, _payer: Payer) -> PlannedCall:
        call = Sudo.sudo(call=ChainParameters.set_parameter(change=typed_change))
        require_pallets(call, client.runtime.pallets, client.chain)
        statuses = await _statuses(client)
        if not sending.is_anyway:
            _check(client, typed_change, {status.name: status.value for status in statuses})
        (present_status,) = [status for status in statuses if status.name == typed_change.parameter.name]
        facts = {
            "parameter": present_status.name,
            "from_value": present_status.value,
            "to_value": typed_change.value,
            "unit": present_status.unit,
        }
        return PlannedCall(call, facts)

    make(session, key_text, sending, plan)


async def _statuses(client: ChainClient) -> tuple[ParameterStatus, ...]:
    statuses: tuple[ParameterStatus, ...] = await client.query("ParametersApi_parameters", at=await client.finalized())
    return statuses


def _typed(session: WalletSession, name: str, value: str) -> ParameterChange:
    """Read the typed change by the chain's declaration."""
    form = form_of(ParameterChange)
    assert isinstance(form, ParameterForm)
    at_name, at_value = (ArgumentPlace(place, session.account, _no_call) for place in ("NAME", "VALUE"))
    typed_change: ParameterChange = form.read({form.named(name, at_name): value}, at_value)
    return typed_change


def _no_call(name: str, _arguments: Any, _place: ArgumentPlace) -> Call:
    raise AssertionError(name)


def _check(client: ChainClient, typed_change: ParameterChange, values: Mapping[str, int]) -> None:
    """Raise WalletError for a change that the chain would refuse, with the numbers that forbid it."""
    parameter, parameter_table = typed_change.parameter, client.runtime.parameters
    if parameter.is_frozen:
        raise WalletError(f"{parameter.name} is frozen: nobody can change it", code="parameter_frozen")
    if not parameter.holds(typed_change.value):
        bounds = f"{parameter.least} to {parameter.greatest} {parameter.unit}"
        raise WalletError(
            f"{parameter.name} goes from {bounds}, and {typed_change.value} is outside", code="parameter_out_of_bounds"
        )
    changed_values = {**values, parameter.name: typed_change.value}
    for relation in parameter_table.broken(changed_values):
        raise WalletError(
            f"{relation.explained({**parameter_table.fixed, **changed_values})}, which must hold: {relation.reason}",
            code="numbers_contradict",
        )
