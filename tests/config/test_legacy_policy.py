"""An old policy file is convert_policy: what is kept, what is changed, and what is reported."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from linkwise.config.legacy_policy import convert_policy, read_policy
from linkwise.config.scheduler_config import WEIGHT, SchedulerFile, TlsFiles, scheduler_yaml
from linkwise.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

GPUSHARE: dict[str, Any] = {
    "urlPrefix": "http://10.1.2.3:32766/gpushare-scheduler",
    "filterVerb": "filter",
    "bindVerb": "bind",
    "enableHttps": False,
    "nodeCacheCapable": True,
    "managedResources": [{"name": "aliyun.com/gpu-mem", "ignoredByScheduler": False}],
    "ignorable": False,
}
OTHER = {"urlPrefix": "http://other:1/x", "filterVerb": "f", "bindVerb": "b", "httpTimeout": 1500000000}


def policy(*extenders: dict[str, Any], **top: Any) -> str:  # noqa: ANN401 - JSON
    return json.dumps({"kind": "Policy", "apiVersion": "v1", "extenders": list(extenders), **top}, indent=2)


def text_of(folder: Path, text: str, url: str = "", **wishes: Any) -> str:  # noqa: ANN401 - any wish
    file = folder / "policy.json"
    file.write_text(text, "utf-8")
    return convert_policy(read_policy(file), SchedulerFile(**wishes), url=url)


def made(folder: Path, text: str, url: str = "", **wishes: Any) -> dict[str, Any]:  # noqa: ANN401 - any wish
    found: dict[str, Any] = yaml.safe_load(text_of(folder, text, url, **wishes))
    return found


def comments(text: str) -> str:
    return " ".join(line.strip("# ") for line in text.splitlines() if line.lstrip().startswith("#"))


def wrong(folder: Path, text: str) -> str:
    with pytest.raises(InputError) as comment:
        text_of(folder, text)
    return str(comment.value).replace(f"{folder}/", "")


@pytest.mark.rule("004.policy-file")
def test_url_and_resources_are_kept_and_the_missing_verbs_added(tmp_path: Path) -> None:
    found = made(tmp_path, policy(GPUSHARE))
    (extender,) = found["extenders"]
    assert (found["kind"], extender["urlPrefix"]) == ("KubeSchedulerConfiguration", GPUSHARE["urlPrefix"])
    assert extender["managedResources"] == GPUSHARE["managedResources"]
    assert (extender["prioritizeVerb"], extender["preemptVerb"], extender["weight"]) == (
        "prioritize",
        "preempt",
        WEIGHT,
    )


@pytest.mark.rule("004.policy-file")
def test_the_seeds_own_file_is_converted(shared: Path, tmp_path: Path) -> None:
    seed = next((shared / "seeds").glob("004_*")).read_text("utf-8")
    found = [block for block in re.findall(r"```json\n(.*?)```", seed, re.DOTALL) if '"Policy"' in block]
    assert len(found) == 2
    for block in found:
        (extender,) = made(tmp_path, block)["extenders"]
        assert extender["urlPrefix"] == "http://127.0.0.1:32766/gpushare-scheduler"
        assert extender["managedResources"] == [{"name": "aliyun.com/gpu-mem", "ignoredByScheduler": False}]
        assert "A NodePort may not be reachable on the loopback address" in comments(text_of(tmp_path, block))


@pytest.mark.parametrize("form", ["yaml", "tabs"])
def test_yaml_and_tabs_are_read_as_well(tmp_path: Path, form: str) -> None:
    document = json.loads(policy(GPUSHARE))
    text = yaml.safe_dump(document) if form == "yaml" else json.dumps(document, indent="\t")
    assert made(tmp_path, text) == made(tmp_path, policy(GPUSHARE))


@pytest.mark.parametrize(
    ("key", "value", "now", "comment"),
    [
        ("ignorable", True, False, "Changed: it was true. Never true together with bindVerb"),
        ("nodeCacheCapable", False, True, "Changed: it was false. Send node names instead of Node objects"),
        ("filterVerb", "predicates", "filter", "Changed: filterVerb was predicates."),
        ("httpTimeout", 30_000_000_000, "30s", "Kept. Keep it above kube.bind_timeout"),
        ("httpTimeout", 1_500_000_000, "1.5s", "Kept. "),
    ],
)
def test_settings_that_would_lose_devices_are_changed_and_reported(
    tmp_path: Path, key: str, value: object, now: object, comment: str
) -> None:
    text = policy({**GPUSHARE, key: value})
    assert made(tmp_path, text)["extenders"][0][key] == now
    assert comment in comments(text_of(tmp_path, text))


def test_ignored_native_and_unknown_resources_are_reported(tmp_path: Path) -> None:
    names = ["aliyun.com/gpu-mem", "alpha.kubernetes.io/nvidia-gpu", "example.com/fpga"]
    text = policy({**GPUSHARE, "managedResources": [{"name": name, "ignoredByScheduler": True} for name in names]})
    (extender,) = made(tmp_path, text)["extenders"]
    assert extender["managedResources"] == [
        {"name": name, "ignoredByScheduler": False} for name in (names[0], names[2])
    ]
    comment = comments(text_of(tmp_path, text))
    assert f"ignoredByScheduler was true for {', '.join(names)}" in comment
    assert "Left out: alpha.kubernetes.io/nvidia-gpu, which kube-scheduler rejects." in comment
    assert "Linkwise does not schedule example.com/fpga" in comment


@pytest.mark.parametrize(
    ("names", "comment"),
    [
        ([], "Added: the policy had none, so every pod was sent to the extender."),
        (["alpha.kubernetes.io/nvidia-gpu"], "Changed: kube-scheduler rejects all that the policy had"),
    ],
)
def test_all_that_linkwise_places_is_listed_where_no_resource_is_left(
    tmp_path: Path, names: list[str], comment: str
) -> None:
    text = policy({**GPUSHARE, "managedResources": [{"name": name} for name in names]})
    usual, found = yaml.safe_load(scheduler_yaml(SchedulerFile())), made(tmp_path, text)
    assert found["extenders"][0]["managedResources"] == usual["extenders"][0]["managedResources"]
    assert found["profiles"] == usual["profiles"]
    message = comments(text_of(tmp_path, text))
    assert comment in message
    assert ("Left out: alpha.kubernetes.io/nvidia-gpu, which kube-scheduler rejects." in message) == bool(names)
    (extender,) = made(tmp_path, text, every_pod=True)["extenders"]
    assert "managedResources" not in extender


def test_predicates_and_priorities_are_dropped_by_name(tmp_path: Path) -> None:
    top = {"predicates": [{"name": "PodFitsPorts"}], "priorities": [{"name": "LeastRequested", "weight": 1}]}
    text = text_of(tmp_path, policy(GPUSHARE, **top, alwaysCheckAllPredicates=True))
    assert "Dropped predicates: PodFitsPorts." in comments(text)
    assert "Dropped priorities: LeastRequested." in comments(text)
    assert "Dropped alwaysCheckAllPredicates" in comments(text)


def test_the_weight_of_pod_affinity_is_kept(tmp_path: Path) -> None:
    (profile,) = made(tmp_path, policy(GPUSHARE, hardPodAffinitySymmetricWeight=7))["profiles"]
    assert profile["pluginConfig"][1]["args"]["hardPodAffinityWeight"] == 7


def test_other_extenders_stay_and_do_not_bind(tmp_path: Path) -> None:
    text = policy(OTHER, GPUSHARE)
    theirs, ours = made(tmp_path, text)["extenders"]
    assert theirs == {"urlPrefix": "http://other:1/x", "filterVerb": "f", "httpTimeout": "1.5s"}
    assert ours["bindVerb"] == "bind"
    assert "without its bindVerb b: only one extender may bind" in comments(text_of(tmp_path, text))


def test_other_extenders_are_asked_before_linkwise(tmp_path: Path) -> None:
    text = policy(GPUSHARE, OTHER)
    theirs, ours = made(tmp_path, text)["extenders"]
    assert (theirs["filterVerb"], ours["filterVerb"]) == ("f", "filter")
    assert "Moved to the end" in comments(text_of(tmp_path, text))
    assert "Moved to the end" not in comments(text_of(tmp_path, policy(OTHER, GPUSHARE)))


def test_which_extender_is_replaced_must_be_plain(tmp_path: Path) -> None:
    assert "it is ambiguous which of the 2 extenders Linkwise replaces" in wrong(tmp_path, policy(OTHER, OTHER))
    assert made(tmp_path, policy(OTHER))["extenders"][0]["bindVerb"] == "bind"


def test_a_url_and_all_pods_may_be_asked_for(tmp_path: Path) -> None:
    (extender,) = made(tmp_path, policy(GPUSHARE), "http://linkwise:1/", every_pod=True)["extenders"]
    assert extender["urlPrefix"] == "http://linkwise:1"
    assert "managedResources" not in extender


def test_https_is_kept_in_the_key_of_today(tmp_path: Path) -> None:
    tls = {"caFile": "ca.crt"}
    (extender,) = made(tmp_path, policy({**GPUSHARE, "enableHttps": True, "tlsConfig": tls}))["extenders"]
    assert (extender["enableHTTPS"], extender["tlsConfig"]) == (True, tls)


@pytest.mark.parametrize("tls", [{}, {"certFile": "c", "keyFile": "k"}, {"insecure": True, "caFile": "ca.crt"}])
def test_https_without_an_authority_is_refused(tmp_path: Path, tls: dict[str, object]) -> None:
    wanted = policy({**GPUSHARE, "enableHttps": True, "tlsConfig": tls})
    with pytest.raises(InputError, match="kube-scheduler would not verify the service; set --ca-file"):
        made(tmp_path, wanted)


def test_files_turn_the_url_to_https_and_replace_those_of_the_policy(tmp_path: Path) -> None:
    old = {**GPUSHARE, "enableHttps": True, "tlsConfig": {"insecure": True}}
    (extender,) = made(tmp_path, policy(old), tls=TlsFiles("ca", "cert", "key"))["extenders"]
    assert extender["urlPrefix"] == GPUSHARE["urlPrefix"].replace("http://", "https://")
    assert extender["tlsConfig"] == {"caFile": "ca", "certFile": "cert", "keyFile": "key"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "policy.json: the file is empty"),
        ("{", "policy.json:1:2: not valid YAML: "),
        ("[]", "policy.json:1:1: the file: expected an object, got a list"),
        ('{"kind": "KubeSchedulerConfiguration"}', "1:10: kind: the file already is a KubeSchedulerConfiguration"),
        ('{"kind": "Pod"}', "1:10: kind: expected Policy, as supported by kube-scheduler until 1.22"),
        ('{"apiVersion": "v1"}', "1:1: kind: expected Policy"),
        ('{"kind": "Policy"}', "1:1: extenders: there is no extender to convert"),
        ('{"kind": "Policy", "extenders": {}}', "1:33: extenders: expected a list, got a table"),
        ('{"kind": "Policy", "extenders": [{}]}', "1:34: extenders[0].urlPrefix: required field is missing"),
        (
            '{"kind": "Policy", "extenders": [{"urlPrefix": null}]}',
            "1:48: extenders[0].urlPrefix: required field is missing",
        ),
        ('{"kind": "Policy", "extenders": [7]}', "1:34: extenders[0]: expected an object, got '7'"),
        ('{"kind": "Policy", "extender": []}', "1:20: extender: unknown key; did you mean extenders?"),
        ('{"kind": "Policy", "kind": "Policy"}', "1:20: kind: duplicate key, first set in line 1"),
    ],
)
def test_an_invalid_file_is_reported_with_the_place(tmp_path: Path, text: str, message: str) -> None:
    assert message in wrong(tmp_path, text)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("urlPrefix", 7, "6:20: extenders[0].urlPrefix: expected text, got 7"),
        ("urlPrefix", "10.1.2.3", "6:20: extenders[0].urlPrefix: expected a URL with http://, got '10.1.2.3'"),
        ("ignorable", "no", "extenders[0].ignorable: expected true or false, got 'no'"),
        ("httpTimeout", "5s", "extenders[0].httpTimeout: expected a whole number, got '5s'"),
        ("filterverb", "x", "extenders[0].filterverb: unknown key; did you mean filterVerb?"),
        ("managedResources", [{}], "extenders[0].managedResources[0].name: required field is missing"),
        ("managedResources", [{"name": "a/b"}] * 2, "extenders[0].managedResources[1].name: a/b is listed twice"),
    ],
)
def test_a_wrong_field_of_an_extender_is_reported_with_its_place(
    tmp_path: Path, key: str, value: object, message: str
) -> None:
    assert message in wrong(tmp_path, policy({**GPUSHARE, key: value}))
