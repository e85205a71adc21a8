"""`linkwise manifests`: prints the CRD and the RBAC manifests of the service."""

from __future__ import annotations

from typing import Final

import click

from linkwise.cli.options.names import name_option, namespace_option
from linkwise.errors import InputError

_EXAMPLES: Final = """\b
Examples:
  linkwise manifests crd | kubectl apply --server-side -f -
  linkwise manifests rbac | kubectl apply -f -
"""
_CRD: Final = """\b
Examples:
  linkwise manifests crd | kubectl apply --server-side -f -
  linkwise manifests crd | linkwise apply -f -
"""
_RBAC: Final = """\b
Examples:
  linkwise manifests rbac | kubectl apply -f -
  linkwise manifests rbac --without groups --without network
  linkwise manifests rbac --user linkwise-test     # outside the cluster
  linkwise manifests rbac --evict                  # allow evictions

Optional features: events, wake, budgets, inventories, koordinator, configmaps, groups, network.
Leaving one out removes its rules only. The namespace of the service account must exist. Without
--evict the service can't evict pods, which placing.preemption.evict and
placing.group.evict_half_bound need.
"""


@click.group("manifests", epilog=_EXAMPLES)
def command() -> None:
    """Print the manifests that Linkwise needs in a cluster."""


@command.command("crd", epilog=_CRD, short_help="Print the CRD of DeviceInventory.")
def crd() -> None:
    """Print the CustomResourceDefinition of DeviceInventory, which lists the devices of a node and their links."""
    from importlib.resources import files  # noqa: PLC0415 - only this command needs it

    definition = files("linkwise.config") / "crds" / "deviceinventories.linkwise.dev.yaml"
    click.echo(definition.read_text("utf-8"), nl=False)


@command.command("rbac", epilog=_RBAC, short_help="Print the service account and its roles.")
@name_option("linkwise", "Name of the service account, the roles and their bindings.")
@namespace_option("Namespace of the service.")
@click.option("--user", metavar="NAME", help="Bind the roles to this user and print no service account.")
@click.option("--without", multiple=True, metavar="FEATURE", help="Leave out a feature; can be repeated.")
@click.option("--evict", is_flag=True, help="Allow the service to evict members of partially bound gangs.")
def rbac(name: str, namespace: str, user: str | None, without: tuple[str, ...], *, evict: bool) -> None:
    """Print the service account and its roles, with least privilege; a comment names the feature of each rule."""
    from linkwise.config.rbac import rbac_yaml  # noqa: PLC0415 - imports yaml

    if user == "":
        raise InputError("--user: the name is empty; use the user name that `kubectl auth whoami` prints")
    click.echo(rbac_yaml(name=name, namespace=namespace, user=user or "", without=without, evict=evict), nl=False)
