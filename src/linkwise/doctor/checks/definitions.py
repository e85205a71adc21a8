"""Checks of the CustomResourceDefinitions: installed, served, and with every field of this version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.doctor.facts import Check, names_text, problem
from linkwise.doctor.objects import condition, find, items_at, name, object_at, text_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.doctor.facts import Facts, Finding
    from linkwise.doctor.objects import Raw

__all__ = ["CHECKS"]

GROUP: Final = "CRDs"
_APPLY: Final = "`linkwise manifests crd | kubectl apply --server-side -f -`"
_ANY: Final = "x-kubernetes-preserve-unknown-fields"


def installed(facts: Facts) -> Iterator[Finding]:
    """All definitions are there, and the API server serves them."""
    for wanted in facts.schemas:
        there = find(facts.items("crds"), name(wanted))
        subject = f"customresourcedefinition/{name(wanted)}"
        if there is None:
            yield problem(subject, f"there is no CustomResourceDefinition {name(wanted)}", f"install it: {_APPLY}")
            continue
        established = condition(there, "Established")
        if established.get("status") != "True":
            why = (
                text_at(condition(there, "NamesAccepted"), "message")
                or text_at(established, "message")
                or "no reason is given"
            )
            found = f"the API server does not serve it (Established is not True): {why}"
            yield problem(subject, found, "remove what its names collide with, or wait if it was just created")


def schemas(facts: Facts) -> Iterator[Finding]:
    """No field of this version is dropped by the API server."""
    for wanted in facts.schemas:
        there = find(facts.items("crds"), name(wanted))
        if there is None:
            continue
        for version in items_at(wanted, "spec", "versions"):
            served = next(
                (each for each in items_at(there, "spec", "versions") if each.get("name") == version.get("name")), None
            )
            subject = f"customresourcedefinition/{name(wanted)}"
            if served is None:
                found = f"version {text_at(version, 'name')} is not in it: it is of another version of Linkwise"
                yield problem(subject, found, f"update it: {_APPLY}")
                continue
            missing = sorted(_missing(_schema(version), _schema(served), ""))
            if missing:
                found = f"its schema is older than this version of Linkwise: the API server drops {names_text(missing)}"
                yield problem(subject, found, f"update it: {_APPLY}", missing)


def _schema(version: Raw) -> Raw:
    return object_at(version, "schema", "openAPIV3Schema")


def _missing(wanted: Raw, served: Raw, path: str) -> Iterator[str]:
    """Fields of one schema that another lacks, the outermost only."""
    if served.get(_ANY) is True:
        return
    there = object_at(served, "properties")
    for key, inner in object_at(wanted, "properties").items():
        place = f"{path}.{key}" if path else key
        if key not in there:
            if served.get("type") == "object" and not there and path == "":
                return  # a schema that describes nothing prunes nothing that it knows of
            yield place
        elif isinstance(inner, dict):
            yield from _missing(inner, object_at(there, key), place)
            yield from _missing(object_at(inner, "items"), object_at(there, key, "items"), f"{place}[]")


CHECKS: Final = (
    Check("crd-installed", GROUP, "both definitions are installed and served", installed, ("crds",)),
    Check("crd-schema", GROUP, "the schemas have every field of this version", schemas, ("crds",)),
)
