"""The synthetic corpus: sentences written by hand, agreement, determinism, files."""

import re
from itertools import pairwise

import pytest

from keras_attn_zoo.data import synthetic_lexicon as lexicon
from keras_attn_zoo.data.synthetic import (
    SyntheticPair,
    generate_corpus,
    generate_splits,
    split_words,
    write_corpus,
)
from keras_attn_zoo.data.synthetic_grammar import (
    Clause,
    Constituent,
    Coordination,
    Fixed,
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
    possessive,
    preceded,
    prepositional,
    purpose,
    relative_pronoun,
    request,
    subordinate,
)
from keras_attn_zoo.errors import UserError
from keras_attn_zoo.evaluation.alignments import read_alignments

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


# ---------------------------------------------------------------- constructions


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


# ---------------------------------------------------------------- morphology


DECLENSION = """
the alt Mann            der alte Mann/den alten Mann/dem alten Mann/des alten Mannes
a alt Mann              ein alter Mann/einen alten Mann/einem alten Mann/eines alten Mannes
the klug Student        der kluge Student/den klugen Studenten/dem klugen Studenten/des klugen Studenten
the jung Frau           die junge Frau/die junge Frau/der jungen Frau/der jungen Frau
no jung Frau            keine junge Frau/keine junge Frau/keiner jungen Frau/keiner jungen Frau
a neu Haus              ein neues Haus/ein neues Haus/einem neuen Haus/eines neuen Hauses
this dunkel Haus        dieses dunkle Haus/dieses dunkle Haus/diesem dunklen Haus/dieses dunklen Hauses
"" frisch Brot          frisches Brot/frisches Brot/frischem Brot/frischen Brots
"" heiß Milch           heiße Milch/heiße Milch/heißer Milch/heißer Milch
"" stark Kaffee         starker Kaffee/starken Kaffee/starkem Kaffee/starken Kaffees
"""
PLURALS = """
the alt Haus            die alten Häuser/die alten Häuser/den alten Häusern/der alten Häuser
many alt Haus           viele alte Häuser/viele alte Häuser/vielen alten Häusern/vieler alter Häuser
all klug Ärztin         alle klugen Ärztinnen/alle klugen Ärztinnen/allen klugen Ärztinnen/aller klugen Ärztinnen
no teuer Auto           keine teuren Autos/keine teuren Autos/keinen teuren Autos/keiner teuren Autos
"""


@pytest.mark.parametrize("plural", [False, True])
def test_declension(plural):
    for line in (PLURALS if plural else DECLENSION).strip().split("\n"):
        entry, forms = re.split(r"\s{2,}", line)
        determiner, adjective, noun = entry.replace('""', "|").split()
        inflected = phrase(noun, determiner.strip("|"), adjective, plural=plural)
        found = [" ".join(word.text for word in inflected.realise(case)[0].german) for case in "nadg"]
        assert "/".join(found) == forms


def test_plurals_of_nouns():
    expected = "Apfel=Äpfel Haus=Häuser Mutter=Mütter Baumwollsocke=Baumwollsocken Freundin=Freundinnen Bus=Busse "
    expected += "Garten=Gärten Museum=Museen Fuchs=Füchse Zeugnis=Zeugnisse Haustür=Haustüren Bahnhof=Bahnhöfe"
    for pair in expected.split():
        lemma, plural = pair.split("=")
        assert NOUNS[lemma].plural["n"] == plural
    english = {"Kind": "children", "Dieb": "thieves", "Frau": "women", "Stadt": "towns", "Einladung": "invitations"}
    english |= {"Bäckerei": "bakeries", "Bus": "buses", "Reithose": "pairs of riding trousers", "Schaf": "sheep"}
    assert {lemma: NOUNS[lemma].english_plural for lemma in english} == english


# infinitive: du, er, ihr in the present; ich, wir in the preterite; participle; zu-infinitive
CONJUGATION = """
anrufen         rufst ruft ruft rief riefen angerufen anzurufen
lesen           liest liest lest las lasen gelesen zu lesen
fahren          fährst fährt fahrt fuhr fuhren gefahren zu fahren
arbeiten        arbeitest arbeitet arbeitet arbeitete arbeiteten gearbeitet zu arbeiten
öffnen          öffnest öffnet öffnet öffnete öffneten geöffnet zu öffnen
einladen        lädst lädt ladet lud luden eingeladen einzuladen
festhalten      hältst hält haltet hielt hielten festgehalten festzuhalten
verstehen       verstehst versteht versteht verstand verstanden verstanden zu verstehen
reparieren      reparierst repariert repariert reparierte reparierten repariert zu reparieren
sammeln         sammelst sammelt sammelt sammelte sammelten gesammelt zu sammeln
vorbereiten     bereitest bereitet bereitet bereitete bereiteten vorbereitet vorzubereiten
schreien        schreist schreit schreit schrie schrien geschrien zu schreien
putzen          putzt putzt putzt putzte putzten geputzt zu putzen
bringen         bringst bringt bringt brachte brachten gebracht zu bringen
"""


def test_conjugation():
    for line in CONJUGATION.strip().split("\n"):
        infinitive, expected = line.split(maxsplit=1)
        verb = VERBS[infinitive]
        present, preterite = verb.present, verb.preterite
        forms = [present[1], present[2], present[4], preterite[0], preterite[3], verb.participle, *verb.zu]
        assert " ".join(forms) == expected
    assert VERBS["sammeln"].present[0] == "sammle"


def test_no_participle_has_both_ge_and_an_inseparable_prefix():
    inseparable = re.compile(r"ge(be|er|ent|ver|zer|über|unter)\w{3,}t$")
    regular = {"gebellt", "geerntet", "gebeten"}
    assert not [v.participle for v in VERBS.values() if inseparable.match(v.participle) and v.participle not in regular]


def test_english_verbs():
    forms = {
        base: (lexicon.english_verb(base).third, lexicon.english_verb(base).past)
        for base in ("carry", "play", "catch", "stop", "write", "smile", "do", "have", "visit", "plan", "fix")
    }
    assert forms == {
        "carry": ("carries", "carried"),
        "play": ("plays", "played"),
        "catch": ("catches", "caught"),
        "stop": ("stops", "stopped"),
        "write": ("writes", "wrote"),
        "smile": ("smiles", "smiled"),
        "do": ("does", "did"),
        "have": ("has", "had"),
        "visit": ("visits", "visited"),
        "plan": ("plans", "planned"),
        "fix": ("fixes", "fixed"),
    }


def test_comparatives():
    found = {
        a.german: a.comparative for kind in ("person", "place", "idea", "food") for a in lexicon.adjectives_of(kind)
    }
    assert found["alt"] == ("älter", "older")
    assert found["dunkel"] == ("dunkler", "darker")
    assert found["teuer"] == ("teurer", "more expensive")
    assert found["müde"] == ("müder", "more tired")
    assert found["lustig"] == ("lustiger", "funnier")
    assert found["traurig"] == ("trauriger", "sadder")
    assert found["gut"] == ("besser", "better")
    assert found["blind"] is None


def test_possessives_follow_gender_in_german_and_sense_in_english():
    def of(owner):
        determiner = possessive(owner)
        return determiner.form("m", "a"), determiner.singular

    assert of(phrase("Frau")) == ("ihren", "her")
    assert of(phrase("Mann")) == ("seinen", "his")
    assert of(phrase("Mädchen")) == ("seinen", "her")
    assert of(phrase("Katze")) == ("ihren", "its")
    assert of(phrase("Mann", plural=True)) == ("ihren", "their")
    assert of(Pronoun(IHR)) == ("euren", "your")
    assert of(Polite()) == ("Ihren", "your")
    assert of(Gap(phrase("Frau"))) == ("ihren", "her")


def test_number_words():
    known = {
        2: ("zwei", "two"),
        17: ("siebzehn", "seventeen"),
        21: ("einundzwanzig", "twenty-one"),
        30: ("dreißig", "thirty"),
        100: ("hundert", "one hundred"),
        216: ("zweihundertsechzehn", "two hundred and sixteen"),
    }
    assert {number: lexicon.number_words(number) for number in known} == known
    ordinals = {1: ("ersten", "first"), 3: ("dritten", "third"), 20: ("zwanzigsten", "twentieth")}
    ordinals |= {12: ("zwölften", "twelfth"), 21: ("einundzwanzigsten", "twenty-first")}
    assert {number: lexicon.ordinal_words(number) for number in ordinals} == ordinals


def test_every_noun_class_a_verb_asks_for_has_nouns():
    kinds = {kind for verb in VERBS.values() for frame in verb.frames for slot in frame.slots for kind in slot.kinds}
    kinds |= {kind for verb in VERBS.values() for frame in verb.frames for kind in frame.subjects}
    assert kinds <= set(lexicon.NOUNS) | set(lexicon.NOUN_SETS)


# ---------------------------------------------------------------- the corpus


@pytest.fixture(scope="module")
def corpus():
    return generate_corpus(4000, seed=11)


def test_the_same_numbers_give_the_same_corpus_and_more_start_with_fewer(corpus):
    assert generate_corpus(300, seed=11) == corpus[:300]
    assert generate_corpus(50, seed=12) != corpus[:50]


def test_words_links_and_lengths(corpus):
    for pair in corpus:
        assert split_words(pair.source) == list(pair.source_words)
        assert split_words(pair.target) == list(pair.target_words)
        sizes = (len(pair.source_words), len(pair.target_words))
        assert all(4 <= size <= 25 for size in sizes)
        links = pair.alignment | pair.possible
        assert all(0 <= j < sizes[0] and 0 <= i < sizes[1] for j, i in links)
        assert not pair.alignment & pair.possible
        assert (sizes[0] - 1, sizes[1] - 1) in pair.alignment


def test_raw_text_is_ordinary(corpus):
    for pair in corpus:
        for text in (pair.source, pair.target):
            assert text[0].isupper()
            assert re.fullmatch(r"\S.*[.?!]", text)
            assert not re.search(r"\s[,.?!]|[,.?!]{2}|  ", text)


def test_a_german_sentence_that_is_drawn_again_is_left_out(monkeypatch):
    drawn = iter(pair for pair in generate_corpus(10) for _ in range(2))
    monkeypatch.setattr("keras_attn_zoo.data.synthetic._Sampler.sentence", lambda self: next(drawn))
    assert len({pair.source for pair in generate_corpus(10)}) == 10


def test_no_german_sentence_comes_twice(corpus):
    assert len({pair.source for pair in corpus}) == len(corpus)


def test_word_types_are_many(corpus):
    assert len({word for pair in corpus for word in pair.source_words}) > 4500
    assert len({word for pair in corpus for word in pair.target_words}) > 2500


def test_every_pattern_occurs_and_lengths_vary(corpus):
    patterns = {pair.construction for pair in corpus}
    assert len(patterns) == 19
    lengths = [len(pair.source_words) for pair in corpus]
    assert 10 <= sum(lengths) / len(lengths) <= 14
    assert sum(length >= 18 for length in lengths) > 0.1 * len(lengths)


def test_content_words_are_linked_to_their_dictionary_translation(corpus):
    """Every link of a German noun goes to a word of one of its English forms."""
    english = {}
    for noun in NOUNS.values():
        for forms, translation in ((noun.singular, noun.english), (noun.plural or {}, noun.english_plural)):
            for form in forms.values():
                english.setdefault(form, set()).update(translation.split())
    checked = 0
    for pair in corpus:
        linked = {}
        for j, i in pair.alignment:
            linked.setdefault(j, set()).add(pair.target_words[i].lower())
        for j, word in enumerate(pair.source_words[1:], start=1):
            title = {"Herr", "Herrn", "Frau"} & {word, pair.source_words[j - 1]}
            if word in english and not title:
                known = {form.lower() for form in english[word]}
                plain = {re.sub(r"'s?$", "", form) for form in linked[j]} | linked[j]
                assert plain & known, (pair.source, word, linked[j])
                checked += 1
    assert checked > 5000


def test_articles_agree_after_dative_prepositions(corpus):
    """After "mit", "von" and "bei" no determiner has a nominative or accusative form."""
    wrong = {"das", "die", "ein", "eine", "einen"}  # "den" may be a dative plural
    for pair in corpus:
        for first, second in pairwise(word.lower() for word in pair.source_words):
            if first in ("mit", "von", "bei"):
                assert second not in wrong, pair.source


def test_verb_is_last_in_subordinate_clauses(corpus):
    finite = {form for v in VERBS.values() for form in (*v.present, *v.preterite)}
    finite |= {v.prefix + form for v in VERBS.values() for form in (*v.present, *v.preterite)}
    others = [lexicon.auxiliary(name) for name in ("haben", "sein", "werden")]
    others += [modal.german for modal in lexicon.modals().values()]
    finite |= {form for v in others for form in (*v.present, *v.preterite)}
    found = 0
    for pair in corpus:
        match = re.search(r", (weil|obwohl|bevor|falls) ([^,]+)\.$", pair.source)
        if match:
            assert match[2].split()[-1] in finite, pair.source
            found += 1
    assert found > 50


def test_splits_are_disjoint_and_share_words():
    splits = generate_splits(3000, 100, 200, seed=4)
    assert [len(splits[name]) for name in ("train", "valid", "test")] == [3000, 100, 200]
    sources = [pair.source for pairs in splits.values() for pair in pairs]
    assert len(set(sources)) == len(sources)
    known = {word.lower() for pair in splits["train"] for word in pair.source_words}
    words = [word.lower() for pair in splits["test"] for word in pair.source_words]
    assert sum(word in known for word in words) > 0.95 * len(words)


def test_more_training_pairs_leave_the_test_set_alone():
    small, large = generate_splits(20, 10, 10), generate_splits(60, 10, 10)
    assert small["test"] == large["test"]
    assert small["train"] == large["train"][:20]


def test_files_say_what_the_pairs_say(tmp_path):
    splits = generate_splits(30, 5, 7, seed=2)
    folder = tmp_path / "corpus"
    write_corpus(folder, splits)
    assert len(list(folder.iterdir())) == 9
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]
    for name, pairs in splits.items():
        lines = {side: (folder / f"{name}.{side}").read_text(encoding="utf-8").splitlines() for side in ("de", "en")}
        assert lines["de"] == [pair.source for pair in pairs]
        assert lines["en"] == [pair.target for pair in pairs]
        alignments = read_alignments(folder / f"{name}.align")
        assert [alignment.sure for alignment in alignments] == [pair.alignment for pair in pairs]
        possible = [alignment.possible - alignment.sure for alignment in alignments]
        assert possible == [pair.possible for pair in pairs]


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="no empty folder"):
        write_corpus(tmp_path, generate_splits(2, 1, 1))
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_limits_of_length_hold():
    pairs = generate_corpus(30, seed=1, min_words=15, max_words=18)
    assert all(15 <= len(pair.source_words) <= 18 and 15 <= len(pair.target_words) <= 18 for pair in pairs)


def test_a_pair_is_a_value():
    first, second = generate_corpus(1), generate_corpus(1)
    assert isinstance(first[0], SyntheticPair)
    assert len({first[0], second[0]}) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(size=-1), "size is -1"),
        (dict(size=2.5), "size is 2.5"),
        (dict(size=1, seed=None), "seed is None"),
        (dict(size=1, min_words=9, max_words=5), "max_words is 5"),
        (dict(size=1, min_words=90, max_words=95), "no more sentences of 90 to 95 words"),
    ],
)
def test_what_cannot_be_made_raises(arguments, message):
    with pytest.raises(UserError, match=message):
        generate_corpus(**arguments)
