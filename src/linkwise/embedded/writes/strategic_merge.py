"""Strategic merge patch: as a merge patch, but lists whose elements have a name are joined element by element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from linkwise.embedded.api_errors import bad_request

if TYPE_CHECKING:
    from linkwise.embedded.storage.collection import Raw

__all__ = ["KEYS", "strategic"]

KEYS: Final = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "secrets": "name",
    "schedulingGates": "name",
    "resourceClaims": "name",
    "conditions": "type",
    "addresses": "type",
    "ownerReferences": "uid",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "hostAliases": "ip",
    "podIPs": "ip",
    "hostIPs": "ip",
    "topologySpreadConstraints": "topologyKey",
}
"""lists that are joined, and what tells their elements apart"""
_PORTS: Final = ("containerPort", "port")
_SETS: Final = frozenset({"finalizers"})
_DIRECTIVE: Final = "$patch"
_ORDER: Final = "$setElementOrder/"
_LESS: Final = "$deleteFromPrimitiveList/"
_ONLY: Final = "$retainKeys"


def strategic(target: Any, patch: Any) -> Any:  # noqa: ANN401 - JSON
    """The target with the patch on it."""
    if not isinstance(patch, dict):
        return patch
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if directive == "delete":
        return {}
    found = dict(target) if isinstance(target, dict) else {}
    if isinstance(only := patch.get(_ONLY), list):
        found = {key: value for key, value in found.items() if key in only}
    for key, value in patch.items():
        if not key.startswith("$"):
            _put(found, key, value, patch)
    for key, value in patch.items():
        if key.startswith(_LESS) and isinstance(kept := found.get(key.removeprefix(_LESS)), list):
            found[key.removeprefix(_LESS)] = [one for one in kept if one not in (value or ())]
    return found


def _put(found: Raw, key: str, value: Any, patch: Raw) -> None:  # noqa: ANN401 - JSON
    if value is None:
        found.pop(key, None)
    elif isinstance(value, list):
        found[key] = _joined(key, found.get(key), value, patch.get(_ORDER + key))
    else:
        found[key] = strategic(found.get(key), value)


def _joined(name: str, target: Any, patch: list[Any], order: Any) -> list[Any]:  # noqa: ANN401 - JSON
    known = list(target) if isinstance(target, list) else []
    if name in _SETS:
        return known + [one for one in patch if one not in known]
    key = _key(name, [*known, *patch])
    if not key:
        return patch
    if any(isinstance(one, dict) and one.get(_DIRECTIVE) == "replace" for one in patch):
        return [one for one in patch if not (isinstance(one, dict) and _DIRECTIVE in one)]
    for one in patch:
        known = _join_one(name, key, known, one)
    if isinstance(order, list):
        places = {one.get(key): place for place, one in enumerate(order) if isinstance(one, dict)}
        known.sort(key=lambda one: places.get(one.get(key), len(places)))
    return known


def _join_one(name: str, key: str, known: list[Any], one: Any) -> list[Any]:  # noqa: ANN401 - JSON
    if not isinstance(one, dict) or key not in one:
        raise bad_request(f"map: {one} does not contain declared merge key: {key} (in {name})")
    same = [place for place, found in enumerate(known) if isinstance(found, dict) and found.get(key) == one[key]]
    if one.get(_DIRECTIVE) == "delete":
        return [found for place, found in enumerate(known) if place not in same]
    if not same:
        return [*known, strategic({}, one)]
    return [strategic(found, one) if place in same else found for place, found in enumerate(known)]


def _key(name: str, elements: list[Any]) -> str:
    if name == "ports":
        return next((key for key in _PORTS if any(isinstance(one, dict) and key in one for one in elements)), "")
    return KEYS.get(name, "")
