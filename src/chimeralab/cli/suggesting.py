"""A group of commands that says which one was probably meant."""

import click

from chimeralab.core.parts import choose


class SuggestingGroup(click.Group):
    """Refuses an unknown command with the closest one as a hint, and all that there are."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # An option in the wrong place is click's to explain; completion must not fail.
        if not args[0].startswith("-") and not ctx.resilient_parsing:
            choose(args[0], self.list_commands(ctx), f"command {args[0]!r}")
        return super().resolve_command(ctx, args)
