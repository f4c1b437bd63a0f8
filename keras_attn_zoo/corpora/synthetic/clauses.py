"""Random clauses: a verb with what it governs, adverbials, and relative clauses."""

from functools import cache

from keras_attn_zoo.corpora.synthetic import lexicon
from keras_attn_zoo.corpora.synthetic.grammar import (
    Clause,
    Constituent,
    NounPhrase,
    Pronoun,
    complement,
    gloss,
    relative_pronoun,
)
from keras_attn_zoo.corpora.synthetic.phrases import FUTURE, PAST, PRESENT, PhraseSampler

_ACCUSATIVE = lexicon.Slot("a")


@cache
def uses_of(kind: str) -> list[tuple[lexicon.Verb, lexicon.Frame]]:
    """The verbs, each with a frame, whose subject may be of a kind."""
    return [(v, f) for v in lexicon.verbs().values() for f in v.frames if kind in f.subjects]


@cache
def uses_with_object(kind: str) -> list[tuple[lexicon.Verb, lexicon.Frame]]:
    """The verbs, each with a frame, that take an accusative object of a kind."""
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
    """Whether what fills a slot is an accusative object."""
    return slot.case == "a" and not slot.preposition


class ClauseSampler(PhraseSampler):
    """Draws clauses."""

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
