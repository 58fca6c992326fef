from typing import Any

from msgpack import exceptions as exceptions
from msgpack.exceptions import ExtraData as ExtraData
from msgpack.exceptions import FormatError as FormatError
from msgpack.exceptions import OutOfData as OutOfData
from msgpack.exceptions import StackError as StackError
from msgpack.exceptions import UnpackException as UnpackException

class Packer:
    def __init__(self, *, use_bin_type: bool = True, strict_types: bool = False) -> None: ...
    def pack(self, obj: object) -> bytes: ...

class Unpacker:
    def __init__(
        self,
        *,
        raw: bool = False,
        strict_map_key: bool = True,
        max_buffer_size: int = ...,
        max_str_len: int = ...,
        max_bin_len: int = ...,
        max_array_len: int = ...,
        max_map_len: int = ...,
        max_ext_len: int = ...,
    ) -> None: ...
    def feed(self, next_bytes: bytes) -> None: ...
    def unpack(self) -> Any: ...
    def tell(self) -> int: ...
    def __iter__(self) -> Unpacker: ...
    def __next__(self) -> Any: ...

def packb(o: object, *, use_bin_type: bool = True, strict_types: bool = False) -> bytes: ...
def unpackb(
    packed: bytes,
    *,
    raw: bool = False,
    use_list: bool = True,
    strict_map_key: bool = True,
    max_str_len: int = ...,
    max_bin_len: int = ...,
    max_array_len: int = ...,
    max_map_len: int = ...,
    max_ext_len: int = ...,
) -> Any: ...
