"""What all tests share: where the repository is, and the machines of the seeds in the units they are written in."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import settings

from support.profile import PROFILE, examples

ROOT = Path(__file__).resolve().parent.parent

# No deadline: how long an example takes depends on the machine, and a pause of it must not fail a test.
settings.register_profile(PROFILE, settings(), deadline=None, max_examples=examples(100))
settings.load_profile(PROFILE)

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
