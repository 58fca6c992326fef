"""ChainParameters: the only call that changes a parameter.

The parameters are stored under the pallets that declare them (`runtime.frame.parameter`). Invariant: only Root changes
them, within the bounds, never a frozen one, and every relation keeps holding. A change takes effect with the next
block.
"""

from typing import Annotated

from runtime.encoding.codec import Bounded
from runtime.encoding.types import Balance
from runtime.frame.pallet import DispatchError, Pallet, Root, call, ensure, event
from runtime.frame.parameter import ParameterChange
from runtime.pallets.weights import WEIGHTS

NAME_BYTES_MAX = 128

ParameterName = Annotated[str, Bounded(NAME_BYTES_MAX)]


@event
class ParameterSet:
    """A parameter, such as `TransactionPayment.base_fee`, was changed from the next block on."""

    parameter: ParameterName
    old: Balance
    new: Balance


class FrozenParameter(DispatchError):
    """No origin may change this parameter."""


class OutOfBounds(DispatchError):
    """The value is out of the parameter's bounds."""


class RelationBroken(DispatchError):
    """The value breaks a relation between the chain's numbers."""


class ChainParameters(Pallet, index=13):
    """Changes of parameters."""

    events = (ParameterSet,)
    errors = (FrozenParameter, OutOfBounds, RelationBroken)

    @call(index=0, weight=WEIGHTS["ChainParameters.set_parameter"])
    def set_parameter(self, origin: Root, change: ParameterChange) -> None:
        """Set a parameter from the next block on. It does not affect work in progress."""
        parameter, value, parameter_book = change.parameter, change.value, self.context.parameters
        ensure(not parameter.is_frozen, FrozenParameter)
        ensure(parameter.holds(value), OutOfBounds)
        # Checked with the earlier changes of this block: two changes may break a relation together.
        ensure(not parameter_book.broken_by(parameter, value), RelationBroken)
        self.emit(ParameterSet(parameter.name, parameter_book.change(parameter, value), value))
