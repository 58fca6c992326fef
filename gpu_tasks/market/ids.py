"""What things of the market are called on the chain."""

from runtime.encoding.codec import U32
from runtime.encoding.types import Hash

UnitId = Hash
DeviceId = Hash
TaskId = Hash
ServiceId = U32
