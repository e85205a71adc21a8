"""Strategic merge patch: like a merge patch, but lists with a merge key are merged element by element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from linkwise.embedded.api_errors import bad_request

if TYPE_CHECKING:
    from linkwise.embedded.storage.collection import Raw

__all__ = ["MERGE_KEYS", "strategic_merge_patch"]

MERGE_KEYS: Final = {
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
"""lists that are merged, and the merge key of their elements"""
_PORT_KEYS: Final = ("containerPort", "port")
_SETS: Final = frozenset({"finalizers"})
_DIRECTIVE: Final = "$patch"
_ORDER: Final = "$setElementOrder/"
_DELETE_FROM_LIST: Final = "$deleteFromPrimitiveList/"
_RETAIN_KEYS: Final = "$retainKeys"


def strategic_merge_patch(target: Any, patch: Any) -> Any:  # noqa: ANN401 - JSON
    """Apply a strategic merge patch."""
    if not isinstance(patch, dict):
        return patch
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if directive == "delete":
        return {}
    result = dict(target) if isinstance(target, dict) else {}
    if isinstance(only := patch.get(_RETAIN_KEYS), list):
        result = {key: value for key, value in result.items() if key in only}
    for key, value in patch.items():
        if not key.startswith("$"):
            _put(result, key, value, patch)
    for key, value in patch.items():
        if key.startswith(_DELETE_FROM_LIST) and isinstance(
            items := result.get(key.removeprefix(_DELETE_FROM_LIST)), list
        ):
            result[key.removeprefix(_DELETE_FROM_LIST)] = [one for one in items if one not in (value or ())]
    return result


def _put(result: Raw, key: str, value: Any, patch: Raw) -> None:  # noqa: ANN401 - JSON
    if value is None:
        result.pop(key, None)
    elif isinstance(value, list):
        result[key] = _merge_list(key, result.get(key), value, patch.get(_ORDER + key))
    else:
        result[key] = strategic_merge_patch(result.get(key), value)


def _merge_list(name: str, target: Any, patch: list[Any], order: Any) -> list[Any]:  # noqa: ANN401 - JSON
    merged = list(target) if isinstance(target, list) else []
    if name in _SETS:
        return merged + [element for element in patch if element not in merged]
    key = _merge_key(name, [*merged, *patch])
    if not key:
        return patch
    if any(isinstance(element, dict) and element.get(_DIRECTIVE) == "replace" for element in patch):
        return [element for element in patch if not (isinstance(element, dict) and _DIRECTIVE in element)]
    for element in patch:
        merged = _merge_element(name, key, merged, element)
    if isinstance(order, list):
        positions = {element.get(key): position for position, element in enumerate(order) if isinstance(element, dict)}
        merged.sort(key=lambda element: positions.get(element.get(key), len(positions)))
    return merged


def _merge_element(name: str, key: str, merged: list[Any], element: Any) -> list[Any]:  # noqa: ANN401 - JSON
    if not isinstance(element, dict) or key not in element:
        raise bad_request(f"map: {element} does not contain declared merge key: {key} (in {name})")
    same = [index for index, item in enumerate(merged) if isinstance(item, dict) and item.get(key) == element[key]]
    if element.get(_DIRECTIVE) == "delete":
        return [item for index, item in enumerate(merged) if index not in same]
    if not same:
        return [*merged, strategic_merge_patch({}, element)]
    return [strategic_merge_patch(item, element) if index in same else item for index, item in enumerate(merged)]


def _merge_key(name: str, elements: list[Any]) -> str:
    if name == "ports":
        return next(
            (key for key in _PORT_KEYS if any(isinstance(element, dict) and key in element for element in elements)), ""
        )
    return MERGE_KEYS.get(name, "")
