"""The command `chimera`, or `python -m chimeralab`: a hook answers before the rest is loaded."""

import sys

HOOK = ["hook", "claude-code"]
SET_UP = {"--install", "--uninstall", "--help", "-h"}


def main() -> None:
    """Run a command; the one that an agent waits for at every step does without the others."""
    if sys.argv[1:3] == HOOK and not SET_UP & set(sys.argv) and not sys.stdin.isatty():
        from chimeralab.integrations import claude_code  # noqa: PLC0415 - the rest is not needed

        sys.exit(claude_code.main(sys.argv[3:]))
    from chimeralab.cli import main as cli  # noqa: PLC0415 - click takes longer than a hook

    cli.main()


if __name__ == "__main__":
    main()
