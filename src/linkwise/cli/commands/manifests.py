"""`linkwise manifests`: prints the CRD, and the RBAC manifests of the service and the node agent."""

from __future__ import annotations

from typing import Final

import click
from click.core import ParameterSource

from linkwise.cli.options.names import name_option, namespace_option
from linkwise.errors import InputError

_EXAMPLES: Final = """\b
Examples:
  linkwise manifests crd | kubectl apply --server-side -f -
  linkwise manifests rbac | kubectl apply -f -
  linkwise manifests rbac --agent | kubectl apply -f -
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
  linkwise manifests rbac --agent                  # for the node agent

Optional features: events, wake, budgets, inventories, koordinator, configmaps, groups, network;
of the agent: node, events. Leaving one out removes its rules only. The namespace of the service
account must exist. Without --evict the service can't evict pods, which placing.preemption.evict
and placing.group.evict_half_bound need. Without --koordinator the agent can't write Device
objects, which agent.koordinator_device needs.
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
@click.option(
    "--agent", is_flag=True, help="Print the manifests of the node agent; its name is linkwise-agent by default."
)
@click.option("--koordinator", is_flag=True, help="Allow the agent to write Koordinator's Device objects.")
@click.pass_context
def rbac(  # noqa: PLR0913 - one parameter per option
    context: click.Context,
    name: str,
    namespace: str,
    user: str | None,
    without: tuple[str, ...],
    *,
    evict: bool,
    agent: bool,
    koordinator: bool,
) -> None:
    """Print the service account and its roles, with least privilege; a comment names the feature of each rule."""
    from linkwise.config.rbac import agent_rbac_yaml, rbac_yaml  # noqa: PLC0415 - imports yaml

    if user == "":
        raise InputError("--user: the name is empty; use the user name that `kubectl auth whoami` prints")
    if agent and evict:
        raise InputError("--evict: the agent evicts no pods; leave out --agent for the service")
    if koordinator and not agent:
        raise InputError("--koordinator: only the agent writes Device objects; add --agent")
    if not agent:
        click.echo(rbac_yaml(name=name, namespace=namespace, user=user or "", without=without, evict=evict), nl=False)
        return
    if context.get_parameter_source("name") is ParameterSource.DEFAULT:
        name = "linkwise-agent"
    text = agent_rbac_yaml(name=name, namespace=namespace, user=user or "", without=without, koordinator=koordinator)
    click.echo(text, nl=False)
