"""The file of the second kube-scheduler: what kube-scheduler's own validation wants, and what placing needs."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from linkwise.config.scheduler_config import DEFAULT_TLS_URL, WEIGHT, SchedulerFile, TlsFiles, scheduler_yaml
from linkwise.dialects.registry import DIALECTS, managed_resources, native_resources


def made(**wishes: Any) -> dict[str, Any]:  # noqa: ANN401 - any wish
    found: dict[str, Any] = yaml.safe_load(scheduler_yaml(SchedulerFile(**wishes)))
    return found


def extender(**wishes: Any) -> dict[str, Any]:  # noqa: ANN401 - any wish
    (found,) = made(**wishes)["extenders"]
    return dict(found)


def test_files_of_tls_are_those_that_kube_scheduler_reads() -> None:
    found = extender(url=DEFAULT_TLS_URL, tls=TlsFiles("/tls/ca.crt", "/tls/tls.crt", "/tls/tls.key"))
    assert (found["urlPrefix"], found["enableHTTPS"]) == ("https://linkwise.linkwise-system.svc:39999", True)
    assert found["tlsConfig"] == {"caFile": "/tls/ca.crt", "certFile": "/tls/tls.crt", "keyFile": "/tls/tls.key"}
    assert "enableHTTPS" not in extender()


def test_the_name_of_the_server_is_only_set_on_request() -> None:
    text = scheduler_yaml(SchedulerFile(url="https://10.0.0.7:1", tls=TlsFiles("a", "c", "k", "linkwise")))
    assert yaml.safe_load(text)["extenders"][0]["tlsConfig"]["serverName"] == "linkwise"
    assert "Never leave it out: without it, kube-scheduler does not verify the service" in text


def test_it_is_a_configuration_that_looks_at_all_nodes() -> None:
    found = made()
    assert (found["apiVersion"], found["kind"]) == ("kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration")
    assert found["percentageOfNodesToScore"] == 100
    assert [profile["schedulerName"] for profile in found["profiles"]] == ["linkwise-scheduler"]


def test_pods_whose_calls_failed_are_tried_again_soon_after_a_new_leader_answers() -> None:
    assert made()["podMaxBackoffSeconds"] == 2


def test_all_four_verbs_are_asked_by_name_and_failures_count() -> None:
    found = extender()
    verbs = {key: found[key] for key in found if key.endswith("Verb")}
    assert verbs == {f"{verb}Verb": verb for verb in ("filter", "prioritize", "preempt", "bind")}
    assert (found["nodeCacheCapable"], found["ignorable"], found["httpTimeout"]) == (True, False, "5s")
    assert found["urlPrefix"] == "http://linkwise.linkwise-system.svc:39999"


@pytest.mark.parametrize(
    ("url", "note"),
    [
        ("http://10.1.2.3:39999", "10.1.2.3 must be reachable from the scheduler"),
        ("http://127.0.0.1:39999", "both must share a network namespace"),
        ("http://linkwise.other.svc:39999", "can't resolve the name of a Service"),
    ],
)
def test_the_note_speaks_of_the_address_that_was_given(url: str, note: str) -> None:
    text = scheduler_yaml(SchedulerFile(url=url)).replace("\n  # ", " ")
    assert note in text
    assert "The Service of Linkwise" not in text


def test_one_rank_outweighs_all_that_is_in_tree() -> None:
    in_tree = {"TaintToleration": 3, "NodeAffinity": 2, "PodTopologySpread": 2, "InterPodAffinity": 2}
    most = 100 * (sum(in_tree.values()) + len({"NodeResourcesFit", "BalancedAllocation", "ImageLocality"}))
    assert WEIGHT * 10 > most >= (WEIGHT - 1) * 10
    assert extender()["weight"] == WEIGHT


def test_a_weight_that_ranks_can_outweigh_has_a_comment() -> None:
    assert "At 5 they can outweigh a better rank" in scheduler_yaml(SchedulerFile(weight=5)).replace("\n    # ", " ")


def test_every_resource_is_managed_and_counted_in_tree() -> None:
    managed = extender()["managedResources"]
    names = [entry["name"] for entry in managed]
    assert sorted([*names, *native_resources()]) == sorted(
        name for known in managed_resources().values() for name in known
    )
    assert len(set(names)) == len(names)
    assert {entry["ignoredByScheduler"] for entry in managed} == {False}


def test_names_that_kube_scheduler_refuses_are_left_out_and_reported() -> None:
    text = scheduler_yaml(SchedulerFile())
    comments = " ".join(line.strip("# ") for line in text.splitlines() if line.lstrip().startswith("#"))
    assert not [entry for entry in extender()["managedResources"] if "kubernetes.io/" in entry["name"]]
    assert {"alpha.kubernetes.io/nvidia-gpu", "kubernetes.io/gpu-core"} <= set(native_resources())
    assert all(name in comments for name in native_resources())


@pytest.mark.parametrize("dialect", managed_resources())
def test_each_listed_resource_is_a_word_of_its_dialect(dialect: str) -> None:
    (found,) = [known for known in DIALECTS if known.name == dialect]
    assert [name for name in managed_resources()[dialect] if not found.owns(name)] == []


def test_every_dialect_that_owns_resources_is_listed() -> None:
    owning = {
        dialect.name
        for dialect in DIALECTS
        if any(dialect.owns(name) for names in managed_resources().values() for name in names)
    }
    assert owning == set(managed_resources())
    assert {dialect.name for dialect in DIALECTS} == owning


def test_devices_are_packed_and_nothing_else_is_scored_by_fit() -> None:
    (profile,) = made()["profiles"]
    (fit,) = profile["pluginConfig"]
    strategy = fit["args"]["scoringStrategy"]
    assert (fit["name"], fit["args"]["kind"], strategy["type"]) == (
        *("NodeResourcesFit", "NodeResourcesFitArgs"),
        "MostAllocated",
    )
    assert {entry["name"] for entry in strategy["resources"]} == {
        entry["name"] for entry in extender()["managedResources"]
    }
    assert all(0 < entry["weight"] <= 100 for entry in strategy["resources"])


def test_every_pod_is_sent_only_if_asked_for() -> None:
    assert "managedResources" not in extender(every_pod=True)
    assert "every pod of this scheduler is sent" in scheduler_yaml(SchedulerFile(every_pod=True)).replace("\n  # ", " ")


def test_the_default_scheduler_keeps_its_usual_plugins() -> None:
    ours, usual = made(default_scheduler=True)["profiles"]
    assert usual == {"schedulerName": "default-scheduler"}
    assert "pluginConfig" in ours


def test_the_lease_is_its_own() -> None:
    assert made(name="gpu", namespace="ai")["leaderElection"] == {
        "leaderElect": True,
        "resourceName": "gpu",
        "resourceNamespace": "ai",
    }
    assert made(leader_elect=False)["leaderElection"] == {"leaderElect": False}


def test_a_scheduler_outside_the_cluster_gets_a_kubeconfig() -> None:
    assert "kubeconfig" not in made()["clientConnection"]
    assert made(kubeconfig="a.conf")["clientConnection"]["kubeconfig"] == "a.conf"
