"""A synchronous German-English grammar: words, phrases and clauses with the links between them.

Every construction emits German and English words together, as a `Fragment` that also carries their links, and word
order is set by listing fragments in the order of each language. Links are kept between words, not positions, so that
reordering costs nothing; positions are counted once, when the sentence is finished.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import TypeAlias

from keras_attn_zoo.corpora.synthetic import lexicon

_MARKS = ",.?!"


@dataclass(frozen=True)
class SyntheticPair:
    """A German sentence, its English translation and the links between their words.

    Attributes:
        source: the German sentence, as raw text.
        target: the English sentence, as raw text.
        source_words: German words, punctuation marks separate.
        target_words: English words likewise.
        alignment: frozenset of sure links (source word, target word), counted from 0.
        possible: frozenset of the links that are merely possible, such as
            auxiliary "does" to the German finite verb; none of them is sure.
        construction: name of the sentence pattern it was made by.
    """

    source: str
    target: str
    source_words: tuple[str, ...]
    target_words: tuple[str, ...]
    alignment: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]] = frozenset()
    construction: str = ""


# ---------------------------------------------------------------- fragments


class Word:
    """One word of a sentence under construction; two words are never equal, even with the same text."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


@dataclass(slots=True)
class Fragment:
    """German words, English words, and the links between them."""

    german: list[Word] = field(default_factory=list)
    english: list[Word] = field(default_factory=list)
    sure: list[tuple[Word, Word]] = field(default_factory=list)
    possible: list[tuple[Word, Word]] = field(default_factory=list)


def words_of(text: str) -> list[Word]:
    """Split a text into words at blanks."""
    return list(map(Word, text.split()))


def both(german: str, english: str) -> Fragment:
    """Return words that translate each other, each linked to each."""
    left, right = words_of(german), words_of(english)
    return Fragment(left, right, list(product(left, right)))


@cache
def _units(text):
    return tuple(unit.replace("_", " ").split("|") for unit in text.split())


def gloss(text: str) -> Fragment:
    """Join word by word: "gestern|yesterday Abend|evening"; "_" joins words of one side."""
    return join(*(both(german, english) for german, english in _units(text)))


def arrange(german: Sequence[Fragment], english: Sequence[Fragment]) -> Fragment:
    """Join fragments, in German in the one order and in English in the other."""
    whole = Fragment()
    for fragment in german:
        whole.german += fragment.german
    for fragment in english:
        whole.english += fragment.english
    for fragment in {id(fragment): fragment for fragment in (*german, *english)}.values():
        whole.sure += fragment.sure
        whole.possible += fragment.possible
    return whole


def join(*fragments: Fragment) -> Fragment:
    """Join fragments in the same order on both sides."""
    return arrange(fragments, fragments)


def comma(english: bool = False) -> Fragment:
    """Return a comma: of German alone, or of both languages."""
    return both(",", ",") if english else Fragment(german=[Word(",")])


def _settle(words):
    """Drop commas before other marks; give the words kept and the position of every word."""
    kept, position = [], {}
    for word in words:
        after_comma = bool(kept) and kept[-1].text == ","
        if after_comma and word.text == ",":
            position[word] = len(kept) - 1
            continue
        if after_comma and word.text in _MARKS:
            del position[kept.pop()]
        position[word] = len(kept)
        kept.append(word)
    return kept, position


_VOWEL_SOUND = re.compile(r"(?!eu|uni(?!n)|use|usu|one)[aeiou]|honest|honou?r|hour|heir", re.IGNORECASE)


def _with_article(words):
    """ "a" becomes "an" where the next word starts with a vowel sound."""
    texts = [word.text for word in words]
    for i in range(len(texts) - 1):
        if texts[i] == "a" and _VOWEL_SOUND.match(texts[i + 1]):
            texts[i] = "an"
    return texts


def _raw_text(texts):
    return re.sub(rf" ([{_MARKS}])", r"\1", " ".join(texts))


def finish(fragment: Fragment, mark: str = ".", construction: str = "") -> SyntheticPair:
    """End a sentence: punctuation, capitals, a or an, and positions for the links."""
    fragment = join(fragment, both(mark, mark))
    german, german_position = _settle(fragment.german)
    english, english_position = _settle(fragment.english)
    source, target = [word.text for word in german], _with_article(english)
    source[0] = source[0][0].upper() + source[0][1:]
    target[0] = target[0][0].upper() + target[0][1:]

    def positions(links):
        return frozenset(
            (german_position[left], english_position[right])
            for left, right in links
            if left in german_position and right in english_position
        )

    sure = positions(fragment.sure)
    return SyntheticPair(
        _raw_text(source),
        _raw_text(target),
        tuple(source),
        tuple(target),
        sure,
        positions(fragment.possible) - sure,
        construction,
    )


# ---------------------------------------------------------------- noun phrases
# Every phrase has `person` (0 to 5: ich to sie), `gender` and `noun` (or None), and `realise(case)`, which
# gives two fragments: the phrase, and a tail that may move to the end of a German clause.

Phrase: TypeAlias = "Pronoun | Name | Fixed | NounPhrase | Coordination"


@dataclass
class Pronoun:
    """A personal pronoun, by its row in the table of pronouns."""

    row: int
    noun = None

    def __post_init__(self) -> None:
        """Read the row."""
        nominative, accusative, dative, subject, obj, person, self.gender = lexicon.PRONOUNS[self.row]
        self.german = dict(n=nominative, a=accusative, d=dative)
        self.english = dict(n=subject, a=obj, d=obj)
        self.person = int(person)

    def realise(self, case: str) -> tuple[Fragment, Fragment]:
        """Return the pronoun, and no tail."""
        return both(self.german[case], self.english[case]), Fragment()


@dataclass
class Name:
    """A person by name: a first name, or Herr or Frau with a surname."""

    german: str
    gender: str
    title: bool = False
    person = lexicon.ER
    noun = None

    def realise(self, case: str) -> tuple[Fragment, Fragment]:
        """Return the name, and no tail."""
        name = both(self.german, self.german)
        if self.title:
            german = "Frau" if self.gender == "f" else "Herr" if case == "n" else "Herrn"
            name = join(both(german, "Mrs" if self.gender == "f" else "Mr"), name)
        return name, Fragment()


@dataclass
class Fixed:
    """A phrase whose two forms are given: a relative or question pronoun, or nothing where it is said elsewhere."""

    german: str
    english: str
    person: int = lexicon.ER
    gender: str = "m"
    noun: lexicon.Noun | None = None

    def realise(self, case: str) -> tuple[Fragment, Fragment]:
        """Return the two forms, and no tail."""
        return both(self.german, self.english), Fragment()


# The subject "Sie" of a request, which English leaves out.
POLITE = Fixed("Sie", "", lexicon.SIE, lexicon.PLURAL)


def unsaid(subject: Phrase) -> Fixed:
    """Return a subject that is said elsewhere: of the second verb in "he comes and sings"."""
    return Fixed("", "", subject.person, subject.gender, subject.noun)


@dataclass
class NounPhrase:
    """A noun with what stands about it.

    Attributes:
        noun: `lexicon.Noun`.
        determiner: `lexicon.Determiner`.
        plural: whether it is plural.
        adjectives: those before the noun.
        owner: a phrase in the genitive, or None.
        relative: fragment of a relative clause without its commas, or None.
        extraposed: whether the relative clause may move behind the verb.
    """

    noun: lexicon.Noun
    determiner: lexicon.Determiner
    plural: bool = False
    adjectives: tuple[lexicon.Adjective, ...] = ()
    owner: "Phrase | None" = None
    relative: Fragment | None = None
    extraposed: bool = False

    @property
    def person(self) -> int:
        """Third person, singular or plural."""
        return lexicon.SIE if self.plural else lexicon.ER

    @property
    def gender(self) -> str:
        """Gender, "p" in the plural."""
        return lexicon.PLURAL if self.plural else self.noun.gender

    def realise(self, case: str) -> tuple[Fragment, Fragment]:
        """Return the phrase, and the relative clause where it may move."""
        article = both(
            self.determiner.form(self.gender, case), self.determiner.plural if self.plural else self.determiner.singular
        )
        ending = self.determiner.adjective_endings(self.gender)[case]
        adjectives = [both(item.stem + ending, item.english) for item in self.adjectives]
        phrase = self._with_owner(article, adjectives, self._head(case))
        if self.relative is None:
            return phrase, Fragment()
        tail = join(comma(), self.relative, comma())
        return (phrase, tail) if self.extraposed else (join(phrase, tail), Fragment())

    def _head(self, case):
        noun = self.noun
        return both(
            (noun.plural if self.plural else noun.singular)[case], noun.english_plural if self.plural else noun.english
        )

    def _with_owner(self, article, adjectives, head):
        """Article, adjectives and noun, with the owner behind in German."""
        if self.owner is None:
            return join(article, *adjectives, head)
        owner, _ = self.owner.realise("g")
        if self.owner.noun.kind == "person":
            last = owner.english[-1]
            last.text += "'" if last.text.endswith("s") and self.owner.plural else "'s"
            bare = Fragment(german=article.german)
            return arrange([bare, *adjectives, head, owner], [owner, *adjectives, head])
        of = Fragment(english=[Word("of")])
        of.possible = [(owner.german[0], of.english[0])]
        return join(article, *adjectives, head, of, owner)


@dataclass
class Coordination:
    """Two phrases with "und" or "oder", or "sowohl ... als auch", as one plural phrase."""

    first: Phrase
    second: Phrase
    word: str = "und|and"
    lead: str = ""
    person = lexicon.SIE
    gender = lexicon.PLURAL
    noun = None

    def realise(self, case: str) -> tuple[Fragment, Fragment]:
        """Return both phrases, and no tail."""
        (first, _), (second, _) = self.first.realise(case), self.second.realise(case)
        return join(gloss(self.lead), first, gloss(self.word), second), Fragment()


def possessive(owner: Phrase) -> lexicon.Determiner:
    """Return the possessive that refers to a phrase: German follows its gender, English what it is."""
    if owner is POLITE:
        return lexicon.POLITE_POSSESSIVE
    if owner.person != lexicon.ER:
        return lexicon.POSSESSIVES[owner.person]
    sex = "f" if owner.gender == "f" else "m"
    if owner.noun is not None and owner.noun.kind != "person":
        sex = "n"
    elif owner.noun is not None and owner.noun.lemma == "Mädchen":
        sex = "f"
    return lexicon.SINGULAR_POSSESSIVES[owner.gender, sex]


def prepositional(preposition: str, english: str, phrase: Phrase, case: str) -> tuple[Fragment, Fragment]:
    """Return a prepositional phrase, such as "im Garten", "in the garden", and a tail that may move."""
    inner, tail = phrase.realise(case)
    definite = isinstance(phrase, NounPhrase) and phrase.determiner.kind == "definite"
    contracted = definite and lexicon.CONTRACTIONS.get((preposition, inner.german[0].text))
    if contracted:
        first = inner.german[0]
        first.text = contracted
        right = words_of(english)
        return join(Fragment([], right, [(first, word) for word in right]), inner), tail
    return join(both(preposition, english), inner), tail


# ---------------------------------------------------------------- clauses

_GERMAN_FIELD = [
    *("pronoun", "pronoun_dative", "frequency", "time", "dative", "accusative", "not", "manner"),
    *("place", "prepositional", "direction", "predicate"),
]
_ENGLISH_FIELD = ["indirect", "predicate", "object", "to", "prepositional", "direction", "manner", "place", "time"]


@dataclass
class Constituent:
    """A part of a clause other than subject and verb.

    Attributes:
        fragment: its words.
        german: where it stands between the German verb and the end of the clause.
        english: where it stands after the English verb.
        tail: words that stand behind the German end of the clause.
        comma: whether English sets a comma after it when it stands in front.
        fronts: whether English follows when German puts it in front.
    """

    fragment: Fragment
    german: str
    english: str
    tail: Fragment = field(default_factory=Fragment)
    comma: bool = False
    fronts: bool = True


def complement(slot: lexicon.Slot, phrase: Phrase) -> Constituent:
    """Return what a verb governs, a slot filled with a phrase, in its place."""
    if slot.preposition:
        fragment, tail = prepositional(slot.preposition, slot.english, phrase, slot.case)
        return Constituent(fragment, "prepositional", "prepositional", tail)
    fragment, tail = phrase.realise(slot.case)
    pronoun = isinstance(phrase, Pronoun)
    if slot.case == "a":
        return Constituent(fragment, "pronoun" if pronoun else "accusative", "object", tail, fronts=False)
    if slot.english:
        fragment = join(Fragment(english=words_of(slot.english)), fragment)
    english = "to" if slot.english else "indirect"
    return Constituent(fragment, "pronoun_dative" if pronoun else "dative", english, tail, fronts=False)


@dataclass
class _VerbGroup:
    """A verb in its form and what goes with it, cut where other words may come between."""

    finite: Fragment
    bracket: Fragment
    auxiliary: Fragment
    main: Fragment
    particle: Fragment
    negation: Fragment
    adverb: Fragment
    reflexive: Fragment


@dataclass
class Clause:
    """Subject, verb and the rest, from which every word order is made.

    Attributes:
        subject: a phrase.
        verb: `lexicon.Verb`.
        tense: present, preterite, perfect, pluperfect or future.
        constituents: list of `Constituent`.
        modal: `lexicon.Modal` or None; only in present and preterite.
        passive: whether the verb is passive; not in pluperfect and future.
        negated: whether "nicht" stands in it.
        frequency: gloss of an adverb that English puts before the verb, or "".
    """

    subject: Phrase
    verb: lexicon.Verb
    tense: str = "present"
    constituents: list[Constituent] = field(default_factory=list)
    modal: lexicon.Modal | None = None
    passive: bool = False
    negated: bool = False
    frequency: str = ""

    # ------------------------------------------------------------ word order

    def main(self, front: Constituent | None = None) -> Fragment:
        """Return a main clause: the German verb second, after the subject or the constituent `front`."""
        return self._render("second", front)

    def verb_first(self) -> Fragment:
        """Return German with the verb first, as after a fronted clause; English as ever."""
        return self._render("first")

    def question(self, front: Constituent | None = None) -> Fragment:
        """Return a question, after the question word `front` if given; where the subject asks, it is `main`."""
        return self._render("second" if front else "first", front, asks=True)

    def final(self, front: Constituent | None = None) -> Fragment:
        """Return a subordinate clause: the German verb last, and `front`, a relative pronoun, first."""
        return self._render("final", front)

    def infinitive(self) -> Fragment:
        """Return an infinitive clause with "zu", without its subject."""
        group = self._infinitive_group()
        middle, tail = self._german_field(group)
        german = [*middle, group.bracket, tail]
        return arrange(german, [group.negation, group.adverb, group.auxiliary, *self._english_field(group)])

    def _render(self, order, front=None, asks=False):
        subject = join(*self.subject.realise("n"))
        group = self._finite_group(support=asks or self.negated, joined=order == "final")
        lead = [front.fragment, front.tail] if front else []
        middle, tail = self._german_field(group, front)
        if order == "final":
            german = [*lead, subject, *middle, group.bracket, group.finite]
        elif order == "second" and front:
            german = [*lead, group.finite, subject, *middle, group.bracket]
        elif order == "second":
            german = [subject, group.finite, *middle, group.bracket]
        else:
            german = [group.finite, subject, *middle, group.bracket]
        english = []
        if front and front.fronts:
            english = [*lead, Fragment(english=words_of(","))] if front.comma else lead
        english = [*english, *([group.auxiliary, subject] if asks else [subject, group.auxiliary])]
        english += [group.negation, group.adverb, *self._english_field(group, front)]
        return arrange([*german, tail], english)

    def _german_field(self, group, front=None):
        """What stands between the finite verb and the end of the German clause, and what moves behind it.

        Only the last constituent has its tail moved: behind another noun, a
        relative clause would seem to belong to that one.
        """
        parts = [part for part in self.constituents if part is not front]
        parts.sort(key=lambda part: _GERMAN_FIELD.index(part.german))
        tail = parts[-1].tail if parts else Fragment()
        placed = [(part.german, fragment) for part in parts for fragment in (part.fragment, part.tail)]
        placed = [item for item in placed if item[1] is not tail]
        placed += [("pronoun", group.reflexive), ("frequency", group.adverb), ("not", group.negation)]
        placed.sort(key=lambda item: _GERMAN_FIELD.index(item[0]))
        return [fragment for _, fragment in placed], tail

    def _english_field(self, group, front=None):
        """The English main verb and what follows it."""
        parts = [part for part in self.constituents if part is not front or not part.fronts]
        parts.sort(key=lambda part: _ENGLISH_FIELD.index(part.english))
        words = [[part.fragment, part.tail] for part in parts]
        pronoun_first = self.verb.movable and parts and parts[0].german == "pronoun"
        words.insert(1 if pronoun_first else 0, [group.particle])
        return [group.main, *(fragment for pair in words for fragment in pair)]

    # ------------------------------------------------------------ verb forms

    def _is_past(self):
        return self.tense in ("preterite", "perfect", "pluperfect")

    def _german_leader(self):
        """The German verb that is finite in place of the lexical one, or None."""
        if self.modal:
            return self.modal.german
        if self.passive:
            return lexicon.auxiliary("sein" if self.tense == "perfect" else "werden")
        if self.tense == "future":
            return lexicon.auxiliary("werden")
        if self.tense in ("perfect", "pluperfect"):
            return lexicon.auxiliary(self.verb.auxiliary)
        return None

    def _english_leader(self):
        """English words before the lexical verb, the first one to be inflected."""
        if self.modal:
            return self.modal.past if self._is_past() else self.modal.present
        if self.passive:
            return ("be",)
        return {"future": ("will",), "pluperfect": ("had",)}.get(self.tense, ())

    def _german_words(self, leader, joined):
        """German: the finite word, the lexical words, and a passive "werden" or "worden"."""
        verb, person = self.verb, self.subject.person
        past = self.tense in ("preterite", "pluperfect")
        form = ((leader or verb).preterite if past else (leader or verb).present)[person]
        if leader is None:
            if joined:
                word = Word(verb.prefix + form)
                return word, [word], []
            word = Word(form)
            return word, [word, *words_of(verb.prefix)], []
        bare = verb.infinitive if (self.modal and not self.passive) or self.tense == "future" else verb.participle
        passive = []
        if self.passive and self.modal:
            passive = words_of("werden")
        elif self.passive and self.tense == "perfect":
            passive = words_of("worden")
        return Word(form), words_of(bare), passive

    def _english_words(self, support):
        """English: auxiliary words, leading words, passive "be", lexical words; a word may be two of these."""
        person, english = self.subject.person, self.verb.english
        leader = list(self._english_leader())
        passive = ["be"] if self.passive and self.modal else []
        if not leader:
            lexical = english.base
        else:
            lexical = english.participle if self.passive or self.tense == "pluperfect" else english.base
        words = [Word(text) for text in (*leader, *passive, lexical)]
        first = words[0]
        if first.text in ("will", "can", "could", "should", "would", "had"):
            helping = [first]
        elif first.text == "be" or not support:
            verb = lexicon.english_verb(first.text)
            first.text = (verb.preterite if self._is_past() else verb.present)(person)
            helping = [first] if verb.base == "be" else []
        else:
            do = lexicon.english_verb("do")
            helping = [Word((do.preterite if self._is_past() else do.present)(person))]
        count = len(leader)
        return helping, words[:count], words[count:-1], words[-1]

    def _finite_group(self, support, joined):
        """The verb of a clause with a subject; `support` for do-support, `joined` for verb-final "anruft"."""
        leader = self._german_leader()
        finite, lexical, passive = self._german_words(leader, joined)
        helping, leading, be, main = self._english_words(support)
        rest = words_of(" ".join(self.verb.rest))
        sure = [*product(lexical, [main, *rest]), *product(passive, be or helping)]
        possible = []
        for word in leading:
            (possible if word.text == "to" else sure).append((finite, word))
        do = [word for word in helping if word not in (*leading, main)]
        perfect = leader is not None and not leading
        (sure if perfect else possible).extend((finite, word) for word in do)
        if perfect and not do:
            possible.append((finite, main))
        after = [word for word in (*leading, *be, main) if word not in helping]
        bracket = [word for word in lexical if word is not finite] + passive
        return self._group(
            Fragment([finite], [], sure, possible), bracket, Fragment(english=helping), after, rest, main
        )

    def _infinitive_group(self):
        german = words_of(" ".join(self.verb.zu))
        to, main = words_of(f"to {self.verb.english.base}")
        rest = words_of(" ".join(self.verb.rest))
        if len(german) == 1:
            sure = [*product(german, [to, main, *rest])]
        else:
            sure = [(german[0], to), *product(german[1:], [main, *rest])]
        return self._group(Fragment(), german, Fragment([], [to], sure), [main], rest, main)

    def _group(self, finite, bracket, auxiliary, after, rest, main):
        """Cut the words of a verb where other words may come between."""
        reflexive = Fragment()
        if self.verb.reflexive:
            word = Word(lexicon.REFLEXIVE[self.subject.person])
            reflexive = Fragment([word], [], [], [(word, main)])
        movable = self.verb.movable
        return _VerbGroup(
            finite,
            Fragment(german=bracket),
            auxiliary,
            Fragment(english=after if movable else [*after, *rest]),
            Fragment(english=rest if movable else []),
            both("nicht", "not") if self.negated else Fragment(),
            gloss(self.frequency),
            reflexive,
        )


# ---------------------------------------------------------------- sentences of several clauses


def subordinate(conjunction: str, clause: Clause) -> Fragment:
    """Return a clause with its conjunction, a gloss such as "weil|because"."""
    return join(gloss(conjunction), clause.final())


def followed(main: Fragment, dependent: Fragment) -> Fragment:
    """Join a main clause and a dependent one; only German sets a comma."""
    return join(main, comma(), dependent)


def preceded(dependent: Fragment, clause: Clause) -> Fragment:
    """Join a fronted dependent clause and the main clause, inverted in German."""
    return join(dependent, comma(english=True), clause.verb_first())


def purpose(main: Fragment, clause: Clause) -> Fragment:
    """Add what a thing is done for: "um ... zu"."""
    return join(main, comma(), both("um", "in order"), clause.infinitive())


def existential(phrase: Phrase, place: Constituent, tense: str, place_first: bool) -> Fragment:
    """Say that there is something in some place: "es gibt", in the present or the preterite."""
    thing, tail = phrase.realise("a")
    be = lexicon.english_verb("be")
    english = (be.present if tense == "present" else be.preterite)(phrase.person)
    verb, there = both("gibt" if tense == "present" else "gab", english), both("es", "there")
    if place_first:
        comma = Fragment(english=words_of(","))
        return arrange([place.fragment, verb, there, thing, tail], [place.fragment, comma, there, verb, thing, tail])
    return arrange([there, verb, place.fragment, thing, tail], [there, verb, thing, tail, place.fragment])


def request(clause: Clause) -> Fragment:
    """Return a polite request: "Bitte rufen Sie an", "please call"; the subject is `Polite`."""
    return join(both("bitte", "please"), clause.verb_first())


def relative_pronoun(phrase: Phrase, case: str, english: str) -> Fixed:
    """Return the relative pronoun for a noun phrase in a case, as a phrase."""
    return Fixed(lexicon.RELATIVE[phrase.gender][case], english, phrase.person, phrase.gender, phrase.noun)
