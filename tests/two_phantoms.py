"""The part that plans of rated studies share: a phantom that loops, one that does not, and both."""

TWO_PHANTOMS = """
[models.loops]
use = "phantom"
course = "verbatim"
onset = 2

[models.free]
use = "phantom"

[conditions.looping]
speakers = ["loops", "loops"]

[conditions.free]
speakers = ["free", "free"]
"""
