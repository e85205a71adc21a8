"""Settings and fixtures of all tests."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

from support.profile import PROFILE, examples

ROOT = Path(__file__).resolve().parent.parent

# No deadline: how long an example takes depends on the machine, and a pause of it must not fail a test.
settings.register_profile(PROFILE, settings(), deadline=None, max_examples=examples(100))
settings.load_profile(PROFILE)

# A shell that runs tests in the background makes them and the programs that they start ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Modules and collected tests stay until the end: the garbage collector would walk through them again and again.
gc.disable()


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)  # `make mutants` runs without xdist
def pytest_xdist_auto_num_workers() -> int:
    """Three workers for two cores: a third of the time, tests wait for programs that they have started."""
    cores = os.cpu_count() or 1
    return cores + -(-cores // 2)


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of the seeds and their data, if it is beside the checkout."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("the seeds are not beside this checkout")
    return folder
