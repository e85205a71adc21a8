"""The pages on configuration leave nothing out, and say what the code says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import click
import pytest
import yaml

from linkwise.cli.commands.config import command as config
from linkwise.config.loading import FILE, GPUSHARE, load
from linkwise.config.rbac import FEATURES
from linkwise.config.scheduler_config import WEIGHT
from linkwise.config.schema import SCHEMA, Setting
from linkwise.dialects.registry import native_resources

ROOT: Final = Path(__file__).resolve().parents[2]
REFERENCE: Final = (ROOT / "docs/reference/configuration.md").read_text("utf-8")
HOW_TO: Final = (ROOT / "docs/how-to/scheduler-config.md").read_text("utf-8")


def default(setting: Setting) -> str:
    """As the page puts it."""
    if setting.name == "placing.group.network":
        return "[as listed](groups.md#the-network)"
    if isinstance(setting.default, tuple) and setting.default:
        return ", ".join(map(str, setting.default))
    if isinstance(setting.default, bool):
        return "true" if setting.default else "false"
    return str(setting.default) if setting.default not in ("", {}, ()) else "empty"


@pytest.mark.parametrize("name", SCHEMA)
def test_every_setting_is_in_the_reference_with_variable_default_and_limits(name: str) -> None:
    setting = SCHEMA[name]
    variable = f"`{setting.variable}`" if setting.variable else "-"
    assert f"\n| `{name}` | {variable} | {default(setting)} | {setting.expected()} | " in REFERENCE


def test_settings_that_are_gone_are_gone_from_the_reference() -> None:
    assert re.findall(r"^\| `([a-z_.]+)` \|", REFERENCE, re.MULTILINE) == list(SCHEMA)


def test_other_variables_are_in_the_reference() -> None:
    assert [variable for variable in (FILE, *GPUSHARE) if f"`{variable}`" not in REFERENCE] == []


def test_the_file_of_the_page_is_a_good_one(tmp_path: Path) -> None:
    (text,) = re.findall(r"```yaml\n(# linkwise\.yaml\n.*?)```", REFERENCE, re.DOTALL)
    (tmp_path / "linkwise.yaml").write_text(text, "utf-8")
    assert load(tmp_path / "linkwise.yaml", {}).placing.breadth == 8


def test_every_feature_is_described_with_its_permissions() -> None:
    for name, feature in FEATURES.items():
        (row,) = [line for line in HOW_TO.splitlines() if line.startswith(f"| `{name}` | ")]
        words = {word for rule in feature.rules for word in (*rule.resources, *rule.verbs)}
        assert [word for word in words if word not in row] == []


def test_every_flag_is_on_the_page() -> None:
    scheduler = config.get_command(click.Context(config), "scheduler")
    assert scheduler is not None
    flags = {
        option for part in scheduler.params for option in (part.secondary_opts or part.opts) if "help" not in option
    }
    assert [flag for flag in flags if flag not in HOW_TO] == []


def test_weight_and_refused_names_are_on_the_page() -> None:
    assert f"`weight: {WEIGHT}`" in HOW_TO
    assert [name for name in native_resources() if name.rpartition("/")[2] not in HOW_TO] == []


def test_manifests_of_the_page_are_yaml() -> None:
    (text,) = re.findall(r"```yaml\n(# scheduler-rbac\.yaml\n.*?)```", HOW_TO, re.DOTALL)
    kinds = [found["kind"] for found in yaml.safe_load_all(text)]
    assert kinds == ["ServiceAccount", *["ClusterRoleBinding"] * 2, "Role", *["RoleBinding"] * 2]
