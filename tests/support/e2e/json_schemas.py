"""JSON schemas of all kinds that an API server serves, as kubeconform reads them; made from its own OpenAPI document.

Strict: a field that a kind does not have is an error, as with `kubectl --validate=strict`.
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from support.e2e.api_client import Api

__all__ = ["KubeConform", "write_schemas"]

KINDS: Final = "x-kubernetes-group-version-kind"
LOCATION: Final = "{{ .Group }}_{{ .ResourceAPIVersion }}_{{ .ResourceKind }}.json"
"""names of the files, as a template of kubeconform; `Group` is the API version for kinds of the core group"""
UNTYPED: Final[Mapping[str, Any]] = {
    # OpenAPI 2 has no type for either or, and YAML writers leave out the quotes.
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": ["string", "integer"]},
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": ["string", "number"]},
}
PREFIX: Final = "#/definitions/"


class KubeConform:
    """kubeconform with a folder of schemas."""

    def __init__(self, program: Path, schemas: Path) -> None:
        self._command = [str(program), "-strict", "-output", "json", "-schema-location", f"{schemas}/{LOCATION}", "-"]

    def problems(self, manifests: str) -> list[str]:
        """What is wrong with the objects of a YAML stream: kind, name and why; a kind without a schema is wrong too."""
        done = subprocess.run(self._command, input=manifests, capture_output=True, text=True, check=False, timeout=60)
        if not done.stdout:
            raise AssertionError(f"kubeconform ended with {done.returncode}: {done.stderr}")
        found = json.loads(done.stdout).get("resources") or []
        return [f"{one['kind']} {one['name']}: {one['msg']}" for one in found]


def write_schemas(api: Api, folder: Path) -> Path:
    """A file per kind, each with all it refers to."""
    definitions = {**api.get("/openapi/v2")["definitions"], **UNTYPED}
    strict = {name: _strict(schema) for name, schema in definitions.items()}
    folder.mkdir(exist_ok=True)
    for name, schema in definitions.items():
        for kind in schema.get(KINDS, ()):
            needed = _closure(name, strict)
            file = folder / f"{kind['group'] or kind['version']}_{kind['version']}_{kind['kind'].lower()}.json"
            document = {"$ref": f"{PREFIX}{name}", "definitions": {each: strict[each] for each in needed}}
            file.write_text(json.dumps(document))
    return folder


def _strict(schema: Any) -> Any:  # noqa: ANN401 - JSON
    """The schema without fields beside its own."""
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _strict(value) for key, value in schema.items() if key != "properties"}
    if schema.get("x-kubernetes-int-or-string"):
        found |= {"type": ["string", "integer"]}
    if "properties" in schema:  # its keys are fields, whatever they are called
        found["properties"] = {name: _strict(value) for name, value in schema["properties"].items()}
        found.setdefault("additionalProperties", bool(schema.get("x-kubernetes-preserve-unknown-fields")))
    return found


def _closure(name: str, definitions: Mapping[str, Any]) -> set[str]:
    """The definitions that one refers to, itself included."""
    found, left = {name}, [name]
    while left:
        for other in _references(definitions[left.pop()]):
            if other not in found:
                found.add(other)
                left.append(other)
    return found


def _references(schema: Any) -> Iterator[str]:  # noqa: ANN401 - JSON
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key == "$ref" and isinstance(value, str):
                yield value.removeprefix(PREFIX)
            else:
                yield from _references(value)
    elif isinstance(schema, list):
        for each in schema:
            yield from _references(each)
