"""A runtime: a list of pallets, and its binding to a state for execution.

`Runtime` is immutable and created once for a chain. It owns everything derived from the pallets' declarations.
`Runtime.at(reader)` returns a `Bound`: new pallets over a new overlay.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import combinations
from typing import Any, TypeVar

from runtime.encoding.codec import Codec
from runtime.encoding.types import PalletOrigin, RuntimeVersion
from runtime.frame.call import CHAIN_ORIGINS, CallMethod
from runtime.frame.context import BaseFilter, ExecutionContext
from runtime.frame.pallet import Constant, Pallet
from runtime.frame.parameter_book import ParameterBook, ParameterTable
from runtime.frame.relations import Relation
from runtime.frame.runtime_codecs import RuntimeEvent, runtime_codecs
from runtime.frame.storage import StorageItem
from runtime.frame.storage_version import version_key, version_value
from runtime.state.overlay import Changes, Memory, StateReader

P = TypeVar("P", bound=Pallet)
I = TypeVar("I", bound=StorageItem)  # noqa: E741 - an item
RESERVED_INDICES = (0x6F,)
"""Reserved pallet indices: signing domains begin with this byte (runtime.cryptography.signing)."""


class Runtime:
    """The state transition of one chain, as declared by its pallets in order."""

    def __init__(
        self,
        pallets: Sequence[type[Pallet]],
        version: RuntimeVersion,
        numbers: Mapping[str, Any] | None = None,
        *,
        outside: Mapping[str, int] | None = None,
        relations: Sequence[Relation] = (),
        base_filter: BaseFilter | None = None,
    ) -> None:
        """Compile the pallets' declarations.

        `numbers` replaces defaults of constants and parameters: `{"Balances.existential_deposit": 1}`. `outside` are
        numbers that `relations` name and no pallet declares. `base_filter` returns True for the calls that the chain
        accepts at present, those in batches included. Root and the authors of blocks are not filtered. Raise ValueError
        if the declarations contradict each other.
        """
        self.pallets = tuple(pallets)
        self.base_filter = base_filter
        self.version = version
        self._check_indices()
        self.codecs, self.call_codec = runtime_codecs(self.pallets)
        self._check_origins()
        # System shows the version as a constant, but only the runtime knows it.
        given = {"System.version": version, **(numbers or {})}
        self.items = {pallet: self._compile_items(pallet, given) for pallet in self.pallets}
        self.constants = {pallet: self._chain_constants(pallet, given) for pallet in self.pallets}
        self.links = {pallet: self._linked(pallet) for pallet in self.pallets}
        self._refuse_unknown(dict(numbers or {}))
        self.parameters = self._parameter_table(dict(outside or {}), relations)

    def at(self, reader: StateReader) -> "Bound":
        """Return the pallets over this state. Nothing is written to `reader`."""
        return Bound(self, reader)

    def genesis(self, config: Mapping[str, dict[str, Any]], parameters: Mapping[str, int] | None = None) -> Changes:
        """Return the state of block 0: the parameters, then every pallet's `genesis`, in order.

        Raise ValueError for an unknown pallet or parameter, and for `parameters` (by name) out of bounds.
        """
        unknown = set(config) - {pallet.__name__ for pallet in self.pallets}
        if unknown:
            raise ValueError(f"no such pallet: {', '.join(sorted(unknown))}")
        entries = self.parameters.genesis(parameters or {})
        bound = self.at(Memory(entries))  # as the parent's state, because pallets read parameters from there
        for pallet in self.pallets:
            bound[pallet].genesis(config.get(pallet.__name__, {}))
        versions = {
            version_key(pallet.__name__): version_value(pallet.storage_version)
            for pallet in self.pallets
            if pallet.storage_version
        }
        return dict(sorted({**entries, **versions, **bound.overlay.changes()}.items()))

    def item(self, declaration: I) -> I:
        """Return a storage item with its codecs, unbound: for storage keys and values outside execution."""
        for items in self.items.values():
            compiled_item = items.get(declaration.attribute)
            if compiled_item is not None and compiled_item.prefix == declaration.prefix:
                return compiled_item  # type: ignore[return-value]
        raise KeyError(declaration.attribute)

    def method(self, pallet_name: str, call_name: str) -> CallMethod[Any, Any, Any]:
        """Return a call by its names. Raise KeyError if there is none."""
        for pallet in self.pallets:
            if pallet.__name__ == pallet_name:
                return {call_method.name: call_method for call_method in pallet.methods}[call_name]
        raise KeyError(pallet_name)

    @cached_property
    def event_codec(self) -> Codec[Any]:
        """The codec of any pallet's event."""
        return self.codecs.of(RuntimeEvent)

    def _check_indices(self) -> None:
        for first, other in combinations(self.pallets, 2):
            if first.index == other.index:
                raise ValueError(
                    f"pallet indices must be distinct: {first.__name__} and {other.__name__} have {first.index}"
                )
        for pallet in self.pallets:
            # A signed call must not look like a consensus message, nor such a message like a call.
            if pallet.index in RESERVED_INDICES:
                raise ValueError(f"{pallet.__name__}: pallet index {pallet.index:#x} is reserved")

    def _check_origins(self) -> None:
        """Raise ValueError for a call that no sender could make: its origin belongs to no listed pallet."""
        declared = {
            *CHAIN_ORIGINS,
            PalletOrigin,
            *(origin for pallet in self.pallets for origin in pallet.origins),
        }
        for pallet in self.pallets:
            for method in pallet.methods:
                undeclared = [origin.__name__ for origin in method.origins if origin not in declared]
                if undeclared:
                    raise ValueError(
                        f"{pallet.__name__}.{method.name}: no listed pallet declares the origin {undeclared[0]}"
                    )

    def _refuse_unknown(self, given: dict[str, Any]) -> None:
        declared = {
            f"{pallet.__name__}.{name}" for pallet in self.pallets for name in (*pallet.constants, *pallet.parameters)
        }
        # A misspelt name would silently leave the default in place.
        unknown = set(given) - declared
        if unknown:
            raise ValueError(f"no such constant or parameter: {', '.join(sorted(unknown))}")

    def _parameter_table(self, outside: dict[str, int], relations: Sequence[Relation]) -> ParameterTable:
        parameters, items, fixed = {}, {}, outside
        for pallet in self.pallets:
            for parameter in pallet.parameters.values():
                parameters[parameter.name] = parameter
                items[parameter.name] = self.item(parameter.item)
            for attribute, constant in pallet.constants.items():
                value = constant_value(pallet, constant, self)
                if isinstance(value, int):
                    fixed[f"{pallet.__name__}.{attribute}"] = value
        return ParameterTable(parameters, items, fixed, relations)

    def _compile_items(self, pallet: type[Pallet], given: dict[str, Any]) -> dict[str, StorageItem]:
        annotations = pallet.hints()
        unannotated = [name for name in pallet.items if name not in annotations]
        if unannotated:
            raise TypeError(f"{pallet.__name__}: {', '.join(unannotated)} must have an annotation")
        compiled = {name: item.compiled(annotations[name], self.codecs) for name, item in pallet.items.items()}
        for name, parameter in pallet.parameters.items():
            compiled[name].default = given.get(parameter.name, parameter.default)
        return compiled

    def _chain_constants(self, pallet: type[Pallet], given: dict[str, Any]) -> dict[str, Any]:
        full_names = {name: f"{pallet.__name__}.{name}" for name in pallet.constants}
        return {name: given[full_name] for name, full_name in full_names.items() if full_name in given}

    def _linked(self, pallet: type[Pallet]) -> dict[str, type[Pallet]]:
        """Return the pallets that this one uses: annotations without a value, of pallets listed before it."""
        earlier = self.pallets[: self.pallets.index(pallet)]
        links = {}
        for name, annotation in pallet.hints().items():
            if not isinstance(annotation, type) or not issubclass(annotation, Pallet):
                continue
            # Hooks and genesis run in list order: a later pallet would be only half prepared.
            if annotation not in earlier:
                raise ValueError(f"{pallet.__name__}.{name}: list {annotation.__name__} before it")
            links[name] = annotation
        return links


class Bound(ExecutionContext):
    """One execution: every pallet, over one overlay."""

    def __init__(self, runtime: Runtime, reader: StateReader) -> None:
        """Create the pallets over a state. Use `Runtime.at`."""
        super().__init__(reader, runtime.event_codec, runtime.base_filter)
        self.runtime = runtime
        self.parameters = ParameterBook(runtime.parameters, self.overlay)
        for pallet in runtime.pallets:
            bound = pallet(self, runtime.items[pallet], runtime.constants[pallet])
            attributes = bound.__dict__
            for name, linked in runtime.links[pallet].items():
                # Bound in list order, so a used pallet exists already (`_linked`).
                attributes[name] = self.members[linked]
            self.members[pallet] = bound

    def __getitem__(self, pallet: type[P]) -> P:
        """Return the pallet of this class."""
        return self.members[pallet]  # type: ignore[no-any-return]

    @property
    def pallets(self) -> tuple[Pallet, ...]:
        """All pallets, in order."""
        return tuple(self.members.values())


def constant_value(pallet: type[Pallet], declaration: Constant[Any], runtime: Runtime) -> Any:
    """Return the value of a constant on this chain."""
    return runtime.constants[pallet].get(declaration.attribute, declaration.default)
