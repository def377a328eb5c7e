"""`chimera view`: the local web app, for logs and studies."""

import contextlib
import threading
import webbrowser
from pathlib import Path

import click

from chimeralab.cli.terminal import say
from chimeralab.web.serving import Server, ServerOptions, check_certificate, refuse_nothing

FILE = click.Path(dir_okay=False, exists=True, path_type=Path)


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH...]")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen at. Any but this machine's own is open to others.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Default: 8472, or a free one where that is used."
)
@click.option("--no-open", is_flag=True, help="Don't open the browser.")
@click.option("--allow-run", is_flag=True, help="Let the page start and pause runs of a study.")
@click.option("--tls-cert", "certificate", type=FILE, help="Encrypt with this certificate (PEM).")
@click.option(
    "--tls-key", "key", type=FILE, help="The certificate's key, if it is in a file apart."
)
def view(no_open: bool, paths: tuple[str, ...], **options: object) -> None:
    """Browse logs and watch studies in the browser.

    PATH is a log, a folder of logs, a study, or a folder of studies; by default this folder. The
    address that is printed holds a token: whoever has it sees what you see. Ctrl-C stops.
    """
    paths = paths or (".",)
    for path in paths:
        refuse_nothing(Path(path))
    asked = ServerOptions(paths, **options)  # type: ignore[arg-type]
    check_certificate(asked)
    with contextlib.closing(Server(asked)) as server:
        click.echo(server.url)
        if asked.is_open_to_others:
            say(_what_that_means(asked))
        if not no_open:
            # A browser that takes its time to start must not keep the server from answering it.
            threading.Thread(target=webbrowser.open, args=[server.url], daemon=True).start()
        server.serve()


def _what_that_means(asked: ServerOptions) -> str:
    if asked.certificate:
        return "open to the network: whoever has the address above sees what you see"
    return (
        f"open to the network without TLS: everyone who can reach {asked.host} and overhears a "
        "request can read what the pages show, and the token with which they could do all that "
        "you can; give a certificate with --tls-cert, or leave --host out and use an SSH tunnel"
    )
