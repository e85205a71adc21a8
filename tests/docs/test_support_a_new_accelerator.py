"""The page for authors of plug-ins leads to pods that are placed; `test_generated.py` runs all its commands."""

from __future__ import annotations

from support.doc_examples import blocks
from support.plugin_page import EXAMPLE, PAGE

TEXT = PAGE.read_text("utf-8")


def outputs_after(command: str) -> str:
    """The output that the page shows for a command."""
    found = [block.text for block in blocks(TEXT)]
    return found[next(number for number, text in enumerate(found) if command in text) + 1]


def test_every_file_of_the_example_is_on_the_page_as_it_is() -> None:
    files = {path.relative_to(EXAMPLE).as_posix(): path for path in EXAMPLE.rglob("*") if path.is_file()}
    shown = {block.file: block.text for block in blocks(TEXT) if block.file}
    code = {name for name in files if name.endswith((".py", ".toml")) and "__pycache__" not in name}
    assert code == shown.keys() - {"s4000.txt", "pods.yaml"}
    assert {name: shown[name] for name in code} == {name: files[name].read_text("utf-8") for name in code}


def test_a_pod_gets_linked_devices_by_the_default_policy_of_the_plug_in() -> None:
    explained = outputs_after("linkwise explain pod/pair")
    assert "pod default/pair has devices 0, 1 on node mtt-s4000-0" in explained
    assert "MTL between them" in explained
    assert "link-affinity" in explained


def test_a_pod_that_names_the_policy_of_the_plug_in_is_placed_by_it() -> None:
    explained = outputs_after("linkwise explain pod/single")
    assert "pod default/single has device 3 on node mtt-s4000-0" in explained
    assert "highest-first" in explained
    assert "the highest free devices" in explained
