"""What all tests share: where the repository is, and the machines of the seeds in the units they are written in."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent

# How long an example takes is the machine's affair: one that stops for a moment must fail no test.
settings.register_profile("patient", settings(), deadline=None)
settings.load_profile("patient")

# A shell that runs the tests in the background lets them ignore Ctrl-C, and with them the programs that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The seeds and their data, where they lie beside the checkout."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("the seeds are not beside this checkout")
    return folder
