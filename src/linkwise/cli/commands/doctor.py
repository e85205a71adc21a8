"""`linkwise doctor`: examines an installation and names what is wrong, and what to do."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from linkwise.cli.options.cluster import cluster_flags, namespace_name
from linkwise.cli.options.io import form_flag
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_PROBLEMS: Final = 1
EXIT_UNREACHABLE: Final = 3
NOTHING_READ: Final = (
    "nothing could be examined; --all shows why. With rights in single namespaces, use `linkwise explain pod/NAME`"
)


_EPILOG: Final = """\b
Examples:
  linkwise doctor
  linkwise doctor --all                        # passed checks too
  linkwise doctor -n ai --check agent-missing --check agent-version
  linkwise doctor --scheduler-config /etc/kubernetes/scheduler.yaml
  linkwise doctor -o name                      # only the names of checks

Checks that need a right that you do not have are skipped, with the verb to grant; they never count as passed.

With --scheduler-config on the scheduler's own host, its addresses and certificates are tried too. The file is a
KubeSchedulerConfiguration, or the policy file of gpushare's installation.

\b
Exit codes:
  0  no problems were found; warnings do not count, unless with --strict
  1  problems were found
  2  invalid arguments
  3  the cluster can't be reached, or nothing that checks need could be read
"""


@click.command("doctor", epilog=_EPILOG)
@click.option(
    "-n",
    "--namespace",
    default="linkwise-system",
    show_default=True,
    metavar="NS",
    callback=namespace_name,
    help="Namespace of Linkwise.",
)
@click.option("--check", "checks", multiple=True, metavar="ID", help="Run only this check; can be repeated.")
@click.option("--list", "listing", is_flag=True, help="List all checks and exit.")
@click.option(
    "--scheduler-config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also examine this configuration of a kube-scheduler, and try its addresses from this machine.",
)
@click.option("-v", "--all", "everything", is_flag=True, help="Print passed and skipped checks too.")
@click.option("--strict", is_flag=True, help="Exit with 1 on warnings too.")
@click.option("--no-headers", is_flag=True, help="Print no headers and no summary.")
@form_flag("json", "yaml", "name", "wide")
@cluster_flags
def command(  # noqa: PLR0913 - one per flag
    namespace: str,
    form: str | None,
    kubeconfig: Path | None,
    context: str | None,
    *,
    checks: tuple[str, ...],
    listing: bool,
    scheduler_config: Path | None,
    everything: bool,
    strict: bool,
    no_headers: bool,
) -> None:
    """Examine an installation of Linkwise: name what is wrong, and what to do.

    This command is read-only. It reads the cluster with your rights, and asks the service through the API server.
    """
    from linkwise.assembly.cluster_reader import with_cluster  # noqa: PLC0415 - imports the client and all policies
    from linkwise.assembly.doctor import Examination, gather  # noqa: PLC0415 - same
    from linkwise.cli.reports.doctor import Shown, progress, show_checks, show_findings  # noqa: PLC0415 - same
    from linkwise.doctor.examine import CHECKS, examine, is_any_examined  # noqa: PLC0415 - same
    from linkwise.errors import ClusterError  # noqa: PLC0415 - beside the others

    wanted = _known(checks, [each.id for each in CHECKS])
    if listing:
        show_checks([each for each in CHECKS if each.id in wanted], form, headers=not no_headers)
        return
    examination = Examination(namespace, wanted, scheduler_config)
    try:
        with progress() as report:
            facts = with_cluster(kubeconfig, context, lambda connection: gather(connection, examination, report))
    except ClusterError as error:
        click.echo(f"linkwise: {error}", err=True)
        sys.exit(EXIT_UNREACHABLE)
    findings = examine(facts, wanted)
    shown = Shown(form, everything=everything, headers=not no_headers)
    show_findings(findings, shown, facts)
    if not is_any_examined(facts, wanted):
        click.echo(f"linkwise: {NOTHING_READ}", err=True)
        sys.exit(EXIT_UNREACHABLE)
    bad = {"error", "warning"} if strict else {"error"}
    if any(each.severity in bad for each in findings):
        sys.exit(EXIT_PROBLEMS)


def _known(checks: Sequence[str], known: Sequence[str]) -> frozenset[str]:
    """The checks to run, all of them if none is named; InputError suggests a similar id."""
    for each in checks:
        if each not in known:
            from difflib import get_close_matches  # noqa: PLC0415 - only needed for a typo

            near = get_close_matches(each, known, n=1)
            raise InputError(
                f'unknown check "{each}"; {f"did you mean {near[0]}?" if near else "--list prints all checks"}'
            )
    return frozenset(checks or known)
