"""The command `chimera`, also `python -m chimeralab`."""

import sys

HOOK = ["hook", "claude-code"]
SET_UP = {"--install", "--uninstall", "--help", "-h"}


def main() -> None:
    """Run a command. An agent waits for its hook at every step, so the hook skips the CLI."""
    if sys.argv[1:3] == HOOK and not SET_UP & set(sys.argv) and not sys.stdin.isatty():
        from chimeralab.integrations import claude_code  # noqa: PLC0415 - start-up time

        sys.exit(claude_code.main(sys.argv[3:]))
    from chimeralab.cli import main as cli  # noqa: PLC0415 - start-up time

    cli.main()


if __name__ == "__main__":
    main()
