"""Reads a manifest that is pasted into the page: its pods by group, and every mistake with line and column."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from linkwise.errors import InputError
from linkwise.manifests.job_pods import JobFile, job_of
from linkwise.manifests.objects import parse_manifests
from linkwise.views.page.documents import ManifestError

if TYPE_CHECKING:
    from linkwise.manifests.objects import Manifest

__all__ = ["read_manifest"]

MAX_PODS: Final = 1000
"""of a manifest"""
MAX_ERRORS: Final = 50
NAME: Final = "manifest"
_PLACE: Final = re.compile(rf"{NAME}(?::(\d+))?(?::(\d+))?: (.*)", re.DOTALL)


def read_manifest(content: bytes) -> tuple[JobFile, list[ManifestError]]:
    """Return the pods of a manifest, none if it has errors, and its mistakes, in the order of their places."""
    problems: list[str] = []
    try:
        manifests = parse_manifests(content, NAME)
    except InputError as error:
        return JobFile(()), [_mistake(str(error))]
    broken = [problem for manifest in manifests if (problem := _problem(manifest))]
    job = JobFile(())
    if not broken:
        try:
            job = job_of([(NAME, manifest) for manifest in manifests], NAME, "job", problems.append, MAX_PODS)
        except InputError as error:
            broken = [str(error)]
    mistakes = [_mistake(sentence) for sentence in dict.fromkeys([*broken, *problems])]
    return job, sorted(mistakes, key=lambda one: (one.line, one.column))[:MAX_ERRORS]


def _problem(manifest: Manifest) -> str:
    """Return what is wrong with an object; empty if it can be read, or creates no pods."""
    try:
        job_of([(NAME, manifest)], NAME, "job", lambda _: None, MAX_PODS)
    except InputError as error:
        match = _PLACE.fullmatch(str(error))
        return str(error) if match and match[1] else ""
    return ""


def _mistake(sentence: str) -> ManifestError:
    match = _PLACE.fullmatch(sentence)
    line, column, text = match.groups() if match else ("", "", sentence)
    return ManifestError(int(line or 0), int(column or 0), text)
