"""Random sentences: phrases, clauses, and the patterns in which these become a sentence."""

import random
from functools import cache

from keras_attn_zoo.corpora.synthetic import lexicon
from keras_attn_zoo.corpora.synthetic.grammar import (
    POLITE,
    Clause,
    Constituent,
    Coordination,
    Fixed,
    Fragment,
    Name,
    NounPhrase,
    Pronoun,
    SyntheticPair,
    arrange,
    both,
    comma,
    complement,
    existential,
    finish,
    followed,
    gloss,
    join,
    possessive,
    preceded,
    prepositional,
    purpose,
    relative_pronoun,
    request,
    subordinate,
    unsaid,
    words_of,
)

PAST, PRESENT, FUTURE = "past", "present", "future"
# Persons of whom one speaks together with a place: the owner of the shop.
_OF_A_PLACE = frozenset(["Direktor", "Direktorin", "Besitzer", "Besitzerin", "Besucher", "Besucherin", "Hausmeister"])
# Pronouns whose possessive is used if there is no owner.
_OWNERS = (0, 0, 1, 4, 5)
# Persons that overlap: I and we, the two of you.
_SPEAKERS = ({lexicon.ICH, lexicon.WIR}, {lexicon.DU, lexicon.IHR})
_ACCUSATIVE = lexicon.Slot("a")


@cache
def uses_of(kind: str) -> list[tuple[lexicon.Verb, lexicon.Frame]]:
    """Return the verbs, each with a frame, whose subject may be of a kind."""
    return [(v, f) for v in lexicon.verbs().values() for f in v.frames if kind in f.subjects]


@cache
def uses_with_object(kind: str) -> list[tuple[lexicon.Verb, lexicon.Frame]]:
    """Return the verbs, each with a frame, that take an accusative object of a kind."""
    return [
        (verb, frame)
        for verb, frame in uses_of("person")
        if any(is_object(slot) and kind in slot.kinds for slot in frame.slots)
    ]


@cache
def _uses_with_preposition(kind):
    """The verbs, each with a frame of one prepositional object of a kind, with a preposition in English."""
    return [
        (verb, frame)
        for verb, frame in uses_of("person")
        if len(frame.slots) == 1 and frame.slots[0].preposition and frame.slots[0].english
        if kind in frame.slots[0].kinds
    ]


@cache
def _masculine_persons():
    return [noun for noun in lexicon.nouns_of("person") if noun.gender == "m"]


def is_object(slot: lexicon.Slot) -> bool:
    """Return whether what fills a slot is an accusative object."""
    return slot.case == "a" and not slot.preposition


_COMPARABLE = ("person", "animal", "text", "place", "idea", "event", "furniture", "vehicle", "clothing", "device")


@cache
def _passive_uses():
    """The verbs that go into the passive, each with its object."""
    return [
        (verb, frame.slots[0])
        for verb, frame in uses_of("person")
        if len(frame.slots) == 1 and is_object(frame.slots[0])
    ]


@cache
def _professions(gender):
    persons = lexicon.nouns_of("person")
    return [noun for noun in persons if noun.gender == gender and noun.lemma not in lexicon.NO_PROFESSION]


def _is_plain(constituent):
    """Whether a constituent is recognisable as the object even at the front of the sentence."""
    return constituent.german == "accusative" and constituent.fragment.german[0].text in ("den", "diesen")


# Sentence patterns, methods of the sampler, and how often each is drawn, relative to the others.
_PATTERNS = dict(
    statement=16,
    fronted=10,
    yes_no_question=6,
    open_question=6,
    subordinate_last=10,
    subordinate_first=8,
    reported=9,
    asked=4,
    attempt=6,
    purpose=4,
    coordinated_clauses=6,
    shared_subject=4,
    predicate=5,
    comparison=4,
    profession=2,
    existence=5,
    passive=6,
    polite_request=2,
    nested=8,
)


class SentenceSampler:
    """Draws sentences; its public methods are the patterns, each of which returns a fragment and a mark.

    Every choice comes from one random stream, by `random.random` alone, whose sequence Python guarantees to stay the
    same.
    """

    def __init__(self, seed: int, words_per_kind: int | None = None) -> None:
        self._random = random.Random(seed).random
        self._words_per_kind = words_per_kind
        self._patterns = [getattr(self, name) for name, weight in _PATTERNS.items() for _ in range(weight)]

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

    # ------------------------------------------------------------ clauses

    def _tense(self, time, person, modal, compound=0.6):
        if time == PRESENT or (time == FUTURE and modal):
            return "present"
        if time == FUTURE:
            return "future"
        if modal:
            return "preterite"
        return "perfect" if self._chance(compound) or person in (lexicon.DU, lexicon.IHR) else "preterite"

    def _modal(self, time):
        modal = self._pick(list(lexicon.modals().values()))
        return None if time == PAST and modal.past is None else modal

    def _fill(self, frame, subject, time, definite, skip=None):
        """What a verb governs, the slot `skip` left out."""
        parts = []
        relative_time = time if skip is None else None
        for slot in frame.slots:
            if slot is skip:
                continue
            if slot.case == "dir":
                parts.append(self._direction())
            elif slot.case == "loc":
                parts.append(self._place())
            else:
                alone = len(frame.slots) == 1
                phrase = self._filler(slot, subject, alone, definite, relative_time)
                if isinstance(phrase, NounPhrase) and phrase.relative is not None:
                    relative_time = None
                parts.append(complement(slot, phrase))
        return parts

    def _clause(self, time, subject=None, light=False, plain=False, use=None, deep=True):
        """A clause in a time; a `light` one has no adverbials, a `plain` one no modal and no adverb of time."""
        verb, frame = use or self._skewed(uses_of("person"))
        if use is None and subject is None and self._chance(0.08):
            kind = self._pick(("animal", "vehicle", "device", "event"))
            verb, frame = self._word(uses_of(kind))
            subject = self._subject((kind,), time if deep else None)
        subject = subject or self._subject(time=time if deep else None)
        modal = None
        if not plain and "person" in frame.subjects and self._chance(0.2):
            modal = self._modal(time)
        negated = self._chance(0.14)
        constituents = self._fill(frame, subject, time if deep else None, negated)
        clause = Clause(subject, verb, self._tense(time, subject.person, modal), constituents, modal)
        clause.negated = negated
        if negated and self._chance(0.5):
            self._negate_by_determiner(clause, frame)
        if not light:
            self._add_adverbials(clause, frame, time, plain)
        return clause

    def _negate_by_determiner(self, clause, frame):
        """ "kein" before the one object, instead of "nicht"."""
        if len(frame.slots) == 1 and is_object(frame.slots[0]):
            phrase = self._noun_phrase(frame.slots[0].kinds, determiner=lexicon.DETERMINERS["no"])
            clause.constituents = [complement(_ACCUSATIVE, phrase)]
            clause.negated = False

    def _add_adverbials(self, clause, frame, time, plain):
        placed = any(slot.case in ("dir", "loc") for slot in frame.slots)
        person = "person" in frame.subjects
        if not plain and self._chance(0.36):
            clause.constituents.append(self._time(time))
        elif person and not plain and not clause.negated and time != FUTURE and self._chance(0.2):
            clause.frequency = self._word(lexicon.FREQUENCIES)
        if person and not placed and self._chance(0.16):
            clause.constituents.append(self._place())
        elif person and not clause.negated and self._chance(0.14):
            clause.constituents.append(Constituent(gloss(self._word(lexicon.MANNERS)), "manner", "manner"))

    def _relative(self, phrase, time):
        """A relative clause for a noun phrase, without commas."""
        kind = phrase.noun.kind
        draw = self._random()
        if kind == "person" and draw < 0.15:
            return self._whose(phrase, time)
        if kind in ("person", "animal") and draw < 0.6:
            who = relative_pronoun(phrase, "n", "who" if kind == "person" else "that")
            return self._clause(time, who, light=True, deep=False, use=self._word(uses_of(kind))).final()
        if kind == "place" and draw < 0.3:
            which = relative_pronoun(phrase, "d", "which")
            front = complement(lexicon.Slot("d", "in", "in"), which)
            return self._clause(time, light=True, deep=False).final(front)
        if draw < 0.85 or not _uses_with_preposition(kind):
            uses, pronoun = uses_with_object(kind), "whom" if kind == "person" else "that"
            choose = is_object
        else:
            uses, pronoun = _uses_with_preposition(kind), "whom" if kind == "person" else "which"
            choose = bool
        if not uses:
            return None
        verb, frame = self._skewed(uses)
        slot = next(slot for slot in frame.slots if choose(slot) and kind in slot.kinds)
        front = complement(slot, relative_pronoun(phrase, slot.case, pronoun))
        front.fronts = True
        subject = self._relative_subject(phrase)
        clause = Clause(subject, verb, self._tense(time, subject.person, None))
        clause.constituents = [front, *self._fill(frame, subject, None, False, skip=slot)]
        return clause.final(front)

    def _relative_subject(self, phrase):
        """The subject of a relative clause, its case plain where the pronoun does not show it."""
        if self._chance(0.5):
            return Pronoun(self._between(0, 6))
        if phrase.gender == "m":
            return self._subject()
        return NounPhrase(self._skewed(_masculine_persons()), lexicon.DETERMINERS[self._pick(("the", "a", "this"))])

    def _whose(self, phrase, time):
        pronoun = lexicon.WHOSE[lexicon.RELATIVE[phrase.gender]["g"]]
        subject = self._noun_phrase(("person", "animal"), determiner=pronoun, plural=self._chance(0.2))
        use = self._word(uses_of(subject.noun.kind))
        return self._clause(time, subject, light=True, deep=False, use=use).final()

    def sentence(self) -> SyntheticPair:
        """Return a `SyntheticPair` of a pattern drawn by weight."""
        pattern = self._pick(self._patterns)
        fragment, mark = pattern()
        return finish(fragment, mark, pattern.__name__)

    # ------------------------------------------------------------ sentences

    def _any_time(self):
        return self._pick((PAST, PAST, PAST, PRESENT, PRESENT, FUTURE))

    def _past_or_present(self):
        return self._pick((PAST, PAST, PRESENT))

    def statement(self) -> tuple[Fragment, str]:
        """Draw a statement with the subject first."""
        return self._clause(self._any_time()).main(), "."

    def fronted(self) -> tuple[Fragment, str]:
        """Draw a statement with an adverbial or a masculine object first, the verb second."""
        clause = self._clause(self._any_time())
        fronts = [part for part in clause.constituents if part.german in ("time", "place") or _is_plain(part)]
        if self._chance(0.25) or not fronts:
            adverb = self._word(lexicon.SENTENCE_ADVERBS)
            front = Constituent(gloss(adverb.rstrip(",")), "time", "time", comma=adverb.endswith(","))
            clause.constituents.append(front)
            return clause.main(front), "."
        return clause.main(self._pick(fronts)), "."

    def yes_no_question(self) -> tuple[Fragment, str]:
        """Draw a question with the verb first."""
        return self._clause(self._any_time()).question(), "?"

    def open_question(self) -> tuple[Fragment, str]:
        """Draw a question with a question word first."""
        time = self._any_time()
        draw = self._random()
        if draw < 0.25:
            return self._clause(time, Fixed("wer", "who"), light=True).main(), "?"
        if draw < 0.55:
            clause = self._clause(time, light=True)
            word = self._pick(("wann|when", "warum|why", "wo|where"))
            front = Constituent(gloss(word), "time", "time")
            clause.constituents.append(front)
            return clause.question(front), "?"
        return self._object_question(time), "?"

    def _object_question(self, time):
        kind = self._pick(("person", "thing", "text", "food", "device"))
        verb, frame = self._skewed(uses_with_object(kind))
        slot = next(slot for slot in frame.slots if is_object(slot) and kind in slot.kinds)
        if self._chance(0.5):
            which = lexicon.DETERMINERS["which"]
            phrase = self._noun_phrase((kind,), determiner=which)
        else:
            phrase = Fixed("wen", "whom") if kind == "person" else Fixed("was", "what")
        front = complement(slot, phrase)
        front.fronts = True
        subject = self._relative_subject(phrase)
        clause = Clause(subject, verb, self._tense(time, subject.person, None))
        clause.constituents = [front, *self._fill(frame, subject, None, True, skip=slot)]
        return clause.question(front)

    def _subordinate(self, time):
        """A subordinate clause of reason, time or condition."""
        if time == PAST and self._chance(0.2):
            clause = self._clause(time, light=True, plain=True)
            clause.tense = "pluperfect"
            return subordinate("nachdem|after", clause)
        return subordinate(self._word(lexicon.SUBORDINATORS[time]), self._clause(time, light=True))

    def subordinate_last(self) -> tuple[Fragment, str]:
        """Draw a main clause and a subordinate one."""
        time = self._past_or_present()
        return followed(self._clause(time).main(), self._subordinate(time)), "."

    def subordinate_first(self) -> tuple[Fragment, str]:
        """Draw a subordinate clause and the main clause after it."""
        time = self._past_or_present()
        return preceded(self._subordinate(time), self._clause(time, light=True)), "."

    def _report(self, kind, time, light=True):
        """The main clause before "dass", "ob" or an infinitive."""
        subject = self._subject()
        clause = Clause(subject, self._word(lexicon.clause_verbs(kind)), self._tense(time, subject.person, None))
        if not light and self._chance(0.3):
            clause.constituents.append(self._time(time))
        return clause

    def reported(self) -> tuple[Fragment, str]:
        """Draw a sentence with "dass" after a verb of saying or thinking."""
        time = self._past_or_present()
        clause = subordinate("dass|that", self._clause(time))
        return followed(self._report("that", time, light=False).main(), clause), "."

    def asked(self) -> tuple[Fragment, str]:
        """Draw a sentence with "ob" after a verb of asking."""
        time = self._past_or_present()
        return followed(self._report("whether", time).main(), subordinate("ob|whether", self._clause(time))), "."

    def attempt(self) -> tuple[Fragment, str]:
        """Draw a verb with an infinitive clause."""
        time = self._past_or_present()
        report = self._report("to", time, light=False)
        return followed(report.main(), self._clause(time, unsaid(report.subject), plain=True).infinitive()), "."

    def purpose(self) -> tuple[Fragment, str]:
        """Draw a sentence with "um ... zu"."""
        time = self._past_or_present()
        clause = self._clause(time, self._subject(time=time), light=True)
        aim = self._clause(time, unsaid(clause.subject), light=True, plain=True)
        return purpose(clause.main(), aim), "."

    def coordinated_clauses(self) -> tuple[Fragment, str]:
        """Draw two main clauses."""
        time = self._past_or_present()
        first, second = self._clause(time), self._clause(time, light=True)
        if self._chance(0.5):
            return join(first.main(), both("und", "and"), second.main()), "."
        word = self._pick(("aber|but", "denn|for"))
        return join(first.main(), comma(english=True), gloss(word), second.main()), "."

    def shared_subject(self) -> tuple[Fragment, str]:
        """Draw two verbs with one subject."""
        time = self._past_or_present()
        first = self._clause(time, self._subject(time=time), light=True)
        second = self._clause(time, unsaid(first.subject), light=True)
        return join(first.main(), both("und", "and"), second.main()), "."

    def _being(self, time, subject, predicate):
        verb = lexicon.auxiliary("sein")
        tense = self._tense(time, subject.person, None, compound=0.25)
        return Clause(subject, verb, tense, [Constituent(predicate, "predicate", "predicate")])

    def predicate(self) -> tuple[Fragment, str]:
        """Draw a sentence in which a thing has a quality, or gets it."""
        time = self._any_time()
        kind = self._pick(_COMPARABLE)
        adjective = self._word(lexicon.adjectives_of(kind))
        degree = gloss(self._word(lexicon.DEGREES)) if adjective.comparative and self._chance(0.5) else Fragment()
        subject = self._subject((kind,), time)
        clause = self._being(time, subject, join(degree, both(adjective.german, adjective.english)))
        clause.negated = self._chance(0.15)
        if kind in ("person", "animal") and self._chance(0.25):
            clause.verb = lexicon.auxiliary("werden")
        if self._chance(0.3):
            clause.constituents.append(self._time(time))
        return (clause.question(), "?") if self._chance(0.2) else (clause.main(), ".")

    def comparison(self) -> tuple[Fragment, str]:
        """Draw a comparison: "größer als" or "so groß wie"."""
        time = self._past_or_present()
        kind = self._pick(_COMPARABLE)
        adjective = self._word([item for item in lexicon.adjectives_of(kind) if item.comparative])
        other, tail = self._noun_phrase((kind,), definite=True, time=time).realise("n")
        if self._chance(0.65):
            quality = join(both(*adjective.comparative), both("als", "than"))
        else:
            quality = join(both("so", "as"), both(adjective.german, adjective.english), both("wie", "as"))
        subject = self._noun_phrase((kind,), definite=True, time=time)
        return self._being(time, subject, join(quality, other, tail)).main(), "."

    def profession(self) -> tuple[Fragment, str]:
        """Draw a sentence on a person's profession, which only English gives an article."""
        time = self._past_or_present()
        gender = self._pick("fm")
        subject: Name | Pronoun = Name(self._word(lexicon.FIRST_NAMES[gender]), gender)
        if self._chance(0.4):
            subject = Pronoun(3 if gender == "f" else 2)
        noun = self._skewed(_professions(gender))
        predicate = join(Fragment(english=words_of("a")), both(noun.lemma, noun.english))
        clause = self._being(time, subject, predicate)
        clause.constituents.append(self._place())
        return clause.main(), "."

    def existence(self) -> tuple[Fragment, str]:
        """Draw a sentence with "es gibt"."""
        time = self._past_or_present()
        table = lexicon.DETERMINERS
        plural = self._chance(0.6)
        choices = ("many", "several", "few", "some", "no") if plural else ("a", "a", "no")
        kind = self._pick(("person", "animal", "place", "furniture", "vehicle", "spot", "device"))
        phrase = self._noun_phrase((kind,), time=time, plural=plural, determiner=table[self._pick(choices)])
        tense = "present" if time == PRESENT else "preterite"
        return existential(phrase, self._place(), tense, self._chance(0.5)), "."

    def passive(self) -> tuple[Fragment, str]:
        """Draw the passive, with or without its agent."""
        time = self._past_or_present()
        verb, slot = self._skewed(_passive_uses())
        subject = self._noun_phrase(slot.kinds, time=time, definite=self._chance(0.7))
        modal = lexicon.modals()[self._pick(("müssen", "können"))] if self._chance(0.25) else None
        clause = Clause(subject, verb, self._tense(time, subject.person, modal, 0.3), modal=modal, passive=True)
        clause.negated = self._chance(0.15)
        if self._chance(0.5):
            agent = self._noun_phrase(("person",), time=time, definite=self._chance(0.6))
            clause.constituents.append(complement(lexicon.Slot("d", "von", "by"), agent))
        if self._chance(0.4):
            clause.constituents.append(self._time(time))
        return (clause.question(), "?") if self._chance(0.15) else (clause.main(), ".")

    def polite_request(self) -> tuple[Fragment, str]:
        """Draw a request: "Bitte ... Sie"."""
        return request(self._clause(PRESENT, POLITE, light=True, plain=True)), "!"

    def nested(self) -> tuple[Fragment, str]:
        """Draw a reported clause with a subordinate or infinitive clause of its own."""
        time = self._past_or_present()
        report = self._report("that", time)
        clause = self._clause(time, self._subject(time=time), light=True)
        reported = subordinate("dass|that", clause)
        if self._chance(0.6):
            inner = followed(reported, self._subordinate(time))
        else:
            inner = purpose(reported, self._clause(time, unsaid(clause.subject), light=True, plain=True))
        return followed(report.main(), inner), "."
