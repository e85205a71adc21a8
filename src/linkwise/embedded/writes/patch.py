"""Changes written as differences: JSON patch (RFC 6902), JSON merge patch (RFC 7386), strategic merge patch."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from linkwise.embedded.api_errors import ApiError, bad_request, unknown_format
from linkwise.embedded.writes.strategic_merge import strategic

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Raw

__all__ = ["APPLY", "APPLY_CBOR", "JSON_PATCH", "MERGE", "STRATEGIC", "json_patch", "merge", "patched"]

JSON_PATCH: Final = "application/json-patch+json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
APPLY_CBOR: Final = "application/apply-patch+cbor"


def patched(resource: Resource, document: Raw, patch: Any, kind: str) -> Raw:  # noqa: ANN401 - JSON
    """The object with a patch on it; what was given stays as it was."""
    if kind == JSON_PATCH:
        found = json_patch(document, patch)
    elif kind == MERGE:
        found = merge(document, patch)
    elif kind == STRATEGIC and not resource.custom:
        found = _strategic(document, patch)
    else:
        known = (JSON_PATCH, MERGE, APPLY) if resource.custom else (JSON_PATCH, MERGE, STRATEGIC, APPLY)
        raise unknown_format(known)
    if not isinstance(found, dict):
        raise bad_request("the patch leaves no object")
    return found


def _strategic(document: Raw, patch: Any) -> Any:  # noqa: ANN401 - JSON
    try:
        return strategic(document, patch)
    except TypeError as error:  # a key that tells elements apart is itself a list or a map
        raise bad_request(f"the strategic merge patch makes no sense: {error}") from error


def merge(target: Any, patch: Any) -> Any:  # noqa: ANN401 - JSON
    """A merge patch: maps are joined, null takes away, everything else takes the place of what was."""
    if not isinstance(patch, dict):
        return patch
    found = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merge(found.get(key), value)
    return found


def json_patch(document: Raw, patch: Any) -> Any:  # noqa: ANN401 - JSON
    """A list of steps, done one after the other on a copy."""
    if not isinstance(patch, list):
        raise bad_request("a JSON patch is a list of operations")
    found: Any = copy.deepcopy(document)
    for number, step in enumerate(patch):
        if not isinstance(step, dict) or not isinstance(step.get("path"), str):
            raise bad_request(f"operation {number} of the JSON patch has no path")
        act = _STEPS.get(str(step.get("op")))
        if act is None:
            raise bad_request(f"operation {number} of the JSON patch is {step.get('op')!r}, which is none")
        found = act(found, step)
    return found


def _failed(step: Raw, why: str) -> ApiError:
    message = f"the server rejected our request due to an error in our request: {step['op']} {step['path']}: {why}"
    return ApiError(422, "Invalid", message)


def _words(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise bad_request(f"a path of a JSON patch begins with /: {path!r}")
    return [word.replace("~1", "/").replace("~0", "~") for word in path.split("/")[1:]]


def _parent(document: Any, step: Raw, path: str) -> tuple[Any, str]:  # noqa: ANN401 - JSON
    *way, last = _words(path)
    for word in way:
        document = _child(document, word, step)
    return document, last


def _child(parent: Any, word: str, step: Raw) -> Any:  # noqa: ANN401 - JSON
    if isinstance(parent, dict) and word in parent:
        return parent[word]
    if isinstance(parent, list):
        return parent[_index(parent, word, step, len(parent) - 1)]
    raise _failed(step, f"there is no {word!r}")


def _index(parent: list[Any], word: str, step: Raw, most: int) -> int:
    if not word.isdecimal() or int(word) > most:
        raise _failed(step, f"{word!r} is no place in a list of {len(parent)}")
    return int(word)


def _value(step: Raw) -> Any:  # noqa: ANN401 - JSON
    if "value" not in step:
        raise _failed(step, "it has no value")
    return copy.deepcopy(step["value"])


def _add(document: Any, step: Raw) -> Any:  # noqa: ANN401 - JSON
    return _put(document, step, step["path"], _value(step))


def _put(document: Any, step: Raw, path: str, value: Any) -> Any:  # noqa: ANN401 - JSON
    if not path:
        return value
    parent, last = _parent(document, step, path)
    if isinstance(parent, list):
        parent.insert(len(parent) if last == "-" else _index(parent, last, step, len(parent)), value)
    elif isinstance(parent, dict):
        parent[last] = value
    else:
        raise _failed(step, "nothing can be put there")
    return document


def _remove(document: Any, step: Raw) -> Any:  # noqa: ANN401 - JSON
    _take(document, step, step["path"])
    return document


def _take(document: Any, step: Raw, path: str) -> Any:  # noqa: ANN401 - JSON
    if not path:
        raise _failed(step, "the whole can't be taken away")
    parent, last = _parent(document, step, path)
    found = _child(parent, last, step)
    if isinstance(parent, list):
        del parent[int(last)]
    else:
        del parent[last]
    return found


def _replace(document: Any, step: Raw) -> Any:  # noqa: ANN401 - JSON
    if not step["path"]:
        return _value(step)
    parent, last = _parent(document, step, step["path"])
    _child(parent, last, step)
    parent[int(last) if isinstance(parent, list) else last] = _value(step)
    return document


def _from(document: Any, step: Raw) -> Any:  # noqa: ANN401 - JSON
    found = document
    for word in _words(str(step.get("from", ""))):
        found = _child(found, word, step)
    return found


def _move(document: Any, step: Raw) -> Any:  # noqa: ANN401 - JSON
    return _put(document, step, step["path"], _take(document, step, str(step.get("from", ""))))


def _copy(document: Any, step: Raw) -> Any:  # noqa: ANN401 - JSON
    return _put(document, step, step["path"], copy.deepcopy(_from(document, step)))


def _test(document: Any, step: Raw) -> Any:  # noqa: ANN401 - JSON
    found = document
    for word in _words(step["path"]):
        found = _child(found, word, step)
    if found != step.get("value"):
        raise _failed(step, "testing value failed")
    return document


_STEPS: Final[dict[str, Callable[[Any, Raw], Any]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
