"""`linkwise manifests webhook` prints manifests, and says what is wrong with its options."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from linkwise.cli.program import main
from linkwise.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


def run(*words: str) -> str:
    result = CliRunner().invoke(main, ["manifests", "webhook", *words], catch_exceptions=False)
    return result.output


def test_it_prints_both_configurations() -> None:
    text = run("--name", "ours", "--url", "https://10.0.0.7:9443")
    assert "kind: MutatingWebhookConfiguration" in text
    assert "kind: ValidatingWebhookConfiguration" in text
    assert text.count("url: https://10.0.0.7:9443/validate") == 6


def test_an_address_without_tls_is_refused() -> None:
    with pytest.raises(InputError, match="is not an https address"):
        run("--url", "http://10.0.0.7:9443")


def test_an_authority_must_be_a_certificate(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    with pytest.raises(InputError, match="No such file"):
        run("--ca", str(file))
    file.write_text("text")
    with pytest.raises(InputError, match="no certificate in PEM format"):
        run("--ca", str(file))
    file.write_text("-----BEGIN CERTIFICATE-----\n")
    assert "caBundle" in run("--ca", str(file))
    with pytest.raises(InputError, match="leave out one of --ca and --cert-manager"):
        run("--ca", str(file), "--cert-manager")
