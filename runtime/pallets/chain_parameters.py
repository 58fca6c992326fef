"""ChainParameters: the one call that changes a number which the chain goes by.

The numbers themselves lie under the pallets that declare them (`runtime.frame.parameter`). Always: a change is Root's,
lies within the bounds, touches no frozen parameter and keeps every relation; it holds from the next block on.
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
    """A parameter, such as `TransactionPayment.base_fee`, has another value from the next block on."""

    parameter: ParameterName
    old: Balance
    new: Balance


class FrozenParameter(DispatchError):
    """No origin may change this parameter."""


class OutOfBounds(DispatchError):
    """The value lies beyond the parameter's bounds."""


class RelationBroken(DispatchError):
    """With this value an inequality between the chain's numbers would not hold."""


class ChainParameters(Pallet, index=13):
    """Changes what the chain goes by."""

    events = (ParameterSet,)
    errors = (FrozenParameter, OutOfBounds, RelationBroken)

    @call(index=0, weight=WEIGHTS["ChainParameters.set_parameter"])
    def set_parameter(self, origin: Root, change: ParameterChange) -> None:
        """Give a parameter another value, from the next block on; nothing that is under way goes by it."""
        parameter, value, book = change.parameter, change.value, self.context.parameters
        ensure(not parameter.is_frozen, FrozenParameter)
        ensure(parameter.holds(value), OutOfBounds)
        ensure(not book.broken_by(parameter, value), RelationBroken)
        self.emit(ParameterSet(parameter.name, book.change(parameter, value), value))
