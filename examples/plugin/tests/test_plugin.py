from linkwise import parse_topology
from linkwise.broker.broker import Broker
from linkwise.sim.sample_nodes import fleet_node
from linkwise.testing.cluster import device_pod, place
from linkwise.testing.plugins import plugged_in
from linkwise.vendors.machines import profile
from linkwise_moorethreads.dialect import MooreThreads
from linkwise_moorethreads.policy import HighestFirst
from linkwise_moorethreads.vendor import VENDOR

TEXT = """\
$ mthreads-gmi topo -m
      GPU0  GPU1
GPU0  X     MTL
GPU1  MTL   X
"""


def test_the_matrix_is_read() -> None:
    with plugged_in(vendor=VENDOR):
        topology = parse_topology(TEXT)
    assert topology.links[0][1].direct == 1
    assert topology.problems == topology.warnings == ()


def test_a_pair_of_devices_shares_an_mtlink() -> None:
    with plugged_in(vendor=VENDOR, dialect=MooreThreads(), policy=HighestFirst()):
        broker = Broker()
        broker.observe(fleet_node(profile("mtt-s4000"), "n1"), 0.0)
        pod = place(broker, device_pod("pair", 2, "mthreads.com/gpu"), "n1")
    assert '"policy":"link-affinity"' in pod.annotations["linkwise.dev/grant"]
    assert '"devices":["moorethreads-n1-0","moorethreads-n1-1"]' in pod.annotations["linkwise.dev/grant"]
