"""Access record: devices in use by policy and namespace, with the pods that wait for a limit.

Nothing is counted and nothing is cached while there is no policy. Bound: counts follow the ledger entry by entry, and the
nodes that a rule leaves out follow the log of the index.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from linkwise.dialects.linkwise.accelerator_policy import subject_of
from linkwise.engine.access import RULE, devices_of
from linkwise.model.access_policy import Subject
from linkwise.model.verdict import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from linkwise.broker.cluster.cluster import Cluster
    from linkwise.engine.access import AccessRule
    from linkwise.model.ask import Ask
    from linkwise.model.verdict import Entry, Key
    from linkwise.model.views import PodView

__all__ = ["Access"]

CACHED: Final = 64
"""rules and sizes of shares for which the nodes left out are cached; the least recently used is dropped first"""
_Key = tuple[str, str]
"""policy and namespace"""


class Access:
    """What policies have to do with pods and nodes of the cluster.

    Args:
        cluster: has the policies, the ledger and the index.
        find_pod: returns an observed or queued pod by UID.
    """

    def __init__(self, cluster: Cluster, find_pod: Callable[[str], PodView | None]) -> None:
        self._cluster = cluster
        self._find_pod = find_pod
        self.limited: dict[str, bool] = {}
        """pods refused for a limit of devices at one time, and whether they were woken since"""
        self.refusals: Counter[str] = Counter()
        """refused pods by policy"""
        self.freed: dict[str, None] = {}
        """namespaces that have fewer devices in use, or whose limits changed: their pods may be woken"""
        self._refused: dict[str, str] = {}
        """the policy that refused a pending pod last, so that it is counted once"""
        self._recorded: dict[str, int] = {}
        """refused pods by policy, as the status had it at the start"""
        self._in_use: Counter[_Key] = Counter()
        self._pods: Counter[_Key] = Counter()
        self._counted: dict[Key, tuple[int, tuple[_Key, ...]]] = {}
        """by ledger entry, the devices and where they are counted"""
        self._barred: dict[tuple[object, ...], _Barred] = {}

    def __bool__(self) -> bool:
        return bool(self._cluster.shared.access)

    def rule_of(self, pod: PodView) -> AccessRule | None:
        """Return the rule of a pod by its namespace, its service account and its recorded user; None if none applies."""
        rules = self._cluster.shared.access
        return rules.rule(subject_of(pod)) if rules else None

    # limits

    def limit_reason(self, pod: PodView, ask: Ask, rule: AccessRule) -> Reason | None:
        """Return a refusal if the pod would exceed a limit of devices at one time; its own entry does not count."""
        for term, most in rule.limits:
            used, wanted = self.in_use(term.policy.name, pod.namespace, (pod.uid,)), devices_of(ask)
            if used + wanted > most:
                return Reason(RULE, wanted, (term.who, str(used), str(most)), "limit", term.policy.name)
        return None

    def in_use(self, policy: str, namespace: str, without: Collection[str] = ()) -> int:
        """Return the devices of a namespace that count for a policy: bound, assumed, planned and offered ones."""
        self.catch_up()
        key = (policy, namespace)
        own = (self._counted[uid] for uid in without if uid in self._counted)
        return self._in_use[key] - sum(devices for devices, keys in own if key in keys)

    def totals(self, policy: str) -> tuple[int, int]:
        """Return the pods with devices, and the devices, that count for a policy in all namespaces."""
        self.catch_up()
        pods, devices = (
            sum(count for (name, _), count in counts.items() if name == policy) for counts in (self._pods, self._in_use)
        )
        return pods, devices

    def by_namespace(self, policy: str) -> dict[str, int]:
        """Return the devices that count for a policy, by namespace."""
        self.catch_up()
        return {namespace: count for (name, namespace), count in self._in_use.items() if name == policy}

    def catch_up(self) -> None:
        """Count the entries that changed since the last time; namespaces with fewer devices go to `freed`."""
        ledger = self._cluster.ledger
        if ledger.changed_keys is None:
            if self:
                self.recount()
            return
        if not ledger.changed_keys:
            return
        before: dict[_Key, int] = {}
        for changed in ledger.changed_keys:
            devices, keys = self._counted.pop(changed, (0, ()))
            for key in keys:
                before.setdefault(key, self._in_use[key])
                self._in_use[key] -= devices
                self._pods[key] -= 1
            if entry := ledger.get(changed):
                self._count(entry, before)
        ledger.changed_keys.clear()
        self.freed |= {key[1]: None for key, count in before.items() if self._in_use[key] < count}
        for key in before:
            if not self._in_use[key] and not self._pods[key]:
                del self._in_use[key], self._pods[key]

    def recount(self) -> None:
        """Count all entries again, because the policies changed; without policies nothing is counted any more."""
        ledger = self._cluster.ledger
        self._in_use.clear()
        self._pods.clear()
        self._counted.clear()
        self._barred.clear()
        ledger.changed_keys = set() if self else None
        for entry in ledger.entries() if self else ():
            self._count(entry, {})
        self.freed |= {pod.namespace: None for uid in self.limited if (pod := self._find_pod(uid))}

    def _count(self, entry: Entry, before: dict[_Key, int]) -> None:
        if entry.state == "RESERVED":
            return  # kept free for a pod that does not use it yet
        pod = self._find_pod(entry.pod)
        subject = subject_of(pod) if pod else Subject(entry.namespace)
        rule = self._cluster.shared.access.rule(subject)
        if rule is None:
            return
        ask, devices = entry.unrecorded_ask, len(entry.grant.offer.devices)
        keys = tuple((term.policy.name, entry.namespace) for term in rule.terms)
        self._counted[entry.key] = max(devices, devices_of(ask) if ask else 0), keys
        for key in keys:
            before.setdefault(key, self._in_use[key])
            self._in_use[key] += self._counted[entry.key][0]
            self._pods[key] += 1

    # refusals

    def note_refusal(self, uid: str, reason: Reason) -> None:
        """Count a refused pod, once per policy in a row; one that a limit refuses is woken when devices are released."""
        if reason.kind == "limit":
            self.limited[uid] = False
        else:
            self.lift(uid)
        if self._refused.get(uid) != reason.noun:
            self._refused[uid] = reason.noun
            self.refusals[reason.noun] += 1

    def all_refusals(self, policy: str, recorded: object) -> int:
        """Return the pods that a policy refused, those that its status had at the start included."""
        if policy not in self._recorded:
            self._recorded[policy] = recorded if isinstance(recorded, int) else 0
        return self._recorded[policy] + self.refusals[policy]

    def lift(self, uid: str) -> None:
        """The pod does not wait for a limit any more; if it was woken for it, another may be."""
        woken = self.limited.pop(uid, None)
        if woken and (pod := self._find_pod(uid)):
            self.freed[pod.namespace] = None

    def forget(self, uid: str) -> None:
        """Remove a pod that is bound or deleted."""
        if self.limited or self._refused:
            self.lift(uid)
            self._refused.pop(uid, None)

    def restore(self, limited: Mapping[str, bool]) -> None:
        """Replace what waits for a limit by that of a snapshot."""
        self.limited = dict(limited)
        self.recount()

    # nodes

    def barred(self, rule: AccessRule, ask: Ask) -> Mapping[str, Reason]:
        """Return the nodes that a rule leaves out for a request; the reason may name another subject of the policy."""
        if not rule.restricts_nodes(ask):
            return {}
        share = () if ask.devices else (ask.mode, ask.in_bytes, tuple(each.share for each in ask.containers))
        key = (tuple(term.policy.name for term in rule.terms), bool(ask.devices), share)
        known, index = self._barred.pop(key, None), self._cluster.index
        changed: Iterable[str] | None = index.changed_since(known.position) if known else None
        if known is None or changed is None:
            known, changed = _Barred(), list(index.nodes)
        for name in changed:
            known.reasons.pop(name, None)
            node = index.nodes.get(name)
            if node and (reason := rule.node_refusal(ask, node)):
                known.reasons[name] = reason
        known.position = index.changes
        self._barred[key] = known
        if len(self._barred) > CACHED:
            del self._barred[next(iter(self._barred))]
        return known.reasons


class _Barred:
    """The nodes left out as of a position in the log of the index."""

    __slots__ = ("position", "reasons")

    def __init__(self) -> None:
        self.position = 0
        self.reasons: dict[str, Reason] = {}
