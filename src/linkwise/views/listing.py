"""Tables of `linkwise get` and `linkwise top`: the rows of a selection, with what is to be said about them."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from linkwise.errors import InputError
from linkwise.explain.capacity import capacity_rows
from linkwise.explain.published import lists
from linkwise.explain.published.allocations import (
    NodeUsageRow,
    PodUsageRow,
    allocation_rows,
    node_usage_rows,
    pod_usage_rows,
    totals,
)
from linkwise.explain.published.lists import any_pod
from linkwise.explain.text.phrases import names_text, share_text
from linkwise.model.device import GIB, MIB
from linkwise.views.blocks import plain, rfc3339
from linkwise.views.nodes import device_rows, node_rows
from linkwise.views.pods import pod_rows
from linkwise.views.table import Cell, Row, Section, age_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from linkwise.broker.access import PolicyReport
    from linkwise.explain.capacity import CapacityRow
    from linkwise.explain.published.allocations import AllocationRow
    from linkwise.model.views import NodeView, PodView
    from linkwise.views.cluster import ClusterView
    from linkwise.views.table import Selection

__all__ = [
    "account_rows",
    "capacity_table",
    "group_row",
    "group_rows",
    "policy_rows",
    "section_of",
    "usage_section",
    "usage_table",
]

KIND_NAMES: Final = {
    "node": "Node",
    "pod": "Pod",
    "device": "Device",
    "group": "Group",
    "policy": "AcceleratorPolicy",
    "usage": "Usage",
    "capacity": "Capacity",
}
"""kinds in documents"""
SINGLE: Final = frozenset({"node", "pod", "group", "policy"})
"""kinds whose names are those of their objects; the name of a device is that of its node"""


def section_of(cluster: ClusterView, selection: Selection) -> Section:
    """Return the selected rows with what is to be said about them; NotFoundError for a name that does not exist."""
    if selection.kind in {"node-usage", "pod-usage"}:
        return usage_section(cluster, selection)
    rows, notes = _rows(cluster, selection)
    return Section(
        KIND_NAMES[selection.kind],
        tuple(rows),
        alone=len(selection.names) == 1 and selection.kind in SINGLE,
        empty=_empty_message(selection),
        notes=tuple(notes),
    )


def _rows(cluster: ClusterView, selection: Selection) -> tuple[list[Row], list[str]]:
    kind, names, namespace = selection.kind, selection.names, selection.namespace
    where = namespace or cluster.namespace
    selects_pod = cluster.selects_pod(selection)
    match kind:
        case "usage" | "capacity" if names:
            raise InputError(f"{kind} has no names; use -n for a namespace, or -l for labels")
        case "usage":
            return usage_table(cluster, namespace, selects_pod)
        case "capacity":
            return capacity_table(cluster, where, selection.selects), []
        case "node" | "device":
            table = node_rows if kind == "node" else device_rows
            return _each(
                names, lambda name: table(cluster, cluster.node(name)), partial(table, cluster, None, selection.selects)
            ), []
        case "pod":
            return _each(
                names,
                lambda name: pod_rows(cluster, where, cluster.pod(where, name)),
                partial(pod_rows, cluster, namespace, "", selects_pod),
            ), []
        case "policy" if selection.selector:
            raise InputError("-l can't be used with policies")
        case "policy":
            return _each(
                names, lambda name: policy_rows(cluster, cluster.policy(name)), partial(policy_rows, cluster, "")
            ), []
        case _:
            everything = partial(
                group_rows, cluster, namespace, "", selection.selects if selection.selector else any_pod
            )
            return _each(names, lambda name: group_rows(cluster, where, cluster.group(where, name)), everything), []


def _each(names: tuple[str, ...], one: Callable[[str], list[Row]], everything: Callable[[], list[Row]]) -> list[Row]:
    return [row for name in names for row in one(name)] if names else everything()


def _empty_message(selection: Selection) -> str:
    """Return what is printed if there is nothing to list."""
    match selection.kind:
        case "node" | "device" | "capacity":
            return "no nodes with devices found"
        case "pod" | "usage":
            what = "no pods that request devices found"
        case "policy":
            return "no AcceleratorPolicies found"
        case _:
            what = "no groups found"
    return f"{what}{f' in namespace {selection.namespace}; use -A for all namespaces' if selection.namespace else ''}"


_UNKNOWN: Final = "<unknown>"
_TOTAL: Final = "TOTAL"
_PER_SIZE: Final = ("size", "pods", "linked", "nodes", "fragmentation")


def usage_table(
    cluster: ClusterView, namespace: str | None, selects: Callable[[PodView], bool]
) -> tuple[list[Row], list[str]]:
    """Return rows by namespace, resource and model, with totals of several namespaces, and notes."""
    rows = allocation_rows(cluster.broker, cluster.now, namespace, selects)
    measured = rows.notes if any(row.pods for row in rows.rows) else ()
    return account_rows(rows.rows), [*rows.never, *measured]


def account_rows(rows: Sequence[AllocationRow]) -> list[Row]:
    """Return rows of the table; more than one namespace has a total of each resource."""
    several = len({row.namespace for row in rows}) > 1
    return [*map(_usage, rows), *(_usage(row) for row in (totals(rows) if several else ()))]


def _usage(row: AllocationRow) -> Row:
    cells = {
        "namespace": Cell(row.namespace or _TOTAL, "" if row.namespace else "bold"),
        "resource": Cell(row.resource),
        "model": Cell(row.model),
        "pods": Cell(str(row.pods)),
        "allocated": Cell(_amount(row.devices, row.share, row.unit)),
        "pending": Cell(_amount(row.pending_devices, row.pending_share, row.unit)),
        "idle pods": Cell(_known(row, row.idle)),
        "pending pods": Cell(str(row.pending_pods), wide=True),
        "memory allocated": Cell(_memory(row, row.total), wide=True),
        "memory used": Cell(_memory(row, row.used), wide=True),
    }
    name = "/".join(filter(None, ("usage", row.namespace or "total", row.resource, row.model)))
    return Row(name, cells, lambda: plain(row), row.namespace)


def _amount(devices: int, share: int, unit: str) -> str:
    parts = [str(devices)] if devices or not share else []
    return " + ".join([*parts, *([share_text(share, unit)] if share else [])])


def _known(row: AllocationRow, value: int | None) -> str:
    return "0" if not row.pods else _UNKNOWN if value is None else str(value)


def _memory(row: AllocationRow, value: int | None) -> str:
    return "0" if not row.pods else _UNKNOWN if value is None else f"{value / GIB:.1f}Gi"


def capacity_table(cluster: ClusterView, namespace: str, selects: Callable[[NodeView], bool]) -> list[Row]:
    """Return a row per resource and model, with all sizes, for pods of that namespace."""
    rows = capacity_rows(cluster.broker, cluster.now, namespace, selects)
    return [_capacity(list(sizes)) for _, sizes in groupby(rows, key=lambda row: (row.resource, row.model))]


def _capacity(sizes: Sequence[CapacityRow]) -> Row:
    row = sizes[0]
    worst = max(sizes, key=lambda size: size.fragmentation)
    cells = {
        "resource": Cell(row.resource),
        "model": Cell(row.model),
        "free": Cell(f"{row.free}/{_size(row, row.total)}"),
        "pods by size": Cell(
            _by_size(sizes, lambda size: size.pods), "green" if any(s.pods for s in sizes) else "yellow"
        ),
        "fragmented": Cell(f"{worst.fragmentation}% for {_size(worst, worst.size)}" if worst.fragmentation else "0%"),
        "linked": Cell(_by_size(sizes, lambda size: size.linked), wide=True),
        "nodes": Cell(_by_size(sizes, lambda size: size.nodes), wide=True),
        "sharing": Cell(row.sharing, wide=True),
    }
    name = "/".join(filter(None, ("capacity", row.resource, row.model)))
    return Row(name, cells, lambda: _capacity_document(sizes))


def _by_size(sizes: Sequence[CapacityRow], value: Callable[[CapacityRow], int | None]) -> str:
    """Return a number per size: `1: 8, 2: 4`; sizes without one are left out."""
    numbers = ((size, value(size)) for size in sizes)
    return ", ".join(f"{_size(size, size.size)}: {number}" for size, number in numbers if number is not None)


def _size(row: CapacityRow, amount: int) -> str:
    return share_text(amount, row.unit) if row.unit else str(amount)


def _capacity_document(sizes: Sequence[CapacityRow]) -> dict[str, object]:
    """Return what the sizes have in common, and each of them."""
    row = plain(sizes[0])
    common = {key: row[key] for key in ("resource", "model", "sharing", "unit", "free", "total")}
    return {**common, "sizes": [{key: size[key] for key in _PER_SIZE} for size in map(plain, sizes)]}


_STYLES: Final = {"placed": "green", "reserved": "green", "unschedulable": "red"}


def group_rows(
    cluster: ClusterView, namespace: str | None, key: str, selects: Callable[[PodView], bool] = lists.any_pod
) -> list[Row]:
    """Return rows for the group of that key, or for all groups of a namespace (None for all namespaces)."""
    every = namespace is None and cluster.only is not None and not key
    namespaces = sorted(cluster.only or ()) if every else [namespace]
    rows = [
        row
        for one in namespaces
        for row in lists.group_rows(cluster.broker, cluster.now, one, key, selects, readable=cluster.only)
    ]
    return [
        group_row(row.namespace, row.name, row.why, plain(row.explanation), everywhere=namespace is None)
        for row in rows
    ]


def group_row(namespace: str, name: str, why: str, group: Mapping[str, Any], *, everywhere: bool) -> Row:
    """Return a row of the table from the data of an explanation; `everywhere` if several namespaces are listed."""
    states = [member["state"] for member in group["members"]]
    there = sum(state not in {"extra", "terminating"} for state in states)
    bound = states.count("bound")
    nodes = [host["name"] for host in group["hosts"]] if group["stage"] in {"placed", "reserved"} or bound else []
    cells = {
        **({"namespace": Cell(namespace)} if everywhere else {}),
        "name": Cell(name),
        "bound": Cell(f"{bound}/{group['total'] or there}"),
        "minimum": Cell(str(group["minimum"] or "")),
        "state": Cell(group["stage"], _STYLES.get(group["stage"], "yellow")),
        "nodes": Cell(names_text(nodes)),
        "source": Cell(group["source"], wide=True),
        "policy": Cell(group["policy"], wide=True),
        "code": Cell(group["code"], wide=True),
        "reason": Cell(why),
    }
    return Row(f"group/{name}", cells, lambda: {"namespace": namespace, "name": name, "why": why, **group}, namespace)


def policy_rows(cluster: ClusterView, name: str) -> list[Row]:
    """Return a row per policy, or that of one policy."""
    reports = cluster.broker.policy_reports()
    return [_row(report) for report in reports if name in {"", report.policy.name}]


def _row(report: PolicyReport) -> Row:
    policy, conditions = report.policy, {condition.type: condition for condition in report.conditions}
    bad = ("Invalid", "Exceeded", "Conflicting")
    wrong = next((conditions[kind] for kind in bad if conditions[kind].status == "True"), None)
    if wrong is None and conditions["Effective"].status == "False":
        wrong = conditions["Effective"]
    subjects = _subjects(report)
    resources = ["all"] if policy.resources is None else list(policy.resources) or ["none"]
    cells = {
        "name": Cell(policy.name),
        "subjects": Cell(", ".join(subjects), brief=_brief(subjects)),
        "resources": Cell(", ".join(resources), brief=_brief(resources)),
        "devices": Cell(
            f"{report.devices}/{policy.max_devices}" if policy.max_devices is not None else str(report.devices)
        ),
        "pods": Cell(str(report.pods)),
        "condition": Cell(wrong.reason if wrong else "Enforced", "red" if wrong else "green"),
        "models": Cell("" if policy.models is None else ", ".join(policy.models), wide=True),
        "sharing": Cell(policy.share_with or "", wide=True),
        "message": Cell(wrong.message if wrong else "", wide=True),
    }
    return Row(f"acceleratorpolicy.linkwise.dev/{policy.name}", cells, lambda: {"name": policy.name, **plain(report)})


def _brief(words: Sequence[str]) -> str:
    """Return the first of several, and how many there are beside it."""
    return words[0] if len(words) == 1 else f"{words[0]} + {len(words) - 1}"


def _subjects(report: PolicyReport) -> list[str]:
    subjects = report.policy.subjects
    if subjects.selects_all:
        return ["all"]
    named = (
        *(f"user {user}" for user in subjects.users),
        *(f"group {group}" for group in subjects.groups),
        *(f"service account {namespace}/{name}" for namespace, name in subjects.service_accounts),
        *(f"namespace {name}" for name in subjects.namespaces),
        *(("namespaces by labels",) if subjects.selector else ()),
    )
    return list(named) or ["none"]


UsageRows = list[NodeUsageRow] | list[PodUsageRow]


def usage_section(cluster: ClusterView, selection: Selection) -> Section:
    """Return the usage of nodes or pods; NotFoundError for a name that does not exist."""
    broker, now, names = cluster.broker, cluster.now, selection.names or ("",)
    if selection.kind == "node-usage":
        nodes = [node_usage_rows(broker, now, cluster.node(name) if name else "", selection.selects) for name in names]
        notes = [note for found in nodes for note in found.notes]
        return _section(cluster, selection, [row for found in nodes for row in found.nodes], notes)
    namespace = selection.namespace
    for name in selection.names:
        cluster.pod(namespace or cluster.namespace, name)
    selects = cluster.selects_pod(selection)
    pods = [pod_usage_rows(broker, now, namespace, name, selects) for name in names]
    notes = [note for found in pods for note in found.notes]
    return _section(cluster, selection, [row for found in pods for row in found.pods], notes)


def _section(cluster: ClusterView, selection: Selection, rows: UsageRows, notes: Sequence[str]) -> Section:
    ordered: Sequence[NodeUsageRow | PodUsageRow] = rows
    if selection.sort_by:
        ordered = sorted(rows, key=lambda row: -_memory_size(row, selection.sort_by))
    of_nodes = selection.kind == "node-usage"
    everywhere = not of_nodes and selection.namespace is None
    return Section(
        "NodeUsage" if of_nodes else "PodUsage",
        tuple(_usage_row(row, cluster.now, everywhere=everywhere) for row in ordered),
        alone=len(selection.names) == 1,
        empty="no nodes with devices found"
        if of_nodes
        else f"no pods with devices found{'' if everywhere else '; use -A for all namespaces'}",
        notes=tuple(notes),
    )


def _memory_size(row: NodeUsageRow | PodUsageRow, by: str) -> int:
    """The value to sort by; unknown ones come last."""
    value = row.used if by == "memory" else row.utilization
    return -1 if value is None else value


def _usage_row(row: NodeUsageRow | PodUsageRow, now: float, *, everywhere: bool) -> Row:
    pod = row if isinstance(row, PodUsageRow) else None
    cells = {
        **({"namespace": Cell(pod.namespace)} if pod and everywhere else {}),
        "name": Cell(row.name),
        "devices": Cell(str(row.devices)),
        "memory(bytes)": Cell(_bytes(row.used)),
        "memory(%)": Cell(_percent(row.used, row.total)),
        "utilization(%)": Cell(_UNKNOWN if row.utilization is None else f"{row.utilization}%"),
    }
    if isinstance(row, PodUsageRow):
        more = {"allocated(bytes)": _bytes(row.total), "node": row.node}
    else:
        more = {"total(bytes)": _bytes(row.total), "idle": _UNKNOWN if row.idle is None else str(row.idle)}
    cells |= {name: Cell(text, wide=True) for name, text in more.items()}
    cells["age"] = Cell("" if row.age is None else age_text(row.age), wide=True, volatile=True)
    name = f"{'pod' if pod else 'node'}/{row.name}"
    return Row(name, cells, lambda: _document(row, now), pod.namespace if pod else "")


def _document(row: NodeUsageRow | PodUsageRow, now: float) -> dict[str, Any]:
    document: dict[str, Any] = plain(row)
    del document["age"]
    return {**document, "time": None if row.age is None else rfc3339(now - row.age)}


def _bytes(amount: int | None) -> str:
    return _UNKNOWN if amount is None else f"{amount // MIB}Mi"


def _percent(used: int | None, total: int | None) -> str:
    return _UNKNOWN if used is None or not total else f"{round(100 * used / total)}%"
