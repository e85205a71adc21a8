"""`linkwise completion`: a script that completes commands and options in the user's shell."""

import click
from click.shell_completion import get_completion_class

_EPILOG = """\b
Examples:
  eval "$(linkwise completion bash)"       # in ~/.bashrc
  eval "$(linkwise completion zsh)"        # in ~/.zshrc, behind compinit
  linkwise completion fish | source        # in ~/.config/fish/config.fish
"""


@click.command("completion", epilog=_EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print a script that completes commands and options in your SHELL."""
    from linkwise.cli.program import main  # noqa: PLC0415 - main finds this file by name

    made = get_completion_class(shell)
    if made is None:  # pragma: no cover - the choices above all exist in click
        raise click.ClickException(f"no completion for {shell}")
    click.echo(made(main, {}, "linkwise", "_LINKWISE_COMPLETE").source())
