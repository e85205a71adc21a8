"""Groups of a scenario: one short form for all members, turned into pods with the labels of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from linkwise.dialects.groups.koordinator_gang import MINIMUM, NAME as GANG
from linkwise.dialects.groups.membership import NAME, RANKS, REPLICA
from linkwise.errors import InputError
from linkwise.testing.scenario.vocabulary import HOLDING, POD, Words, named, only

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["GROUP", "group_name", "members_of"]

GROUP: Final = frozenset({"group", "members", "replica", "gang", "ranks"})
"""keys of the group itself; all others are keys of its members"""
MEMBER: Final = POD | HOLDING | {"count"}


def group_name(raw: object) -> str:
    """The name of the group; empty for the short form of a single pod."""
    words = raw if isinstance(raw, dict) else {}
    namespace, name = words.get("namespace", "default"), words.get("group", "")
    return name if namespace == "default" or not name else f"{namespace}/{name}"


def members_of(raw: object) -> list[Words]:
    """The pods of a group, each in the short form of a pod."""
    words = only(raw, GROUP | POD, "group")
    shared = {key: value for key, value in words.items() if key not in GROUP}
    members = list(_each(named(words, "members", "group")))
    total = words.get("replica", len(members))
    return [
        {
            **shared,
            "name": f"{words['group']}-{number}",
            **own,
            "labels": {NAME: words["group"], REPLICA: str(total), **_labels(shared), **_labels(own)},
            "annotations": {**_group_annotations(words, number), **_annotations(shared), **_annotations(own)},
        }
        for number, own in enumerate(members)
    ]


def _each(members: object) -> Iterator[Words]:
    """The keys of each member; none where `members` is a number."""
    if isinstance(members, int):
        yield from ({} for _ in range(members))
        return
    if not isinstance(members, list):
        raise InputError(f"members: expected a number or a list of members, found {members!r}")
    for raw in members:
        own = dict(only(raw, MEMBER, "member"))
        for _ in range(own.pop("count", 1)):
            yield dict(own)


def _group_annotations(words: Words, number: int) -> dict[str, str]:
    gang = {GANG: words["group"], MINIMUM: str(words["gang"])} if "gang" in words else {}
    return {**gang, **({RANKS[0]: str(number)} if words.get("ranks") else {})}


def _labels(words: Words) -> dict[str, Any]:
    return words.get("labels") or {}


def _annotations(words: Words) -> dict[str, Any]:
    return words.get("annotations") or {}
