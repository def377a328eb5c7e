"""What phantoms say: lines that have nothing in common, and one that hardly ever changes."""

import hashlib

# The lengths have no common divisor: a line comes back only after 23 x 25 x 27 = 15,525 others,
# and every part of it changes from each line to the next.
_WHO = (
    "A retired beekeeper", "The night ferry", "My algebra teacher", "One stubborn glacier",
    "The village bakery", "An amateur astronomer", "Our tax adviser", "The red fox",
    "A jazz trumpeter", "The old lighthouse", "A vaccine trial", "The chess champion",
    "A broken elevator", "The cathedral organ", "An opera singer", "The coral reef",
    "A pastry recipe", "The football captain", "A medieval map", "The hospital kitchen",
    "A desert caravan", "The stock exchange", "A knitting circle",
)  # fmt: skip
_DOES = (
    "forgot to renew the insurance", "measures rainfall with copper funnels",
    "borrowed forty litres of paint", "was photographed from a balloon",
    "argues about commas in contracts", "sells smoked trout on Fridays",
    "needs eleven new screws", "slept through the earthquake", "translates birdsong into numbers",
    "lost the election by two votes", "invented a quieter vacuum cleaner",
    "is planting olive trees", "won a bicycle in a raffle", "counts the cracks in the ceiling",
    "repaired the submarine cable", "teaches grammar to sailors", "smells faintly of turpentine",
    "dreams of a wider staircase", "refuses to eat mushrooms", "collects expired passports",
    "drew a perfect circle by hand", "heard wolves beyond the railway",
    "froze the pension payments", "dances badly but often", "hides silver spoons in the piano",
)  # fmt: skip
_WHERE = (
    "before the harvest festival", "under the motorway bridge", "during a lunar eclipse",
    "in spite of the customs office", "since the printer ran dry", "near the equator",
    "for the sake of a cousin", "because sugar was rationed", "inside an empty swimming pool",
    "while the choir rehearsed", "after the third espresso", "without telling the landlord",
    "on the slowest train in Portugal", "at minus thirty degrees", "to annoy the orchestra",
    "between two court hearings", "until the batteries failed", "thanks to a clever magnet",
    "beneath a leaking greenhouse", "against medical advice", "along the Roman aqueduct",
    "according to the warranty", "instead of filing a complaint", "with a borrowed microscope",
    "around the volcano", "throughout the chess boom", "despite seventeen reminders",
)  # fmt: skip


def line(seed: int, conversation: str, number: int) -> str:
    """Line `number` of a conversation; all its lines differ in who, what and where.

    >>> line(0, "a", 1) == line(0, "a", 1)
    True
    """
    start = int.from_bytes(hashlib.sha256(f"{seed}/{conversation}".encode()).digest()[:8], "big")
    place = start % (len(_WHO) * len(_DOES) * len(_WHERE)) + number
    who, does, where = (words[place % len(words)] for words in (_WHO, _DOES, _WHERE))
    return f"{who} {does} {where}."


def template(number: int) -> str:
    """The same polite nothing each time, but for a number."""
    return (
        "Thank you so much, it has been a real pleasure to talk with you about all of this, and I "
        "look forward to our next conversation. Please let me know if there is anything else that "
        f"I can do for you. This was exchange number {number}."
    )
