"""A text that a test makes itself: words that share their letters, so that one letter tells little of the next."""

from __future__ import annotations

import random

WORDS = """
stone notes tones onset steno those other three there ether earth heart hater rates tears stare aster least steal slate
tales stale parse spear pears spare reaps trade rated tread alter later alert artel
"""


def sentences(characters: int) -> str:
    """At least so many characters of sentences; always the same."""
    choose, words, made = random.Random(1), WORDS.split(), ""
    while len(made) < characters:
        made += " ".join(choose.choices(words, k=choose.randint(3, 9))).capitalize() + choose.choice(
            [".\n", ".\n", "!\n", "?\n", ", "]
        )
    return made
