"""scalecodec, the codec of substrate-interface, set up from our metadata alone: an independent reader of the chain."""

from typing import Any

from scalecodec.base import RuntimeConfigurationObject, ScaleBytes
from scalecodec.type_registry import load_type_registry_preset


class PublicClient:
    """Encodes and decodes by metadata of version 14."""

    def __init__(self, metadata: bytes) -> None:
        self._configuration = RuntimeConfigurationObject(implements_scale_info=True, ss58_format=42)
        self._configuration.update_type_registry(load_type_registry_preset("core"))
        self.metadata = self._object("MetadataVersioned", metadata)
        self._configuration.add_portable_registry(self.metadata)

    def _object(self, name: str, data: bytes) -> Any:
        made = self._configuration.create_scale_object(name, ScaleBytes(data))
        made.decode()
        if made.data.get_remaining_length():
            raise AssertionError(f"{name}: {made.data.get_remaining_length()} bytes left over")
        return made

    def decode(self, name: str, data: bytes) -> Any:
        """The value of a type, named `scale_info::N` or by an alias."""
        made = self._configuration.create_scale_object(name, ScaleBytes(data), metadata=self.metadata)
        made.decode()
        if made.data.get_remaining_length():
            raise AssertionError(f"{name}: {made.data.get_remaining_length()} bytes left over")
        return made.value

    def encode(self, name: str, value: Any) -> bytes:
        """The encoding of a value."""
        made = self._configuration.create_scale_object(name, metadata=self.metadata)
        return bytes(made.encode(value).data)

    def call(self, pallet: str, function: str, arguments: dict[str, Any]) -> bytes:
        """An encoded call, found by its names."""
        body = {"call_module": pallet, "call_function": function, "call_args": arguments}
        return self.encode("Call", body)

    def entry(self, pallet: str, name: str) -> Any:
        """A storage item as metadata declares it."""
        return self.metadata.get_metadata_pallet(pallet).get_storage_function(name)

    def storage(self, pallet: str, name: str, data: bytes) -> Any:
        """A stored value."""
        return self.decode(self.entry(pallet, name).get_value_type_string(), data)
