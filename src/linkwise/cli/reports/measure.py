"""Measures the bandwidth of this node, and prints the result."""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from linkwise.assembly.measure import import_output, planned_run, run_measurement
from linkwise.cli.inputs.topology import Source
from linkwise.cli.options.io import file_name
from linkwise.cli.reports.topology import show_topology
from linkwise.errors import InputError
from linkwise.wire.measurement import measurement_document

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from linkwise.assembly.measure import Measured, Planned
    from linkwise.config.settings import AgentSettings

__all__ = ["measure"]

EVERY = 10  # seconds between lines of progress, if it is not a terminal


def measure(  # noqa: PLR0913 - the flags of the command
    settings: AgentSettings,
    file: str | None,
    tool: str,
    named: Sequence[str],
    limit: float,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Import the output in `file`, or run a test, and print what was measured."""
    if file is not None:
        _show(import_output(settings, _text(file), file_name(file), named, dry_run=dry_run), as_json=as_json)
    elif dry_run:
        _show_plan(planned_run(settings, tool, named, limit), as_json=as_json)
    else:
        signal.signal(signal.SIGTERM, _stop)  # so that the test is killed before this process ends
        _show(run_measurement(settings, tool, named, limit, _progress()), as_json=as_json)


def _text(file: str) -> str:
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from error
    if not content.strip():
        raise InputError(f"{file_name(file)} is empty")
    return content.decode("utf-8", "replace")


def _show(measured: Measured, *, as_json: bool) -> None:
    if as_json:
        document = measurement_document(measured.measurement)
        click.echo(
            json.dumps({**document, "indices": measured.indices, "file": str(measured.file), "stored": measured.stored})
        )
        return
    topology = replace(measured.topology, links=())
    show_topology(Source(topology))
    if measured.indices != tuple(range(len(measured.indices))):
        click.echo(f"the rows are of the devices {', '.join(map(str, measured.indices))}")
    what = f"{len(topology.devices)} devices, {measured.measurement.tool}"
    click.echo(f"{what}: stored in {measured.file}" if measured.stored else f"{what}: nothing stored (dry run)")


def _show_plan(plan: Planned, *, as_json: bool) -> None:
    if as_json:
        command = [plan.command.program, *plan.command.arguments]
        click.echo(json.dumps({"command": command, "devices": plan.devices, "stored": False}))
    else:
        click.echo(f"would hold {', '.join(plan.devices)} and run {plan.command} (dry run)")


def _progress() -> Callable[[str], None]:
    """Prints progress to standard error: in one line of a terminal, otherwise at most every ten seconds."""
    last = ""

    def show(sentence: str) -> None:
        nonlocal last
        seconds, running, _ = sentence.partition(" s: ")
        if running and not sys.stderr.isatty():
            step = str(int(seconds) // EVERY)
            if step in {last, "0"}:
                return
            last = step
        if running and sys.stderr.isatty():
            click.echo(f"\r\x1b[K{sentence[:100]}", nl=False, err=True)
        else:
            click.echo(sentence, err=True)

    return show


def _stop(number: int, frame: object) -> NoReturn:
    del frame
    sys.exit(128 + number)
