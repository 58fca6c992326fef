"""`ParametersApi`: every parameter of the chain, with its bounds and reason."""

from typing import Annotated

from runtime.encoding.codec import Bounded, struct
from runtime.encoding.types import Balance
from runtime.frame.api import RuntimeApi, query

PARAMETERS_MAX = 1_024
TEXT_BYTES_MAX = 512

Words = Annotated[str, Bounded(TEXT_BYTES_MAX)]


@struct
class ParameterStatus:
    """One parameter in a state."""

    name: Words
    """The full name, such as `TransactionPayment.base_fee`."""
    value: Balance
    least: Balance
    greatest: Balance
    unit: Words
    is_frozen: bool
    reason: Words


class ParametersApi(RuntimeApi, version=1):
    """The parameters of the chain."""

    @query
    def parameters(self) -> Annotated[tuple[ParameterStatus, ...], Bounded(PARAMETERS_MAX)]:
        """Return every parameter with its value for the next block, in the order of the pallets."""
        parameter_table = self.runtime.parameters.parameters
        return tuple(
            ParameterStatus(
                name=parameter_name,
                value=current_value,
                least=parameter_table[parameter_name].least,
                greatest=parameter_table[parameter_name].greatest,
                unit=parameter_table[parameter_name].unit,
                is_frozen=parameter_table[parameter_name].is_frozen,
                reason=parameter_table[parameter_name].doc,
            )
            for parameter_name, current_value in self.bound.parameters.changed().items()
        )
