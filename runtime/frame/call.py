"""Calls: one method declares a transaction's arguments, their encoding and their execution.

    @call(index=3, weight=Weight(200_000_000))
    def transfer_keep_alive(self, origin: Signed, dest: MultiAddress, value: CompactBalance) -> None: ...

    Balances.transfer_keep_alive(dest=bob, value=5)                     # read off the class: a `Call`, data
    balances.transfer_keep_alive(Signed(alice), dest=bob, value=5)      # read off an instance: execution

The annotation of `origin` lists the allowed senders: an account, Root, the author, or an origin that a pallet declares.
Both forms have the types of the method's signature.
"""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, get_args, get_type_hints, overload

from runtime.encoding.codec import Codecs
from runtime.encoding.marks import record
from runtime.encoding.scale import Wire
from runtime.encoding.struct_codec import struct_wire
from runtime.encoding.type_info import FieldInfo, VariantInfo, sentences
from runtime.encoding.types import DispatchClass, Origin, PalletOrigin, Root, Signed, Unsigned, Weight

P = ParamSpec("P")
R = TypeVar("R")
O_contra = TypeVar("O_contra", bound=Origin, contravariant=True)

CALL_DEPTH_MAX = 4
"""The greatest nesting of calls inside calls (a batch of batches has depth 2). Decoding refuses more."""
CHAIN_ORIGINS: tuple[type[Any], ...] = (Signed, Root, Unsigned)
"""The origins of every chain. Pallets may declare more."""
DEFAULT_WEIGHT = Weight(100_000_000, 0)


@record
class PostDispatch:
    """A call's correction of its cost: whether the sender pays the fee, and the weight actually used."""

    pays_fee: bool = True
    actual_weight: Weight | None = None


FREE = PostDispatch(pays_fee=False)
"""Returned by a duty call that succeeded: the sender gets the fee back."""


@dataclass(slots=True, unsafe_hash=True)  # not a `record`: mypy would read its field as the descriptor that it holds
class Call:
    """A call as data: the method, and its arguments in order."""

    method: "CallMethod[Any, Any, Any]"
    arguments: tuple[Any, ...]

    @property
    def name(self) -> str:
        """The full name, such as `Balances.transfer_keep_alive`."""
        return f"{self.method.pallet.__name__}.{self.method.name}"

    @property
    def named_arguments(self) -> dict[str, Any]:
        """The arguments by name."""
        return dict(zip(self.method.parameters, self.arguments, strict=True))

    @property
    def weight(self) -> Weight:
        """The greatest weight of executing it."""
        call_weight = self.method.weight
        return call_weight(*self.arguments) if callable(call_weight) else call_weight

    def __repr__(self) -> str:
        """Return the call as source code."""
        arguments = ", ".join(f"{name}={argument!r}" for name, argument in self.named_arguments.items())
        return f"{self.name}({arguments})"


class CallMethod(Generic[O_contra, P, R]):
    """The descriptor that `@call` creates from a method."""

    def __init__(
        self,
        function: Callable[Concatenate[Any, O_contra, P], R],
        index: int,
        weight: Weight | Callable[..., Weight],
        dispatch_class: DispatchClass,
    ) -> None:
        """Take the parameters' names from `function`. The runtime reads the annotations later."""
        self.function = function
        self.index = index
        self.weight = weight
        self.dispatch_class = dispatch_class
        self.name = function.__name__
        self.docs = sentences(function.__doc__)
        self.pallet: type[Any]
        self.origins: tuple[type[Any], ...] = ()
        self.is_inherent = False  # True if only the author of a block may make this call
        self.parameters = tuple(signature(function).parameters)[2:]

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.pallet = owner

    @overload
    def __get__(self, pallet: None, owner: type[Any]) -> Callable[P, Call]: ...
    @overload
    def __get__(self, pallet: object, owner: type[Any]) -> Callable[Concatenate[O_contra, P], R]: ...
    def __get__(self, pallet: object | None, owner: type[Any]) -> Callable[..., Any]:
        """Return a builder of calls on the class, the bound method on an instance."""
        if pallet is None:
            return self._build
        return self.function.__get__(pallet, owner)  # type: ignore[no-any-return]

    def _build(self, *args: P.args, **kwargs: P.kwargs) -> Call:
        # None stands for `self` and the origin, which the call as data does not have.
        return Call(self, signature(self.function).bind(None, None, *args, **kwargs).args[2:])

    def hints(self) -> dict[str, Any]:
        """Return the annotations of the parameters, and set the origins that may call.

        Raise TypeError if an annotation is missing, or that of the origin is not an origin.
        """
        annotations = get_type_hints(self.function, include_extras=True)
        _self, origin_name, *_ = signature(self.function).parameters
        unannotated = [name for name in (origin_name, *self.parameters) if name not in annotations]
        if unannotated:
            raise TypeError(f"{self.pallet.__name__}.{self.name}: {', '.join(unannotated)} must have an annotation")
        origin_hint = annotations[origin_name]
        self.origins = get_args(origin_hint) or (origin_hint,)
        if any(origin not in CHAIN_ORIGINS and not issubclass(origin, PalletOrigin) for origin in self.origins):
            raise TypeError(f"{self.name}: {origin_hint} is not an origin")
        self.is_inherent = self.origins == (Unsigned,)
        if self.is_inherent:
            self.dispatch_class = DispatchClass.Mandatory
        return {name: annotations[name] for name in self.parameters}

    def accepts(self, origin: Origin) -> bool:
        """Return True if this origin may call. `PalletOrigin` in the annotation allows the origins of all pallets."""
        return type(origin) in self.origins or (isinstance(origin, PalletOrigin) and PalletOrigin in self.origins)

    def wire(self, codecs: Codecs) -> Wire:
        """Return the wire: it encodes pallet index, call index and arguments, and decodes the arguments alone."""
        annotations = self.hints().values()
        wires = [
            (f"value.arguments[{index}]", codecs.of(annotation).wire) for index, annotation in enumerate(annotations)
        ]
        tag_prefix = bytes((self.pallet.index, self.index))
        return struct_wire(wires, lambda *values: Call(self, values), tag_prefix)

    def variant(self, codecs: Codecs) -> VariantInfo:
        """Return this call as one alternative of its pallet's call type in metadata."""
        field_infos = []
        for name, annotation in self.hints().items():
            codec = codecs.of(annotation)
            field_infos.append(FieldInfo(name.rstrip("_"), codec.info, codec.type_name))
        return VariantInfo(self.name, self.index, tuple(field_infos), self.docs)


def call(
    *,
    index: int,
    weight: Weight | Callable[..., Weight] = DEFAULT_WEIGHT,
    dispatch_class: DispatchClass = DispatchClass.Normal,
) -> Callable[[Callable[Concatenate[Any, O_contra, P], R]], CallMethod[O_contra, P, R]]:
    """Declare a call: `index` is its tag, `weight` the most it takes (or a function of the arguments).

    The annotation `origin: Unsigned` declares an inherent: authors add it to blocks, it has the mandatory class and
    never enters the pool.
    """

    def wrap(function: Callable[Concatenate[Any, O_contra, P], R]) -> CallMethod[O_contra, P, R]:
        return CallMethod(function, index, weight, dispatch_class)

    return wrap
