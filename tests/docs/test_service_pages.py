"""Every metric and every route of the service and of the node agent is documented."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from linkwise.agent.http import AgentMetrics
from linkwise.agent.node_agent import NodeAgent
from linkwise.config.settings import AgentSettings
from linkwise.drivers.without_hardware import SimulatedDriver
from linkwise.net.timing import Timing
from linkwise.serve.app import application
from linkwise.testing.cluster import FakeNode, broker_of
from support.fakes.agent_cluster import NodeApi
from support.fakes.http_service import Served

if TYPE_CHECKING:
    from prometheus_client.core import Metric

REFERENCE = Path(__file__).resolve().parents[2] / "docs/reference"


def families() -> list[Metric]:
    """Metrics of the service and of the agent."""
    with Served(broker_of(FakeNode("a"))) as served:
        found = list(served.service.counting.registry.collect())
    api = NodeApi()
    agent = NodeAgent(AgentSettings(), "n", SimulatedDriver("dgx1-v100", "n"), api, api, Timing(), float)
    return [*found, *AgentMetrics(agent, dict).registry.collect()]


def test_every_metric_is_in_the_table_with_its_labels() -> None:
    text = (REFERENCE / "metrics.md").read_text()
    assert len(families()) > 20
    for family in families():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        row = next((line for line in text.splitlines() if line.startswith(f"| `{name}` |")), "")
        assert f"| {family.type} |" in row, name
        for sample in family.samples:
            assert all(f"`{label}`" in row for label in sample.labels if label != "le"), name


def test_no_metric_is_documented_that_does_not_exist() -> None:
    listed = set(re.findall(r"^\| `(linkwise_\w+)`", (REFERENCE / "metrics.md").read_text(), re.MULTILINE))
    assert listed == {f"{found.name}_total" if found.type == "counter" else found.name for found in families()}


@pytest.mark.parametrize("prefix", ["", "/gpushare-scheduler"])
def test_every_route_is_in_the_table(prefix: str) -> None:
    text = (REFERENCE / "http.md").read_text()
    with Served(broker_of()) as served:
        found = [route.path for route in application(served.service, dict).routes if route.path.startswith(prefix)]
    for path in found:
        words = re.sub(r"\{(\w+)(:\w+)?\}", lambda match: match[1].upper(), path)
        last = words.removeprefix("/gpushare-scheduler").removesuffix("/").replace("NAMESPACE/NAME", "NAMESPACE/POD")
        assert last in text, path
