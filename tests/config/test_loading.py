"""Defaults, file, environment, flags: which one counts, and what is reported when something is wrong."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings as trying, strategies as st

from linkwise.config.loading import load, load_with_sources
from linkwise.config.schema import LIMITS, SCHEMA, build_settings
from linkwise.config.settings import ServeSettings
from linkwise.errors import InputError
from linkwise.kube.settings import PerformSettings, WatchSettings
from linkwise.model.settings import PlacingSettings
from linkwise.wire.snapshot import settings_document
from support.profile import examples

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(text: str) -> Path:
        file = tmp_path / "linkwise.yaml"
        file.write_text(text, "utf-8")
        return file

    return written


def problems(file: Path | None = None, environ: dict[str, str] | None = None, **flags: object) -> list[str]:
    """What is wrong, without the folder that the file lies in."""
    found = load_with_sources(file, environ or {}, {name.replace("__", "."): value for name, value in flags.items()})
    return [str(problem).removeprefix(f"{file.parent}/" if file else "") for problem in found.problems]


def test_nothing_set_is_as_the_dataclasses_say() -> None:
    assert load(None, {}) == ServeSettings()


def test_an_empty_file_sets_nothing(write: Write) -> None:
    assert load(write(""), {}) == ServeSettings()
    assert load(write("# nothing yet\nhttp:\nplacing:\n  group:\n"), {}) == ServeSettings()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "tls: {enabled: true, cert_file: a.crt, key_file: a.key}",
            "tls.client_ca_file: not set; tls.cert_file, tls.key_file and tls.client_ca_file go together",
        ),
        ("leader: {retry_period: 10}", "leader.retry_period: expected less than leader.renew_deadline, 10 s, got 10 s"),
        (
            "leader: {renew_deadline: 15}",
            "leader.renew_deadline: expected less than leader.lease_duration, 15 s, got 15 s",
        ),
        (
            "kube: {bind_timeout: 5}",
            "kube.bind_timeout: expected less than leader.lease_duration - leader.renew_deadline, 5 s, got 5 s",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(write: Write, text: str, message: str) -> None:
    (reported,) = problems(write(text))
    assert reported.startswith("linkwise.yaml:1:") or "default: " in reported
    assert message in reported


def test_lease_times_of_a_service_without_an_election_do_not_matter(write: Write) -> None:
    assert problems(write("leader: {enabled: false, renew_deadline: 60}\nkube: {bind_timeout: 60}")) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("leader: {address: here}", "leader.address: expected an IP address, such as 10.0.0.7, got 'here'"),
        ("leader: {service: A}", "leader.service: expected the name of an object"),
        ("leader: {identity: two words}", "leader.identity: expected at most 200 printable ASCII characters"),
    ],
)
def test_names_and_addresses_of_the_election_are_checked(write: Write, text: str, message: str) -> None:
    assert message in problems(write(text))[0]


def test_later_layers_win(write: Write) -> None:
    file = write("http: {port: 1001}\nkube: {page: 11}\nlog: {level: error}\n")
    environ = {"LINKWISE_HTTP_PORT": "1002", "LINKWISE_KUBE_PAGE": "12"}
    found = load(file, environ, {"http.port": 1003, "http.host": None})
    assert (found.http.port, found.kube.page, found.log.level) == (1003, 12, "error")


def test_each_value_is_reported_with_its_place(write: Write) -> None:
    file = write("http:\n  port: 1001\nkube: {page: 11}\n")
    given_by = load_with_sources(file, {"LINKWISE_KUBE_PAGE": "12"}, {"log.level": "debug"}).values
    assert (given_by["http.port"].source, given_by["http.port"].place) == ("file", f"{file}:2")
    assert (given_by["kube.page"].source, given_by["kube.page"].place) == ("environment", "LINKWISE_KUBE_PAGE")
    assert [given_by[name].source for name in ("log.level", "http.drain")] == ["flag", "default"]


def test_the_environment_may_name_the_file(write: Write) -> None:
    file = write("http: {port: 1001}")
    assert load(None, {"LINKWISE_CONFIG": str(file)}).http.port == 1001
    assert load(write("http: {port: 1002}"), {"LINKWISE_CONFIG": "/not/there"}).http.port == 1002


def test_a_pod_listens_for_other_pods_and_a_shell_for_itself() -> None:
    assert load(None, {}).http.host == "127.0.0.1"
    in_a_pod = {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}
    assert load(None, in_a_pod).http.host == "0.0.0.0"  # noqa: S104 - what is expected
    assert load(None, {**in_a_pod, "LINKWISE_HTTP_HOST": "10.0.0.7"}).http.host == "10.0.0.7"


def test_a_snapshots_settings_can_stand_in_the_file(write: Write) -> None:
    placing = replace(PlacingSettings(), breadth=4, policies={"nvidia.com/gpu": "bandwidth"})
    assert load(write(json.dumps({"placing": settings_document(placing)})), {}).placing == placing


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("placing:\n  bredth: 4", "2:3: placing.bredth: unknown setting; did you mean breadth?"),
        ("placing: {group: {writePlans: true}}", "1:19: placing.group.writePlans: unknown setting; did you mean"),
        ("hold: 3", "1:1: hold: unknown setting; did you mean placing.group.hold?"),
        ("colour: 3", "1:1: colour: unknown setting; use one of http, log, kube, leader, debug, explain"),
        ("<<: {http: {}}", "1:1: <<: unknown setting"),
        ("? [a]\n: 1", "1:3: ?: unknown setting"),
        ("http: 3", "1:7: http: expected a section with host, port, drain"),
        ("[1, 2]", "1:1: the file: expected a section with http"),
        ("http: {port: 70000}", "1:14: http.port: expected a whole number from 0 to 65535, got 70000"),
        ("http: {port: 1.5}", "1:14: http.port: expected a whole number from 0 to 65535, got 1.5"),
        ("http: {port: true}", "1:14: http.port: expected a whole number from 0 to 65535, got true"),
        ("http: {port: }", "http.port: expected a whole number from 0 to 65535, got nothing"),
        ("http: {host: ''}", "http.host: expected an address to listen on, such as 0.0.0.0, got ''"),
        ("placing: {breadth: -1}", "1:20: placing.breadth: expected a whole number of 1 or more, got -1"),
        ("placing: {offer: class}", "1:11: placing.offer: this setting was removed: filter returns the best node"),
        ("placing: {pending: soon}", "1:20: placing.pending: expected a number from 0 to 3600, got 'soon'"),
        (
            "placing: {bandwidth: {floor: .inf}}",
            "placing.bandwidth.floor: expected a number of 0 or more, got a number that is too large",
        ),
        ("kube: {wake_rate: .nan}", "kube.wake_rate: expected a number from 0.1 to 10000, got nan"),
        ("placing: {share: {order: binpak}}", "placing.share.order: expected binpack or spread, got 'binpak'"),
        ("placing: {group: {write_plans: 1}}", "placing.group.write_plans: expected true or false, got 1"),
        ("placing: {group: {network: rack}}", "placing.group.network: expected a list of texts, got 'rack'"),
        ("placing: {group: {network: [a/b/c]}}", "placing.group.network: 'a/b/c' is not a valid label key"),
        ("placing: {group: {network: [a, a]}}", "placing.group.network: 'a' is listed twice"),
        ("placing: {group: {network: &a [*a]}}", "placing.group.network: nested too deeply"),
        ("placing: {policies: {nvidia.com/gpu: bandwith}}", "unknown policy bandwith; did you mean bandwidth?"),
        (
            "placing: {policies: {example.com/x: bandwidth}}",
            "'example.com/x' is not a resource that Linkwise schedules",
        ),
        ("placing: {group: {owners: [team-a]}}", "placing.group.owners: expected a table of texts, got a list"),
        ("placing: {group: {owners: {team-a: gangs}}}", "team-a: unknown value 'gangs'; did you mean gang?"),
        ("placing: {group: {owners: {Team A: gang}}}", "'Team A' is not a namespace; write its name, or a pattern"),
        ("placing: {group: {settle: 61}}", "placing.group.settle: expected a number from 0 to 60, got 61"),
        ("placing: {volcano: {booking: 0}}", "placing.volcano.booking: expected a number from 1 to 86400, got 0"),
        (
            "placing: {volcano: {schedulers: [Volcano!]}}",
            "placing.volcano.schedulers: expected the name of an object, such as linkwise, got 'Volcano!'",
        ),
        ("placing: {policies: [a]}", "placing.policies: expected a table of texts, got a list"),
        ("log: {level: !!python/name:os.system x}", "1:14: log.level: it can't be read"),
        ("log: {level: 2024-99-99}", "1:14: log.level: it can't be read"),
        ("debug: {token: two words}", "debug.token: expected printable ASCII characters"),
    ],
)
def test_mistakes_in_a_file_are_reported_with_line_and_column(write: Write, text: str, message: str) -> None:
    (reported,) = problems(write(text))
    assert reported.startswith("linkwise.yaml:")
    assert message in reported


def test_a_repeated_name_is_reported_with_both_lines(write: Write) -> None:
    assert problems(write("http:\n  port: 1\nlog: {}\nhttp:\n  port: 2\n")) == [
        "linkwise.yaml:4:1: http: duplicate key, first set in line 1"
    ]
    (reported,) = problems(write("placing: {policies: {amd.com/gpu: bandwidth, amd.com/gpu: bandwidth}}"))
    assert "placing.policies.amd.com/gpu: duplicate key" in reported


def test_all_problems_are_reported_at_once_in_the_order_of_the_file(write: Write) -> None:
    file = write("kube: {pages: 1}\nhttp:\n  port: -1\n")
    with pytest.raises(InputError) as reported:
        load(file, {"PORT": "x", "LINKWISE_KUBE_PGE": "1"}, {"kube.page": -1})
    lines = str(reported.value).splitlines()
    assert lines[0] == "5 problems:"
    assert [line.rpartition("/")[2].split(":")[0] for line in lines[1:3]] == ["linkwise.yaml"] * 2
    assert "environment: PORT: " in lines[3]
    assert "did you mean LINKWISE_KUBE_PAGE?" in lines[4]
    assert "flags: kube.page: expected a whole number from 1 to 10000, got -1" in lines[5]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"http: [", "1:8: not valid YAML: "),
        (b"a: b: c", "1:5: not valid YAML: "),
        (b"\xff\xfe\xff", "not valid YAML: "),
        (b"\x00", "not valid YAML: "),
        (b"http: {}\n---\nlog: {}\n", "3:1: expected a single YAML document"),
        (b"[" * 5000, "not valid YAML: "),
    ],
)
def test_a_file_that_can_not_be_read_is_an_error_with_its_place(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "linkwise.yaml"
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"linkwise\.yaml:") as reported:
        load(file, {})
    assert message in str(reported.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yaml: No such file"):
        load(tmp_path / "none.yaml", {})


def test_numbers_are_numbers_and_words_may_be_quoted(write: Write) -> None:
    found = load(write("http: {drain: 3}\ndebug: {token: '12345'}\nlog: {level: warn}\n"), {})
    assert (found.http.drain, type(found.http.drain), found.debug.token) == (3.0, float, "12345")
    assert found.log.level == "warning"


def test_a_token_is_never_printed(write: Write) -> None:
    (reported,) = problems(write("debug: {token: 12345}"))
    assert "put it in quotes" in reported
    assert "12345" not in reported
    assert "s3cret" not in repr(load(None, {"LINKWISE_DEBUG_TOKEN": "s3cret"}))


def test_flags_are_checked_like_all_else() -> None:
    assert problems(None, http__port=-1) == ["flags: http.port: expected a whole number from 0 to 65535, got -1"]
    assert "did you mean http.port?" in problems(None, http__prt=1)[0]


def test_every_number_has_limits_and_every_default_is_within() -> None:
    numbers = {name for name, setting in SCHEMA.items() if setting.kind in {"whole number", "number"}}
    assert numbers == set(LIMITS)
    assert {name: setting.checked(setting.default) for name, setting in SCHEMA.items()} == {
        name: setting.default for name, setting in SCHEMA.items()
    }


def test_defaults_are_those_of_the_parts_that_are_set() -> None:
    kube, watching, writing = ServeSettings().kube, WatchSettings(), PerformSettings()
    assert (kube.page, kube.resync) == (watching.page, watching.resync)
    assert (kube.wake_rate, kube.wake_burst) == (writing.wakes, writing.wakes_burst)
    assert (kube.event_rate, kube.event_burst) == (writing.events, writing.events_burst)


def test_every_field_of_the_settings_can_be_set() -> None:
    def leaves(value: object, prefix: str = "") -> list[str]:
        if not is_dataclass(value):
            return [prefix]
        inner = [(each.name, getattr(value, each.name)) for each in fields(value)]
        return [leaf for name, part in inner for leaf in leaves(part, f"{prefix}.{name}".lstrip("."))]

    assert leaves(ServeSettings()) == list(SCHEMA)
    assert build_settings({name: setting.default for name, setting in SCHEMA.items()}) == ServeSettings()


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["http", "port", "a", "policies"]), inner)
    ),
    max_leaves=8,
)


@trying(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=40) | st.builds(repr, junk))
def test_whatever_a_file_holds_it_is_settings_or_an_error(write: Write, text: str) -> None:
    try:
        found = load(write(text), {})
    except (InputError, UnicodeEncodeError):
        return
    assert isinstance(found, ServeSettings)
