"""`ParametersApi`: every number that the chain goes by and may change, with all that people need to judge it."""

from typing import Annotated

from runtime.encoding.codec import Bounded, struct
from runtime.encoding.types import Balance
from runtime.frame.api import RuntimeApi, query

PARAMETERS_MAX = 1_024
TEXT_BYTES_MAX = 512

Words = Annotated[str, Bounded(TEXT_BYTES_MAX)]


@struct
class ParameterStatus:
    """One parameter as a state has it."""

    name: Words
    """`TransactionPayment.base_fee`."""
    value: Balance
    least: Balance
    greatest: Balance
    unit: Words
    is_frozen: bool
    reason: Words


class ParametersApi(RuntimeApi, version=1):
    """The numbers that the chain goes by."""

    @query
    def parameters(self) -> Annotated[tuple[ParameterStatus, ...], Bounded(PARAMETERS_MAX)]:
        """Every parameter, as the next block goes by it, in the order of the pallets."""
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
