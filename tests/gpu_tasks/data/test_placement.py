from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.data.blob_client import COPIES, STORES_ASKED_MAX, stores_for

ENDPOINTS = [f"http://10.0.0.{number}:9750" for number in range(STORES_ASKED_MAX)]
ADDRESS = st.binary(min_size=32, max_size=32)


@given(ADDRESS, st.permutations(ENDPOINTS))
def test_everybody_finds_the_same_stores(address: bytes, endpoints: list[str]) -> None:
    assert stores_for(address, endpoints) == stores_for(address, ENDPOINTS + ENDPOINTS[:3])
    assert sorted(stores_for(address, endpoints)) == sorted(ENDPOINTS)


@given(ADDRESS, st.sampled_from(ENDPOINTS))
def test_a_store_that_leaves_moves_no_others_blobs(address: bytes, gone: str) -> None:
    before = stores_for(address, ENDPOINTS)
    assert stores_for(address, [one for one in ENDPOINTS if one != gone]) == [one for one in before if one != gone]


def test_a_search_ends() -> None:
    many = [f"http://10.0.{number // 256}.{number % 256}:9750" for number in range(4_000)]
    assert len(stores_for(bytes(32), many)) == STORES_ASKED_MAX


def test_blobs_spread_evenly() -> None:
    counts = dict.fromkeys(ENDPOINTS, 0)
    for number in range(2000):
        for endpoint in stores_for(number.to_bytes(32, "big"), ENDPOINTS)[:COPIES]:
            counts[endpoint] += 1
    expected = 2000 * COPIES // len(ENDPOINTS)
    assert all(expected * 3 // 4 < count < expected * 5 // 4 for count in counts.values())
