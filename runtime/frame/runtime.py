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
        given_numbers = {"System.version": version, **(numbers or {})}
        self.items = {pallet_class: self._compile_items(pallet_class, given_numbers) for pallet_class in self.pallets}
        self.constants = {
            pallet_class: self._chain_constants(pallet_class, given_numbers) for pallet_class in self.pallets
        }
        self.links = {pallet_class: self._linked(pallet_class) for pallet_class in self.pallets}
        self._refuse_unknown(dict(numbers or {}))
        self.parameters = self._parameter_table(dict(outside or {}), relations)

    def at(self, reader: StateReader) -> "Bound":
        """Return the pallets over this state. Nothing is written to `reader`."""
        return Bound(self, reader)

    def genesis(self, config: Mapping[str, dict[str, Any]], parameters: Mapping[str, int] | None = None) -> Changes:
        """Return the state of block 0: the parameters, then every pallet's `genesis`, in order.

        Raise ValueError for an unknown pallet or parameter, and for `parameters` (by name) out of bounds.
        """
        unknown_pallets = set(config) - {pallet_class.__name__ for pallet_class in self.pallets}
        if unknown_pallets:
            raise ValueError(f"no such pallet: {', '.join(sorted(unknown_pallets))}")
        parameter_entries = self.parameters.genesis(parameters or {})
        bound_pallets = self.at(
            Memory(parameter_entries)
        )  # as the parent's state, because pallets read parameters from there
        for pallet_class in self.pallets:
            bound_pallets[pallet_class].genesis(config.get(pallet_class.__name__, {}))
        version_entries = {
            version_key(pallet_class.__name__): version_value(pallet_class.storage_version)
            for pallet_class in self.pallets
            if pallet_class.storage_version
        }
        return dict(sorted({**parameter_entries, **version_entries, **bound_pallets.overlay.changes()}.items()))

    def item(self, declaration: I) -> I:
        """Return a storage item with its codecs, unbound: for storage keys and values outside execution."""
        for pallet_items in self.items.values():
            compiled_item = pallet_items.get(declaration.attribute)
            if compiled_item is not None and compiled_item.prefix == declaration.prefix:
                return compiled_item  # type: ignore[return-value]
        raise KeyError(declaration.attribute)

    def method(self, pallet_name: str, call_name: str) -> CallMethod[Any, Any, Any]:
        """Return a call by its names. Raise KeyError if there is none."""
        for pallet_class in self.pallets:
            if pallet_class.__name__ == pallet_name:
                return {call_method.name: call_method for call_method in pallet_class.methods}[call_name]
        raise KeyError(pallet_name)

    @cached_property
    def event_codec(self) -> Codec[Any]:
        """The codec of any pallet's event."""
        return self.codecs.of(RuntimeEvent)

    def _check_indices(self) -> None:
        for first_pallet, other_pallet in combinations(self.pallets, 2):
            if first_pallet.index == other_pallet.index:
                raise ValueError(
                    f"pallet indices must be distinct: {first_pallet.__name__} and {other_pallet.__name__} have "
                    f"{first_pallet.index}"
                )
        for pallet_class in self.pallets:
            # A signed call must not look like a consensus message, nor such a message like a call.
            if pallet_class.index in RESERVED_INDICES:
                raise ValueError(f"{pallet_class.__name__}: pallet index {pallet_class.index:#x} is reserved")

    def _check_origins(self) -> None:
        """Raise ValueError for a call that no sender could make: its origin belongs to no listed pallet."""
        declared = {
            *CHAIN_ORIGINS,
            PalletOrigin,
            *(origin_type for pallet_class in self.pallets for origin_type in pallet_class.origins),
        }
        for pallet_class in self.pallets:
            for call_method in pallet_class.methods:
                undeclared = [
                    origin_type.__name__ for origin_type in call_method.origins if origin_type not in declared
                ]
                if undeclared:
                    raise ValueError(
                        f"{pallet_class.__name__}.{call_method.name}: no listed pallet declares the origin "
                        f"{undeclared[0]}"
                    )

    def _refuse_unknown(self, given_numbers: dict[str, Any]) -> None:
        declared = {
            f"{pallet_class.__name__}.{attribute_name}"
            for pallet_class in self.pallets
            for attribute_name in (*pallet_class.constants, *pallet_class.parameters)
        }
        # A misspelt name would silently leave the default in place.
        unknown_names = set(given_numbers) - declared
        if unknown_names:
            raise ValueError(f"no such constant or parameter: {', '.join(sorted(unknown_names))}")

    def _parameter_table(self, outside_numbers: dict[str, int], relations: Sequence[Relation]) -> ParameterTable:
        parameters, storage_items, fixed_numbers = {}, {}, outside_numbers
        for pallet_class in self.pallets:
            for parameter in pallet_class.parameters.values():
                parameters[parameter.name] = parameter
                storage_items[parameter.name] = self.item(parameter.item)
            for attribute, constant in pallet_class.constants.items():
                constant_number = constant_value(pallet_class, constant, self)
                if isinstance(constant_number, int):
                    fixed_numbers[f"{pallet_class.__name__}.{attribute}"] = constant_number
        return ParameterTable(parameters, storage_items, fixed_numbers, relations)

    def _compile_items(self, pallet_class: type[Pallet], given_numbers: dict[str, Any]) -> dict[str, StorageItem]:
        annotations = pallet_class.hints()
        unannotated = [attribute_name for attribute_name in pallet_class.items if attribute_name not in annotations]
        if unannotated:
            raise TypeError(f"{pallet_class.__name__}: {', '.join(unannotated)} must have an annotation")
        compiled_items = {
            attribute_name: declared_item.compiled(annotations[attribute_name], self.codecs)
            for attribute_name, declared_item in pallet_class.items.items()
        }
        for attribute_name, parameter in pallet_class.parameters.items():
            compiled_items[attribute_name].default = given_numbers.get(parameter.name, parameter.default)
        return compiled_items

    def _chain_constants(self, pallet_class: type[Pallet], given_numbers: dict[str, Any]) -> dict[str, Any]:
        full_names = {
            attribute_name: f"{pallet_class.__name__}.{attribute_name}" for attribute_name in pallet_class.constants
        }
        return {
            attribute_name: given_numbers[full_name]
            for attribute_name, full_name in full_names.items()
            if full_name in given_numbers
        }

    def _linked(self, pallet_class: type[Pallet]) -> dict[str, type[Pallet]]:
        """Return the pallets that this one uses: annotations without a value, of pallets listed before it."""
        earlier_pallets = self.pallets[: self.pallets.index(pallet_class)]
        linked_pallets = {}
        for attribute_name, annotation in pallet_class.hints().items():
            if not isinstance(annotation, type) or not issubclass(annotation, Pallet):
                continue
            # Hooks and genesis run in list order: a later pallet would be only half prepared.
            if annotation not in earlier_pallets:
                raise ValueError(f"{pallet_class.__name__}.{attribute_name}: list {annotation.__name__} before it")
            linked_pallets[attribute_name] = annotation
        return linked_pallets


class Bound(ExecutionContext):
    """One execution: every pallet, over one overlay."""

    def __init__(self, runtime: Runtime, reader: StateReader) -> None:
        """Create the pallets over a state. Use `Runtime.at`."""
        super().__init__(reader, runtime.event_codec, runtime.base_filter)
        self.runtime = runtime
        self.parameters = ParameterBook(runtime.parameters, self.overlay)
        for pallet_class in runtime.pallets:
            bound_pallet = pallet_class(self, runtime.items[pallet_class], runtime.constants[pallet_class])
            attributes = bound_pallet.__dict__
            for attribute_name, linked_class in runtime.links[pallet_class].items():
                # Bound in list order, so a used pallet exists already (`_linked`).
                attributes[attribute_name] = self.members[linked_class]
            self.members[pallet_class] = bound_pallet

    def __getitem__(self, pallet_class: type[P]) -> P:
        """Return the pallet of this class."""
        return self.members[pallet_class]  # type: ignore[no-any-return]

    @property
    def pallets(self) -> tuple[Pallet, ...]:
        """All pallets, in order."""
        return tuple(self.members.values())


def constant_value(pallet_class: type[Pallet], declaration: Constant[Any], runtime: Runtime) -> Any:
    """Return the value of a constant on this chain."""
    return runtime.constants[pallet_class].get(declaration.attribute, declaration.default)
