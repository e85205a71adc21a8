"""The allocator of the embedded scheduler, without a cluster: what kube-scheduler's structured allocator gives for the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from linkwise.dialects.kubernetes.claims.objects import slice_of
from linkwise.embedded.scheduler.device_allocator import Pool, PublishedSlice, allocate, claim_spec
from support.builders.dra_objects import DRIVER, device, resource_slice

if TYPE_CHECKING:
    from collections.abc import Collection

    from linkwise.embedded.storage.collection import Raw


def pool(*documents: Raw) -> Pool:
    published = []
    for document in documents:
        found = slice_of(document["metadata"]["name"], document)
        assert found is not None
        published.append(PublishedSlice(found, None, {}))
    return Pool(published)


def request(name: str = "main", count: int = 1, *expressions: str, **fields: Any) -> Raw:  # noqa: ANN401 - JSON
    selectors = [{"cel": {"expression": text}} for text in expressions]
    mode = {"allocationMode": "ExactCount", "count": count}
    return {"name": name, "exactly": {"deviceClassName": DRIVER, "selectors": selectors, **mode, **fields}}


def pin(name: str) -> str:
    return f'device.attributes["{DRIVER}"].uuid == "GPU-{name}"'


def chosen(*requests: Raw, pools: Collection[Pool], used: Collection[str] = ()) -> list[tuple[str, str]] | None:
    """Requests and devices; None if the claim can't be allocated."""
    spec = claim_spec({"spec": {"devices": {"requests": list(requests)}}})
    taken = {(DRIVER, "n", name) for name in used}
    found = allocate([spec], list(pools), {DRIVER: ()}, lambda _: True, taken)
    return None if found is None else [(each.name, device.name[2]) for each, device in found[0]]


def test_the_first_devices_that_fit_are_taken_in_the_order_of_the_slice() -> None:
    listed = pool(resource_slice("n", [device(f"gpu-{index}") for index in (2, 0, 1)]))
    assert chosen(request(count=2), pools=[listed], used=["gpu-0"]) == [("main", "gpu-2"), ("main", "gpu-1")]


def test_only_the_newest_generation_of_a_pool_counts() -> None:
    old = resource_slice("n", [device("old")], name="old")
    new = resource_slice("n", [device("new")], name="new", generation=2)
    assert chosen(request(), pools=[pool(old, new)]) == [("main", "new")]


def test_a_request_for_all_devices_needs_every_one_of_them() -> None:
    whole = pool(resource_slice("n", 3))
    every = request(count=0, allocationMode="All")
    assert chosen(every, pools=[whole]) == [("main", f"gpu-{index}") for index in range(3)]
    assert chosen(every, pools=[whole], used=["gpu-1"]) is None
    assert chosen(every, pools=[]) is None


def test_administrative_access_ignores_who_has_the_device() -> None:
    only = pool(resource_slice("n", 1))
    assert chosen(request(adminAccess=True), request("second"), pools=[only], used=["gpu-0"]) is None
    assert chosen(request(adminAccess=True), pools=[only], used=["gpu-0"]) == [("main", "gpu-0")]


def test_an_earlier_request_leaves_what_a_later_one_needs() -> None:
    whole = pool(resource_slice("n", 4))
    found = chosen(request("any", 3), request("first", 1, pin("gpu-0")), pools=[whole])
    assert found == [("any", "gpu-1"), ("any", "gpu-2"), ("any", "gpu-3"), ("first", "gpu-0")]


def test_a_search_that_takes_too_long_is_given_up() -> None:
    whole = pool(resource_slice("n", 32))
    assert chosen(request("many", 16), request("none", 1, pin("missing")), pools=[whole]) is None
