"""Reads the pods of job files, by group."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from linkwise.cli.inputs.manifests import load_manifests
from linkwise.cli.options.io import file_name
from linkwise.manifests.job_pods import job_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.manifests.job_pods import JobFile

__all__ = ["note", "read_job"]


def read_job(files: Sequence[str]) -> JobFile:
    """Read all groups of the files; InputError names file, line and column, other problems are printed as notes."""
    manifests = [(file_name(file), manifest) for file in files for manifest in load_manifests(file)]
    return job_of(manifests, ", ".join(map(file_name, files)), _stem(files[0]), note)


def _stem(file: str) -> str:
    return "job" if file == "-" else re.sub(r"[^A-Za-z0-9]+", "-", Path(file).stem).strip("-") or "job"


def note(sentence: str) -> None:
    """Print something that the reader of the plan should know beside it."""
    click.echo(f"note: {sentence}", err=True)
