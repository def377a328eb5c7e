"""Format numbers for pages, tables and terminals. None becomes a dash."""

from collections.abc import Sequence

NONE = "–"
NO_BREAK = "\N{NO-BREAK SPACE}"
MINUS = "\N{MINUS SIGN}"


def number(value: float | None, digits: int, scale: float = 1, *, sign: bool = False) -> str:
    """Format a rounded number with a typographic minus sign.

    >>> number(-0.0312, 1, 100), number(0.2, 1, 100, sign=True), number(None, 1)
    ('−3.1', '+20.0', '–')
    """
    if value is None:
        return NONE
    rounded = round(scale * value, digits) + 0.0
    plus = "+" if sign and rounded else ""
    return f"{rounded:{plus},.{digits}f}".replace("-", MINUS)


def percent(share: float | None, digits: int = 1) -> str:
    """Format a proportion as a percentage.

    >>> percent(0.4286), percent(None)
    ('42.9\\xa0%', '–')
    """
    return NONE if share is None else number(share, digits, 100) + f"{NO_BREAK}%"


def between(
    interval: Sequence[float] | None, digits: int, scale: float = 1, *, sign: bool = False
) -> str:
    """Format the bounds of an interval.

    >>> between((0.242, 0.331), 1, 100)
    '24.2 to 33.1'
    """
    if interval is None:
        return NONE
    return " to ".join(number(bound, digits, scale, sign=sign) for bound in interval)


def format_clock(seconds: float) -> str:
    """A duration in hours, minutes and seconds.

    >>> format_clock(3_725.0), format_clock(59.6)
    ('1:02:05', '1:00')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def short_count(count: float) -> str:
    """A large number in three digits or fewer.

    >>> short_count(987), short_count(12_345), short_count(999_960), short_count(4_560_000)
    ('987', '12k', '1.0M', '4.6M')
    """
    for size, unit in ((999_500_000, "G"), (999_500, "M"), (999.5, "k")):
        if count >= size:
            scaled = count / (size * 1000 / 999.5)
            return f"{scaled:.1f}{unit}" if scaled < 9.95 else f"{scaled:.0f}{unit}"
    return f"{count:.0f}"


def short_time(seconds: float) -> str:
    """A duration in its largest unit.

    >>> short_time(8.4), short_time(750), short_time(5_400), short_time(200_000)
    ('8 s', '12 min', '1.5 h', '2.3 d')
    """
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    if seconds < 3_570:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3_600:.1f} h" if seconds < 86_400 else f"{seconds / 86_400:.1f} d"


def p_value(p: float | None) -> str:
    """Format a p-value as papers do.

    >>> p_value(0.01634), p_value(2.8e-22), p_value(None)
    ('0.016', '< 0.001', '–')
    """
    if p is None:
        return NONE
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def p_phrase(p: float | None) -> str:
    """Format a p-value with its letter.

    >>> p_phrase(0.2), p_phrase(1e-9)
    ('p = 0.200', 'p < 0.001')
    """
    if p is None:
        return "no p"
    shown = p_value(p)
    return f"p {shown}" if shown.startswith("<") else f"p = {shown}"


def plural(count: int, noun: str, many: str = "") -> str:
    """Format a count with its noun; ``many`` is an irregular plural.

    >>> plural(1, "run"), plural(2_000, "run"), plural(2, "bucket of prompts", "buckets")
    ('1 run', '2,000 runs', '2 buckets')
    """
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def cutoff(value: float) -> str:
    """Format a threshold with two decimals, or more if it has them.

    >>> cutoff(0.9), cutoff(0.925)
    ('0.90', '0.925')
    """
    return f"{value:.2f}" if round(value, 2) == value else f"{value:g}"
