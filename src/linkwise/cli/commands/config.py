"""`linkwise config`: the settings of the service, and the file of the scheduler that asks it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import click

from linkwise.cli.options.files import file_name
from linkwise.cli.options.names import name_option, namespace_option
from linkwise.cli.options.output import json_flag
from linkwise.errors import InputError

EXIT_PROBLEMS: Final = 1

_EXAMPLES: Final = """\b
Examples:
  linkwise config check linkwise.yaml
  linkwise config scheduler > scheduler.yaml
  linkwise config scheduler --from-policy scheduler-policy-config.json
"""
_CHECK: Final = """\b
Examples:
  linkwise config check                    # the environment and the defaults
  linkwise config check linkwise.yaml
  LINKWISE_PLACING_BREADTH=8 linkwise config check linkwise.yaml --json

The order is: defaults, the file, the environment, flags of `linkwise serve`; what comes later
counts. Without FILE the one that LINKWISE_CONFIG names is read. A token is not shown.

Exit codes: 0 all is well, 1 problems (each with its place), 2 the file can't be read.
"""
_SCHEDULER: Final = """\b
Examples:
  linkwise config scheduler > scheduler.yaml
  linkwise config scheduler --url http://10.96.0.42:39999 --no-leader-elect
  linkwise config scheduler --every-pod    # also members without devices
  linkwise config scheduler --from-policy scheduler-policy-config.json

Exit codes: 0 printed, 2 the policy file makes no sense, with file, line and column.
"""


@click.group("config", epilog=_EXAMPLES)
def command() -> None:
    """Check the settings of the service, and print the file of the scheduler that asks it."""


@command.command("check", epilog=_CHECK, short_help="All settings, and where each comes from.")
@click.argument("file", required=False)
@json_flag("One JSON object: settings and problems.")
def check(file: str | None, *, as_json: bool) -> None:
    """Read the settings as `linkwise serve` would, and show each with where it comes from.

    FILE is YAML; - is standard input. Unknown names are problems, with the nearest name that there is; all problems are
    told at once.
    """
    from linkwise.cli.reports.settings import show  # noqa: PLC0415 - brings rich, which --help does not need
    from linkwise.config.loading import look  # noqa: PLC0415 - brings yaml and all policies

    found = look(Path(file) if file else None, os.environ)
    show(found, as_json=as_json)
    if found.problems:
        sys.exit(EXIT_PROBLEMS)


@command.command("scheduler", epilog=_SCHEDULER, short_help="The file of a kube-scheduler that asks Linkwise.")
@name_option("linkwise-scheduler", "The schedulerName that pods give.")
@namespace_option("Where the scheduler's lease is.")
@click.option("--url", metavar="URL", help="Where Linkwise listens; the Service in the cluster if not given.")
@click.option("--weight", type=click.IntRange(1, 10**6), help="What a rank of Linkwise counts.")
@click.option("--every-pod", is_flag=True, help="Leave managedResources out: every pod is sent to Linkwise.")
@click.option("--default-scheduler", is_flag=True, help="Serve pods that name no scheduler as well.")
@click.option("--leader-elect/--no-leader-elect", default=True, help="Whether replicas choose one that acts.")
@click.option("--kubeconfig", metavar="FILE", default="", help="For a scheduler outside the cluster.")
@click.option("--from-policy", "policy", metavar="FILE", help="Convert an old policy file, such as gpushare's.")
def scheduler(  # noqa: PLR0913 - one a flag
    *,
    name: str,
    namespace: str,
    url: str | None,
    weight: int | None,
    kubeconfig: str,
    policy: str | None,
    every_pod: bool,
    default_scheduler: bool,
    leader_elect: bool,
) -> None:
    """Print a KubeSchedulerConfiguration for a second kube-scheduler that asks Linkwise.

    Comments in it tell why each value is as it is. With --from-policy the URL, the timeout and the resources of an old
    policy file are kept, and what was changed or dropped is told.
    """
    from linkwise.config.legacy_policy import converted, read_policy  # noqa: PLC0415 - brings yaml
    from linkwise.config.scheduler_config import DEFAULT_URL, WEIGHT, SchedulerFile, scheduler_yaml  # noqa: PLC0415 - same

    if url is not None and not _is_url(url):
        raise InputError(f"--url: expected a URL with http:// or https:// and a host, got '{url}'")
    wanted = SchedulerFile(
        name=name,
        namespace=namespace,
        url=url or DEFAULT_URL,
        weight=weight or WEIGHT,
        every_pod=every_pod,
        default_scheduler=default_scheduler,
        leader_elect=leader_elect,
        kubeconfig=kubeconfig,
    )
    if not policy:
        click.echo(scheduler_yaml(wanted), nl=False)
        return
    old = read_policy(Path(policy))
    try:
        click.echo(converted(old, wanted, url=url or ""), nl=False)
    except InputError as error:
        raise InputError(f"{file_name(policy)}: {error}") from error


def _is_url(text: str) -> bool:
    from urllib.parse import urlsplit  # noqa: PLC0415 - only one flag needs it

    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # half an address in brackets, or a port that is none
        return False
