"""Koordinator's gang annotations: name, minimum, total, waiting time, mode, bundle, network.

Source: contract koordinator, section 7.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, TypeVar, get_args

from linkwise.dialects.dialect import where_pod
from linkwise.dialects.json_fields import Fields, Report, json_value, shown
from linkwise.errors import InputError
from linkwise.model.ask import Group, MatchPolicy, NetworkWish

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.dialects.groups.conventions import Words

__all__ = [
    "INDEX",
    "KEYS",
    "MINIMUM",
    "MINIMUM_LABEL",
    "NAME",
    "PREFIX",
    "TOTAL",
    "WORDS",
    "Gang",
    "duration",
    "gang",
    "gang_words",
    "speaks_gang",
]

PREFIX: Final = "gang.scheduling.koordinator.sh/"
NAME: Final = f"{PREFIX}name"
MINIMUM: Final = f"{PREFIX}min-available"
TOTAL: Final = f"{PREFIX}total-number"
WAITING: Final = f"{PREFIX}waiting-time"
MODE: Final = f"{PREFIX}mode"
GROUPS: Final = f"{PREFIX}groups"
POLICY: Final = f"{PREFIX}match-policy"
NETWORK: Final = f"{PREFIX}network-topology-spec"
INDEX: Final = f"{PREFIX}network-topology-index"
WORDS: Final = (NAME, MINIMUM, TOTAL, WAITING, MODE, GROUPS, POLICY, NETWORK)
KEYS: Final = (*WORDS, INDEX, f"{PREFIX}timeout")
"""all annotations of Koordinator's gangs; it writes the last one itself"""

LABEL: Final = "pod-group.scheduling.sigs.k8s.io"
NAME_LABEL: Final = f"{LABEL}/name"
MINIMUM_LABEL: Final = f"{LABEL}/min-available"
POLICY_ALIAS: Final = f"{LABEL}/match-policy"

_MODES: Final[Mapping[str, bool]] = {"Strict": True, "NonStrict": False}
_POLICIES: Final[Mapping[str, MatchPolicy]] = {policy: policy for policy in get_args(MatchPolicy)}
_STRATEGIES: Final[Mapping[str, bool]] = {"MustGather": True, "PreferGather": False}
_WAIT: Final = 600.0  # seconds

_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_STEP: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{0,12})?|\.[0-9]{1,12})(ns|us|µs|μs|ms|s|m|h)")
_DURATION: Final = re.compile(rf"\+?(?:{_STEP.pattern})+")
_MEMBER: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}/[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Gang:
    """Gang annotations of a pod; None for those that are missing or invalid."""

    name: str | None
    named_by: str
    minimum: int | None = None
    total: int | None = None
    waiting_time: float = _WAIT
    strict: bool = True
    match_policy: MatchPolicy = "once-satisfied"
    bundle: tuple[str, ...] = ()
    network: tuple[NetworkWish, ...] = ()


def speaks_gang(words: Words) -> bool:
    """Whether the pod uses any gang word; the place of a pod alone makes no gang."""
    return any(key in words.annotations for key in WORDS) or LABEL in words.labels or NAME_LABEL in words.labels


def gang(words: Words) -> Group | None:
    """The group that gang words alone make: it needs a name, and a minimum unless a PodGroup object has it."""
    gang = gang_words(words)
    if gang.name is None or (gang.minimum is None and gang.named_by == NAME):
        return None
    total = gang.total or gang.minimum
    if total is not None and gang.minimum is not None and total < gang.minimum:
        words.say(TOTAL, f"it is {total} and {MINIMUM} is {gang.minimum}; {gang.minimum} is taken for both")
        total = gang.minimum
    return Group(
        words.key(gang.name),
        "koordinator",
        total,
        gang.minimum,
        match_policy=gang.match_policy,
        strict=gang.strict,
        waiting_time=gang.waiting_time,
        bundle=gang.bundle,
        network=gang.network,
    )


def gang_words(words: Words) -> Gang:
    """All gang words of a pod."""
    for key in words.annotations:
        if key.startswith(PREFIX) and key not in KEYS:
            near = get_close_matches(key, KEYS, 1, 0.9)
            advice = f"; did you mean {near[0]}?" if near else ""
            words.say(key, f"it is not a known gang annotation; it is ignored{advice}")
    name, named_by = _name(words)
    total = words.annotations.get(TOTAL)
    policy = POLICY if POLICY in words.annotations else POLICY_ALIAS
    return Gang(
        name,
        named_by,
        _minimum(words, needed=named_by == NAME),
        None if total is None else words.count(TOTAL, total),
        _waiting(words),
        _word(words, MODE, _MODES, default=True),
        _word(words, policy, _POLICIES, default="once-satisfied"),
        _bundle(words),
        _network(words),
    )


def duration(text: str) -> float:
    """Seconds of a duration as Go writes it: 90s, 1h30m; InputError if it is none or not above 0."""
    if not _DURATION.fullmatch(text):
        raise InputError(f"{shown(text)} is not a duration; write 90s, 10m or 1h30m")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _STEP.findall(text))
    if not 0 < seconds < 2**63 / 1e9:
        raise InputError(f"{shown(text)} is not a valid waiting time; write 90s, 10m or 1h30m")
    return seconds


def _name(words: Words) -> tuple[str | None, str]:
    """By Koordinator's order; the others must say the same."""
    names = {key: words.labels[key] for key in (LABEL, NAME_LABEL) if key in words.labels}
    names |= {NAME: words.annotations[NAME]} if NAME in words.annotations else {}
    if not names:
        words.say(NAME, "other gang annotations are given without it; name the gang")
        return None, NAME
    (first, text), *others = names.items()
    for key, other in others:
        if other != text:
            words.say(key, f"it is {shown(other)}, but {first} is {shown(text)}, which is used; make them equal")
    return words.name(first, text), first


def _minimum(words: Words, *, needed: bool) -> int | None:
    if MINIMUM in words.annotations:
        return words.count(MINIMUM, words.annotations[MINIMUM])
    if MINIMUM_LABEL in words.labels:
        return words.count(MINIMUM_LABEL, words.labels[MINIMUM_LABEL])
    if needed:
        words.say(MINIMUM, f"missing beside {NAME}; set how many pods must start together")
    return None


def _waiting(words: Words) -> float:
    text = words.annotations.get(WAITING)
    try:
        return _WAIT if text is None else duration(text)
    except InputError as error:
        words.say(WAITING, f"{error}; 600s is taken")
        return _WAIT


def _word(words: Words, key: str, known: Mapping[str, V], *, default: V) -> V:
    text = words.annotations.get(key)
    if text is None or text in known:
        return default if text is None else known[text]
    words.say(key, f"{shown(text)} is not known; write one of {', '.join(known)} ({next(iter(known))} is taken)")
    return default


def _bundle(words: Words) -> tuple[str, ...]:
    for members in _json(words, GROUPS):
        names = [name for name in members if isinstance(name, str)] if isinstance(members, list) else []
        if isinstance(members, list) and len(names) == len(members) and all(map(_MEMBER.fullmatch, names)):
            return tuple(sorted(set(names)))
        words.say(GROUPS, 'write a list such as ["default/gang-a","default/gang-b"]; the gang is taken alone')
    return ()


def _network(words: Words) -> tuple[NetworkWish, ...]:
    report = Report(where_pod(words.pod), NETWORK)
    wishes: list[NetworkWish | None] = []
    for value in _json(words, NETWORK):
        if spec := Fields.of(value, "", report):
            wishes += [_wish(rule) for rule in spec.objects("gatherStrategy")]
            spec.unknown({"gatherStrategy"})
    words.problems += report.problems
    return () if report.broken else tuple(wish for wish in wishes if wish)


def _wish(rule: Fields) -> NetworkWish | None:
    layer, strategy = rule.text("layer"), rule.text("strategy")
    rule.unknown({"layer", "strategy", "podCountMultiple"})
    if "podCountMultiple" in rule.raw:
        rule.report.note(f"{rule.path}podCountMultiple is not kept yet; the layer is")
    if layer is None or strategy is None:
        return None
    if strategy not in _STRATEGIES:
        rule.report.refuse(f"{rule.path}strategy is {shown(strategy)}; write MustGather or PreferGather")
        return None
    return NetworkWish(layer, _STRATEGIES[strategy])


def _json(words: Words, key: str) -> tuple[object, ...]:
    """Value of the annotation; empty if it is absent or invalid."""
    try:
        return (json_value(words.annotations[key]),) if key in words.annotations else ()
    except InputError as error:
        words.say(key, f"{error}; it is not read")
        return ()
