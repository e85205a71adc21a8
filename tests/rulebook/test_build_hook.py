"""The wheel is built with the record of its checkout."""

from __future__ import annotations

import sys
from pathlib import Path
from runpy import run_path
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.rulebook.status import decode, scanned

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def hook() -> Iterator[Any]:
    """The hook, in a process that outlives it: where modules are looked for is put back as it was."""
    before = [*sys.path]
    made = run_path(str(ROOT / "hatch_build.py"))["RecordHook"]
    yield made(str(ROOT), {}, None, None, "", "wheel")
    sys.path[:] = before


def test_a_wheel_carries_the_record(hook: Any) -> None:  # noqa: ANN401 - a class that only its path names
    data: dict[str, Any] = {"force_include": {}}
    hook.initialize("standard", data)
    ((written, inside),) = data["force_include"].items()
    assert inside == "linkwise/rulebook/record.json"
    assert decode(Path(written).read_text("utf-8")) == scanned(ROOT)
    hook.finalize("standard", data, "")
    assert not Path(written).exists()


def test_an_editable_install_carries_none(hook: Any) -> None:  # noqa: ANN401 - as above
    data: dict[str, Any] = {"force_include": {}}
    hook.initialize("editable", data)
    assert data == {"force_include": {}}
