"""`linkwise page`: the web page of the service, in the browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from linkwise.cli.options.cluster import EXIT_CODES, cluster_flags

if TYPE_CHECKING:
    from pathlib import Path

_EPILOG: Final = f"""\b
Examples:
  linkwise page                       # opens the browser
  linkwise page --no-browser          # prints the address only
  linkwise page --context prod --port 8080
  linkwise page --service https://linkwise.example.com

The page shows devices, links and groups, and why pods wait. A port of 127.0.0.1 forwards it to the service
with the token of your kubeconfig, as `linkwise explain` does, so the page shows what your own rights cover. The
address has a random part: other users of this machine can't use your token. Ctrl-C ends it.

{EXIT_CODES}
"""


@click.command("page", epilog=_EPILOG)
@click.option("--no-browser", is_flag=True, help="Print the address, and do not open a browser.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port of 127.0.0.1 (default: any free port).")
@click.option(
    "--service",
    metavar="ADDRESS",
    help="The service: a URL, or NAMESPACE/NAME:PORT of its Service. [default: linkwise-system/linkwise:tenants]",
)
@cluster_flags
def command(*, no_browser: bool, port: int, service: str | None, kubeconfig: Path | None, context: str | None) -> None:
    """Open the web page of the service, with your own rights.

    Nothing is changed in the cluster.
    """
    from linkwise.assembly.page import serve_page  # noqa: PLC0415 - imports the client and the server
    from linkwise.assembly.service_client import DEFAULT_SERVICE, parse_service  # noqa: PLC0415 - same

    def opened(url: str) -> None:
        click.echo(f"The page is at {url}\nCtrl-C to stop.")
        if not no_browser:
            import webbrowser  # noqa: PLC0415 - only needed here

            webbrowser.open(url)

    serve_page(parse_service(service or DEFAULT_SERVICE), port, opened, kubeconfig, context)
