"""Recorded kubectl requests get the recorded responses, without kubectl."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.embedded.recorded_requests import replayed
from support.embedded.thread import EmbeddedThread

FILES = sorted((Path(__file__).parents[1] / "recorded").glob("*.json"))


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_recorded_requests_get_the_recorded_responses(file: Path) -> None:
    with EmbeddedThread() as thread:
        api = thread.api()
        for note in json.loads(file.read_text()):
            answer = replayed(api, note)
            thread.do(lambda server: server.store.garbage_collector.finish())
            expected = {"kind": note["kind"]} if "kind" in note and "watch=" not in note["path"] else {}
            assert answer == (note["status"], expected), f"{note['method']} {note['path']}"
        api.close()


def test_the_recordings_are_there() -> None:
    assert len(FILES) >= 8
