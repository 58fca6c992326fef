"""One execution as its pallets see it: where they write, what they tell, and how a call reaches its pallet.

`runtime.frame.runtime.Bound` is an execution with the pallets in it. It stands above the pallets' form, this below it,
so that neither needs to know the other.
"""

from typing import Any

from runtime.encoding.codec import Codec
from runtime.encoding.types import ApplyExtrinsic, Finalization, Initialization, Origin
from runtime.frame.call import Call, PostDispatch
from runtime.frame.errors import BadOrigin
from runtime.frame.parameter_book import ParameterBook
from runtime.frame.weights import MANDATORY_MAX
from runtime.state.overlay import Overlay, StateReader

_SUCCESS = PostDispatch()


class ExecutionContext:
    """The state under execution, its phase, the pallets by class, and all parameters together."""

    parameters: ParameterBook

    def __init__(self, reader: StateReader, event_codec: Codec[Any]) -> None:
        """Begin over the state `reader`, without pallets; `event_codec` is that of any pallet's event."""
        self.overlay = Overlay(reader)
        self.event_codec = event_codec
        self.phase: ApplyExtrinsic | Finalization | Initialization = Initialization()
        self.members: dict[type[Any], Any] = {}
        self.mandatory_left = MANDATORY_MAX.ref_time
        """Reference time that hooks and inherents of the block may still take."""

    def emit(self, happened: Any) -> None:
        """Put an event into the block, with the phase of execution it happened in."""
        self.overlay.events.append((self.phase, happened))

    def dispatch(self, call: Call, origin: Origin) -> PostDispatch:
        """Execute a call; DispatchError if it fails, and then the caller undoes its writes."""
        method = call.method
        if type(origin) not in method.origins:
            raise BadOrigin
        result = method.function(self.members[method.pallet], origin, *call.arguments)
        return result if isinstance(result, PostDispatch) else _SUCCESS
