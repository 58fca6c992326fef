"""The environment of one execution: overlay, events, and the dispatch of calls to pallets.

`runtime.frame.runtime.Bound` is an execution with its pallets. That class imports `runtime.frame.pallet`, and `pallet`
imports this module, so that neither needs to import the other.
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
"""Returns True if the chain accepts a call in this state. Not used for Root and a block's author."""


class ExecutionContext:
    """The state under execution, its phase, the pallets by class, and all parameters together."""

    parameters: ParameterBook

    def __init__(self, reader: StateReader, event_codec: Codec[Any], base_filter: BaseFilter | None) -> None:
        """Start over the state `reader`, without pallets. `event_codec` encodes any pallet's event."""
        self.overlay = Overlay(reader)
        self.base_filter = base_filter
        self.event_codec = event_codec
        self.phase: ApplyExtrinsic | Finalization | Initialization = Initialization()
        self.members: dict[type[Any], Any] = {}
        self.mandatory_left = MANDATORY_MAX.ref_time
        """The reference time left to hooks and inherents of the block."""

    def emit(self, happened: Any) -> None:
        """Add an event to the block, with the current phase of execution."""
        self.overlay.events.append((self.phase, happened))

    def dispatch(self, call: Call, origin: Origin) -> PostDispatch:
        """Execute a call. Raise DispatchError if it fails. The caller must then undo its writes."""
        method = call.method
        # Most calls have neither filter: this test saves them a method call.
        if self.base_filter is not None or (type(origin) is Signed and origin.filters):
            self._filter(call, origin)
        if type(origin) not in method.origins:
            ensure(method.accepts(origin), BadOrigin)
        dispatch_result = method.function(self.members[method.pallet], origin, *call.arguments)
        return dispatch_result if isinstance(dispatch_result, PostDispatch) else _SUCCESS

    def _filter(self, call: Call, origin: Origin) -> None:
        """Raise CallFiltered unless the chain and all filters of the origin allow the call. Root is not filtered."""
        # Root must be able to repair a chain, and inherents are needed for every block.
        if isinstance(origin, Root | Unsigned):
            return
        ensure(self.base_filter is None or self.base_filter(self, call), CallFiltered)
        if isinstance(origin, Signed):
            ensure(all(origin_filter.allows(call) for origin_filter in origin.filters), CallFiltered)
