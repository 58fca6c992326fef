"""Runtime APIs: typed queries of a state, by `state_call` and from inside the node.

    class AccountNonceApi(RuntimeApi, version=1):
        @query
        def account_nonce(self, account: AccountId) -> Nonce:
            '''The next nonce of an account.'''
            return self.bound[System].account[account].nonce

Signatures give codec and metadata. An API only reads: its writes are discarded.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, TypeVar, get_type_hints

from runtime.cryptography.signatures import VerifySignature
from runtime.cryptography.signatures import verify as verify_signature
from runtime.encoding.codec import Codec, Codecs
from runtime.encoding.struct_codec import struct_wire
from runtime.encoding.type_info import UNIT, sentences
from runtime.encoding.types import RuntimeVersion
from runtime.frame.runtime import Bound, Runtime
from runtime.state.overlay import StateReader

F = TypeVar("F", bound=Callable[..., Any])


class UnknownApi(Exception):
    """No runtime API has this method."""


def query(function: F) -> F:
    """Mark a method of a `RuntimeApi` as callable from outside."""
    function.is_query = True  # type: ignore[attr-defined]
    return function


class RuntimeApi:
    """A family of queries. An instance answers over one state, that of the block `block_hash`."""

    api_version: ClassVar[int]
    queries: ClassVar[dict[str, Callable[..., Any]]] = {}

    def __init_subclass__(cls, *, version: int) -> None:
        """Collect the queries."""
        cls.api_version = version
        cls.queries = {
            name: attribute for name, attribute in vars(cls).items() if getattr(attribute, "is_query", False)
        }

    def __init__(self, apis: "Apis", reader: StateReader, block_hash: bytes, verify_signature: VerifySignature) -> None:
        """Create the API over the state `reader`, which follows the block `block_hash`."""
        self.apis = apis
        self.runtime = apis.runtime
        self.reader = reader
        self.block_hash = block_hash
        self.verify = verify_signature

    @cached_property
    def bound(self) -> Bound:
        """The pallets over the state."""
        return self.runtime.at(self.reader)

    @classmethod
    def identifier(cls) -> bytes:
        """Return the eight bytes under which a runtime's version lists it."""
        # As in Substrate: the 8-byte BLAKE2b hash of the API's name.
        return hashlib.blake2b(cls.__name__.encode(), digest_size=8).digest()


@dataclass(frozen=True, slots=True)
class ApiMethod:
    """A query with its codecs."""

    api: type[RuntimeApi]
    name: str
    function: Callable[..., Any]
    inputs: tuple[tuple[str, Codec[Any]], ...]
    arguments: Codec[tuple[Any, ...]]
    output: Codec[Any]

    @property
    def docs(self) -> tuple[str, ...]:
        """The query's documentation."""
        return sentences(self.function.__doc__)


class Apis:
    """All runtime APIs of a chain."""

    def __init__(self, runtime: Runtime, families: tuple[type[RuntimeApi], ...]) -> None:
        """Read the signatures of every query."""
        self.runtime = runtime
        self.families = families
        self.methods = {
            f"{family.__name__}_{name}": _method(family, name, function, runtime.codecs)
            for family in families
            for name, function in family.queries.items()
        }

    def call(
        self,
        reader: StateReader,
        block_hash: bytes,
        method: str,
        encoded_arguments: bytes,
        verify: VerifySignature = verify_signature,
    ) -> bytes:
        """Return the encoded answer of `method` (`Family_name`) to encoded arguments.

        Raise UnknownApi for an unknown method, DecodeError for malformed arguments.
        """
        api_method = self.methods.get(method)
        if api_method is None:
            raise UnknownApi(method)
        # A new instance for each query, so that its writes vanish with it.
        instance = api_method.api(self, reader, block_hash, verify)
        return api_method.output.encode(api_method.function(instance, *api_method.arguments.decode(encoded_arguments)))


def with_apis(version: RuntimeVersion, families: tuple[type[RuntimeApi], ...]) -> RuntimeVersion:
    """Return the version with these APIs listed. Clients choose their calls by that list."""
    return replace(version, apis=tuple((family.identifier(), family.api_version) for family in families))


def _method(family: type[RuntimeApi], name: str, function: Callable[..., Any], codecs: Codecs) -> ApiMethod:
    annotations = get_type_hints(function, include_extras=True)
    output = codecs.of(annotations.pop("return"))
    inputs = tuple((input_name, codecs.of(annotation)) for input_name, annotation in annotations.items())
    wires = [(f"value[{index}]", codec.wire) for index, (_, codec) in enumerate(inputs)]
    arguments = Codec(*struct_wire(wires, lambda *arguments_given: arguments_given), UNIT, "")
    return ApiMethod(family, name, function, inputs, arguments, output)
