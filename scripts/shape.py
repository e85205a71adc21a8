"""Shape of the source beside other projects; `make shape` runs it.

A report without limits: it always ends with 0. Figures are there to be read, never to be met.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final
from zipfile import ZipFile

import click
from rich.console import Console
from rich.table import Table

from support.shape.source import measure
from support.wheel import build_wheel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from support.shape.source import SourceShape

ROOT: Final = Path(__file__).resolve().parents[1]
TOP: Final = 10
"""rows of folders and of imported modules"""
DEVELOPMENT: Final = re.compile(rb"^\s*(?:import|from) (?:pytest|hypothesis|hatchling|support)\b", re.MULTILINE)

PROJECTS: Final = ("kopf", "h11", "KAI pkg/scheduler", "Kueue pkg", "starlette")
ANCHORS: Final[Mapping[str, tuple[str, ...]]] = {
    "modules": ("85", "11", "197", "319", "34"),
    "lines": ("17,485", "2,568", "30,700", "79,500", "6,712"),
    "lines per module: median": ("158", "153", "93", "-", "145"),
    "lines per module: p90": ("512", "369", "314", "-", "548"),
    "lines per module: largest": ("968", "659", "799", "-", "876"),
    "folders": ("13", "1", "89", "-", "2"),
    "modules per folder: median": ("8", "11", "1", "-", "17"),
    "modules per folder: largest": ("11", "11", "9", "-", "23"),
    "lines per function: median": ("9", "7", "9", "-", "5"),
    "lines per function: p90": ("49", "38", "28", "-", "26"),
    "import lines": ("4.0%", "4.2%", "-", "-", "5.3%"),
    "fan-in: median": ("2", "2", "-", "-", "1"),
    "fan-in: largest": ("31", "7", "-", "-", "23"),
    "import cycles at run time": ("none", "none", "-", "-", "none"),
    "import cycles with types": ("none", "1 (of 2)", "-", "-", "1 (of 15)"),
}
"""other projects by the same ruler: KAI and Kueue are written in Go, and their imports do not compare

Modules and lines of both are without tests and generated code; the spreads of KAI are those of an earlier version.
"""
ANCHOR_WALKS: Final[Mapping[str, int]] = {
    "kopf: an event with two handlers": 25,
    "h11: a request and its response": 8,
    "starlette: a POST of JSON": 8,
}
"""modules that a request passes"""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--walks/--no-walks", default=True, help="Trace walks on running code (default), or skip them.")
@click.option("--wheel/--no-wheel", default=True, help="Build the wheel and list what it ships (default), or skip it.")
@click.option(
    "--package",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=ROOT / "src/linkwise",
    help="Folder of the package to measure. Default: linkwise.",
)
def main(package: Path, *, as_json: bool, walks: bool, wheel: bool) -> None:
    """Report the shape of the source beside kopf, h11, KAI and starlette.

    Modules, folders, functions, imports and cycles are read from the source; walks count the modules and functions
    that a filter, a bind, a watch event, a gang and an explanation pass, traced on running code. There are no limits.
    """
    source = measure(package)
    walked, shipped = walk_rows() if walks else {}, wheel_contents() if wheel else {}
    if as_json:
        click.echo(json.dumps({"source": asdict(source), "walks": walked, "wheel": shipped}, indent=2))
        return
    console = Console(highlight=False, width=max(100, Console().width))
    console.print(anchors_table(package.name, source))
    console.print(ranking("Folders with most modules", "folder", "modules", source.folders))
    console.print(ranking("Most imported modules", "module", "importers", source.fan_in))
    for cycle in source.cycles_with_types:
        console.print(f"\nImport cycle of {len(cycle)} modules: {', '.join(cycle)}")
    if walked:
        console.print(walks_table(walked))
    if shipped:
        console.print(f"\n{wheel_line(shipped)}")


def walk_rows() -> dict[str, dict[str, int]]:
    """Modules, functions and frames of each walk."""
    from support.shape.walks import trace_walks  # noqa: PLC0415 - imports all of Linkwise

    return {
        name: {"modules": len(walk.modules), "functions": len(walk.functions), "deepest frame": walk.depth}
        for name, walk in trace_walks().items()
    }


def wheel_contents() -> dict[str, Any]:
    """Counts of the wheel's files, and the files that have no place in it."""
    with TemporaryDirectory() as folder:
        wheel = build_wheel(Path(folder))
        with ZipFile(wheel) as archive:
            names = archive.namelist()
            foreign = [name for name in names if not re.match(r"linkwise(?:-[^/]*\.dist-info)?/", name)]
            modules = [name for name in names if name.endswith(".py")]
            needy = [name for name in modules if DEVELOPMENT.search(archive.read(name))]
        size = wheel.stat().st_size
    return {
        "bytes": size,
        "modules": len(modules),
        "other files": len(names) - len(modules),
        "files outside the package": foreign,
        "modules that need the development environment": needy,
    }


def anchors_table(name: str, source: SourceShape) -> Table:
    """The package beside the anchors."""
    per_folder = source.folders.values()
    figures = {
        "modules": f"{source.modules:,}",
        "lines": f"{source.lines:,}",
        "lines per module: median": f"{source.module_lines.median:g}",
        "lines per module: p90": str(source.module_lines.p90),
        "lines per module: largest": str(source.module_lines.largest),
        "folders": str(len(per_folder)),
        "modules per folder: median": f"{median(per_folder):g}",
        "modules per folder: largest": str(max(per_folder)),
        "lines per function: median": f"{source.function_lines.median:g}",
        "lines per function: p90": str(source.function_lines.p90),
        "import lines": f"{source.import_share:.1%}",
        "fan-in: median": f"{median(source.fan_in.values()):g}",
        "fan-in: largest": str(max(source.fan_in.values())),
        "import cycles at run time": _sizes(source.cycles),
        "import cycles with types": _sizes(source.cycles_with_types),
    }
    table = _table("Source", "", name, *PROJECTS)
    for label, figure in figures.items():
        table.add_row(label, figure, *ANCHORS[label])
    return table


def ranking(title: str, label: str, unit: str, counts: Mapping[str, int]) -> Table:
    """The first rows of a count."""
    table = _table(title, label, unit)
    for name, count in [*counts.items()][:TOP]:
        table.add_row(name, str(count))
    return table


def walks_table(walks: Mapping[str, Mapping[str, int]]) -> Table:
    """Walks, and those of the anchors."""
    table = _table("Walks, traced", "", "modules", "functions", "deepest frame")
    for name, figures in walks.items():
        table.add_row(name, *map(str, figures.values()))
    table.add_section()
    for name, modules in ANCHOR_WALKS.items():
        table.add_row(name, str(modules))
    return table


def wheel_line(wheel: Mapping[str, Any]) -> str:
    """The wheel in a sentence or two."""
    counts = f"{wheel['modules']} modules and {wheel['other files']} other files, {wheel['bytes'] / 1024:,.0f} KiB"
    astray = [*wheel["files outside the package"], *wheel["modules that need the development environment"]]
    return f"Wheel: {counts}; test support: {', '.join(astray) or 'none'}"


def _sizes(cycles: Sequence[Sequence[str]]) -> str:
    """The number of cycles and the size of the largest, which comes first."""
    return f"{len(cycles)} ({'up to' if len(cycles) > 1 else 'of'} {len(cycles[0])})" if cycles else "none"


def _table(title: str, first: str, *others: str) -> Table:
    table = Table(
        title=f"\n{title}", title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    table.add_column(first, no_wrap=True)
    for each in others:
        table.add_column(each, justify="right", overflow="fold")
    return table


if __name__ == "__main__":
    main()
