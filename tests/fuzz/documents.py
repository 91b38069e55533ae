"""Documents of few words: near-duplicates, copies, and texts that are hardly documents."""

from random import Random

WORDS = [f"w{number}" for number in range(60)]
WORDS += ["é", "Éclair", "слово", "λόγος", "שלום", "हिन्दी", "漢字", "カー", "ไทย", "a\u0301", "İ", "ß", "x_y", "don't"]
ODD = ["", " ", "\n", "\0", "...", "\ufeff", "\u202e", "\x1b[31m", "\u2028"]
ODD += ["a" * 5000, "é" * 300, "- " * 400, "漢" * 200, "🙂"]


def documents(source: Random, most: int = 24) -> list[str | None]:
    """Up to `most` of them."""
    found: list[str | None] = []
    for _ in range(source.randint(0, most)):
        known = [text for text in found if text]
        kind = source.random()
        if known and kind < 0.2:  # a copy, perhaps in other letters
            text = source.choice(known)
            found.append(source.choice([text, text.upper(), text.replace(" ", ",  "), text + "!"]))
        elif known and kind < 0.45:  # nearly
            words = source.choice(known).split(" ")
            words[source.randrange(len(words))] = source.choice(WORDS)
            found.append(" ".join(words[: source.choice([len(words), len(words), -1])]))
        elif kind < 0.53:
            found.append(None)
        elif kind < 0.62:
            found.append(source.choice(ODD))
        else:
            found.append(" ".join(source.choices(WORDS, k=source.choice([1, 3, 6, 20, 40, 40, 90]))))
    return found
