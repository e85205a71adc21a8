"""The wheel is built with the record of its checkout."""

import sys
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

from linkwise.rulebook.record import decode, scanned

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - a class that only its path names
    monkeypatch.setattr(sys, "path", [*sys.path])
    made = run_path(str(ROOT / "hatch_build.py"))["RecordHook"]
    return made(str(ROOT), {}, None, None, "", "wheel")


def test_a_wheel_carries_the_record(hook: Any) -> None:  # noqa: ANN401 - as above
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
