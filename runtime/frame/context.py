"""One execution as its pallets see it: where they write, what they tell, and how a call reaches its pallet.

`runtime.frame.runtime.Bound` is an execution with the pallets in it. It stands above the pallets' form, this below it,
so that neither needs to know the other.
"""

from collections.abc import Callable
from typing import Any

from runtime.encoding.codec import Codec
from runtime.encoding.types import ApplyExtrinsic, Finalization, Initialization, Origin, Root, Signed, Unsigned
from runtime.frame.call import Call, PostDispatch
from runtime.frame.errors import BadOrigin, CallFiltered, ensure
from runtime.frame.parameter_book import ParameterBook
from runtime.frame.weights import MANDATORY_MAX
from runtime.state.overlay import Overlay, StateReader

_SUCCESS = PostDispatch()

BaseFilter = Callable[["ExecutionContext", Call], bool]
"""Whether a chain takes a call in this state, of whoever is neither Root nor the author of the block."""


class ExecutionContext:
    """The state under execution, its phase, the pallets by class, and all parameters together."""

    parameters: ParameterBook

    def __init__(self, reader: StateReader, event_codec: Codec[Any], base_filter: BaseFilter | None) -> None:
        """Begin over the state `reader`, without pallets; `event_codec` is that of any pallet's event."""
        self.overlay = Overlay(reader)
        self.base_filter = base_filter
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
        if self.base_filter is not None or (type(origin) is Signed and origin.filters):
            self._filter(call, origin)
        if type(origin) not in method.origins:
            ensure(method.accepts(origin), BadOrigin)
        result = method.function(self.members[method.pallet], origin, *call.arguments)
        return result if isinstance(result, PostDispatch) else _SUCCESS

    def _filter(self, call: Call, origin: Origin) -> None:
        """CallFiltered unless the chain and all that the origin is narrowed to allow the call. Root is not asked."""
        if isinstance(origin, Root | Unsigned):
            return
        ensure(self.base_filter is None or self.base_filter(self, call), CallFiltered)
        if isinstance(origin, Signed):
            ensure(all(allowed.allows(call) for allowed in origin.filters), CallFiltered)
