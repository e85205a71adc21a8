"""The record is scanned in a checkout and read from the wheel elsewhere."""

from pathlib import Path

from linkwise.rulebook.scan import Mark, Proof
from linkwise.rulebook.status import Record, checkout, decode, encode, load, scanned

ROOT = Path(__file__).resolve().parents[2]


def laid_out(root: Path, name: str) -> Path:
    """A checkout of the project `name`, and a file of its rulebook."""
    (root / "tests").mkdir()
    (root / "pyproject.toml").write_text(f'[project]\nname = "{name}"\n', "utf-8")
    return root / "src" / "linkwise" / "rulebook" / "record.py"


def test_a_checkout_is_found_from_a_file_of_the_package(tmp_path: Path) -> None:
    assert checkout(laid_out(tmp_path, "linkwise")) == tmp_path


def test_another_project_that_holds_the_package_is_no_checkout(tmp_path: Path) -> None:
    assert checkout(laid_out(tmp_path, "somebody-elses")) is None


def test_a_folder_without_tests_is_no_checkout(tmp_path: Path) -> None:
    file = laid_out(tmp_path, "linkwise")
    (tmp_path / "tests").rmdir()
    assert checkout(file) is None


def test_an_installed_package_is_no_checkout(tmp_path: Path) -> None:
    assert checkout(tmp_path / "lib" / "site-packages" / "linkwise" / "rulebook" / "record.py") is None


def test_what_ships_is_what_was_scanned() -> None:
    made = Record(
        (Mark("003.ring", "src/linkwise/topology/rings.py:3"),),
        (Proof("003.ring", "L", "tests/topology/test_rings.py::test_ring"),),
    )
    assert decode(encode(made)) == made


def test_this_checkout_is_scanned_live() -> None:
    assert load() == scanned(ROOT)
