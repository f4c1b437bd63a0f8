"""Random sentences: the patterns in which clauses become a sentence."""

from functools import cache

from keras_attn_zoo.corpora.synthetic import lexicon
from keras_attn_zoo.corpora.synthetic.clauses import ClauseSampler, is_object, uses_of, uses_with_object
from keras_attn_zoo.corpora.synthetic.grammar import (
    Clause,
    Constituent,
    Fixed,
    Fragment,
    Gap,
    Name,
    Polite,
    Pronoun,
    SyntheticPair,
    both,
    comma,
    complement,
    existential,
    finish,
    followed,
    gloss,
    join,
    preceded,
    purpose,
    request,
    subordinate,
    words_of,
)
from keras_attn_zoo.corpora.synthetic.phrases import FUTURE, PAST, PRESENT

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


class SentenceSampler(ClauseSampler):
    """Draws sentences; its public methods are the patterns, each of which returns a fragment and a mark."""

    def __init__(self, seed: int, words_per_kind: int | None = None) -> None:
        super().__init__(seed, words_per_kind)
        self._patterns = [getattr(self, name) for name, weight in _PATTERNS.items() for _ in range(weight)]

    def sentence(self) -> SyntheticPair:
        """A `SyntheticPair` of a pattern drawn by weight."""
        pattern = self._pick(self._patterns)
        fragment, mark = pattern()
        return finish(fragment, mark, pattern.__name__)

    def _any_time(self):
        return self._pick((PAST, PAST, PAST, PRESENT, PRESENT, FUTURE))

    def _past_or_present(self):
        return self._pick((PAST, PAST, PRESENT))

    def statement(self) -> tuple[Fragment, str]:
        """Subject first."""
        return self._clause(self._any_time()).main(), "."

    def fronted(self) -> tuple[Fragment, str]:
        """An adverbial or a masculine object first, the verb second."""
        clause = self._clause(self._any_time())
        fronts = [part for part in clause.constituents if part.german in ("time", "place") or _is_plain(part)]
        if self._chance(0.25) or not fronts:
            adverb = self._word(lexicon.SENTENCE_ADVERBS)
            front = Constituent(gloss(adverb.rstrip(",")), "time", "time", comma=adverb.endswith(","))
            clause.constituents.append(front)
            return clause.main(front), "."
        return clause.main(self._pick(fronts)), "."

    def yes_no_question(self) -> tuple[Fragment, str]:
        """The verb first."""
        return self._clause(self._any_time()).question(), "?"

    def open_question(self) -> tuple[Fragment, str]:
        """A question word first."""
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
        """A main clause and a subordinate one."""
        time = self._past_or_present()
        return followed(self._clause(time).main(), self._subordinate(time)), "."

    def subordinate_first(self) -> tuple[Fragment, str]:
        """A subordinate clause and the main clause after it."""
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
        """ "dass" after a verb of saying or thinking."""
        time = self._past_or_present()
        clause = subordinate("dass|that", self._clause(time))
        return followed(self._report("that", time, light=False).main(), clause), "."

    def asked(self) -> tuple[Fragment, str]:
        """ "ob" after a verb of asking."""
        time = self._past_or_present()
        return followed(self._report("whether", time).main(), subordinate("ob|whether", self._clause(time))), "."

    def attempt(self) -> tuple[Fragment, str]:
        """A verb with an infinitive clause."""
        time = self._past_or_present()
        report = self._report("to", time, light=False)
        subject = report.subject
        gap = Gap(subject)
        return followed(report.main(), self._clause(time, gap, plain=True).infinitive()), "."

    def purpose(self) -> tuple[Fragment, str]:
        """ "um ... zu"."""
        time = self._past_or_present()
        clause = self._clause(time, self._subject(time=time), light=True)
        gap = Gap(clause.subject)
        return purpose(clause.main(), self._clause(time, gap, light=True, plain=True)), "."

    def coordinated_clauses(self) -> tuple[Fragment, str]:
        """Two main clauses."""
        time = self._past_or_present()
        first, second = self._clause(time), self._clause(time, light=True)
        if self._chance(0.5):
            return join(first.main(), both("und", "and"), second.main()), "."
        word = self._pick(("aber|but", "denn|for"))
        return join(first.main(), comma(english=True), gloss(word), second.main()), "."

    def shared_subject(self) -> tuple[Fragment, str]:
        """Two verbs with one subject."""
        time = self._past_or_present()
        first = self._clause(time, self._subject(time=time), light=True)
        gap = Gap(first.subject)
        return join(first.main(), both("und", "and"), self._clause(time, gap, light=True).main()), "."

    def _being(self, time, subject, predicate):
        verb = lexicon.auxiliary("sein")
        tense = self._tense(time, subject.person, None, compound=0.25)
        return Clause(subject, verb, tense, [Constituent(predicate, "predicate", "predicate")])

    def predicate(self) -> tuple[Fragment, str]:
        """A thing has a quality, or gets it."""
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
        """ "größer als" or "so groß wie"."""
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
        """A person's profession, which only English gives an article."""
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
        """ "es gibt"."""
        time = self._past_or_present()
        table = lexicon.DETERMINERS
        plural = self._chance(0.6)
        choices = ("many", "several", "few", "some", "no") if plural else ("a", "a", "no")
        kind = self._pick(("person", "animal", "place", "furniture", "vehicle", "spot", "device"))
        phrase = self._noun_phrase((kind,), time=time, plural=plural, determiner=table[self._pick(choices)])
        tense = "present" if time == PRESENT else "preterite"
        return existential(phrase, self._place(), tense, self._chance(0.5)), "."

    def passive(self) -> tuple[Fragment, str]:
        """The passive, with or without its agent."""
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
        """ "Bitte ... Sie"."""
        return request(self._clause(PRESENT, Polite(), light=True, plain=True)), "!"

    def nested(self) -> tuple[Fragment, str]:
        """A reported clause with a subordinate or infinitive clause of its own."""
        time = self._past_or_present()
        report = self._report("that", time)
        clause = self._clause(time, self._subject(time=time), light=True)
        reported = subordinate("dass|that", clause)
        if self._chance(0.6):
            inner = followed(reported, self._subordinate(time))
        else:
            gap = Gap(clause.subject)
            inner = purpose(reported, self._clause(time, gap, light=True, plain=True))
        return followed(report.main(), inner), "."
