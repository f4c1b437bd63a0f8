"""Short names for the sentences of the grammar that the tests write by hand."""

from keras_attn_zoo.corpora.synthetic import lexicon
from keras_attn_zoo.corpora.synthetic.grammar import (
    Clause,
    Constituent,
    NounPhrase,
    Pronoun,
    complement,
    finish,
    gloss,
)

NOUNS, VERBS = lexicon.nouns(), lexicon.verbs()
ACCUSATIVE, DATIVE = lexicon.Slot("a"), lexicon.Slot("d")
ICH, DU, ER, SHE, WIR, IHR, THEY = range(7)


def phrase(lemma, determiner="the", *adjectives, **options):
    noun = NOUNS[lemma]
    chosen = tuple(lexicon.adjective(german, noun.kind) for german in adjectives)
    return NounPhrase(noun, lexicon.DETERMINERS[determiner], adjectives=chosen, **options)


def accusative(*arguments, **options):
    return complement(ACCUSATIVE, phrase(*arguments, **options))


def adverbial(text, place="time", **options):
    return Constituent(gloss(text), place, place, **options)


def clause(subject, verb, tense="present", *constituents, **options):
    if isinstance(subject, int):
        subject = Pronoun(subject)
    return Clause(subject, VERBS.get(verb, verb), tense, list(constituents), **options)


def check(fragment, german, english, sure, possible="", mark="."):
    """Compare a sentence with one written by hand; links are read by word, as "Haustür-front"."""
    pair = finish(fragment, mark)
    assert (pair.source, pair.target) == (german, english)

    def readable(links):
        return sorted(f"{pair.source_words[j]}-{pair.target_words[i]}" for j, i in links)

    assert readable(pair.alignment) == sorted([*sure.split(), f"{mark}-{mark}"])
    assert readable(pair.possible) == sorted(possible.split())
    return pair
