"""Selectors of DeviceClasses: the comparisons that drivers use are evaluated, and everything else is unknown."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from linkwise.dialects.kubernetes.claims.objects import SliceDevice
from linkwise.dialects.kubernetes.claims.selectors import is_known, selects

DRIVER = "gpu.nvidia.com"
DEVICE = SliceDevice("gpu-0", attributes=((f"{DRIVER}/type", "gpu"), (f"{DRIVER}/n", 4), ("k8s.io/ok", True)))
TYPE = f"device.attributes['{DRIVER}'].type"


@pytest.mark.parametrize(
    ("expression", "selected"),
    [
        (f"device.driver == '{DRIVER}' && {TYPE} == 'gpu'", True),
        (f'device.driver == "{DRIVER}" && ({TYPE} == "mig")', False),
        (f"{TYPE} != 'mig'", True),
        (f"{TYPE} in ['mig', \"gpu\"]", True),
        (f"device.attributes['{DRIVER}']['n'] == 4", True),
        (f"device.attributes['{DRIVER}'].n == '4'", False),
        ("device.attributes['k8s.io'].ok", True),
        ("!device.attributes['k8s.io'].ok", False),
        ("device.attributes['k8s.io'].missing != 'x'", False),
        ("true", True),
        ("device.driver == 'other' && f(x)", False),
        (f"device.driver == '{DRIVER}' && f(x)", None),
        ("device.driver == 'other' || true", None),
        (f"{TYPE} == 'a&&b'", False),
        (f"!{TYPE} == 'gpu'", None),
        (f"{TYPE}", None),
        ("", None),
        ("x" * 20_000, None),
    ],
)
def test_a_device_is_selected_as_the_expression_says(expression: str, selected: bool | None) -> None:  # noqa: FBT001 - a case
    assert selects(expression, DRIVER, DEVICE) is selected
    assert is_known(expression) or selected is not True


@given(expression=st.text("devicrattubs.[]()'\"&|!= \\n\n", max_size=60))
def test_no_expression_breaks_it(expression: str) -> None:
    assert selects(expression, DRIVER, DEVICE) in {True, False, None}
