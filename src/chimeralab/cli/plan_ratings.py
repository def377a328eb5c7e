"""`chimera plan-ratings`: how many items to rate before the raters start."""

import click

from chimeralab.cli.terminal import out
from chimeralab.core.files import json_text
from chimeralab.stats.planning import items_for_kappa, items_for_kappa_score


@click.command("plan-ratings")
@click.option("--kappa", type=float, required=True, help="The kappa you expect the raters to have.")
@click.option(
    "--threshold", type=float, default=0.80, show_default=True, help="What it must exceed."
)
@click.option(
    "--prevalence",
    type=float,
    required=True,
    help="The share of items labelled 1 that you expect, between 0 and 1.",
)
@click.option(
    "--power",
    type=click.FloatRange(0.01, 0.999),
    default=0.80,
    show_default=True,
    help="The chance to show it if it is true.",
)
@click.option(
    "--alpha",
    type=click.FloatRange(0.001, 0.5),
    default=0.05,
    show_default=True,
    help="The chance to show it if it is not true.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def plan_ratings(as_json: bool, power: float, alpha: float, **expected: float) -> None:
    """Say how many items two raters must label to show that a true kappa is above a threshold.

    The more common one label is, the more items it takes: an unbalanced sample has few of the items
    that distinguish good raters from bad ones.
    """
    chances = {"power": power, "alpha": alpha}
    wald = items_for_kappa(**expected, **chances)
    score = items_for_kappa_score(**expected, **chances)
    balanced = items_for_kappa(**{**expected, "prevalence": 0.5}, **chances)
    if as_json:
        found = {"items": wald, "items_score": score, "items_if_balanced": balanced}
        click.echo(json_text({**expected, **chances, **found}))
        return
    out.print(
        f"{wald:,} items show a kappa of {expected['kappa']:g} to be above"
        f" {expected['threshold']:g} with {100 * power:g} % power, when"
        f" {100 * expected['prevalence']:g} % are labelled 1 (Wald test)."
    )
    out.print(f"{score:,} items for a gate on the lower bound (score interval), the safer choice.")
    out.print(f"With both labels equally common, {balanced:,} items would do (Wald test).")
