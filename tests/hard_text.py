"""Sentences of which a reader that normalises text makes others."""

import random
from unicodedata import normalize

# With letters that NFC and NFD write otherwise, and every kind of white space that is no line break to sacrebleu.
SENTENCES = [
    # Bengali and Devanagari letters that even NFC takes apart; Hangul, umlauts; letters of units.
    ("আমি বা\u09dcি যা\u09dfআজ ।", "আমি বা\u09a1\u09bcি যা\u09af\u09bcআজ সকালে ।"),
    ("\u095bमीन पर \u0958लम", "\u091c\u093cमीन पर \u0915\u093cलम"),
    (normalize("NFD", "나는 집에 간다 오늘"), normalize("NFC", "나는 집에 간다 오늘 아침에")),
    (normalize("NFD", "Die schönen Häuser sind groß"), normalize("NFC", "Die schönen Häuser sind groß")),
    ("\u212b \u2126 \u212a are letters of units", "\u00c5 \u03a9 K are letters of units"),
    # White space.
    ("two  blanks and\ta tab are here", "two blanks and a tab are here"),
    ("10\u00a0000 km, 5\u202f% in\u3000total", "10 000 km, 5 % in total"),
    ("a line\u2028separator and\u0085another one", "a line separator and another one"),
    ("a form\x0cfeed, a \x1cseparator and\x0bmore", "a form feed, a separator and more"),
    ("  at the beginning and at the end \u00a0 \t", "at the beginning and at the end"),
    # Marks without width.
    ("\ufeffa mark before and in\ufeffside a word", "a mark before and inside a word"),
    ("zero\u200bwidth, soft\u00adhyphen and \u200eleft to right", "zerowidth, softhyphen and left to right"),
    ("a lone\rcarriage return in the line", "a lone carriage return in the line"),
    ("«Quoted» & 'so' — it’s 3,5 %…", "«Quoted» & 'so' – it’s 3,5 %..."),
    ("The END of it, Sir!", "the end of it, sir!"),
    ("", "something was said"),
]
HYPOTHESES, REFERENCES = (list(side) for side in zip(*SENTENCES, strict=True))


def drawn(count, seed=0):
    """More of them: words of these sentences, and white space between them, in another order."""
    rng = random.Random(seed)
    words = [word for pair in SENTENCES for side in pair for word in side.split(" ") if word]
    gaps = [" "] * 12 + ["  ", "\t", "\u00a0", "\u2028", "\u3000", "\ufeff ", " \r"]
    found = []
    for _ in range(count):
        reference = [rng.choice(words) for _ in range(rng.randint(4, 12))]
        hypothesis = [rng.choice(words) if rng.random() < 0.2 else word for word in reference]
        found.append(tuple("".join(word + rng.choice(gaps) for word in side) for side in (hypothesis, reference)))
    return [list(side) for side in zip(*found, strict=True)]


def write(path, lines, end="\n"):
    path.write_bytes("".join(line + end for line in lines).encode())
    return path
