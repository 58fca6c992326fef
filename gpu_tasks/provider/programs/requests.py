"""The request of a task on the chain, checked against its hash.

Invariant: bidders, workers, and voters about a missing input refuse the same requests.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpu_tasks.data.unit_input import UnitInput
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training.orders import is_replicated
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.provider.blobs.inputs import SealedInput, UnusableInputError
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.tasks.container_order import container_hash
from gpu_tasks.tasks.container_request import CONTAINER_VERSION, REQUEST, ContainerRequest
from runtime.encoding.codec import DecodeError
from wallet.errors import CodedError


class UnfitProgramError(CodedError):
    """This provider does not run the program. The text states the reason."""


class ProgramError(CodedError):
    """The program cannot run at the moment. The text states the reason."""


@dataclass(frozen=True, slots=True)
class AskedProgram:
    """A request and its input, with the salt and the key to which outputs are sealed."""

    request: ContainerRequest
    given: UnitInput

    @property
    def reply_key(self) -> bytes:
        """The customer's reply key."""
        return self.given.reply_key


async def open_program(parts: Parts[object], task: Task) -> AskedProgram:
    """Return the request of a task that buys time.

    It raises the errors of `Inputs.open`: UnusableInputError, BlobError and ChainError.
    """
    order = task.order
    keepers = tuple(slot.provider for slot in task.slots)
    opened = await parts.inputs.open_sealed(SealedInput(order.input_blob, order.input_root, order.sealed_at, keepers))
    device_classes = tuple(device_class for device_class in DeviceClass if order.classes >> device_class & 1)
    # The hash on the chain binds request, classes and slots, so a customer cannot seal another request to some
    # providers.
    asked_hash = container_hash(opened.request, order.milestones, device_classes, order.slots)
    if asked_hash != order.task_hash:
        raise UnusableInputError("its request does not match its hash", code="other_hash")
    request = decoded(opened.request)
    # Replicas must compute the same result, so they would all need the secrets.
    if request.secrets and is_replicated(order):
        raise UnusableInputError(
            "it has secrets, which one winner receives, but several providers compute it", code="secrets_of_several"
        )
    return AskedProgram(request, opened)


def decoded(request_bytes: bytes) -> ContainerRequest:
    """Decode a request. Raise UnusableInputError if the bytes are invalid."""
    try:
        request = REQUEST.decode(request_bytes)
    except DecodeError as error:
        raise UnusableInputError(f"its request is invalid: {error}", code="invalid_request") from None
    if request.version != CONTAINER_VERSION:
        raise UnusableInputError(f"its request has the unknown version {request.version}", code="unknown_version")
    return request
