"""Clauses and phrases of the grammar: word order and links, written by hand."""

import pytest

from keras_attn_zoo.corpora.synthetic import lexicon
from keras_attn_zoo.corpora.synthetic.grammar import (
    Constituent,
    Fixed,
    NounPhrase,
    Pronoun,
    complement,
    finish,
    followed,
    gloss,
    preceded,
    prepositional,
    relative_pronoun,
    subordinate,
)
from tests.corpora.written import (
    ACCUSATIVE,
    DATIVE,
    DU,
    ER,
    ICH,
    NOUNS,
    SHE,
    THEY,
    WIR,
    accusative,
    adverbial,
    check,
    clause,
    phrase,
)


def test_perfect_negated_with_inversion():
    front = adverbial("gestern|yesterday")
    sentence = clause(phrase("Lehrer", "the", "alt"), "lesen", "perfect", front, accusative("Brief"), negated=True)
    pair = check(
        sentence.main(front),
        "Gestern hat der alte Lehrer den Brief nicht gelesen.",
        "Yesterday the old teacher did not read the letter.",
        "Gestern-Yesterday hat-did der-the alte-old Lehrer-teacher den-the Brief-letter nicht-not gelesen-read",
    )
    links = {(0, 0), (1, 4), (2, 1), (3, 2), (4, 3), (5, 7), (6, 8), (7, 5), (8, 6), (9, 9)}
    assert pair.alignment == links


def test_perfect_with_sein():
    direction = Constituent(gloss("nach|to Wien|Vienna"), "direction", "direction")
    check(
        clause(WIR, "reisen", "perfect", direction).main(),
        "Wir sind nach Wien gereist.",
        "We travelled to Vienna.",
        "Wir-We nach-to Wien-Vienna gereist-travelled",
        "sind-travelled",
    )


def test_separable_verb():
    check(
        clause(ER, "anrufen", "present", accusative("Freund")).main(),
        "Er ruft den Freund an.",
        "He calls the friend.",
        "Er-He ruft-calls an-calls den-the Freund-friend",
    )


def test_separable_verb_joins_at_the_end_and_its_pronoun_precedes_the_particle():
    dependent = clause(phrase("Lehrerin"), "abholen", "present", complement(ACCUSATIVE, Pronoun(ER)))
    check(
        followed(clause(SHE, "lachen").main(), subordinate("weil|because", dependent)),
        "Sie lacht, weil die Lehrerin ihn abholt.",
        "She laughs because the teacher picks him up.",
        "Sie-She lacht-laughs weil-because die-the Lehrerin-teacher ihn-him abholt-picks abholt-up",
    )


@pytest.mark.parametrize(
    ("verb", "german", "english"),
    [("aufmachen", "auf", "opens up"), ("zumachen", "zu", "shuts")],
)
def test_the_prefix_decides_the_verb(verb, german, english):
    pair = finish(clause(ER, verb, "present", accusative("Tür")).main())
    assert (pair.source, pair.target) == (f"Er macht die Tür {german}.", f"He {english} the door.")


def test_fronted_object_goes_back_in_english():
    front = accusative("Brief")
    check(
        clause(phrase("Lehrerin"), "unterschreiben", "perfect", front, adverbial("gestern|yesterday")).main(front),
        "Den Brief hat die Lehrerin gestern unterschrieben.",
        "The teacher signed the letter yesterday.",
        "Den-the Brief-letter die-The Lehrerin-teacher gestern-yesterday unterschrieben-signed",
        "hat-signed",
    )


def test_modal_with_final_infinitive():
    check(
        clause(ICH, "kaufen", "present", accusative("Hut"), modal=lexicon.modals()["müssen"]).main(),
        "Ich muss den Hut kaufen.",
        "I have to buy the hat.",
        "Ich-I muss-have den-the Hut-hat kaufen-buy",
        "muss-to",
    )


def test_modal_in_a_negated_subordinate_clause():
    modal = lexicon.modals()["wollen"]
    dependent = clause(THEY, "kaufen", "preterite", accusative("Hut"), modal=modal, negated=True)
    check(
        followed(clause(ER, "weinen", "perfect").main(), subordinate("weil|because", dependent)),
        "Er hat geweint, weil sie den Hut nicht kaufen wollten.",
        "He cried because they did not want to buy the hat.",
        "Er-He geweint-cried weil-because sie-they den-the Hut-hat nicht-not kaufen-buy wollten-want",
        "hat-cried wollten-did wollten-to",
    )


def test_future():
    check(
        clause(DU, "tanzen", "future").main(),
        "Du wirst tanzen.",
        "You will dance.",
        "Du-You wirst-will tanzen-dance",
    )


def test_kein_is_no():
    check(
        clause(ER, "kaufen", "preterite", accusative("Hut", "no")).main(),
        "Er kaufte keinen Hut.",
        "He bought no hat.",
        "Er-He kaufte-bought keinen-no Hut-hat",
    )


def test_compound_and_article_before_a_vowel():
    check(
        clause(ER, "öffnen", "present", accusative("Haustür", "a", "alt")).main(),
        "Er öffnet eine alte Haustür.",
        "He opens an old front door.",
        "Er-He öffnet-opens eine-an alte-old Haustür-front Haustür-door",
    )


def test_yes_no_question_with_do():
    check(
        clause(phrase("Kind"), "schlafen").question(),
        "Schläft das Kind?",
        "Does the child sleep?",
        "Schläft-sleep das-the Kind-child",
        "Schläft-Does",
        mark="?",
    )


def test_question_for_the_object():
    front = complement(lexicon.Slot("a", "auf", "for"), Fixed("wen", "whom"))
    check(
        clause(DU, "warten", "present", front).question(front),
        "Auf wen wartest du?",
        "For whom do you wait?",
        "Auf-For wen-whom wartest-wait du-you",
        "wartest-do",
        mark="?",
    )


def test_question_for_the_subject_needs_no_do():
    check(
        clause(Fixed("wer", "who"), "lesen", "perfect", accusative("Buch")).main(),
        "Wer hat das Buch gelesen?",
        "Who read the book?",
        "Wer-Who das-the Buch-book gelesen-read",
        "hat-read",
        mark="?",
    )


def object_relative(extraposed):
    letter = phrase("Brief")
    front = complement(ACCUSATIVE, relative_pronoun(letter, "a", "that"))
    front.fronts = True
    letter.relative = clause(SHE, "schreiben", "perfect", front).final(front)
    letter.extraposed = extraposed
    return letter


RELATIVE_LINKS = "Er-He den-the Brief-letter den-that sie-she geschrieben-wrote gelesen-read"


@pytest.mark.parametrize(
    ("extraposed", "german"),
    [
        (False, "Er hat den Brief, den sie geschrieben hat, gelesen."),
        (True, "Er hat den Brief gelesen, den sie geschrieben hat."),
    ],
)
def test_relative_clause(extraposed, german):
    constituent = complement(ACCUSATIVE, object_relative(extraposed))
    check(
        clause(ER, "lesen", "perfect", constituent).main(),
        german,
        "He read the letter that she wrote.",
        RELATIVE_LINKS,
        "hat-wrote hat-read",
    )


def test_relative_clause_stays_before_another_noun():
    place = Constituent(*prepositional("in", "in", phrase("Garten"), "d")[:1], "place", "place")
    constituent = complement(ACCUSATIVE, object_relative(extraposed=True))
    pair = finish(clause(ER, "lesen", "perfect", constituent, place).main())
    assert pair.source == "Er hat den Brief, den sie geschrieben hat, im Garten gelesen."


def test_two_commas_become_one_that_keeps_its_link():
    constituent = complement(ACCUSATIVE, object_relative(extraposed=True))
    dependent = subordinate("weil|because", clause(ER, "lesen", "preterite", constituent))
    check(
        preceded(dependent, clause(ICH, "lachen", "preterite")),
        "Weil er den Brief las, den sie geschrieben hat, lachte ich.",
        "Because he read the letter that she wrote, I laughed.",
        "Weil-Because er-he den-the Brief-letter las-read den-that sie-she geschrieben-wrote ,-, lachte-laughed ich-I",
        "hat-wrote",
    )


def test_relative_clause_of_a_subject_and_of_an_owner():
    man = phrase("Mann")
    dog = NounPhrase(NOUNS["Hund"], lexicon.WHOSE["dessen"])
    man.relative = clause(dog, "bellen").final()
    check(
        clause(man, "lachen").main(),
        "Der Mann, dessen Hund bellt, lacht.",
        "The man whose dog barks laughs.",
        "Der-The Mann-man dessen-whose Hund-dog bellt-barks lacht-laughs",
    )


def test_contracted_preposition_links_to_both_words():
    place, _ = prepositional("in", "in", phrase("Garten"), "d")
    check(
        clause(SHE, "arbeiten", "present", Constituent(place, "place", "place")).main(),
        "Sie arbeitet im Garten.",
        "She works in the garden.",
        "Sie-She arbeitet-works im-in im-the Garten-garden",
    )


@pytest.mark.parametrize(
    ("preposition", "lemma", "case", "german"),
    [
        ("in", "Garten", "d", "im Garten"),
        ("in", "Haus", "a", "ins Haus"),
        ("an", "See", "d", "am See"),
        ("zu", "Bahnhof", "d", "zum Bahnhof"),
        ("zu", "Brücke", "d", "zur Brücke"),
        ("von", "Kind", "d", "vom Kind"),
        ("bei", "Arzt", "d", "beim Arzt"),
        ("in", "Schule", "d", "in der Schule"),
        ("auf", "Dach", "d", "auf dem Dach"),
    ],
)
def test_contractions(preposition, lemma, case, german):
    fragment, _ = prepositional(preposition, "at", phrase(lemma), case)
    assert " ".join(word.text for word in fragment.german) == german


def test_fronted_place_takes_a_comma_in_english():
    fragment, _ = prepositional("an", "at", phrase("See", "this"), "d")
    front = Constituent(fragment, "place", "place", comma=True)
    check(
        clause(SHE, "schlafen", "preterite", front).main(front),
        "An diesem See schlief sie.",
        "At this lake, she slept.",
        "An-At diesem-this See-lake schlief-slept sie-she",
    )


def test_indirect_object_and_dative_with_to():
    book = accusative("Buch", "a")
    check(
        clause(ER, "geben", "present", complement(DATIVE, phrase("Kind")), book).main(),
        "Er gibt dem Kind ein Buch.",
        "He gives the child a book.",
        "Er-He gibt-gives dem-the Kind-child ein-a Buch-book",
    )
    plan = accusative("Plan")
    check(
        clause(ER, "erklären", "present", complement(lexicon.Slot("d", "", "to"), phrase("Kind")), plan).main(),
        "Er erklärt dem Kind den Plan.",
        "He explains the plan to the child.",
        "Er-He erklärt-explains dem-the Kind-child den-the Plan-plan",
    )


def test_reflexive_verb():
    event = complement(lexicon.Slot("a", "auf", "to"), phrase("Konzert"))
    check(
        clause(ICH, "sich freuen", "present", event).main(),
        "Ich freue mich auf das Konzert.",
        "I look forward to the concert.",
        "Ich-I freue-look freue-forward auf-to das-the Konzert-concert",
        "mich-look",
    )


def test_genitive_changes_places():
    house = phrase("Haus", owner=phrase("Lehrer", plural=True))
    check(
        clause(ICH, "sehen", "present", complement(ACCUSATIVE, house)).main(),
        "Ich sehe das Haus der Lehrer.",
        "I see the teachers' house.",
        "Ich-I sehe-see Haus-house der-the Lehrer-teachers'",
    )
