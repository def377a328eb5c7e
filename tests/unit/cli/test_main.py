"""Every command that `chimera --help` lists can be called, and says what it is for."""

import click
import pytest

from chimeralab.cli.main import COMMANDS, cli


@pytest.mark.parametrize("name", COMMANDS)
def test_every_listed_command_is_there_and_has_help(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.help
    assert command.name == name
