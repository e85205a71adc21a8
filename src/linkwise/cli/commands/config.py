"""`linkwise config`: checks the settings of the service, and prints the configuration of its schedulers."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from linkwise.cli.options.cluster import name_option, namespace_name, namespace_option, object_name
from linkwise.cli.options.io import file_name, json_flag
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.config.volcano import Mode

EXIT_PROBLEMS: Final = 1

_EXAMPLES: Final = """\b
Examples:
  linkwise config check linkwise.yaml
  linkwise config scheduler > scheduler.yaml
  linkwise config scheduler --from-policy scheduler-policy-config.json
  linkwise config volcano --config-map | kubectl apply -f -
"""
_CHECK: Final = """\b
Examples:
  linkwise config check                    # the environment and the defaults
  linkwise config check linkwise.yaml
  LINKWISE_PLACING_BREADTH=8 linkwise config check linkwise.yaml --json

Precedence, lowest first: defaults, the file, the environment, flags of `linkwise serve`. Without
FILE, the file of LINKWISE_CONFIG is read. Tokens are not printed.

Exit codes: 0 valid, 1 problems found (each with its place), 2 the file can't be read.
"""
_SCHEDULER: Final = """\b
Examples:
  linkwise config scheduler > scheduler.yaml
  linkwise config scheduler --url http://10.96.0.42:39999 --no-leader-elect
  linkwise config scheduler --ca-file /tls/ca.crt --cert-file /tls/tls.crt \\
    --key-file /tls/tls.key                # with TLS, for tls.enabled
  linkwise config scheduler --every-pod    # for gang members without devices
  linkwise config scheduler --from-policy scheduler-policy-config.json

Exit codes: 0 printed, 2 the policy file is invalid (reported with file, line and column).
"""
_VOLCANO: Final = """\b
Examples:
  linkwise config volcano > volcano-scheduler.conf
  linkwise config volcano --config-map | kubectl apply -f -
  linkwise config volcano --mode extender --url http://10.96.0.42:39999
  kubectl get -n volcano-system cm volcano-scheduler-configmap -o yaml |
    linkwise config volcano --from - | kubectl apply -f -

Exit codes: 0 printed, 2 the file is invalid (reported with file, line and column).
"""


@click.group("config", epilog=_EXAMPLES)
def command() -> None:
    """Check the settings of the service, and print the configuration of its kube-scheduler or of Volcano."""


@command.command("check", epilog=_CHECK, short_help="Print all settings with their sources.")
@click.argument("file", required=False)
@json_flag("One JSON object: settings and problems.")
def check(file: str | None, *, as_json: bool) -> None:
    """Load the settings as `linkwise serve` would, and print each with its source.

    FILE is YAML; - reads standard input. Unknown settings are reported with the closest known name, and all problems are
    reported at once.
    """
    from linkwise.cli.reports.settings import show  # noqa: PLC0415 - imports rich, which --help does not need
    from linkwise.config.loading import load_with_sources  # noqa: PLC0415 - imports yaml and all policies

    loaded = load_with_sources(Path(file) if file else None, os.environ)
    show(loaded, as_json=as_json)
    if loaded.problems:
        sys.exit(EXIT_PROBLEMS)


@command.command("scheduler", epilog=_SCHEDULER, short_help="Print the configuration of a kube-scheduler.")
@name_option("linkwise-scheduler", "The schedulerName that pods set.")
@namespace_option("Namespace of the scheduler's lease.")
@click.option("--url", metavar="URL", help="URL of Linkwise; default: its Service in the cluster.")
@click.option("--weight", type=click.IntRange(1, 10**6), help="Weight of Linkwise's scores.")
@click.option("--every-pod", is_flag=True, help="Omit managedResources, so that every pod is sent to Linkwise.")
@click.option("--default-scheduler", is_flag=True, help="Also schedule pods without a schedulerName.")
@click.option("--leader-elect/--no-leader-elect", default=True, help="Use leader election among replicas.")
@click.option("--kubeconfig", metavar="FILE", default="", help="For a scheduler that runs outside the cluster.")
@click.option("--ca-file", metavar="FILE", help="Call Linkwise by TLS: the authority that its certificate is of.")
@click.option("--cert-file", metavar="FILE", help="Client certificate of the scheduler.")
@click.option("--key-file", metavar="FILE", help="Private key of the client certificate.")
@click.option("--server-name", metavar="NAME", help="Name in the certificate of Linkwise, if not the host of --url.")
@click.option("--from-policy", "policy", metavar="FILE", help="Convert an old policy file, such as gpushare's.")
def scheduler(  # noqa: PLR0913 - one parameter per flag
    *,
    name: str,
    namespace: str,
    url: str | None,
    weight: int | None,
    kubeconfig: str,
    ca_file: str | None,
    cert_file: str | None,
    key_file: str | None,
    server_name: str | None,
    policy: str | None,
    every_pod: bool,
    default_scheduler: bool,
    leader_elect: bool,
) -> None:
    """Print a KubeSchedulerConfiguration for a second kube-scheduler that uses Linkwise as its extender.

    Comments explain each value. With --from-policy, the URL, the timeout and the resources of an old policy file are
    kept, and comments say what was changed or dropped. The files of --ca-file, --cert-file and --key-file are those that
    kube-scheduler sees, such as the mounted Secret linkwise-scheduler-tls; they are not read here.
    """
    from linkwise.config.legacy_policy import convert_policy, read_policy  # noqa: PLC0415 - imports yaml
    from linkwise.config.scheduler_config import (  # noqa: PLC0415 - same
        DEFAULT_TLS_URL,
        DEFAULT_URL,
        WEIGHT,
        SchedulerFile,
        TlsFiles,
        scheduler_yaml,
    )

    if url is not None and not _is_url(url):
        raise InputError(f"--url: expected a URL with http:// or https:// and a host, got '{url}'")
    files = {"--ca-file": ca_file, "--cert-file": cert_file, "--key-file": key_file}
    _check_tls(url, files, server_name, policy)  # a policy may have files of its own
    tls = TlsFiles(ca_file, cert_file, key_file, server_name or "") if ca_file and cert_file and key_file else None
    wanted = SchedulerFile(
        name=name,
        namespace=namespace,
        url=url or (DEFAULT_TLS_URL if tls else DEFAULT_URL),
        weight=weight or WEIGHT,
        every_pod=every_pod,
        default_scheduler=default_scheduler,
        leader_elect=leader_elect,
        kubeconfig=kubeconfig,
        tls=tls,
    )
    if not policy:
        click.echo(scheduler_yaml(wanted), nl=False)
        return
    old = read_policy(Path(policy))
    try:
        click.echo(convert_policy(old, wanted, url=url or ""), nl=False)
    except InputError as error:
        raise InputError(f"{file_name(policy)}: {error}") from error


@command.command("volcano", epilog=_VOLCANO, short_help="Print the configuration of Volcano's scheduler.")
@click.option(
    "--mode",
    type=click.Choice(["gated", "extender"]),
    default="gated",
    show_default=True,
    help="gated: Linkwise assigns node and devices before Volcano sees a pod. extender: Volcano asks about every node.",
)
@click.option("--url", metavar="URL", help="URL of Linkwise; default: its Service in the cluster.")
@click.option("--from", "file", metavar="FILE", help="Convert this configuration or ConfigMap; - is standard input.")
@click.option("--config-map", is_flag=True, help="Print a ConfigMap with the configuration.")
@click.option(
    "--name", default="volcano-scheduler-configmap", show_default=True, callback=object_name, help="Its name."
)
@click.option(
    "--namespace", default="volcano-system", show_default=True, callback=namespace_name, help="Its namespace."
)
@click.option("--volcano-version", "version", default="1.14", show_default=True, help="Print only what it supports.")
def volcano(  # noqa: PLR0913 - one parameter per flag
    *, mode: Mode, url: str | None, file: str | None, name: str, namespace: str, version: str, config_map: bool
) -> None:
    """Print the configuration of Volcano's scheduler, with Linkwise as its extender in the last tier.

    Comments explain each value. With --from, the extender replaces the plugins topology910 and volcano-npu of a file;
    its actions, tiers, other plugins and comments are kept.
    """
    from linkwise.config.volcano import VolcanoFile, config_map_yaml, convert_conf, scheduler_conf  # noqa: PLC0415 - imports yaml

    if url is not None and not _is_url(url):
        raise InputError(f"--url: expected a URL with http:// or https:// and a host, got '{url}'")
    match = re.fullmatch(r"v?(\d{1,3})\.(\d{1,3})(\.\S+)?", version)
    if match is None:
        raise InputError(f"--volcano-version: expected a version such as 1.14, got '{version}'")
    numbers = (int(match[1]), int(match[2]))
    wanted = VolcanoFile(mode, **({"url": url} if url else {}), version=numbers, name=name, namespace=namespace)
    if file:
        click.echo(convert_conf(Path(file), wanted, config_map=config_map), nl=False)
        return
    conf = scheduler_conf(wanted)
    click.echo(config_map_yaml(conf, wanted) if config_map else conf, nl=False)


def _check_tls(url: str | None, files: Mapping[str, str | None], server_name: str | None, policy: str | None) -> None:
    """Refuse what is incomplete: kube-scheduler would not verify the service, or be refused by it."""
    missing = [flag for flag, file in files.items() if not file]
    if len(missing) == len(files):
        if url and url.lower().startswith("https:") and not policy:
            raise InputError(
                "--url: https needs --ca-file, --cert-file and --key-file, by which the scheduler and Linkwise verify each other"
            )
        if server_name:
            raise InputError("--server-name: only for TLS; add --ca-file, --cert-file and --key-file")
        return
    if missing:
        raise InputError(
            f"{', '.join(missing)}: required beside {', '.join(file for file in files if file not in missing)}"
        )
    if url and url.lower().startswith("http:"):
        raise InputError(f"--url: {url} is without TLS; use https with --ca-file, --cert-file and --key-file")


def _is_url(text: str) -> bool:
    from urllib.parse import urlsplit  # noqa: PLC0415 - only one flag needs it

    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an incomplete IPv6 address, or an invalid port
        return False
