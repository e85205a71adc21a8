"""Lists of `linkwise get` and `linkwise top`, in the formats of kubectl, and with --watch the rows that changed."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click
from rich.text import Text

from linkwise.assembly.cluster_reader import read_cluster
from linkwise.cli.render.documents import list_document, object_document, print_data
from linkwise.cli.render.tables import Table, print_table, terminal
from linkwise.cli.reports.answers import NO_SERVICE, answers_of, sections_of
from linkwise.errors import ClusterError
from linkwise.kube.errors import ForbiddenError
from linkwise.views.table import Selection

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from linkwise.assembly.service_client import Detail
    from linkwise.cli.options.kinds import Named
    from linkwise.cli.options.lists import ListFlags
    from linkwise.views.cluster import ClusterView
    from linkwise.views.table import Row, Section

__all__ = ["Printer", "list_objects"]

_DETAILS: Final[Mapping[str, Detail]] = {"json": "documents", "yaml": "documents", "wide": "wide"}
"""what the service adds to a table, by output format"""
POLL_SECONDS: Final = 2.0
"""between two questions to the service, which has no watch"""
_NOTHING = "-"


def list_objects(named: Sequence[Named], flags: ListFlags, *, suffix: str = "", sort_by: str | None = None) -> None:
    """Print the objects, and with a watch their changes; `suffix` makes the kinds those of a table about them."""

    def selections(default: str) -> list[Selection]:
        return [
            Selection(f"{one.kind}{suffix}", one.names, _namespace(one, flags, default), flags.selector, sort_by or "")
            for one in named
        ]

    answers = answers_of(flags)
    printer = Printer(flags.form, headers=not flags.no_headers)

    def tables() -> list[Section]:
        return answers.sections(selections, _DETAILS.get(flags.form or "", ""))

    if flags.watch and flags.service in {None, NO_SERVICE}:
        _watch(flags, lambda cluster: sections_of(cluster, selections), printer)
    printer.print(tables())
    if flags.watch:
        _poll(lambda: printer.print_changes(tables()))


@dataclass(slots=True)
class Printer:
    """Prints sections, and later what changed in them."""

    form: str | None
    headers: bool = True
    _shown: dict[str, dict[str, Row]] = field(default_factory=dict)
    """rows as they were last printed, by kind and key"""
    _widths: dict[str, list[int]] = field(default_factory=dict)
    _said: set[str] = field(default_factory=set)

    def print(self, sections: Sequence[Section]) -> None:
        """Print all rows."""
        for section in sections:
            self._say(section.notes)
            self._shown[section.kind] = {_key(row): row for row in section.rows}
        if self.form in {"json", "yaml"}:
            print_data(_document(sections), self.form)
        elif self.form == "name":
            self._write(row.name for section in sections for row in section.rows)
        else:
            self._print_tables(sections)
        sys.stdout.flush()

    def print_changes(self, sections: Sequence[Section]) -> None:
        """Print the rows that are new or differ, and those that are gone as they were last, one line each."""
        for section in sections:
            self._say(section.notes)
            before, now = self._shown.get(section.kind, {}), {_key(row): row for row in section.rows}
            changed = [row for key, row in now.items() if key not in before or _facts(before[key]) != _facts(row)]
            gone = [_ended(row) for key, row in before.items() if key not in now]
            self._shown[section.kind] = now
            self._print_rows(section.kind, [*gone, *changed], several=len(sections) > 1)
        sys.stdout.flush()

    def _print_rows(self, kind: str, rows: Sequence[Row], *, several: bool) -> None:
        if self.form in {"json", "yaml"}:
            for row in rows:
                if self.form == "yaml":
                    sys.stdout.write("---\n")
                print_data(object_document(kind, row.document()), self.form)
        elif self.form == "name":
            self._write(row.name for row in rows)
        elif rows:
            widths = self._widths.get(kind)
            table = self._table(rows, several=several)
            headers = self.headers and widths is None
            self._widths[kind] = print_table(
                terminal(), table, headers=headers, cut=self.form != "wide", widths=widths or ()
            )

    def _print_tables(self, sections: Sequence[Section]) -> None:
        several = len(sections) > 1
        printed = False
        for section in sections:
            if not section.rows:
                self._say((section.empty,))
                continue
            if printed:
                sys.stdout.write("\n")
            printed = True
            self._print_rows(section.kind, section.rows, several=several)

    def _table(self, rows: Sequence[Row], *, several: bool) -> Table:
        wide = self.form == "wide"
        columns = [name for name, cell in rows[0].cells.items() if wide or not cell.wide]
        table = Table(tuple(columns))
        for row in rows:
            cells: list[str | Text] = []
            for name in columns:
                cell = row.cells[name]
                text = cell.text if wide or cell.brief is None else cell.brief
                shown = row.name if several and name == "name" else text
                # plain text is much cheaper than Text, which counts in a table of thousands of rows
                cells.append(Text(shown, cell.style) if cell.style and text else shown or _NOTHING)
            table.add(*cells)
        return table

    def _say(self, sentences: Sequence[str]) -> None:
        """Print sentences to standard error, each once."""
        for sentence in sentences:
            if sentence not in self._said:
                self._said.add(sentence)
                click.echo(sentence if sentence.startswith("no ") else f"note: {sentence}", err=True)

    @staticmethod
    def _write(lines: Any) -> None:  # noqa: ANN401 - an iterable of lines
        sys.stdout.write("".join(f"{line}\n" for line in lines))


def _namespace(one: Named, flags: ListFlags, default: str) -> str | None:
    """Return the namespace; usage is that of all namespaces unless one is named."""
    everywhere = flags.all_namespaces or (one.kind == "usage" and flags.namespace is None)
    return None if everywhere else flags.namespace or default


def _watch(flags: ListFlags, sections: Callable[[ClusterView], list[Section]], printer: Printer) -> None:
    """Print the cluster and its changes until Ctrl-C; return if the user may not read the cluster: the service may answer."""
    from linkwise.cli.reports.watching import watch_cluster  # noqa: PLC0415 - imports the planner

    try:
        cluster = read_cluster(flags.kubeconfig, flags.context)
    except ForbiddenError:
        return
    printer.print(sections(cluster))
    watch_cluster(flags.kubeconfig, flags.context, lambda seen: printer.print_changes(sections(seen)))


def _poll(show: Callable[[], None]) -> NoReturn:
    """Call `show` every few seconds; an error of the cluster is reported once, and the next attempt may succeed."""
    problem = ""
    while True:
        time.sleep(POLL_SECONDS)
        try:
            show()
            problem = ""
        except ClusterError as error:
            if str(error) != problem:
                problem = str(error)
                click.echo(f"note: {problem}", err=True)


def _key(row: Row) -> str:
    return f"{row.namespace}/{row.name}"


def _document(sections: Sequence[Section]) -> dict[str, Any]:
    if len(sections) == 1:
        (section,) = sections
        documents = [row.document() for row in section.rows]
        if section.alone and documents:
            return object_document(section.kind, documents[0])
        return list_document(section.kind, documents)
    rows = ((section.kind, row) for section in sections for row in section.rows)
    return list_document("", ({"kind": kind, **row.document()} for kind, row in rows))


def _facts(row: Row) -> list[str]:
    return [cell.text for cell in row.cells.values() if not cell.volatile]


def _ended(row: Row) -> Row:
    """The last row of an object that is not listed any more."""
    state = row.cells.get("state")
    if state is None or "device" in row.cells:
        return row
    return replace(row, cells={**row.cells, "state": replace(state, text="Deleted", style="")})
