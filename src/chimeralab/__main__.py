"""The command `chimera`, also `python -m chimeralab`."""

import sys

HOOKS = ("claude-code", "codex", "gemini-cli", "opencode")
SET_UP = {"--install", "--uninstall", "--print", "--help", "-h"}


def main() -> None:
    """Run a command. An agent waits for its hook at every step, so the hook skips the CLI."""
    given = sys.argv[1:]
    is_hook = given[:1] == ["hook"] and len(given) > 1 and given[1] in HOOKS
    if is_hook and not SET_UP & set(given) and not sys.stdin.isatty():
        if given[1] == HOOKS[0]:
            from chimeralab.integrations import claude_code  # noqa: PLC0415 - start-up time

            sys.exit(claude_code.main(given[2:]))
        from chimeralab.integrations import command_hooks  # noqa: PLC0415 - start-up time

        sys.exit(command_hooks.main(given[1], given[2:]))
    from chimeralab.cli import main as cli  # noqa: PLC0415 - start-up time

    cli.main()


if __name__ == "__main__":
    main()
