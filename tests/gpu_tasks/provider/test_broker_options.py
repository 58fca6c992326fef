"""The brokers that an operator may name, and the customers' view of them."""

import asyncio
from pathlib import Path

import pytest

from blob_servers import serving
from gpu_tasks.data.blob_client import BlobClient, BlobError
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.provider.chain.port import Identity
from gpu_tasks.provider.commands.options import ProviderError
from gpu_tasks.provider.commands.run import BrokerOptions
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.execution.worker_pool import WorkerPool
from gpu_tasks.provider.execution.worker_start import workers_with
from gpu_tasks.provider.execution.workloads import Workloads
from gpu_tasks.provider.watching.broadcast import TaskBroadcast
from runtime.cryptography.signatures import Scheme
from wallet.errors import WalletError
from wallet.keypair import Keypair

IDENTITY = Identity.of(b"s" * 32, Keypair.from_seed(Scheme.ED25519, b"p" * 32), b"g" * 32)
WORKSHOP = WorkerPool([Hardware("CPU", "CPU-1", DeviceClass.CPU, 0, None)], Workloads(), workers_with("numpy"))
LOCAL, PUBLIC = "mqtt://127.0.0.1:1883", "mqtts://gpu.example.org"


def made(options: BrokerOptions, *, private: bool) -> TaskBroadcast | None:
    async def main() -> TaskBroadcast | None:
        return options.broadcast(IDENTITY, WORKSHOP, lambda _: None, is_private=private)

    return asyncio.run(main())


def test_without_a_broker_nothing_is_told() -> None:
    assert made(BrokerOptions(None, None, None), private=False) is None


@pytest.mark.parametrize(
    ("url", "public", "private", "told"),
    [(LOCAL, None, True, LOCAL), (LOCAL, PUBLIC, False, PUBLIC), (PUBLIC, None, False, PUBLIC)],
)
def test_customers_are_told_an_address_that_they_reach(
    url: str, public: str | None, told: str, *, private: bool
) -> None:
    options = BrokerOptions(url, public, None)
    assert made(options, private=private) is not None
    assert options.advertised == told


@pytest.mark.parametrize(("url", "public"), [(LOCAL, None), (LOCAL, "mqtt://10.0.0.1"), ("gpu.example.org", None)])
def test_an_address_that_they_do_not_reach_is_refused(url: str, public: str | None) -> None:
    with pytest.raises(ProviderError, match="--mqtt"):
        made(BrokerOptions(url, public, None), private=False)


def test_the_login_is_read_from_a_private_file(tmp_path: Path) -> None:
    file = tmp_path / "login"
    options = BrokerOptions(LOCAL, None, file)
    with pytest.raises(ProviderError, match="--mqtt-login-file"):
        made(options, private=True)
    file.write_text("me:se:cret\n")
    file.chmod(0o644)
    with pytest.raises(WalletError):
        made(options, private=True)
    file.chmod(0o600)
    broadcast = made(options, private=True)
    assert broadcast is not None
    assert broadcast._sender.login == ("me", "se:cret")


def test_a_store_says_where_the_broker_is(tmp_path: Path) -> None:
    async def asked(endpoint: str) -> str:
        async with BlobClient(private=True) as blobs:
            return await blobs.broker_of(endpoint)

    with serving(tmp_path / "with", PUBLIC) as endpoint:
        assert asyncio.run(asked(endpoint)) == PUBLIC
    with serving(tmp_path / "without") as endpoint, pytest.raises(BlobError, match="404 this provider"):
        asyncio.run(asked(endpoint))
