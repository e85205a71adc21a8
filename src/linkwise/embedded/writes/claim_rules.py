"""Rules of Dynamic Resource Allocation: ResourceClaims, their templates, ResourceSlices and DeviceClasses.

Source: Kubernetes, validation of resource.k8s.io/v1. The types of all fields are checked before. Of CEL expressions only
length, quotes and brackets are checked: there is no CEL compiler.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from linkwise.dialects.pod_resources import quantity
from linkwise.embedded.api_errors import Cause
from linkwise.embedded.writes.field_rules import check_label_name, check_qualified_name, check_subdomain
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from linkwise.embedded.storage.collection import Raw

__all__ = [
    "CLAIMS",
    "CLASSES",
    "SLICES",
    "TEMPLATES",
    "check_claim",
    "check_claim_update",
    "check_class",
    "check_slice",
    "check_slice_update",
    "check_template",
    "check_template_update",
    "default_claim",
    "default_slice",
    "default_template",
]

GROUP: Final = "resource.k8s.io"
CLAIMS: Final = f"resourceclaims.{GROUP}"
TEMPLATES: Final = f"resourceclaimtemplates.{GROUP}"
SLICES: Final = f"resourceslices.{GROUP}"
CLASSES: Final = f"deviceclasses.{GROUP}"

_MAX_ITEMS: Final = 32
"""requests, constraints, selectors, configurations and allocated devices of a claim; attributes of a device"""
_MAX_ALTERNATIVES: Final = 8
_MAX_CONSUMERS: Final = 256
_MAX_DEVICES: Final = 128
_MAX_DEVICES_WITH_FEATURES: Final = 64
"""if one of them has taints or consumes counters"""
_MAX_COUNTER_SETS: Final = 8
_MAX_CONSUMPTIONS: Final = 2
_MAX_TAINTS: Final = 16
_MAX_EXPRESSION: Final = 10 * 1024
_MAX_VALUE: Final = 64
_MAX_NAME: Final = 63
_MODES: Final = ("All", "ExactCount")
_TAINT_EFFECTS: Final = ("NoExecute", "NoSchedule", "None")
_TOLERATED: Final = ("NoExecute", "NoSchedule")
_OPERATORS: Final = ("Equal", "Exists")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VERSION: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?"
)
_BRACKETS: Final = {")": "(", "]": "[", "}": "{"}
_EITHER: Final = "exactly one of `exactly` or `firstAvailable` is required"
_REFERENCE: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
_SLICE_PLACES: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_DEVICE_PLACES: Final = ("nodeName", "nodeSelector", "allNodes")
_IMMUTABLE: Final = "Invalid value: field is immutable"


def default_claim(document: Raw) -> None:
    """Set the defaults of a ResourceClaim."""
    _default_requests(document.get("spec"))


def default_template(document: Raw) -> None:
    """Set the defaults of a ResourceClaimTemplate."""
    spec = document.get("spec")
    _default_requests(spec.get("spec") if isinstance(spec, dict) else None)


def default_slice(document: Raw, now: str) -> None:
    """Set the defaults of a ResourceSlice: the time at which a taint was added."""
    for device in _items(_object(document, "spec"), "devices"):
        for taint in _items(device, "taints"):
            taint.setdefault("timeAdded", now)


def check_claim(document: Raw) -> Iterator[Cause]:
    """Validate a ResourceClaim."""
    yield from _check_devices(_object(document, "spec"), "spec")


def check_claim_update(old: Raw, new: Raw) -> Iterator[Cause]:
    """Validate an update of a ResourceClaim or of its status."""
    if _object(old, "spec") != _object(new, "spec"):
        yield Cause("spec", _IMMUTABLE)
    before, after = _object(old, "status"), _object(new, "status")
    if before != after:
        yield from _check_status(_request_names(_object(new, "spec")), before, after, new)


def check_template(document: Raw) -> Iterator[Cause]:
    """Validate a ResourceClaimTemplate."""
    spec = _object(document, "spec")
    for key in sorted(set(_object(spec, "metadata")) - {"labels", "annotations"}):
        yield Cause(f"spec.metadata.{key}", "Forbidden: cannot be set in template objects")
    yield from _check_devices(_object(spec, "spec"), "spec.spec")


def check_template_update(old: Raw, new: Raw) -> Iterator[Cause]:
    """Validate an update of a ResourceClaimTemplate."""
    if _object(old, "spec") != _object(new, "spec"):
        yield Cause("spec", _IMMUTABLE)


def check_class(document: Raw) -> Iterator[Cause]:
    """Validate a DeviceClass."""
    spec = _object(document, "spec")
    yield from _check_selectors("spec.selectors", _items(spec, "selectors"))
    yield from _check_list("spec.config", _items(spec, "config"), _check_configuration)
    resource = spec.get("extendedResourceName")
    if resource is not None and not _is_extended_resource(resource):
        yield Cause("spec.extendedResourceName", f'Invalid value: "{resource}": must be a valid extended resource name')


def check_slice(document: Raw) -> Iterator[Cause]:
    """Validate a ResourceSlice."""
    spec = _object(document, "spec")
    yield from _check_driver("spec.driver", spec.get("driver"))
    yield from _check_pool(_object(spec, "pool"))
    yield from _check_place("spec", spec, _SLICE_PLACES)
    devices, counters = _items(spec, "devices"), _items(spec, "sharedCounters")
    if "devices" in spec and "sharedCounters" in spec:
        yield Cause("spec", 'Invalid value: "": only one of `sharedCounters` or `devices` is allowed')
    advanced = any(device.get("taints") or device.get("consumesCounters") for device in devices)
    most = _MAX_DEVICES_WITH_FEATURES if advanced else _MAX_DEVICES
    yield from _check_set("spec.devices", devices, _check_device, most=most)
    yield from _check_set("spec.sharedCounters", counters, _check_counters, most=_MAX_COUNTER_SETS)
    per_device = spec.get("perDeviceNodeSelection") is True
    for index, device in enumerate(devices):
        place = f"spec.devices[{index}]"
        if per_device:
            yield from _check_place(place, device, _DEVICE_PLACES)
        elif any(key in device for key in _DEVICE_PLACES):
            names = "`nodeName`, `nodeSelector` and `allNodes`"
            required = "if `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
            yield Cause(place, f"Invalid value: {names} can only be set {required}")


def check_slice_update(old: Raw, new: Raw) -> Iterator[Cause]:
    """Validate an update of a ResourceSlice."""
    before, after = _object(old, "spec"), _object(new, "spec")
    for key in ("driver", "nodeName"):
        if before.get(key) != after.get(key):
            yield Cause(f"spec.{key}", _IMMUTABLE)
    if _object(before, "pool").get("name") != _object(after, "pool").get("name"):
        yield Cause("spec.pool.name", _IMMUTABLE)


def _default_requests(spec: object) -> None:
    if not isinstance(spec, dict):
        return
    for request in _items(_object(spec, "devices"), "requests"):
        for each in (
            *_items(request, "firstAvailable"),
            *([_object(request, "exactly")] if "exactly" in request else ()),
        ):
            if not each.get("allocationMode"):
                each["allocationMode"] = "ExactCount"
            if each["allocationMode"] == "ExactCount" and not each.get("count"):
                each["count"] = 1
            for toleration in _items(each, "tolerations"):
                toleration.setdefault("operator", "Equal")


def _check_devices(spec: Raw, path: str) -> Iterator[Cause]:
    devices, names, place = _object(spec, "devices"), _request_names(spec), f"{path}.devices"
    yield from _check_set(f"{place}.requests", _items(devices, "requests"), _check_request, most=_MAX_ITEMS)

    def check_constraint(where: str, constraint: Raw) -> Iterator[Cause]:
        yield from _check_references(f"{where}.requests", constraint.get("requests") or (), names)
        keys = [key for key in ("matchAttribute", "distinctAttribute") if key in constraint]
        if not keys:
            why = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
            yield Cause(where, f"Required value: {why}")
        for key in keys:
            yield from _check_attribute_name(f"{where}.{key}", constraint[key], qualified=True)

    def check_configuration(where: str, configuration: Raw) -> Iterator[Cause]:
        yield from _check_references(f"{where}.requests", configuration.get("requests") or (), names)
        yield from _check_configuration(where, configuration)

    yield from _check_list(f"{place}.constraints", _items(devices, "constraints"), check_constraint)
    yield from _check_list(f"{place}.config", _items(devices, "config"), check_configuration)


def _check_request(place: str, request: Raw) -> Iterator[Cause]:
    yield from _check_label(f"{place}.name", request.get("name"))
    alternatives = _items(request, "firstAvailable")
    if "exactly" in request and alternatives:
        yield Cause(place, f"Invalid value: {_EITHER}, but multiple fields are set")
    elif "exactly" in request:
        yield from _check_exactly(f"{place}.exactly", _object(request, "exactly"))
    elif alternatives:
        yield from _check_set(f"{place}.firstAvailable", alternatives, _check_alternative, most=_MAX_ALTERNATIVES)
    else:
        yield Cause(place, f"Required value: {_EITHER}")


def _check_alternative(place: str, request: Raw) -> Iterator[Cause]:
    yield from _check_label(f"{place}.name", request.get("name"))
    yield from _check_exactly(place, request)


def _check_exactly(place: str, request: Raw) -> Iterator[Cause]:
    name, count, mode = request.get("deviceClassName"), request.get("count", 0), request.get("allocationMode")
    if not name:
        yield Cause(f"{place}.deviceClassName", "Required value")
    elif message := check_subdomain(name):
        yield Cause(f"{place}.deviceClassName", f'Invalid value: "{name}": {message}')
    yield from _check_selectors(f"{place}.selectors", _items(request, "selectors"))
    if mode not in _MODES:
        yield _unsupported(f"{place}.allocationMode", mode, _MODES)
    elif mode == "All" and count:
        why = "must not be specified when allocationMode is 'All'"
        yield Cause(f"{place}.count", f"Invalid value: {count}: {why}")
    elif mode == "ExactCount" and count <= 0:
        yield Cause(f"{place}.count", f"Invalid value: {count}: must be greater than zero")
    yield from _check_list(f"{place}.tolerations", _items(request, "tolerations"), _check_toleration, most=_MAX_TAINTS)


def _check_selectors(place: str, selectors: list[Raw]) -> Iterator[Cause]:
    yield from _check_list(place, selectors, _check_selector)


def _check_selector(place: str, selector: Raw) -> Iterator[Cause]:
    if "cel" not in selector:
        yield Cause(f"{place}.cel", "Required value")
        return
    expression = str(_object(selector, "cel").get("expression", ""))
    if len(expression) > _MAX_EXPRESSION:
        yield Cause(f"{place}.cel.expression", f"Too long: may not be more than {_MAX_EXPRESSION} bytes")
    elif wrong := _syntax_error(expression):
        message = f'Invalid value: "{expression}": compilation failed: {wrong}'
        yield Cause(f"{place}.cel.expression", message)


def _syntax_error(expression: str) -> str:
    """The first quote or bracket of a CEL expression without its counterpart; empty if there is none."""
    if not expression.strip():
        return "ERROR: <input>:1:1: Syntax error: mismatched input '<EOF>'"
    opened: list[str] = []
    quote = ""
    place = 0
    while place < len(expression):
        sign = expression[place]
        if quote:
            place += sign == "\\"
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign in "([{":
            opened.append(sign)
        elif sign in _BRACKETS and (not opened or opened.pop() != _BRACKETS[sign]):
            return f"ERROR: <input>:1:{place + 1}: Syntax error: extraneous input '{sign}'"
        place += 1
    if quote or opened:
        return f"ERROR: <input>:1:{len(expression) + 1}: Syntax error: mismatched input '<EOF>'"
    return ""


def _check_configuration(place: str, configuration: Raw) -> Iterator[Cause]:
    if "opaque" not in configuration:
        yield Cause(f"{place}.opaque", "Required value")
        return
    opaque = _object(configuration, "opaque")
    yield from _check_driver(f"{place}.opaque.driver", opaque.get("driver"))
    if "parameters" not in opaque:
        yield Cause(f"{place}.opaque.parameters", "Required value")


def _check_references(place: str, references: Iterable[str], names: set[str]) -> Iterator[Cause]:
    for index, name in enumerate(references):
        if name not in names:
            yield Cause(f"{place}[{index}]", f'Invalid value: "{name}": {_REFERENCE}')


def _request_names(spec: Raw) -> set[str]:
    """The names of requests, and of their alternatives behind a slash."""
    requests = _items(_object(spec, "devices"), "requests")
    alternatives = {
        f"{request.get('name')}/{each.get('name')}"
        for request in requests
        for each in _items(request, "firstAvailable")
    }
    return {str(request.get("name")) for request in requests} | alternatives


def _check_status(names: set[str], before: Raw, after: Raw, claim: Raw) -> Iterator[Cause]:
    consumers = _items(after, "reservedFor")
    yield from _check_set(
        "status.reservedFor", consumers, _check_consumer, most=_MAX_CONSUMERS, key=lambda each: each.get("uid")
    )
    if consumers and "allocation" not in after:
        yield Cause("status.reservedFor", "Forbidden: may not be specified when `allocated` is not set")
    earlier = _items(before, "reservedFor")
    if "deletionTimestamp" in claim["metadata"] and any(each not in earlier for each in consumers):
        why = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        yield Cause("status.reservedFor", f"Forbidden: {why}")
    if "allocation" in before and "allocation" in after:
        if before["allocation"] != after["allocation"]:
            yield Cause("status.allocation", _IMMUTABLE)
    elif "allocation" in after:
        yield from _check_allocation(names, _object(after, "allocation"))


def _check_consumer(place: str, consumer: Raw) -> Iterator[Cause]:
    for key in ("resource", "name", "uid"):
        if not consumer.get(key):
            yield Cause(f"{place}.{key}", "Required value")


def _check_allocation(names: set[str], allocation: Raw) -> Iterator[Cause]:
    def check_result(place: str, result: Raw) -> Iterator[Cause]:
        yield from _check_references(f"{place}.request", [str(result.get("request", ""))], names)
        yield from _check_driver(f"{place}.driver", result.get("driver"))
        yield from _check_pool_name(f"{place}.pool", result.get("pool"))
        yield from _check_label(f"{place}.device", result.get("device"))

    results = _items(_object(allocation, "devices"), "results")
    yield from _check_list("status.allocation.devices.results", results, check_result)


def _check_pool(pool: Raw) -> Iterator[Cause]:
    yield from _check_pool_name("spec.pool.name", pool.get("name"))
    count, generation = pool.get("resourceSliceCount", 0), pool.get("generation", 0)
    if count <= 0:
        yield Cause("spec.pool.resourceSliceCount", f"Invalid value: {count}: must be greater than zero")
    if generation < 0:
        why = "must be greater than or equal to zero"
        yield Cause("spec.pool.generation", f"Invalid value: {generation}: {why}")


def _check_pool_name(place: str, name: str | None) -> Iterator[Cause]:
    if not name:
        yield Cause(place, "Required value")
        return
    for part in name.split("/"):
        if message := check_subdomain(part):
            yield Cause(place, f'Invalid value: "{part}": {message}')


def _check_driver(place: str, name: str | None) -> Iterator[Cause]:
    if not name:
        yield Cause(place, "Required value")
    elif len(name) > _MAX_NAME:
        yield Cause(place, f"Too long: may not be more than {_MAX_NAME} bytes")
    elif message := check_subdomain(name.lower()):
        yield Cause(place, f'Invalid value: "{name}": {message}')


def _check_place(place: str, holder: Raw, keys: tuple[str, ...]) -> Iterator[Cause]:
    """Check that exactly one field says which nodes have access."""
    listed = [f"`{key}`" for key in keys]
    present = [f"`{key}`" for key in keys if key in holder]
    one_of = f"exactly one of {', '.join(listed)} is required"
    if not present:
        yield Cause(place, f"Required value: {one_of}")
    elif len(present) > 1:
        given = f"{{{', '.join(present)}}}"
        yield Cause(place, f'Invalid value: "{given}": {one_of}, but multiple fields are set')
    for key in keys:
        if holder.get(key) is False:
            yield Cause(f"{place}.{key}", "Invalid value: false: must be either unset or set to true")


def _check_device(place: str, device: Raw) -> Iterator[Cause]:
    yield from _check_label(f"{place}.name", device.get("name"))
    attributes, capacity = _object(device, "attributes"), _object(device, "capacity")
    if (count := len(attributes) + len(capacity)) > _MAX_ITEMS:
        why = f"the total number of attributes and capacities must not exceed {_MAX_ITEMS}"
        yield Cause(place, f"Invalid value: {count}: {why}")
    for name, attribute in attributes.items():
        where = f"{place}.attributes[{name}]"
        yield from _check_attribute_name(where, name)
        yield from _check_attribute(where, attribute)
    for name, amount in capacity.items():
        yield from _check_attribute_name(f"{place}.capacity[{name}]", name)
        yield from _check_amount(f"{place}.capacity[{name}].value", amount.get("value"))
    yield from _check_list(f"{place}.taints", _items(device, "taints"), _check_taint, most=_MAX_TAINTS)
    consumed = _items(device, "consumesCounters")
    yield from _check_set(
        *(f"{place}.consumesCounters", consumed, _check_counters),
        most=_MAX_CONSUMPTIONS,
        key=lambda each: each.get("counterSet"),
    )


def _check_counters(place: str, counters: Raw) -> Iterator[Cause]:
    """Check a set of counters, or what a device consumes of one."""
    key = "counterSet" if "consumesCounters" in place else "name"
    yield from _check_label(f"{place}.{key}", counters.get(key))
    named = _object(counters, "counters")
    if not named:
        yield Cause(f"{place}.counters", "Required value")
    if len(named) > _MAX_ITEMS:
        yield Cause(f"{place}.counters", f"Too many: {len(named)}: must have at most {_MAX_ITEMS} items")
    for name, counter in named.items():
        yield from _check_label(f"{place}.counters", name)
        yield from _check_amount(f"{place}.counters[{name}].value", counter.get("value"))


def _check_attribute(place: str, attribute: Raw) -> Iterator[Cause]:
    if len(attribute) != 1:
        yield Cause(place, "Invalid value: exactly one value must be specified")
    for key in ("string", "version"):
        text = attribute.get(key)
        if isinstance(text, str) and len(text.encode()) > _MAX_VALUE:
            yield Cause(f"{place}.{key}", f"Too long: may not be more than {_MAX_VALUE} bytes")
    version = attribute.get("version")
    if isinstance(version, str) and not _VERSION.fullmatch(version):
        why = "must be a string compatible with semver.org spec 2.0.0"
        yield Cause(f"{place}.version", f'Invalid value: "{version}": {why}')


def _check_attribute_name(place: str, name: str, *, qualified: bool = False) -> Iterator[Cause]:
    domain, slash, identifier = name.rpartition("/")
    if qualified and not slash:
        yield Cause(place, f'Invalid value: "{name}": must include a domain')
    if slash and (not domain or len(domain) > _MAX_NAME or check_subdomain(domain)):
        yield Cause(place, f'Invalid value: "{domain}": the domain must be a lowercase RFC 1123 subdomain')
    if not _IDENTIFIER.fullmatch(identifier) or len(identifier) > _MAX_ITEMS:
        yield Cause(place, f'Invalid value: "{identifier}": must be a valid C identifier')


def _check_amount(place: str, amount: object) -> Iterator[Cause]:
    try:
        quantity(str(amount))
    except InputError:
        expression = "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        yield Cause(place, f'Invalid value: "{amount}": quantities must match the regular expression {expression}')


def _check_taint(place: str, taint: Raw) -> Iterator[Cause]:
    yield from _check_key(f"{place}.key", taint.get("key"), required=True)
    if not taint.get("effect"):
        yield Cause(f"{place}.effect", "Required value")
    elif taint["effect"] not in _TAINT_EFFECTS:
        yield _unsupported(f"{place}.effect", taint["effect"], _TAINT_EFFECTS)


def _check_toleration(place: str, toleration: Raw) -> Iterator[Cause]:
    key, operator = toleration.get("key"), toleration.get("operator", "Equal")
    yield from _check_key(f"{place}.key", key, required=False)
    if operator not in _OPERATORS:
        yield _unsupported(f"{place}.operator", operator, _OPERATORS)
    if operator == "Exists" and toleration.get("value"):
        why = "must be empty for operator `Exists`"
        yield Cause(f"{place}.value", f'Invalid value: "{toleration["value"]}": {why}')
    if (effect := toleration.get("effect")) and effect not in _TOLERATED:
        yield _unsupported(f"{place}.effect", effect, _TOLERATED)


def _check_key(place: str, key: str | None, *, required: bool) -> Iterator[Cause]:
    if not key:
        if required:
            yield Cause(place, "Required value: name part must be non-empty")
    elif message := check_qualified_name(key):
        yield Cause(place, f'Invalid value: "{key}": {message}')


def _check_label(place: str, name: str | None) -> Iterator[Cause]:
    if not name:
        yield Cause(place, "Required value")
    elif message := check_label_name(name):
        yield Cause(place, f'Invalid value: "{name}": {message}')


def _check_set(
    place: str,
    items: list[Raw],
    check: Callable[[str, Raw], Iterator[Cause]],
    *,
    most: int,
    key: Callable[[Raw], object] = lambda item: item.get("name"),
) -> Iterator[Cause]:
    """Check a list whose items have different names."""
    yield from _check_list(place, items, check, most=most)
    known: set[object] = set()
    for index, item in enumerate(items):
        if (name := key(item)) in known:
            yield Cause(f"{place}[{index}]", f'Duplicate value: "{name}"')
        known.add(name)


def _check_list(
    place: str, items: list[Raw], check: Callable[[str, Raw], Iterator[Cause]], *, most: int = _MAX_ITEMS
) -> Iterator[Cause]:
    if len(items) > most:
        yield Cause(place, f"Too many: {len(items)}: must have at most {most} items")
        return
    for index, item in enumerate(items):
        yield from check(f"{place}[{index}]", item)


def _is_extended_resource(name: str) -> bool:
    prefix, slash, _ = name.partition("/")
    native = prefix == "kubernetes.io" or prefix.endswith(".kubernetes.io")
    return bool(slash) and not native and not name.startswith("requests.") and not check_qualified_name(name)


def _unsupported(place: str, value: object, supported: tuple[str, ...]) -> Cause:
    choices = ", ".join(f'"{each}"' for each in supported)
    return Cause(place, f'Unsupported value: "{value}": supported values: {choices}')


def _object(holder: Raw, key: str) -> Raw:
    value: Any = holder.get(key)
    return value if isinstance(value, dict) else {}


def _items(holder: Raw, key: str) -> list[Raw]:
    value: Any = holder.get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
