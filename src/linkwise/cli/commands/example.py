"""`linkwise example`: example manifests, one for each way to request devices."""

from __future__ import annotations

import click

_EPILOG = """\b
Examples:
  linkwise example                                      # list the examples
  linkwise example link-pair                            # print one
  linkwise example link-pair | linkwise apply -f -      # to $KUBECONFIG
  linkwise example group | kubectl apply -f -

All of them work on the cluster that `linkwise up` starts.
"""


@click.command("example", epilog=_EPILOG)
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """Print the example NAME, or list the examples.

    Each manifest requests devices with the resource names and annotations of one of the supported systems.
    """
    from linkwise.cli.examples import example, examples  # noqa: PLC0415 - imported on use, as in all commands

    if name:
        click.echo(example(name), nl=False)
        return
    from rich.console import Console  # noqa: PLC0415 - slow to import
    from rich.table import Table  # noqa: PLC0415 - same

    rows = Table.grid(padding=(0, 2))
    rows.add_column(no_wrap=True)
    rows.add_column()
    for example_name, summary in examples().items():
        rows.add_row(example_name, summary)
    Console(highlight=False, markup=False).print(rows)
