"""All commands, found by name when they are called so that `--help` stays fast, and how the program ends."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Final, NoReturn

import click

from linkwise import __version__
from linkwise.errors import ClusterError, LinkwiseError

# One line a command: its name, the file that holds it, and what the list of commands says about it.
COMMANDS: Final = {
    "up": ("linkwise.cli.commands.up", "A cluster to try, on this machine alone: no Kubernetes, no GPU."),
    "example": ("linkwise.cli.commands.example", "Small manifests to try on it."),
    "demo": ("linkwise.cli.commands.demo", "Guided tour: seven scheduling decisions, with a score card."),
    "pick": ("linkwise.cli.commands.pick", "Which devices of a machine would be chosen, and why."),
    "topo": ("linkwise.cli.commands.topo", "What a topology tool printed, read and shown."),
    "read": ("linkwise.cli.commands.read", "What Linkwise understands of a manifest."),
    "replay": ("linkwise.cli.commands.replay", "Where the waiting pods of a cluster would go, and why."),
    "plan": ("linkwise.cli.commands.plan", "Where a group of pods would go as one, and why."),
    "get": ("linkwise.cli.commands.get", "Nodes, pods, devices or groups of a cluster, a line each."),
    "describe": ("linkwise.cli.commands.describe", "A node, pod or group of a cluster in full, with its links."),
    "explain": ("linkwise.cli.commands.explain", "Why a pod of a cluster waits, or is where it is."),
    "inspect": ("linkwise.cli.commands.inspect", "Who has how much memory of which device, as gpushare prints it."),
    "apply": ("linkwise.cli.commands.apply", "Send manifests to a cluster."),
    "serve": ("linkwise.cli.commands.serve", "The scheduler service: answers kube-scheduler for one cluster."),
    "config": ("linkwise.cli.commands.config", "The settings of the service, and the file of its scheduler."),
    "manifests": ("linkwise.cli.commands.manifests", "What a cluster needs so that the service may work in it."),
    "rules": ("linkwise.cli.commands.rules", "What the five systems ask for, and where it is done and proven."),
    "completion": ("linkwise.cli.commands.completion", "Print a script that completes commands in your shell."),
}

EXIT_OUTPUT: Final = 1
EXIT_CLUSTER: Final = 1
EXIT_INPUT: Final = 2
EXIT_INTERRUPTED: Final = 130
GPUSHARE: Final = "kubectl-inspect-gpushare"
"""under this name the program is that plugin of kubectl: `kubectl inspect gpushare`"""


class Commands(click.Group):
    """A group that imports a command only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order of the table."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = import_module(COMMANDS[cmd_name][0])
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, but with near names suggested."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            from difflib import get_close_matches  # noqa: PLC0415 - only a typing mistake needs it

            near = get_close_matches(name, COMMANDS, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else f" Commands: {', '.join(COMMANDS)}."
            ctx.fail(f"No such command '{name}'.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="\b\nStart here:\n  linkwise up\n  linkwise demo\n  linkwise pick --help",
)
@click.version_option(__version__, "-V", "--version", prog_name="linkwise")
def main() -> None:
    """Place accelerator workloads by how their devices are linked, filled and shared."""


def run_command() -> None:
    """Run the command that was given; a mistake in the input ends with one sentence and exit code 2, a cluster's failure with 1."""
    _fill_closed_ends()
    try:
        if os.path.basename(sys.argv[0]).startswith(GPUSHARE):  # noqa: PTH119 - pathlib is slow to import
            main(["inspect", *sys.argv[1:]], prog_name="linkwise", standalone_mode=False)
        else:
            main(standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        _leave(error.exit_code)
    except LinkwiseError as error:
        click.echo(f"linkwise: {error}", err=True)
        _leave(EXIT_CLUSTER if isinstance(error, ClusterError) else EXIT_INPUT)
    except (click.Abort, KeyboardInterrupt):
        _leave(EXIT_INTERRUPTED)
    except OSError as error:
        _stop_writing(error)


def _fill_closed_ends() -> None:
    """Put nothing where the shell closed something (`>&-`): else a socket gets its number, and libuv gives up."""
    for number, (name, mode) in enumerate({"stdin": "r", "stdout": "w", "stderr": "w"}.items()):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free, which is this one
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8"))


def _stop_writing(error: OSError) -> NoReturn:
    """End because the output can't be written; a reader that left early needs no word."""
    if not isinstance(error, BrokenPipeError):
        place = f"{error.filename}: " if isinstance(error.filename, str) else ""
        click.echo(f"linkwise: {place}{error.strerror or error}", err=True)
    _leave(EXIT_OUTPUT)


def _leave(code: int) -> NoReturn:
    """End with that code, also where nobody takes what is still buffered: Python would try again, and say so."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
