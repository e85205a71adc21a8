"""Variables: ours, gpushare's, and those that kubelet sets without being asked."""

from __future__ import annotations

import pytest

from linkwise.config.loading import load, load_with_sources
from linkwise.config.schema import SCHEMA


def problems_in(environ: dict[str, str]) -> list[str]:
    return [str(problem) for problem in load_with_sources(None, environ).problems]


@pytest.mark.parametrize("name", [name for name, setting in SCHEMA.items() if setting.variable])
def test_every_setting_but_tables_has_a_variable(name: str) -> None:
    setting = SCHEMA[name]
    default = setting.default
    written = ",".join(default) if isinstance(default, tuple) else str(default)
    found = load_with_sources(None, {setting.variable: written})
    assert found.problems == ()
    assert (found.values[name].value, found.values[name].place) == (default, setting.variable)


def test_no_two_settings_have_one_variable() -> None:
    variables = [setting.variable for setting in SCHEMA.values() if setting.variable]
    assert len(set(variables)) == len(variables)


def test_port_and_log_level_are_those_of_gpushare() -> None:
    found = load(None, {"PORT": "12345", "LOG_LEVEL": "debug"})
    assert (found.http.port, found.log.level) == (12345, "debug")
    assert load(None, {"LOG_LEVEL": "WARN"}).log.level == "warning"
    assert load(None, {"PORT": "", "LOG_LEVEL": ""}) == load(None, {})


def test_a_list_of_numbers_is_separated_by_commas() -> None:
    assert load(None, {"LINKWISE_AGENT_HEALTH_FATAL_XIDS": "94, 109,"}).agent.health.fatal_xids == (94, 109)


def test_our_own_variables_go_before_them() -> None:
    assert load(None, {"LINKWISE_HTTP_PORT": "2", "PORT": "1"}).http.port == 2


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("PORT", "x", "PORT: expected a whole number from 0 to 65535, got 'x'"),
        ("LOG_LEVEL", "loud", "LOG_LEVEL: expected debug, info, warning or error, got 'loud'"),
        ("LINKWISE_HTTP_PORT", "", "LINKWISE_HTTP_PORT: expected a whole number from 0 to 65535, got ''"),
        ("LINKWISE_HTTP_PORT", "9" * 5000, "LINKWISE_HTTP_PORT: expected a whole number from 0 to 65535, got '999"),
        (
            "LINKWISE_AGENT_HEALTH_FATAL_XIDS",
            "94, b",
            "LINKWISE_AGENT_HEALTH_FATAL_XIDS: expected a list of whole numbers, got 'b'",
        ),
        ("LINKWISE_AGENT_HEALTH_IGNORED_XIDS", "31,-1", "expected numbers of Xid events, from 1 to 65535, got -1"),
        ("LINKWISE_HTTP_PROT", "1", "unknown setting; did you mean LINKWISE_HTTP_PORT?"),
        ("LINKWISE_XYZZY", "1", "unknown setting; `linkwise config check` lists all settings"),
        ("LINKWISE_PLACING_POLICIES", "a", "placing.policies can only be set in a file"),
        ("LINKWISE_PLACING_GROUP_WRITE_PLANS", "maybe", "expected true or false, got 'maybe'"),
        ("LINKWISE_PORT", "8080", "LINKWISE_PORT: unknown setting; did you mean LINKWISE_HTTP_PORT?"),
    ],
)
def test_invalid_values_are_reported_by_variable(variable: str, value: str, message: str) -> None:
    (problem,) = problems_in({variable: value})
    assert problem.startswith("environment: ")
    assert message in problem


@pytest.mark.parametrize("service", ["LINKWISE", "LINKWISE_SCHEDULER", "LINKWISE_HTTP"])
def test_what_kubelet_sets_for_a_service_of_ours_is_passed_over(service: str) -> None:
    links = {
        f"{service}_SERVICE_HOST": "10.0.0.1",
        f"{service}_SERVICE_PORT": "39999",
        f"{service}_SERVICE_PORT_HTTP": "39999",
        f"{service}_PORT": "tcp://10.0.0.1:39999",
        f"{service}_PORT_39999_TCP": "tcp://10.0.0.1:39999",
        f"{service}_PORT_39999_TCP_PROTO": "tcp",
        f"{service}_PORT_39999_TCP_PORT": "39999",
        f"{service}_PORT_39999_TCP_ADDR": "10.0.0.1",
    }
    assert load(None, links) == load(None, {})


def test_lists_are_written_with_commas_and_switches_as_words() -> None:
    variables = {"LINKWISE_PLACING_GROUP_NETWORK": "zone, rack", "LINKWISE_PLACING_GROUP_WRITE_PLANS": "Yes"}
    group = load(None, variables).placing.group
    assert (group.network, group.write_plans) == (("zone", "rack"), True)


def test_variables_of_others_are_none_of_our_business() -> None:
    assert problems_in({"LINKWISEX": "1", "_LINKWISE_COMPLETE": "bash_source", "HOME": "/"}) == []


def test_a_service_that_a_test_cluster_starts_may_see_its_variables() -> None:
    assert problems_in({"LINKWISE_E2E": "1", "LINKWISE_E2E_KUBECONFIG": ""}) == []
    assert problems_in({"LINKWISE_E2EX": "1"})
