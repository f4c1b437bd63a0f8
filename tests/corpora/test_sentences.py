"""Sentences of several clauses: word order and links, written by hand."""

import pytest

from keras_attn_zoo.corpora.synthetic import lexicon
from keras_attn_zoo.corpora.synthetic.grammar import (
    Clause,
    Constituent,
    Coordination,
    Gap,
    Name,
    NounPhrase,
    Polite,
    Pronoun,
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
)
from tests.corpora.written import ACCUSATIVE, DATIVE, ER, NOUNS, SHE, accusative, check, clause, phrase


def test_fronted_subordinate_clause():
    dependent = subordinate("nachdem|after", clause(SHE, "ankommen", "pluperfect"))
    check(
        preceded(dependent, clause(ER, "einschlafen", "perfect")),
        "Nachdem sie angekommen war, ist er eingeschlafen.",
        "After she had arrived, he fell asleep.",
        "Nachdem-After sie-she angekommen-arrived war-had ,-, er-he eingeschlafen-fell eingeschlafen-asleep",
        "ist-fell",
    )


def test_infinitive_with_zu():
    verb = next(verb for verb in lexicon.clause_verbs("to") if verb.infinitive == "versuchen")
    subject = Pronoun(SHE)
    infinitive = clause(Gap(subject), "lesen", "present", accusative("Brief")).infinitive()
    check(
        followed(Clause(subject, verb).main(), infinitive),
        "Sie versucht, den Brief zu lesen.",
        "She tries to read the letter.",
        "Sie-She versucht-tries den-the Brief-letter zu-to lesen-read",
    )


def test_purpose_with_separable_verb():
    subject = Pronoun(ER)
    aim = clause(Gap(subject), "abholen", "present", accusative("Hund"))
    check(
        purpose(clause(subject, "kommen", "perfect").main(), aim),
        "Er ist gekommen, um den Hund abzuholen.",
        "He came in order to pick up the dog.",
        "Er-He gekommen-came um-in um-order den-the Hund-dog abzuholen-to abzuholen-pick abzuholen-up",
        "ist-came",
    )


def test_coordination_of_clauses_verbs_and_phrases():
    first, second = clause(ER, "singen").main(), clause(SHE, "tanzen").main()
    check(
        join(first, comma(english=True), gloss("aber|but"), second),
        "Er singt, aber sie tanzt.",
        "He sings, but she dances.",
        "Er-He singt-sings ,-, aber-but sie-she tanzt-dances",
    )
    subject = Coordination(phrase("Vater"), Name("Anna", "f"), "als_auch|and", "sowohl|both")
    rest = clause(Gap(subject), "tanzen").main()
    check(
        join(clause(subject, "singen").main(), both("und", "and"), rest),
        "Sowohl der Vater als auch Anna singen und tanzen.",
        "Both the father and Anna sing and dance.",
        "Sowohl-Both der-the Vater-father als-and auch-and Anna-Anna singen-sing und-and tanzen-dance",
    )


def test_passive_in_three_forms():
    def window(tense, *constituents, **options):
        return clause(phrase("Fenster"), "öffnen", tense, *constituents, passive=True, **options).main()

    check(
        window("preterite", complement(lexicon.Slot("d", "von", "by"), phrase("Lehrer"))),
        "Das Fenster wurde vom Lehrer geöffnet.",
        "The window was opened by the teacher.",
        "Das-The Fenster-window wurde-was vom-by vom-the Lehrer-teacher geöffnet-opened",
    )
    check(
        window("perfect"),
        "Das Fenster ist geöffnet worden.",
        "The window was opened.",
        "Das-The Fenster-window ist-was geöffnet-opened worden-was",
    )
    check(
        window("present", modal=lexicon.modals()["müssen"]),
        "Das Fenster muss geöffnet werden.",
        "The window has to be opened.",
        "Das-The Fenster-window muss-has geöffnet-opened werden-be",
        "muss-to",
    )


def test_predicate_comparison_and_profession():
    being = lexicon.auxiliary("sein")

    def is_(subject, predicate, **options):
        return clause(subject, being, "present", Constituent(predicate, "predicate", "predicate"), **options).main()

    check(
        is_(phrase("Haus"), gloss("sehr|very alt|old"), negated=True),
        "Das Haus ist nicht sehr alt.",
        "The house is not very old.",
        "Das-The Haus-house ist-is nicht-not sehr-very alt-old",
    )
    better = lexicon.adjective("schön", "place").comparative
    other, _ = phrase("Kirche").realise("n")
    check(
        is_(phrase("Haus"), join(both(*better), both("als", "than"), other)),
        "Das Haus ist schöner als die Kirche.",
        "The house is more beautiful than the church.",
        "Das-The Haus-house ist-is schöner-more schöner-beautiful als-than die-the Kirche-church",
    )
    check(
        is_(SHE, gloss("|a Ingenieurin|engineer")),
        "Sie ist Ingenieurin.",
        "She is an engineer.",
        "Sie-She ist-is Ingenieurin-engineer",
    )


def test_existence():
    def dog():
        return phrase("Hund", "a", "alt"), Constituent(gloss("in|in Rom|Rome"), "place", "place")

    links = "es-there gab-was einen-an alten-old Hund-dog in-in Rom-Rome"
    check(
        existential(*dog(), "preterite", place_first=False),
        "Es gab in Rom einen alten Hund.",
        "There was an old dog in Rome.",
        links.replace("es-there", "Es-There"),
    )
    check(
        existential(*dog(), "preterite", place_first=True),
        "In Rom gab es einen alten Hund.",
        "In Rome, there was an old dog.",
        links.replace("in-in", "In-In"),
    )


def test_polite_request():
    check(
        request(clause(Polite(), "anrufen", "present", accusative("Lehrer"))),
        "Bitte rufen Sie den Lehrer an!",
        "Please call the teacher!",
        "Bitte-Please rufen-call den-the Lehrer-teacher an-call",
        mark="!",
    )


def test_reported_clause_with_another_inside():
    report = clause(ER, next(verb for verb in lexicon.clause_verbs("that") if verb.infinitive == "glauben"))
    inner = followed(
        subordinate("dass|that", clause(SHE, "kommen")), subordinate("wenn|when", clause(phrase("Kind"), "schlafen"))
    )
    check(
        followed(report.main(), inner),
        "Er glaubt, dass sie kommt, wenn das Kind schläft.",
        "He believes that she comes when the child sleeps.",
        "Er-He glaubt-believes dass-that sie-she kommt-comes wenn-when das-the Kind-child schläft-sleeps",
    )


def test_names_numbers_and_frequency():
    annas = NounPhrase(NOUNS["Hund"], lexicon.owned_by("Anna"))
    pages = NounPhrase(NOUNS["Brief"], lexicon.counting(125), plural=True)
    check(
        clause(Name("Müller", "m", title=True), "lesen", "present", complement(ACCUSATIVE, pages)).main(),
        "Herr Müller liest hundertfünfundzwanzig Briefe.",
        "Mr Müller reads one hundred and twenty-five letters.",
        "Herr-Mr Müller-Müller liest-reads hundertfünfundzwanzig-one hundertfünfundzwanzig-hundred "
        "hundertfünfundzwanzig-and hundertfünfundzwanzig-twenty-five Briefe-letters",
    )
    title = complement(DATIVE, Name("Müller", "m", title=True))
    check(
        clause(annas, "folgen", "perfect", title, frequency="oft|often").main(),
        "Annas Hund ist oft Herrn Müller gefolgt.",
        "Anna's dog often followed Mr Müller.",
        "Annas-Anna's Hund-dog oft-often Herrn-Mr Müller-Müller gefolgt-followed",
        "ist-followed",
    )


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("apple", "an"),
        ("honey cake", "a"),
        ("honest man", "an"),
        ("university", "a"),
        ("unusual idea", "an"),
        ("useful tool", "a"),
        ("onion", "an"),
        ("old dog", "an"),
    ],
)
def test_a_or_an(word, expected):
    assert finish(both("ein Ding", f"a {word}")).target_words[0] == expected.capitalize()
