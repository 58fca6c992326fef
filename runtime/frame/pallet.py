"""The form of a pallet: one class with its storage, calls, events, errors, numbers, hold reasons and hooks.

    class Balances(Pallet, index=2):
        system: System                                             # another pallet, listed before this one
        total_issuance: StorageValue[Balance] = StorageValue(default=0)
        existential_deposit: Constant[Balance] = Constant(100_000)
        fee: Parameter[Balance] = Parameter(2_000, unit="grains", least=0, greatest=10_000, doc="Why there is one.")
        events = (Transfer, Endowed)
        errors = (InsufficientBalance,)
        hold_reasons = (LEASE,)

        @call(index=0)
        def transfer(self, origin: Signed, dest: MultiAddress, value: CompactBalance) -> None: ...

To add a pallet, write this class and list it in `genesis/chain.py`. Codec, metadata and builders of calls are derived.
A pallet changes state through storage items only. It is created for every execution, so plain attributes would not
survive, and setting one raises TypeError.

A large pallet derives from a storage base: a class that declares storage, numbers and used pallets, without an index.

    class StakeLedger(Pallet): ...                  # modules with the pallet's work import this
    class TrustStake(StakeLedger, index=7): ...     # calls, events, errors and hooks; imports those modules

The pallet owns the declarations of its base. They are stored under the pallet's name, in the order of declaration,
before the pallet's own. A base has exactly one pallet, since two could not both own its storage.
"""

from collections.abc import Callable
from inspect import get_annotations
from typing import Any, ClassVar, Generic, Self, TypeVar, dataclass_transform, overload

from runtime.encoding.codec import variant
from runtime.encoding.types import CallFilter, Origin, PalletOrigin, Root, Signed, Unsigned, Weight
from runtime.frame.call import FREE, Call, CallMethod, PostDispatch, call
from runtime.frame.context import ExecutionContext
from runtime.frame.errors import BadOrigin, DispatchError, ErrorValue, ensure, genesis_entry, known
from runtime.frame.holds import CaseId, Hold, HoldEnd, HoldReason
from runtime.frame.parameter import Parameter
from runtime.frame.schedule import ScheduleItem
from runtime.frame.storage import (
    Hasher,
    StorageDoubleMap,
    StorageItem,
    StorageMap,
    StorageTripleMap,
    StorageValue,
    camel_case,
)
from runtime.state.overlay import Overlay, Transaction

__all__ = [
    "FREE",
    "BadOrigin",
    "Call",
    "CallFilter",
    "CaseId",
    "Constant",
    "DispatchError",
    "Hasher",
    "Hold",
    "HoldEnd",
    "HoldReason",
    "Origin",
    "Pallet",
    "PalletOrigin",
    "Parameter",
    "PostDispatch",
    "Root",
    "ScheduleItem",
    "Signed",
    "StorageDoubleMap",
    "StorageMap",
    "StorageTripleMap",
    "StorageValue",
    "Unsigned",
    "Weight",
    "call",
    "ensure",
    "event",
    "genesis_entry",
    "known",
    "origin",
]

T = TypeVar("T")
D = TypeVar("D")
MODULE_ERROR_KIND = 3
_BY_POSITION = -1


class Constant(Generic[T]):
    """A value that a chain never changes, shown in metadata. The value here is the default. Chains set their own."""

    def __init__(self, default: T, *, name: str = "", doc: str = "") -> None:
        self.default = default
        self.name = name
        self.doc = doc
        self.attribute = ""

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.attribute = attribute
        self.name = self.name or camel_case(attribute)

    @overload
    def __get__(self, pallet: None, owner: type) -> Self: ...
    @overload
    def __get__(self, pallet: object, owner: type) -> T: ...
    def __get__(self, pallet: Any, owner: type) -> Any:
        """Return the declaration on the class, the chain's value on an instance."""
        if pallet is None:
            return self
        value = pallet.__dict__[self.attribute] = pallet.chain_constants.get(self.attribute, self.default)
        return value


@overload
def event(cls: type[T], /) -> type[T]: ...
@overload
def event(index: int, /) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True)
def event(cls: Any, /) -> Any:
    """Declare an event. `index` is its tag if that differs from the position in the pallet's `events`."""
    if isinstance(cls, int):
        return variant(cls)
    return variant(_BY_POSITION)(cls)


@dataclass_transform(frozen_default=True)
def origin(cls: type[T], /) -> type[T]:
    """Declare an origin of a pallet, a `PalletOrigin`. Its tag is its position in the pallet's `origins`."""
    return variant(_BY_POSITION)(cls)


class Pallet:
    """One part of the state transition. Subclasses are declarations. Instances execute one block."""

    index: ClassVar[int]
    events: ClassVar[tuple[type[Any], ...]] = ()
    errors: ClassVar[tuple[type[DispatchError], ...]] = ()
    hold_reasons: ClassVar[tuple[HoldReason, ...]] = ()
    origins: ClassVar[tuple[type[PalletOrigin], ...]] = ()
    variants: ClassVar[tuple[type[Any], ...]] = ()
    """The pallet's alternatives of open unions (`runtime.encoding.marks.Tagged`)."""
    storage_version: ClassVar[int] = 0
    """The version of its storage (`runtime.frame.storage_version`). 0 is the first."""
    methods: ClassVar[tuple[CallMethod[Any, Any, Any], ...]] = ()
    items: ClassVar[dict[str, StorageItem]] = {}
    schedules: ClassVar[dict[str, ScheduleItem[Any]]] = {}
    constants: ClassVar[dict[str, Constant[Any]]] = {}
    parameters: ClassVar[dict[str, Parameter[Any]]] = {}

    context: ExecutionContext
    overlay: Overlay
    compiled_items: dict[str, StorageItem]
    chain_constants: dict[str, Any]

    def __init_subclass__(cls, *, index: int | None = None) -> None:
        """Collect the declarations of a new pallet. Without an index, check that it qualifies as a storage base."""
        super().__init_subclass__()
        cls.methods = tuple(attribute for attribute in vars(cls).values() if isinstance(attribute, CallMethod))
        cls.constants = cls._declared(Constant)
        cls.parameters = cls._declared(Parameter)
        cls.schedules = cls._declared(ScheduleItem)
        cls.items = cls._storage() | {name: parameter.item for name, parameter in cls.parameters.items()}
        if index is None:
            if cls.methods or cls.events or cls.errors or cls.hold_reasons or cls.origins:
                raise TypeError(
                    f"{cls.__name__}: declare calls, events, errors, hold reasons and origins in the pallet with an "
                    "index, not in its storage base"
                )
            return
        if not 0 <= index < 256:
            raise TypeError(f"{cls.__name__}: a pallet's index is 0 to 255, not {index}")
        cls.index = index
        for item in cls.items.values():
            # A second pallet over the same storage base fails here.
            item.lie_under(cls.__name__)
        cls._number_declarations()

    @classmethod
    def _declared(cls, kind: type[D]) -> dict[str, D]:
        """Return the declarations of a kind by attribute, the storage base's before the class's own."""
        declarations = {}
        for base in reversed(cls.__mro__):
            declarations.update(
                {name: attribute for name, attribute in vars(base).items() if isinstance(attribute, kind)}
            )
        return declarations

    @classmethod
    def _storage(cls) -> dict[str, StorageItem]:
        """Return the storage items by attribute, those of schedules included, in the order of declaration."""
        items: dict[str, StorageItem] = {}
        for base in reversed(cls.__mro__):
            for name, attribute in vars(base).items():
                if isinstance(attribute, StorageItem):
                    items[name] = attribute
                elif isinstance(attribute, ScheduleItem):
                    items.update(attribute.parts)
        return items

    @classmethod
    def _number_declarations(cls) -> None:
        """Give errors, hold reasons and parameters their pallet and position, events and origins their position."""
        names_by_index: dict[int, str] = {}
        for method in cls.methods:
            other = names_by_index.setdefault(method.index, method.name)
            if other != method.name:
                raise TypeError(f"{cls.__name__}: {other} and {method.name} are both call {method.index}")
        cls._number_errors()
        for position, origin in enumerate(cls.origins):
            origin.__variant__ = position  # type: ignore[attr-defined]
        for position, event in enumerate(cls.events):
            if event.__variant__ == _BY_POSITION:
                event.__variant__ = position
        for position, reason in enumerate(cls.hold_reasons):
            reason.belong_to(cls.__name__, cls.index, position)
        for position, parameter in enumerate(cls.parameters.values()):
            parameter.belong_to(cls.__name__, cls.index, position)

    @classmethod
    def _number_errors(cls) -> None:
        for position, error in enumerate(cls.errors):
            if "value" in vars(error):
                raise TypeError(f"{error.__name__} already belongs to another pallet, or is a general error")
            error_index = position if error.place is None else error.place
            # The SDK encodes a module error as the pallet's index and four bytes.
            error.value = ErrorValue(MODULE_ERROR_KIND, bytes((cls.index, error_index, 0, 0, 0)))
        # `error_index` is set by hand and may collide with a position.
        if len({error.value for error in cls.errors}) < len(cls.errors):
            raise TypeError(f"{cls.__name__}: two errors have one number")

    @classmethod
    def hints(cls) -> dict[str, Any]:
        """Return the annotations of the storage base and of the class, resolved."""
        annotations: dict[str, Any] = {}
        # The base first, so that the order of declaration holds over both classes.
        for base in reversed(cls.__mro__[: cls.__mro__.index(Pallet)]):
            annotations.update(get_annotations(base, eval_str=True))
        for schedule_name in filter(annotations.__contains__, cls.schedules):
            annotations.update(cls.schedules[schedule_name].annotations(annotations[schedule_name]))
        return annotations

    def __init__(
        self, context: ExecutionContext, compiled: dict[str, StorageItem], chain_constants: dict[str, Any]
    ) -> None:
        """Bind the pallet to one execution. For the runtime only."""
        # Through the dictionary, because `__setattr__` refuses every assignment.
        attributes = self.__dict__
        attributes["context"] = context
        attributes["overlay"] = context.overlay
        attributes["compiled_items"] = compiled
        attributes["chain_constants"] = chain_constants

    def __setattr__(self, attribute: str, value: object) -> None:
        """Raise TypeError. Only writes to storage are undone after a failed call and present in the next block."""
        raise TypeError(f"{type(self).__name__}.{attribute}: a pallet has no state outside its storage items")

    def on_initialize(self) -> Weight | None:
        """Run before the first extrinsic, in the order of the pallets.

        The returned weight reduces the room for extrinsics. None means that the block's base weight covers it.
        """
        return None

    def on_finalize(self) -> None:
        """Run after the last extrinsic, in the order of the pallets."""

    def migrate(self, found: int) -> Weight:
        """Convert storage of version `found` into the current form, at the start of a block. Return the weight."""
        raise NotImplementedError(f"{type(self).__name__}: no migration from storage version {found}")

    def hold_end(self, hold: Hold) -> HoldEnd:
        """Return when this pallet releases a hold. Without an override, only an event does."""
        return HoldEnd()

    def genesis(self, config: dict[str, Any]) -> None:
        """Write the state of block 0 from this pallet's part of the chain specification (JSON values)."""

    def bound_item(self, attribute: str) -> StorageItem:
        """Return a new binding of a storage item to this execution's state."""
        return self.compiled_items[attribute].bound(self.overlay)

    def emit(self, happened: Any) -> None:
        """Add an event of this pallet to the block."""
        self.context.emit(happened)

    def transactional(self) -> Transaction:
        """Return a layer of writes and events that is undone if the body raises."""
        return self.overlay.transaction()

    def dispatch(self, call: Call, origin: Origin) -> PostDispatch:
        """Execute another call in a layer of its own. A DispatchError leaves no writes."""
        with self.overlay.transaction():
            return self.context.dispatch(call, origin)
