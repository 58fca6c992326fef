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
        table = self.runtime.parameters.parameters
        return tuple(
            ParameterStatus(
                name=name,
                value=value,
                least=table[name].least,
                greatest=table[name].greatest,
                unit=table[name].unit,
                is_frozen=table[name].is_frozen,
                reason=table[name].doc,
            )
            for name, value in self.bound.parameters.changed().items()
        )
