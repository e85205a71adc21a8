"""DeviceClasses of the node agent's DRA driver: single devices, and the sets that it publishes."""

from __future__ import annotations

from typing import Any, Final

from linkwise.config.yaml_documents import yaml_with_comments
from linkwise.dialects.kubernetes.claims.driver import API_VERSION, DRIVER

__all__ = ["CLASSES", "device_classes_yaml"]

CLASSES: Final = {
    DRIVER: ("device", "One device of a node."),
    f"pair.{DRIVER}": ("pair", "Two devices with one of the fastest links of their node, the best pair that is free."),
    f"four.{DRIVER}": ("four", "Four devices with some of the fastest links of their node, the best set that is free."),
}
"""the type of their devices, and what they are for, by the name of the class"""


def device_classes_yaml(extended_resource: str = "") -> str:
    """The classes; pods can request single devices as an extended resource too if it is named."""
    texts = []
    for name, (kind, why) in CLASSES.items():
        expression = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == '{kind}'"
        spec: dict[str, Any] = {"selectors": [{"cel": {"expression": expression}}]}
        if extended_resource and name == DRIVER:
            spec["extendedResourceName"] = extended_resource
        document = {
            "apiVersion": API_VERSION,
            "kind": "DeviceClass",
            "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "linkwise"}},
            "spec": spec,
        }
        texts.append(yaml_with_comments(document, {}, why))
    return "---\n".join(texts)
