"""`linkwise manifests`: what a cluster needs so that the service may work in it."""

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
  linkwise manifests rbac --without plans --without network
  linkwise manifests rbac --user linkwise-test     # for a service elsewhere
  linkwise manifests rbac --evict                  # it may evict stuck gangs

Features that can be left out: events, wake, plans, inventories, koordinator, configmaps, groups,
network. Each takes its rules with it, and nothing else. The namespace of the account must be there.
Without --evict the service may not evict anybody; placing.group.evict_half_bound needs it.
"""


@click.group("manifests", epilog=_EXAMPLES)
def command() -> None:
    """Print manifests that a cluster with Linkwise needs."""


@command.command("crd", epilog=_CRD, short_help="The kind DeviceInventory.")
def crd() -> None:
    """Print the definition of DeviceInventory, the object that tells which devices a node has and how they are linked."""
    from importlib.resources import files  # noqa: PLC0415 - only this command needs it

    found = files("linkwise.config") / "crds" / "deviceinventories.linkwise.dev.yaml"
    click.echo(found.read_text("utf-8"), nl=False)


@command.command("rbac", epilog=_RBAC, short_help="What the service may do.")
@name_option("linkwise", "Of the account, the roles and their bindings.")
@namespace_option("Where the service runs.")
@click.option("--user", metavar="NAME", help="Bind the roles to this user, and print no account.")
@click.option("--without", multiple=True, metavar="FEATURE", help="Leave a feature out; may be given more than once.")
@click.option("--evict", is_flag=True, help="Let the service evict bound members of gangs that are stuck halfway.")
def rbac(name: str, namespace: str, user: str | None, without: tuple[str, ...], *, evict: bool) -> None:
    """Print the account of the service and its roles: exactly what it uses, with the feature that each rule is for."""
    from linkwise.config.rbac import rbac_yaml  # noqa: PLC0415 - brings yaml

    if user == "":
        raise InputError("--user: it is empty; name the user that the service is, as `kubectl auth whoami` tells it")
    click.echo(rbac_yaml(name=name, namespace=namespace, user=user or "", without=without, evict=evict), nl=False)
