"""`linkwise manifests`: prints a complete installation, or its CRDs, RBAC, webhook or admission policies."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from linkwise import __version__
from linkwise.cli.options.cluster import name_option, namespace_option, object_name
from linkwise.errors import InputError

_EXAMPLES: Final = """\b
Examples:
  linkwise manifests all | kubectl apply --server-side -f -
  linkwise manifests crd | kubectl apply --server-side -f -
  linkwise manifests rbac | kubectl apply -f -
  linkwise manifests rbac --agent | kubectl apply -f -
  linkwise manifests webhook | kubectl apply -f -
  linkwise manifests protection | kubectl apply -f -
  linkwise manifests device-classes | kubectl apply -f -
"""
_DEVICE_CLASSES: Final = """\b
Examples:
  linkwise manifests device-classes | kubectl apply -f -
  linkwise manifests device-classes --extended-resource nvidia.com/gpu

\b
Class                    A claim gets
gpu.linkwise.dev         one device
pair.gpu.linkwise.dev    two devices with one of the fastest links
four.gpu.linkwise.dev    four devices with some of the fastest links

The node agent publishes these devices with agent.mode: dra. With --extended-resource, pods can request
single devices as that resource, without a claim of their own. Kubernetes 1.34 or later is required, and
1.36 for sets and for extended resources with default feature gates.
"""
_ALL: Final = f"""\b
Examples:
  linkwise manifests all | kubectl apply --server-side -f -
  linkwise manifests all --image registry.example.com/linkwise:{__version__}
  linkwise manifests all --replicas 1              # for a single node
  linkwise manifests all --without agent --without protection
  linkwise manifests all --kubernetes-version 1.34.2
  linkwise manifests all --without crds | kubectl delete -f -   # uninstall

The objects are those that the Helm chart renders with its default values, and a Namespace. For other
values use the chart. The image of kube-scheduler should have the version of the cluster.
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
  linkwise manifests rbac --without evict          # no evictions
  linkwise manifests rbac --tls                    # certificates in Secrets
  linkwise manifests rbac --without tenants        # no answers for users
  linkwise manifests rbac --agent                  # for the node agent
  linkwise manifests rbac --agent --dra            # as a DRA driver

Optional features: leader, events, wake, conditions, tenants, gates, evict, budgets, volumes, policies, inventories,
koordinator, numa, configmaps, claims, groups, network; of the agent: node, events. Leaving one out removes its rules
only. The namespace of the service account must exist. With --without evict, set placing.preemption.evict to
false. Without --tls the service can't keep certificates in Secrets, which tls.enabled without files
needs, and with it users reach the service by https. With --without tenants it can't check tokens, and
users can't reach it through the API server. Without --koordinator the agent can't write Device objects,
which agent.koordinator_device needs.
"""
_WEBHOOK: Final = """\b
Examples:
  linkwise manifests webhook | kubectl apply -f -
  linkwise manifests webhook --opt-in         # only labelled namespaces
  linkwise manifests webhook --cert-manager   # its certificate
  linkwise manifests webhook --url https://10.0.0.7:9443 --ca ca.crt

Set webhook.enabled for the service, and run it before you apply the configurations: pods that
request accelerators are refused while the webhook does not answer. Pods that Linkwise does not
manage, kube-system and the namespace of the service are never sent to it. The label
linkwise.dev/webhook=ignore on a namespace opts out; with --opt-in, namespaces need
linkwise.dev/webhook=enabled. With --pod-opt-out the label works on pods too: every user can then leave
pods to another scheduler, which no AcceleratorPolicy stops.
"""
_PROTECTION: Final = """\b
Examples:
  linkwise manifests protection | kubectl apply -f -
  linkwise manifests protection --audit         # warn, refuse nothing
  linkwise manifests protection --user linkwise-test
  linkwise manifests protection --identity system:serviceaccount:ai:plugin
  linkwise manifests protection --identity-group system:nodes
  linkwise manifests protection \\
    --binder system:serviceaccount:volcano-system:volcano-scheduler

\b
Policy              Refuses
linkwise-records    records of devices on pods, written by anyone else
linkwise-templates  the same annotations in pod templates of workloads
linkwise-gates      opening the gate of gang members, but for the service
linkwise-agents     changes by node agents outside of their own node

The API server enforces them itself, in every namespace, for administrators too. Device plugins and
schedulers of other systems that write records of their own need --identity or --identity-group;
neither allows them to write the records of Linkwise. Volcano binds with the annotations of the pod
and needs --binder. Names are those that `kubectl auth whoami` prints. Kubernetes 1.30 or later is required.
"""
_SCHEDULER_IMAGE: Final = "registry.k8s.io/kube-scheduler"
_RESOURCE: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_IMAGE: Final = re.compile(r"[a-z0-9][A-Za-z0-9._/:@-]*")


@click.group("manifests", epilog=_EXAMPLES)
def command() -> None:
    """Print the manifests that Linkwise needs in a cluster."""


@command.command("all", epilog=_ALL, short_help="Print everything that an installation consists of.")
@namespace_option("Namespace of the installation.")
@click.option("--image", default="", metavar="IMAGE", help="Image of the service and the node agent.")
@click.option("--scheduler-image", default="", metavar="IMAGE", help="Image of kube-scheduler.")
@click.option("--kubernetes-version", default="", metavar="VERSION", help="Version of kube-scheduler's image.")
@click.option(
    "--replicas", type=click.IntRange(1, 5), default=2, show_default=True, help="Of the service and of kube-scheduler."
)
@click.option(
    "--without",
    multiple=True,
    type=click.Choice(["crds", "scheduler", "agent", "protection", "network-policies"]),
    help="Leave out a part; can be repeated.",
)
def everything(  # noqa: PLR0913 - one parameter per option
    *,
    namespace: str,
    image: str,
    scheduler_image: str,
    kubernetes_version: str,
    replicas: int,
    without: tuple[str, ...],
) -> None:
    """Print the manifests of a complete installation, as the Helm chart renders them.

    CRDs, roles, the service, a second kube-scheduler, the node agent, the admission webhook and the policies that protect
    records.
    """
    from linkwise.config.installation import Installation, installation_yaml  # noqa: PLC0415 - imports yaml

    if scheduler_image and kubernetes_version:
        raise InputError("--kubernetes-version: --scheduler-image names the version too; leave out one of them")
    if kubernetes_version:
        match = re.fullmatch(r"v?(\d{1,3}\.\d{1,3}\.\d{1,3})(?:[-+].*)?", kubernetes_version)
        if match is None:
            raise InputError(f"--kubernetes-version: expected a version such as 1.36.4, got '{kubernetes_version}'")
        scheduler_image = f"{_SCHEDULER_IMAGE}:v{match[1]}"
    for option, value in (("--image", image), ("--scheduler-image", scheduler_image)):
        if value and not _IMAGE.fullmatch(value):
            raise InputError(f"{option}: {value!r} is not an image; use NAME:TAG or NAME@DIGEST")
    wanted = Installation(namespace, image, scheduler_image, replicas, without)
    click.echo(installation_yaml(wanted), nl=False)


@command.command("crd", epilog=_CRD, short_help="Print the CRDs of DeviceInventory and AcceleratorPolicy.")
def crd() -> None:
    """Print the CustomResourceDefinitions of DeviceInventory and AcceleratorPolicy.

    DeviceInventory lists the devices of a node and their links. AcceleratorPolicy says who may request and share devices.
    """
    from importlib.resources import files  # noqa: PLC0415 - only this command needs it

    folder = files("linkwise.config") / "crds"
    definitions = sorted((file for file in folder.iterdir() if file.name.endswith(".yaml")), key=lambda file: file.name)
    click.echo("---\n".join(definition.read_text("utf-8") for definition in definitions), nl=False)


@command.command("rbac", epilog=_RBAC, short_help="Print the service account and its roles.")
@name_option("linkwise", "Name of the service account, the roles and their bindings.")
@namespace_option("Namespace of the service.")
@click.option("--user", metavar="NAME", help="Bind the roles to this user and print no service account.")
@click.option("--without", multiple=True, metavar="FEATURE", help="Leave out a feature; can be repeated.")
@click.option("--rank-tables", is_flag=True, help="Allow the service to write the rank tables of Ascend jobs.")
@click.option("--tls", is_flag=True, help="Allow the service to keep its certificates in Secrets, for tls.enabled.")
@click.option(
    "--agent", is_flag=True, help="Print the manifests of the node agent; its name is linkwise-agent by default."
)
@click.option("--koordinator", is_flag=True, help="Allow the agent to write Koordinator's Device objects.")
@click.option("--device-info", is_flag=True, help="Allow the agent to write the ConfigMaps of Huawei's device plugin.")
@click.option("--dra", is_flag=True, help="Allow the agent to publish ResourceSlices, for agent.mode dra.")
@click.pass_context
def rbac(  # noqa: PLR0913 - one parameter per option
    context: click.Context,
    name: str,
    namespace: str,
    user: str | None,
    without: tuple[str, ...],
    *,
    rank_tables: bool,
    tls: bool,
    agent: bool,
    koordinator: bool,
    device_info: bool,
    dra: bool,
) -> None:
    """Print the service account and its roles, with least privilege; a comment names the feature of each rule."""
    from linkwise.config.rbac import agent_rbac_yaml, rbac_yaml  # noqa: PLC0415 - imports yaml

    if user == "":
        raise InputError("--user: the name is empty; use the user name that `kubectl auth whoami` prints")
    if agent and rank_tables:
        raise InputError("--rank-tables: the service writes rank tables; leave out --agent for it")
    if agent and tls:
        raise InputError("--tls: schedulers call the service; leave out --agent for it")
    if koordinator and not agent:
        raise InputError("--koordinator: only the agent writes Device objects; add --agent")
    if device_info and not agent:
        raise InputError("--device-info: only the agent writes these ConfigMaps; add --agent")
    if dra and not agent:
        raise InputError("--dra: only the agent publishes ResourceSlices; add --agent")
    if not agent:
        text = rbac_yaml(
            name=name,
            namespace=namespace,
            user=user or "",
            without=without,
            rank_tables=rank_tables,
            tls=tls,
        )
        click.echo(text, nl=False)
        return
    if context.get_parameter_source("name") is ParameterSource.DEFAULT:
        name = "linkwise-agent"
    text = agent_rbac_yaml(
        name=name,
        namespace=namespace,
        user=user or "",
        without=without,
        koordinator=koordinator,
        device_info=device_info,
        dra=dra,
    )
    click.echo(text, nl=False)


@command.command("device-classes", epilog=_DEVICE_CLASSES, short_help="Print the DeviceClasses of the node agent.")
@click.option(
    "--extended-resource", default="", metavar="NAME", help="Let pods request single devices by this resource."
)
def device_classes(extended_resource: str) -> None:
    """Print the DeviceClasses by which claims request devices that the node agent publishes in ResourceSlices."""
    from linkwise.config.device_classes import device_classes_yaml  # noqa: PLC0415 - imports yaml

    if extended_resource and not _RESOURCE.fullmatch(extended_resource):
        raise InputError(f"--extended-resource: {extended_resource!r} is not a resource such as nvidia.com/gpu")
    click.echo(device_classes_yaml(extended_resource), nl=False)


@command.command("webhook", epilog=_WEBHOOK, short_help="Print the configurations of the admission webhook.")
@name_option("linkwise", "Name of both configurations, as in webhook.configuration.")
@namespace_option("Namespace of the service.")
@click.option("--url", default="", metavar="URL", help="Call the webhook at this address instead of a Service.")
@click.option(
    "--ca",
    type=click.Path(path_type=Path),
    help="PEM file with the authority to trust; default: the service writes its own.",
)
@click.option(
    "--scheduler",
    default="linkwise-scheduler",
    show_default=True,
    metavar="NAME",
    help="Name of the scheduler, as in webhook.scheduler.",
)
@click.option("--opt-in", is_flag=True, help="Select only namespaces with the label linkwise.dev/webhook=enabled.")
@click.option(
    "--pod-opt-out/--no-pod-opt-out",
    default=False,
    help="Let pods opt out too, not only namespaces: their users escape AcceleratorPolicies.",
)
@click.option("--cert-manager", is_flag=True, help="Use a certificate of cert-manager.")
@click.option(
    "--hide-devices", is_flag=True, help="Send all pods, for webhook.hide_devices; they never wait for Linkwise."
)
@click.option(
    "--user", default="", metavar="NAME", help="Bind the roles to this user instead of the service account linkwise."
)
def webhook(  # noqa: PLR0913 - one parameter per option
    *,
    name: str,
    namespace: str,
    url: str,
    ca: Path | None,
    scheduler: str,
    opt_in: bool,
    pod_opt_out: bool,
    cert_manager: bool,
    hide_devices: bool,
    user: str,
) -> None:
    """Print the configurations of the admission webhook, its Service and its roles."""
    from linkwise.config.webhook_manifests import WebhookFile, webhook_yaml  # noqa: PLC0415 - imports yaml

    if url and not url.startswith("https://"):
        raise InputError(f"--url: {url!r} is not an https address; the API server calls webhooks by TLS only")
    if ca and cert_manager:
        raise InputError("--ca: cert-manager writes its authority itself; leave out one of --ca and --cert-manager")
    wanted = WebhookFile(
        name=name,
        namespace=namespace,
        scheduler=scheduler,
        url=url,
        authority=_authority(ca) if ca else "",
        opt_in=opt_in,
        pod_opt_out=pod_opt_out,
        cert_manager=cert_manager,
        hide_devices=hide_devices,
        user=user,
    )
    click.echo(webhook_yaml(wanted), nl=False)


def _authority(file: Path) -> str:
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--ca: {file}: {getattr(error, 'strerror', None) or error}") from error
    if "BEGIN CERTIFICATE" not in text:
        raise InputError(f"--ca: {file}: no certificate in PEM format")
    return text


@command.command("protection", epilog=_PROTECTION, short_help="Print policies that protect records from forgery.")
@name_option("linkwise", "Service account of the service.")
@click.option(
    "--agent-name",
    default="linkwise-agent",
    show_default=True,
    help="Service account of the node agent.",
    callback=object_name,
)
@namespace_option("Namespace of both service accounts.")
@click.option("--user", metavar="NAME", help="User of a service that runs without a service account.")
@click.option(
    "--identity", multiple=True, metavar="NAME", help="User who may write records of other systems; can be repeated."
)
@click.option(
    "--identity-group",
    multiple=True,
    metavar="NAME",
    help="Group whose members may write records of other systems; can be repeated.",
)
@click.option(
    "--controller",
    multiple=True,
    metavar="NAME",
    default=("system:serviceaccount:volcano-system:volcano-controllers",),
    show_default=True,
    help="User who creates pods from templates, which keep linkwise.dev/user; can be repeated.",
)
@click.option(
    "--binder",
    multiple=True,
    metavar="NAME",
    help="Scheduler whose Bindings repeat the annotations of the pod, as Volcano's do; can be repeated.",
)
@click.option("--audit", is_flag=True, help="Warn and write audit annotations instead of refusing.")
def protection(  # noqa: PLR0913 - one parameter per option
    *,
    name: str,
    agent_name: str,
    namespace: str,
    user: str | None,
    identity: tuple[str, ...],
    identity_group: tuple[str, ...],
    controller: tuple[str, ...],
    binder: tuple[str, ...],
    audit: bool,
) -> None:
    """Print ValidatingAdmissionPolicies by which only Linkwise and device plugins write records of allocated devices."""
    from linkwise.assembly.plugins import load_plugins  # noqa: PLC0415 - the other commands know no dialect
    from linkwise.config.protection import protection_yaml  # noqa: PLC0415 - imports yaml

    load_plugins()  # dialects of extensions have records too
    text = protection_yaml(
        name=name,
        agent=agent_name,
        namespace=namespace,
        user=user,
        identities=identity,
        groups=identity_group,
        controllers=controller,
        binders=binder,
        audit=audit,
    )
    click.echo(text, nl=False)
