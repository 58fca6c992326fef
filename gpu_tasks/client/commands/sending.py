"""How a command of `ogpu` sends a call: as `wallet/commands/making.py` does, shown, agreed to, and once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from runtime.frame.call import Call
from wallet.client import Outcome
from wallet.commands.making import PlannedCall
from wallet.output import Output

key_option = click.option("--key", "key_text", required=True, metavar="KEY", help="A stored key, or one like //Bob.")


def planned(
    output: Output,
    call: Call,
    terms: Mapping[str, Any],
    *,
    locks: int = 0,
    result: Callable[[Outcome], Mapping[str, Any]] = lambda _: {},
) -> PlannedCall:
    """A call with what is shown of it before it is sent, and after: programs get its terms again, people saw them."""
    again = terms if output.as_json else {}
    return PlannedCall(call, terms, locks, lambda outcome: {**again, **result(outcome), "sent": True})
