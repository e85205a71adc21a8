"""The command table and the exit codes.

A command module is imported only when the command is called, so that `--help` stays fast.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Final, NoReturn

import click

from linkwise import __version__
from linkwise.assembly.plugins import load_plugins
from linkwise.errors import ClusterError, DriverError, LinkwiseError

# One line per command: its name, its module and its summary in `linkwise --help`.
COMMANDS: Final = {
    "up": ("linkwise.cli.commands.up", "Start a simulated cluster on this machine; needs no Kubernetes and no GPU."),
    "example": ("linkwise.cli.commands.example", "Print example manifests."),
    "demo": ("linkwise.cli.commands.demo", "Take a guided tour: eight scheduling decisions, with a score card."),
    "pick": ("linkwise.cli.commands.pick", "Choose devices on one machine and explain the choice."),
    "topo": ("linkwise.cli.commands.topo", "Show the links between the devices of a machine."),
    "read": ("linkwise.cli.commands.read", "Check how Linkwise interprets manifests."),
    "replay": ("linkwise.cli.commands.replay", "Show where the pending pods of a cluster would be placed."),
    "plan": ("linkwise.cli.commands.plan", "Plan the pods of a job as one group."),
    "get": ("linkwise.cli.commands.get", "List nodes, pods, devices, groups, policies, usage or capacity."),
    "describe": ("linkwise.cli.commands.describe", "Show the details of a node, pod or group, including links."),
    "explain": ("linkwise.cli.commands.explain", "Explain why pods or jobs are pending, or why they were placed."),
    "top": ("linkwise.cli.commands.top", "Show memory and utilization of devices, by node or by pod."),
    "page": ("linkwise.cli.commands.page", "Open the web page: devices, links and groups, and why pods wait."),
    "doctor": ("linkwise.cli.commands.doctor", "Examine an installation: name what is wrong, and what to do."),
    "inspect": ("linkwise.cli.commands.inspect", "Show device memory usage in the format of kubectl inspect gpushare."),
    "cordon": ("linkwise.cli.commands.cordon", "Keep new pods off single devices of a node."),
    "uncordon": ("linkwise.cli.commands.uncordon", "Let pods use cordoned devices again."),
    "apply": ("linkwise.cli.commands.apply", "Create or update the objects of manifests in a cluster."),
    "delete": ("linkwise.cli.commands.delete", "Delete objects by file, name or labels."),
    "annotate": ("linkwise.cli.commands.annotate", "Set or remove annotations of objects."),
    "serve": ("linkwise.cli.commands.serve", "Run the scheduler extender service for one cluster."),
    "agent": ("linkwise.cli.commands.agent", "Run the node agent: discover devices and serve them to the kubelet."),
    "config": ("linkwise.cli.commands.config", "Print service settings and the kube-scheduler configuration."),
    "manifests": ("linkwise.cli.commands.manifests", "Print the manifests that the service needs in a cluster."),
    "rules": ("linkwise.cli.commands.rules", "List the rules of the five supported systems and where each is proven."),
    "completion": ("linkwise.cli.commands.completion", "Print a shell completion script."),
}

WITHOUT_PLUGINS: Final = frozenset(
    {"completion", "describe", "example", "explain", "get", "manifests", "page", "rules", "top"}
)
"""commands that know no vendor, dialect or policy, or only once they read a cluster, and start faster without plug-ins"""

EXIT_OUTPUT: Final = 1
EXIT_CLUSTER: Final = 1
EXIT_INPUT: Final = 2
EXIT_INTERRUPTED: Final = 130
KUBECTL_COMPLETE: Final = "kubectl_complete-linkwise"
"""the program that kubectl runs for completions of `kubectl linkwise`, with the words behind it"""
GPUSHARE: Final = "kubectl-inspect-gpushare"
"""the program name under which kubectl runs it as the plugin `kubectl inspect gpushare`"""


class Commands(click.Group):
    """Group that imports a command only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order of the table."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command of that name."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        if cmd_name not in WITHOUT_PLUGINS:
            load_plugins()
        module = import_module(COMMANDS[cmd_name][0])
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve the command; suggest a similar name if it is unknown."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            from difflib import get_close_matches  # noqa: PLC0415 - only needed for a typo

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
    """Topology-aware scheduling of GPUs and NPUs on Kubernetes."""


def run_command() -> None:
    """Run the command; exit with 2 and one sentence on invalid input, with 1 if the cluster or the hardware fails."""
    _reopen_closed_streams()
    program = os.path.basename(sys.argv[0])  # noqa: PTH119 - pathlib is slow to import
    try:
        if program.startswith(KUBECTL_COMPLETE):
            _complete_for_kubectl(sys.argv[1:])
        elif program.startswith(GPUSHARE):
            main(["inspect", *sys.argv[1:]], prog_name="linkwise", standalone_mode=False)
        else:
            main(standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        _exit(error.exit_code)
    except LinkwiseError as error:
        click.echo(f"linkwise: {error}", err=True)
        _exit(EXIT_CLUSTER if isinstance(error, ClusterError | DriverError) else EXIT_INPUT)
    except (click.Abort, KeyboardInterrupt):
        _exit(EXIT_INTERRUPTED)
    except OSError as error:
        _exit_on_output_error(error)


def _complete_for_kubectl(words: list[str]) -> None:
    """Print the completions of the last word, and what the shell does with them, as kubectl's protocol for plugins has it."""
    from click.shell_completion import ShellComplete  # noqa: PLC0415 - only needed here

    from linkwise.cli.options.kinds import DIRECTIVES  # noqa: PLC0415 - same

    *before, last = words or [""]
    items = ShellComplete(main, {}, "linkwise", "").get_completions(before, last)
    kinds = {item.type for item in items}
    for item in items:
        if item.type == "plain":
            description = f"\t{' '.join(item.help.split())}" if item.help else ""
            sys.stdout.write(f"{item.value}{description}\n")
    slash = any(item.value.endswith("/") for item in items)
    sys.stdout.write(
        f":{DIRECTIVES['file' if 'file' in kinds else 'dir' if 'dir' in kinds else 'slash' if slash else '']}\n"
    )


def _reopen_closed_streams() -> None:
    """Open /dev/null for standard streams that the shell closed (`>&-`).

    Otherwise a socket gets their file descriptor, and libuv aborts.
    """
    for number, (name, mode) in enumerate({"stdin": "r", "stdout": "w", "stderr": "w"}.items()):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free descriptor, which is this one
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8"))


def _exit_on_output_error(error: OSError) -> NoReturn:
    """Exit because the output can't be written; a closed pipe is not reported."""
    if not isinstance(error, BrokenPipeError):
        place = f"{error.filename}: " if isinstance(error.filename, str) else ""
        click.echo(f"linkwise: {place}{error.strerror or error}", err=True)
    _exit(EXIT_OUTPUT)


def _exit(code: int) -> NoReturn:
    """Exit with that code; discard buffered output that can't be written, which Python would report."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
