"""Sentence pairs of all kinds of characters: every number gives one, and always the same one."""

import collections
import functools
import random
import sys
import unicodedata

from tests import tiny

MARKS = ("Mn", "Mc", "Me")
# Characters that mean something to a reader, to SentencePiece or to the way words are joined.
SIGNS = [*",.;:?!", "\u037e", "\u2026", "\ufeff", "\u2060", "\u200b", "\u200c", "\u200d", "\u00ad", "\u034f", "\u180e"]
SIGNS += ["\u2581", "\u2585", "\u2047", "\ufffd", "\ufffe", "\U0010ffff", "<unk>", "</s>", "<s>", "<pad>", "<0x41>"]
SIGNS += ["|||", ">>fra<<", "$x^", "&lt;", "\\", "\x1b[2J", "\x7f", "\u00b4", "\u00a8", "\u1fc1", "\u3000\u0301"]
# What separates words, besides the space.
SPACES = ["\t", "\x0b", "\x1c", "\x1f", "\x85", "\xa0", "\u1680", "\u2000", "\u2028", "\u2029", "\u202f", "\u3000"]
# Halves of pairs, as undecodable bytes and broken JSON leave them.
SURROGATES = ["\udcff", "\ud83d", "\ude00"]


@functools.cache
def categories():
    """The characters of each category of Unicode, without surrogates, and without NUL, which no file of text has."""
    found = collections.defaultdict(list)
    for character in map(chr, range(1, sys.maxunicode + 1)):
        found[unicodedata.category(character)].append(character)
    del found["Cs"]
    return found


@functools.cache
def changing():
    """Characters that have a decomposition."""
    return [character for of_one in categories().values() for character in filter(unicodedata.decomposition, of_one)]


def _anything(rng):
    return rng.choice(categories()[rng.choice(list(categories()))])


def _mark(rng):
    return rng.choice(categories()[rng.choice(MARKS)])


def _syllable(rng):
    return rng.choice(["ka", "lo", "mi", "tu", "re", "Ba", "DO", "fi"])


def _accented(rng):
    return rng.choice("aeiouAEs\u0915\u05d0\u0627") + "".join(_mark(rng) for _ in range(rng.randint(1, 4)))


def _accented_in_order(rng):
    """Letters whose marks compose, or have an order."""
    return rng.choice("aeuoIEjJ") + "".join(rng.choices("\u0300\u0301\u0302\u0307\u030c\u0323\u0327\u0338", k=3))


def _changed(rng):
    """Characters that normalisation takes apart, puts together or replaces."""
    return rng.choice(("", unicodedata.normalize("NFD", rng.choice(changing())))) + rng.choice(changing())


def _hangul(rng):
    """Jamo that compose to syllables, half of one, syllables, and compatible ones."""
    blocks = (range(0x1100, 0x1113), range(0x1161, 0x1176), range(0x11A7, 0x11C3), range(0x3131, 0x318F))
    return "".join(chr(rng.choice([*rng.choice(blocks), 0xAC00, 0xAC01, 0xD7A3])) for _ in range(rng.randint(1, 4)))


def _indic(rng):
    """Consonants with vowel signs of two parts, viramas, joiners, and letters that compose no more."""
    tamil, bengali = "\u0b95\u0bc6\u0bbe\u0bd7\u0bcd", "\u09a1\u09bc\u09c7\u09be\u09d7\u09cd"
    devanagari, tibetan = "\u0915\u093c\u0958\u094d\u200d\u200c\u0928", "\u0f40\u0fb5\u0f71\u0f72\u0f73\u0f42\u0fb7"
    return "".join(rng.choices(rng.choice((tamil, bengali, devanagari, tibetan)), k=rng.randint(1, 5)))


def _emoji(rng):
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    return rng.choice(
        [family, "\u2764\ufe0f", "\U0001f44d\U0001f3fd", "\U0001f1e9\U0001f1ea", "1\ufe0f\u20e3", "\u8fbb\U000e0100"]
    )


def _from_the_right(rng):
    return rng.choice(["\u05e9\u05dc\u05d5\u05dd", "\u0645\u0631\u062d\u0628\u0627", "\u202e", "\u2067", "\u200f"])


def _sign(rng):
    return rng.choice(SIGNS)


UNITS = {
    _syllable: 6,
    _anything: 5,
    _sign: 4,
    _accented: 2,
    _accented_in_order: 2,
    _changed: 2,
    _hangul: 2,
    _indic: 2,
    _emoji: 1,
    _from_the_right: 1,
    _mark: 1,
}


def word(rng):
    """A word; as the categories have it, there may be whitespace in it, or nothing else."""
    return "".join(unit(rng) for unit in rng.choices(list(UNITS), UNITS.values(), k=rng.choice((1, 1, 2, 3, 5))))


def words(rng):
    """The words of a sentence; some are of the language that the subwords know."""
    known = " ".join(tiny.sentences("source")).split()
    return [rng.choice(known) if rng.random() < 0.3 else word(rng) for _ in range(rng.randint(1, 7))]


def pair(number):
    """A case: the words of a sentence and of its translation, each with at least one that is not whitespace alone."""
    rng = random.Random(number)
    sides = words(rng), words(rng)
    return tuple([*side, "ka"] if not "".join(side).strip("\ufeff" + "".join(SPACES) + " ") else side for side in sides)


def sentence(number):
    """Words of a case as running text, between spaces of all kinds."""
    rng = random.Random(number)
    return "".join(rng.choice(["", " ", " ", " ", *SPACES]) + one for one in pair(number)[0])
