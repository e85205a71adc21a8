"""`linkwise completion`: prints a shell completion script."""

import click
from click.shell_completion import get_completion_class

_EPILOG = """\b
Examples:
  eval "$(linkwise completion bash)"       # in ~/.bashrc
  eval "$(linkwise completion zsh)"        # in ~/.zshrc, after compinit
  linkwise completion fish | source        # in ~/.config/fish/config.fish
"""


@click.command("completion", epilog=_EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print a script that completes commands and options in your SHELL."""
    from linkwise.cli.program import main  # noqa: PLC0415 - program imports this module by name

    completion = get_completion_class(shell)
    if completion is None:  # pragma: no cover - the choices above all exist in click
        raise click.ClickException(f"no completion for {shell}")
    click.echo(completion(main, {}, "linkwise", "_LINKWISE_COMPLETE").source())
