"""Effective amounts, case by case as Kubernetes counts them."""

from __future__ import annotations

import pytest

from linkwise import ContainerView, InputError, PodView
from linkwise.dialects.pod_resources import by_container, effective, resources_of

GPU = "nvidia.com/gpu"


def main(name: str, amount: str) -> ContainerView:
    return ContainerView(name, limits={GPU: amount})


def init(name: str, amount: str) -> ContainerView:
    return ContainerView(name, limits={GPU: amount}, init=True)


def sidecar(name: str, amount: str) -> ContainerView:
    return ContainerView(name, limits={GPU: amount}, init=True, sidecar=True)


def pod(*containers: ContainerView, overhead: str = "0") -> PodView:
    return PodView("default", "p", "u", containers, overhead={GPU: overhead})


@pytest.mark.parametrize(
    ("containers", "total"),
    [
        ([main("a", "1")], 1),
        ([main("a", "1"), main("b", "2")], 3),
        ([init("i", "1"), main("a", "2")], 2),
        ([init("i", "4"), main("a", "1")], 4),
        ([init("i", "2"), init("j", "3"), main("a", "1")], 3),
        ([sidecar("s", "1"), main("a", "2")], 3),
        ([sidecar("s", "1"), init("i", "4"), main("a", "2")], 5),
        ([init("i", "4"), sidecar("s", "1"), main("a", "2")], 4),
        ([init("i", "1"), sidecar("s", "1"), sidecar("t", "2"), main("a", "2")], 5),
        ([init("i", "3")], 3),
        ([sidecar("s", "2")], 2),
        ([], 0),
    ],
)
def test_init_containers_reuse_and_sidecars_add(containers: list[ContainerView], total: int) -> None:
    assert effective(pod(*containers), GPU) == total
    assert sum(by_container(pod(*containers), GPU).values()) == total


def test_overhead_is_added() -> None:
    assert effective(pod(main("a", "2"), overhead="1"), GPU) == 3


def test_an_init_container_lists_only_what_goes_beyond_the_others() -> None:
    assert by_container(pod(init("i", "4"), main("a", "1"), main("b", "0")), GPU) == {"a": 1, "i": 3}
    assert by_container(pod(init("i", "1"), main("a", "1")), GPU) == {"a": 1}


def test_what_belongs_to_no_container_is_an_input_error() -> None:
    with pytest.raises(InputError, match="in the pod's overhead, where no container can use it"):
        by_container(pod(main("a", "2"), overhead="1"), GPU)
    with pytest.raises(InputError, match="two containers are named 'a'; rename one of them"):
        by_container(pod(main("a", "1"), main("a", "2")), GPU)


def test_a_limit_stands_for_a_missing_request_and_the_request_counts() -> None:
    assert effective(pod(ContainerView("a", limits={GPU: "2"})), GPU) == 2
    assert effective(pod(ContainerView("a", requests={GPU: "1"}, limits={GPU: "2"})), GPU) == 1


def test_a_broken_amount_is_an_input_error() -> None:
    with pytest.raises(InputError, match="'two' is not a quantity"):
        effective(pod(main("a", "two")), GPU)


def test_resources_stand_in_the_order_of_the_pod() -> None:
    found = pod(ContainerView("a", requests={"cpu": "1"}, limits={GPU: "1", "cpu": "1"}), main("b", "1"))
    assert resources_of(found) == (GPU, "cpu")
