"""German and English words for the synthetic corpus: tables, and the morphology that inflects them.

The tables are written as in a pocket dictionary. A noun stands with its gender (m, f, n, or w for the weak masculines
such as "Student"), its plural ("-" the same, "-en" an ending, "¨er" an ending with umlaut, "0" none) and its English. A
verb stands with what it governs; irregular forms stand once, with the simple verb, and verbs with a prefix take them
from there.
"""

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

PLURAL = "p"  # beside the genders m, f, n; cases are n, a, d, g
_CASES = "nadg"
_WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))


def _rows(text):
    return tuple(text.strip().split("\n"))


def _cells(text):
    """The rows of a table; a dash is an empty cell."""
    return [["" if cell == "-" else cell for cell in row.split()] for row in _rows(text)]


def _declension(name):
    """Forms by gender and case."""
    forms = _WORDS["declension"][name]
    return {gender: dict(zip(_CASES, *_cells(of_gender), strict=True)) for gender, of_gender in forms.items()}


# ---------------------------------------------------------------- determiners and adjective endings

RELATIVE, _DEFINITE = _declension("relative"), _declension("definite")
_DETERMINER_ENDINGS, _EIN_ENDINGS = _declension("determiner"), _declension("ein")
_ADJECTIVE_ENDINGS = {kind: _declension(kind) for kind in ("weak", "mixed", "strong")}
CONTRACTIONS = {(preposition, article): both for preposition, article, both in _cells(_WORDS["contractions"])}


@dataclass(frozen=True)
class Determiner:
    """What stands before a noun: its German stem, endings, and its English in both numbers."""

    german: str
    singular: str
    plural: str
    kind: str = "ein"

    def form(self, gender: str, case: str) -> str:
        """Return the German form, "" where there is none."""
        if self.kind == "definite":
            return _DEFINITE[gender][case]
        if self.kind == "fixed":
            return self.german
        ending = (_EIN_ENDINGS if self.kind == "ein" else _DETERMINER_ENDINGS)[gender][case]
        return ("eur" if self.german == "euer" and ending else self.german) + ending

    def adjective_endings(self, gender: str) -> dict[str, str]:
        """Return the endings of the adjectives that follow it."""
        if self.kind == "fixed" or self.german in ("viel", "einig", "mehrer", "wenig"):
            return _ADJECTIVE_ENDINGS["strong"][gender]
        return _ADJECTIVE_ENDINGS["mixed" if self.kind == "ein" else "weak"][gender]


DETERMINERS = {key: Determiner(*forms) for key, *forms in _cells(_WORDS["determiners"])}
# By person, that of "er" left out: it depends on whom it refers to.
POSSESSIVES = tuple(Determiner(german, english, english) for german, english in _cells(_WORDS["possessives"]))
# By German and English gender.
SINGULAR_POSSESSIVES = {
    (german, english): Determiner(stem, word, word)
    for german, stem in (("m", "sein"), ("n", "sein"), ("f", "ihr"))
    for english, word in (("m", "his"), ("f", "her"), ("n", "its"))
}
# Of the polite "Sie".
POLITE_POSSESSIVE = Determiner("Ihr", "your", "your")
WHOSE = {form: Determiner(form, "whose", "whose", "fixed") for form in ("dessen", "deren")}


def counting(number: int) -> Determiner:
    """Return the determiner of a number from 2 to 999."""
    german, english = number_words(number)
    return Determiner(german, "", english, "fixed")


def owned_by(name: str) -> Determiner:
    """Return the determiner of a first name: "Annas", "Anna's"."""
    return Determiner(name + "s", name + "'s", name + "'s", "fixed")


# ---------------------------------------------------------------- words that are not inflected here

PRONOUNS = tuple(tuple(row.split()) for row in _rows(_WORDS["pronouns"]))
REFLEXIVE = _WORDS["reflexive"].split()
NOUN_SETS = _WORDS["noun_sets"]
FIRST_NAMES = {key: text.split() for key, text in _WORDS["first_names"].items()}
SURNAMES, CITIES = _WORDS["surnames"].split(), _WORDS["cities"].split()
# Adverbials, word by word: German|English.
TIMES = {key: _rows(text) for key, text in _WORDS["times"].items()}
WEEKDAYS, MONTHS, PERIODS = (_WORDS[name].split() for name in ("weekdays", "months", "periods"))
FREQUENCIES, MANNERS, SENTENCE_ADVERBS = (
    _rows(_WORDS[name]) for name in ("frequencies", "manners", "sentence_adverbs")
)
NO_PROFESSION = frozenset(_WORDS["no_profession"].split())
DEGREES = _WORDS["degrees"].split()
SUBORDINATORS = {key: text.split() for key, text in _WORDS["subordinators"].items()}

# ---------------------------------------------------------------- morphology


def _umlaut(word):
    """The word with its last a, o, u or au changed."""
    index = max(word.lower().rfind(vowel) for vowel in "aou")
    if word[index] == "u" and word[index - 1].lower() == "a":
        index -= 1
    return word[:index] + word[index].translate(str.maketrans("aouAOU", "äöüÄÖÜ")) + word[index + 1 :]


def _german_plural(lemma, spec):
    """The plural of a dictionary entry, None where there is none."""
    if spec == "0":
        return None
    if spec == "-":
        return lemma
    if spec[0] == "¨":
        return _umlaut(lemma) + spec[1:]
    return lemma + spec[1:] if spec[0] == "-" else spec


def _genitive(lemma):
    """The genitive singular of a strong masculine or neuter noun."""
    if lemma.endswith("nis") or lemma in ("Bus", "Zirkus", "Kürbis"):
        return lemma + ("ses" if lemma != "Zirkus" else "")
    if lemma[-1] in "sßxz" or lemma in ("Mann", "Kind", "Freund", "Hund", "Arzt", "Brief", "Wald", "Bild"):
        return lemma + "es"
    return lemma + "s"


def _english_plural(noun):
    if re.search(r"(s|x|z|ch|sh)$", noun):
        return noun + "es"
    return re.sub(r"([^aeiou])y$", r"\1ie", noun) + "s"


def _english_compound(modifier, head):
    """ "front door", but "pair of riding trousers"."""
    pair, of, rest = head.rpartition("of ")
    return f"{pair}{of}{modifier} {rest}"


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun: gender, its German forms by case, its English in both numbers, its kind."""

    lemma: str
    gender: str
    singular: dict[str, str]
    plural: dict[str, str] | None
    english: str
    english_plural: str
    kind: str

    def compound(self, modifier: str, english: str) -> "Noun":
        """Return the compound with this head: "Tür" and ("Haus", "front") make "Haustür", "front door"."""

        def forms(own):
            return own and {case: modifier + form.lower() for case, form in own.items()}

        return Noun(
            modifier + self.lemma.lower(),
            self.gender,
            forms(self.singular),
            forms(self.plural),
            _english_compound(english, self.english),
            _english_compound(english, self.english_plural),
            self.kind,
        )


def _noun(line, kind):
    lemma, gender, spec, english = line.split(maxsplit=3)
    plural = _german_plural(lemma, spec)
    english, _, english_plural = english.partition("/")
    weak = gender == "w"
    genitive = lemma if gender == "f" else plural if weak else _genitive(lemma)
    oblique = plural if weak else lemma
    dative_plural = plural and (plural if plural[-1] in "ns" else plural + "n")
    return Noun(
        lemma,
        "m" if weak else gender,
        dict(n=lemma, a=oblique, d=oblique, g=genitive),
        plural and dict(n=plural, a=plural, d=dative_plural, g=plural),
        english,
        english_plural or _english_plural(english),
        kind,
    )


@cache
def nouns() -> dict[str, Noun]:
    """Return all nouns by lemma, compounds included."""
    simple: dict[str, Noun] = {}
    for kind, table in _WORDS["nouns"].items():
        simple |= {noun.lemma: noun for noun in (_noun(line, kind) for line in _rows(table))}
    compounds: dict[str, Noun] = {}
    for line in _rows(_WORDS["compounds"]):
        heads, modifiers = line.split(" : ")
        for head in heads.split():
            for modifier in modifiers.split():
                german, english = modifier.split("=")
                compound = simple[head].compound(german, english.replace("_", " "))
                compounds.setdefault(compound.lemma, compound)
    return compounds | simple


@cache
def nouns_of(kind: str) -> tuple[Noun, ...]:
    """Return the nouns of a kind or of a noun set, simple ones first."""
    if kind in NOUN_SETS:
        return tuple(nouns()[lemma] for lemma in NOUN_SETS[kind].split())
    found = [noun for noun in nouns().values() if noun.kind == kind]
    return tuple(sorted(found, key=lambda noun: " " in noun.english))


_NO_COMPARATIVE = frozenset(_WORDS["no_comparative"].split())


def _english_comparative(adjective):
    if adjective.endswith("y") and adjective[-2] not in "aeiou":
        return adjective[:-1] + "ier"
    syllables = re.findall(r"[aeiou]+", re.sub(r"e$", "", adjective))
    if len(syllables) > 1:
        return "more " + adjective
    if adjective.endswith("e"):
        return adjective + "r"
    return adjective + (adjective[-1] if re.search(r"[^aeiou][aeiou][bdgmnpt]$", adjective) else "") + "er"


@dataclass(frozen=True, eq=False)
class Adjective:
    """An adjective: its predicative form, the stem that endings join, comparatives (None: it has none)."""

    german: str
    stem: str
    english: str
    comparative: tuple[str, str] | None


def _adjective(line):
    german, english = line.split(" = ")
    german, _, comparative = german.partition("/")
    english, _, english_comparative = english.partition("/")
    stem = german.removesuffix("e")
    if stem in ("teuer", "dunkel"):
        stem = stem[:-2] + stem[-1]
    pair = None
    if german not in _NO_COMPARATIVE:
        regular = stem + "er"
        pair = (comparative or regular, english_comparative or _english_comparative(english))
    return Adjective(german, stem, english, pair)


@cache
def adjectives_of(kind: str) -> tuple[Adjective, ...]:
    """Return the adjectives that go with nouns of a kind."""
    kind = {"mass": "food", "spot": "place", "surface": "place"}.get(kind, kind)
    groups = _WORDS["adjectives"]
    return tuple(map(_adjective, _rows(groups.get(kind, groups["object"]))))


# ---------------------------------------------------------------- verbs: forms

ICH, DU, ER, WIR, IHR, SIE = range(6)


_IRREGULAR, _AUXILIARY, _ENGLISH = (
    {base: forms for base, *forms in _cells(_WORDS[name])}
    for name in ("german_irregular", "german_auxiliaries", "english_irregular")
)
_DOUBLING = frozenset(_WORDS["doubling"].split())


def _add_t(stem):
    """Stem and -t, with -e- between where the stem needs it: "wartet", "öffnet", "wohnt"."""
    needs_e = re.search(r"([td]|[^aeiouäöülrhmn][mn]|ch[mn])$", stem)
    return stem + ("et" if needs_e else "t")


def _present(infinitive, er):
    stem = infinitive.removesuffix("en") if infinitive.endswith("en") else infinitive.removesuffix("n")
    ich = stem[:-2] + "le" if infinitive.endswith("eln") else stem + "e"
    if stem.endswith("t") and not er.endswith("et"):
        du = er + "st"
    elif er[-2] in "sßzx":
        du = er
    else:
        du = er[:-1] + "st"
    return (ich, du, er, infinitive, _add_t(stem), infinitive)


def _preterite(er):
    """The preterite of six persons."""
    plural = er + ("n" if er.endswith("e") else "en")
    du = er + ("est" if er[-1] in "sßzdt" else "st")
    return (er, du, er, plural, _add_t(er), plural)


def _simple_forms(infinitive):
    """Present, preterite and participle of a verb without prefix."""
    if infinitive in _AUXILIARY:
        *present, preterite, participle = _AUXILIARY[infinitive]
        return tuple(present), _preterite(preterite), participle
    if infinitive in _IRREGULAR:
        er, preterite, participle = _IRREGULAR[infinitive]
        return _present(infinitive, er), _preterite(preterite), participle
    stem = infinitive.removesuffix("en") if infinitive.endswith("en") else infinitive.removesuffix("n")
    er = _add_t(stem)
    participle = er if infinitive.endswith("ieren") else "ge" + er
    return _present(infinitive, er), _preterite(er + "e"), participle


@dataclass(frozen=True, eq=False)
class EnglishVerb:
    """An English verb of one word and its forms."""

    base: str
    third: str
    past: str
    participle: str

    def present(self, person: int) -> str:
        """Return the present of a person from 0 (I) to 5 (they)."""
        if self.base == "be":
            return ("am", "are", "is", "are", "are", "are")[person]
        return self.third if person == ER else self.base

    def preterite(self, person: int) -> str:
        """Return the past of a person from 0 (I) to 5 (they)."""
        if self.base == "be":
            return "was" if person in (ICH, ER) else "were"
        return self.past


@cache
def english_verb(base: str) -> EnglishVerb:
    """Return the forms of an English verb."""
    third = {"have": "has", "be": "is"}.get(base)
    if third is None:
        sibilant = re.search(r"(s|x|z|ch|sh|o)$", base)
        third = base + "es" if sibilant else re.sub(r"([^aeiou])y$", r"\1ie", base) + "s"
    if base in _ENGLISH:
        past, participle = _ENGLISH[base]
    else:
        doubled = base + base[-1] if base in _DOUBLING else base
        past = base + "d" if base.endswith("e") else re.sub(r"([^aeiou])y$", r"\1i", doubled) + "ed"
        participle = past
    return EnglishVerb(base, third, past, participle)


@dataclass(frozen=True)
class Slot:
    """One thing that a verb governs.

    Attributes:
        case: the German case; "dir" for a direction, "loc" for a place.
        preposition: the German preposition, or "".
        english: the English preposition, or "".
        kinds: kinds of noun that may stand here.
    """

    case: str
    preposition: str = ""
    english: str = ""
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True)
class Frame:
    """One way to use a verb: what it governs and the kinds of its subject."""

    slots: tuple[Slot, ...] = ()
    subjects: tuple[str, ...] = ("person",)


@dataclass(frozen=True, eq=False)
class Verb:
    """A German verb, its forms, and its English.

    Attributes:
        infinitive: with its prefix; prefix: the separable one, or "".
        present, preterite: by person, without the separable prefix.
        participle, zu: past participle and zu-infinitive ("angerufen", "anzurufen").
        zu_separate: whether "zu" is a word of its own.
        auxiliary: "haben" or "sein"; reflexive: whether "sich" goes with it.
        english: the word that inflects; rest: words after it; movable: whether a pronoun precedes the rest.
        frames: its `Frame`s; clauses: of "that", "whether" and "to", what it takes.
    """

    infinitive: str
    prefix: str
    present: tuple[str, ...]
    preterite: tuple[str, ...]
    participle: str
    zu: tuple[str, ...]
    auxiliary: str
    reflexive: bool
    english: EnglishVerb
    rest: tuple[str, ...] = ()
    movable: bool = False
    frames: tuple[Frame, ...] = ()
    clauses: tuple[str, ...] = ()


def _german_verb(entry):
    """The German part of an entry as keyword arguments of `Verb`."""
    word, reflexive = entry.removesuffix(" sich"), entry.endswith(" sich")
    auxiliary = "sein" if word.endswith("*") else "haben"
    word = word.rstrip("*")
    prefix, _, simple = word.rpartition("|")
    inseparable, _, simple = simple.rpartition("-")
    present, preterite, participle = _simple_forms(simple)
    if inseparable:
        present = tuple(inseparable + form for form in present)
        preterite = tuple(inseparable + form for form in preterite)
        participle = inseparable + participle.removeprefix("ge")
    base = inseparable + simple
    return dict(
        infinitive=prefix + base,
        prefix=prefix,
        present=present,
        preterite=preterite,
        participle=prefix + participle,
        zu=(f"{prefix}zu{base}",) if prefix else ("zu", base),
        auxiliary=auxiliary,
        reflexive=reflexive,
    )


def _frame(text):
    text, _, subjects = text.partition("<")
    slots = []
    for token in text.split():
        marker = re.fullmatch(r"(?:(\w+)\+)?([AD]|dir|loc)(?:=(\w*))?", token)
        if marker:
            preposition, case, english = marker.groups()
            case = case.lower() if case in "AD" else case
            slots.append(Slot(case, preposition or "", english or ""))
        else:
            last = slots[-1]
            slots[-1] = Slot(last.case, last.preposition, last.english, (*last.kinds, token))
    return Frame(tuple(slots), tuple(subjects.split()) or ("person",))


def make_verb(entry: str, english: str, frames: Iterable[Frame] = (), clauses: Iterable[str] = ()) -> Verb:
    """Make a verb from its dictionary entry: "an|rufen", "be-kommen", "gehen*", "freuen sich"."""
    head, *rest = english.split()
    return Verb(
        **_german_verb(entry),
        english=english_verb(head),
        rest=tuple(word.lstrip("+") for word in rest),
        movable=bool(rest) and rest[0].startswith("+"),
        frames=tuple(frames),
        clauses=tuple(clauses),
    )


def _cut(pattern, line):
    return re.fullmatch(pattern, line).groups()


@cache
def verbs() -> dict[str, Verb]:
    """Return the verbs with their frames, by infinitive ("sich freuen" for a reflexive one)."""
    found = {}
    for line in _rows(_WORDS["verbs"]):
        entry, english, frames = _cut(r"(.+?) = (.+?) ?:(.*)", line)
        verb = make_verb(entry, english, [_frame(frame) for frame in frames.split(";")])
        found["sich " * verb.reflexive + verb.infinitive] = verb
    return found


@cache
def clause_verbs(kind: str) -> tuple[Verb, ...]:
    """Return the verbs that take a clause of a kind: "that", "whether" or "to"."""
    found = []
    for line in _rows(_WORDS["clause_verbs"]):
        entry, english, kinds = _cut(r"(.+?) = (.+?) : (.+)", line)
        if kind in kinds.split():
            found.append(make_verb(entry, english, clauses=kinds.split()))
    return tuple(found)


@cache
def auxiliary(infinitive: str) -> Verb:
    """Return haben, sein or werden, with its English as a full verb."""
    english = {"haben": "have", "sein": "be", "werden": "become"}[infinitive]
    return make_verb(infinitive + ("" if infinitive == "haben" else "*"), english)


@dataclass(frozen=True)
class Modal:
    """A modal verb: German forms, English words in present and past (past may be None)."""

    german: Verb = field(repr=False)
    present: tuple[str, ...] = ()
    past: tuple[str, ...] | None = None


@cache
def modals() -> dict[str, Modal]:
    """Return the modals by infinitive."""
    found = {}
    for line in _rows(_WORDS["modals"]):
        german, forms = line.split(" = ")
        present, past = forms.split()
        found[german] = Modal(
            make_verb(german, "be"), tuple(present.split("_")), None if past == "-" else tuple(past.split("_"))
        )
    return found


# ---------------------------------------------------------------- numbers

_GERMAN_UNITS, _GERMAN_TENS, _ENGLISH_UNITS, _ENGLISH_TENS = (
    _WORDS["numbers"][name].split() for name in ("german", "german_tens", "english", "english_tens")
)
_GERMAN_ORDINALS, _ENGLISH_ORDINALS = (
    dict(_cells(_WORDS["numbers"][f"{one}_ordinals"])) for one in ("german", "english")
)


def number_words(number: int) -> tuple[str, str]:
    """Return a number from 2 to 999 in German and English words: 125 is "hundertfünfundzwanzig"."""
    hundreds, rest = divmod(number, 100)
    german, english = [], []
    if hundreds:
        german.append("" if hundreds == 1 else _GERMAN_UNITS[hundreds])
        german.append("hundert")
        english += [_ENGLISH_UNITS[hundreds], "hundred"] + ["and"] * bool(rest)
    tens, unit = divmod(rest, 10)
    if 0 < rest < 20:
        german.append(_GERMAN_UNITS[rest])
        english.append(_ENGLISH_UNITS[rest])
    elif rest:
        german.append((_GERMAN_UNITS[unit] + "und" if unit else "") + _GERMAN_TENS[tens - 2])
        english.append("-".join([_ENGLISH_TENS[tens - 2], *([_ENGLISH_UNITS[unit]] if unit else [])]))
    return "".join(german), " ".join(english)


def ordinal_words(number: int) -> tuple[str, str]:
    """Return an ordinal from 1 to 99, the German one as it stands after "am": ("dritten", "third")."""
    german, english = ("ein", "one") if number == 1 else number_words(number)
    stem = _GERMAN_ORDINALS.get(str(number)) or german + ("t" if number < 20 else "st")
    tens, _, unit = english.rpartition("-")
    unit = _ENGLISH_ORDINALS.get(unit) or re.sub("y$", "ie", unit) + "th"
    return stem + "en", f"{tens}-{unit}" if tens else unit
