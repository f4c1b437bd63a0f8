"""Random noun phrases and adverbials, each a fragment of both languages."""

import random

from keras_attn_zoo.corpora.synthetic import lexicon
from keras_attn_zoo.corpora.synthetic.grammar import (
    Constituent,
    Coordination,
    Fragment,
    Name,
    NounPhrase,
    Pronoun,
    arrange,
    both,
    gloss,
    join,
    possessive,
    prepositional,
    words_of,
)

PAST, PRESENT, FUTURE = "past", "present", "future"
# Persons of whom one speaks together with a place: the owner of the shop.
_OF_A_PLACE = frozenset(["Direktor", "Direktorin", "Besitzer", "Besitzerin", "Besucher", "Besucherin", "Hausmeister"])
# Pronouns whose possessive is used if there is no owner.
_OWNERS = (0, 0, 1, 4, 5)
# Persons that overlap: I and we, the two of you.
_SPEAKERS = ({lexicon.ICH, lexicon.WIR}, {lexicon.DU, lexicon.IHR})


class PhraseSampler:
    """Draws phrases; every choice comes from one random stream.

    Draws use `random.random` alone, whose sequence Python guarantees to stay the same.
    """

    def __init__(self, seed: int, words_per_kind: int | None = None) -> None:
        self._random = random.Random(seed).random
        self._words_per_kind = words_per_kind

    # ------------------------------------------------------------ draws

    def _chance(self, probability):
        return self._random() < probability

    def _pick(self, items):
        return items[int(self._random() * len(items))]

    def _word(self, items):
        """One of the words that are in use."""
        return self._pick(items[: self._words_per_kind])

    def _skewed(self, items):
        """One of the words that are in use, the first ones more often."""
        items = items[: self._words_per_kind]
        return items[int(self._random() ** 1.4 * len(items))]

    def _between(self, low, high):
        return low + int(self._random() * (high - low + 1))

    # ------------------------------------------------------------ noun phrases

    def _name(self):
        gender = self._pick("fm")
        if self._chance(0.4):
            return Name(self._word(lexicon.SURNAMES), gender, title=True)
        return Name(self._word(lexicon.FIRST_NAMES[gender]), gender)

    def _determiner(self, noun, plural, owner, definite):
        draw = self._random()
        table = lexicon.DETERMINERS
        if noun.plural is None:
            return table["the"] if definite or draw < 0.5 else table[""]
        if draw < 0.14:
            return possessive(owner or Pronoun(self._pick(_OWNERS)))
        if draw < 0.2:
            return table["this"]
        if draw < 0.25 and noun.kind in ("person", "text", "thing"):
            name = self._word(lexicon.FIRST_NAMES[self._pick("fm")])
            return table["the"] if name[-1] in "sxz" else lexicon.owned_by(name)
        if definite or draw < 0.6:
            return table["the"]
        if not plural:
            return table["every"] if draw > 0.97 else table["a"]
        if draw < 0.72:
            number = self._between(2, 12) if self._chance(0.6) else self._between(13, 150)
            return lexicon.counting(number)
        return table[self._pick(("many", "some", "several", "few", "all", ""))]

    def _noun_phrase(self, kinds, owner=None, definite=False, time=None, plural=None, determiner=None):
        """A noun phrase of one of some kinds; with `time`, it may have a relative clause in that time."""
        noun = self._skewed(lexicon.nouns_of(self._pick(kinds)))
        if plural is None:
            plural = self._chance(0.25)
        plural = plural and noun.plural is not None
        determiner = determiner or self._determiner(noun, plural, owner, definite)
        chosen = ()
        if (self._chance(0.35) and determiner.kind != "fixed") or self._chance(0.1):
            chosen = (self._word(lexicon.adjectives_of(noun.kind)),)
        phrase = NounPhrase(noun, determiner, plural, chosen)
        ownable = determiner is lexicon.DETERMINERS["the"] and noun.plural is not None
        if ownable and self._chance(0.09):
            phrase.owner = self._owner(noun)
        elif time and determiner.kind in ("definite", "ein", "der") and self._chance(0.22):
            phrase.relative = self._relative(phrase, time)
            phrase.extraposed = self._chance(0.5)
        return phrase

    def _owner(self, noun):
        kind = "place" if noun.lemma in _OF_A_PLACE else "person"
        return NounPhrase(
            self._skewed(lexicon.nouns_of(kind)), lexicon.DETERMINERS["the"], self._chance(0.2) and kind == "person"
        )

    def _subject(self, kinds=("person",), time=None):
        kind = self._pick(kinds)
        draw = self._random()
        if kind == "person" and draw < 0.3:
            return Pronoun(self._between(0, 6))
        if kind == "person" and draw < 0.48:
            return self._name()
        if kind == "person" and draw < 0.54:
            lead, word = self._pick((("", "und|and"), ("sowohl|both", "als_auch|and")))
            other = self._name() if self._chance(0.5) else self._noun_phrase((kind,), plural=False)
            return Coordination(self._noun_phrase((kind,), definite=True, plural=False), other, word, lead)
        return self._noun_phrase((kind,), time=time)

    def _object_pronoun(self, case, subject):
        """A pronoun that is not the subject itself, None if the draw fails."""
        pronoun = Pronoun(self._between(0, 6))
        same = any({pronoun.person, subject.person} <= pair for pair in _SPEAKERS)
        return None if pronoun.german[case] == "-" or same else pronoun

    def _filler(self, slot, subject, alone, definite, time):
        """A phrase for what a verb governs; a pronoun only where it stands alone."""
        if "person" in slot.kinds and alone:
            draw = self._random()
            pronoun = self._object_pronoun(slot.case, subject) if draw < 0.25 else None
            if pronoun:
                return pronoun
            if draw < 0.4:
                return self._name()
        if slot.case == "a" and not slot.preposition and self._chance(0.05):
            first, second = (self._noun_phrase(slot.kinds, subject, definite) for _ in range(2))
            return Coordination(first, second, self._pick(("und|and", "und|and", "oder|or")))
        return self._noun_phrase(slot.kinds, subject, definite, time)

    # ------------------------------------------------------------ adverbials

    def _place(self):
        draw = self._random()
        if draw < 0.2:
            city = self._word(lexicon.CITIES)
            german, _, english = city.partition("=")
            fragment, tail = gloss(f"in|in {german}|{english or german}"), Fragment()
        else:
            kind = "place" if draw < 0.7 else "spot" if draw < 0.85 else "surface"
            preposition, english = dict(place=("in", "in"), spot=("an", "at"), surface=("auf", "on"))[kind]
            phrase = self._noun_phrase((kind,), definite=self._chance(0.8), plural=False)
            fragment, tail = prepositional(preposition, english, phrase, "d")
        return Constituent(fragment, "place", "place", tail, comma=True)

    def _direction(self):
        draw = self._random()
        if draw < 0.35:
            german, _, english = self._word(lexicon.CITIES).partition("=")
            fragment, tail = gloss(f"nach|to {german}|{english or german}"), Fragment()
        elif draw < 0.7:
            phrase = self._noun_phrase(("place",), definite=self._chance(0.8), plural=False)
            fragment, tail = prepositional("in", "into", phrase, "a")
        else:
            phrase = self._noun_phrase(("spot",), definite=True, plural=False)
            fragment, tail = prepositional("zu", "to", phrase, "d")
        return Constituent(fragment, "direction", "direction", tail, comma=True)

    def _time(self, time):
        """An adverbial of time that goes with past, present or future."""
        draw = self._random()
        day, month = self._word(lexicon.WEEKDAYS), self._word(lexicon.MONTHS)
        if draw < 0.55:
            fragment = gloss(self._word(lexicon.TIMES[time]))
        elif time == PRESENT:
            fragment = gloss(f"jeden|every {day.replace('=', '|')}")
        elif draw < 0.65:
            fragment = gloss(f"am|on {day.replace('=', '|')}")
        elif draw < 0.75:
            fragment = gloss(f"im|in {month.replace('=', '|')}")
        elif draw < 0.85:
            fragment = self._distance(time)
        elif draw < 0.93:
            fragment = self._date(month)
        else:
            year = self._between(1850, 2015) if time == PAST else self._between(2028, 2060)
            fragment = join(both("im", "in"), Fragment(german=words_of("Jahr")), both(str(year), str(year)))
        return Constituent(fragment, "time", "time", comma=len(fragment.english) > 1)

    def _distance(self, time):
        german, english = lexicon.number_words(self._between(2, 30))
        period = both(*self._word(lexicon.PERIODS).split("="))
        number = both(german, english)
        if time == FUTURE:
            return join(both("in", "in"), number, period)
        ago = both("vor", "ago")
        return arrange([ago, number, period], [number, period, ago])

    def _date(self, month):
        am = both("am", "on the")
        of = Fragment(english=words_of("of"))
        day = both(*lexicon.ordinal_words(self._between(1, 30)))
        return join(am, day, of, gloss(month.replace("=", "|")))

    def _relative(self, phrase, time):
        """A relative clause for a noun phrase, without commas."""
        raise NotImplementedError
