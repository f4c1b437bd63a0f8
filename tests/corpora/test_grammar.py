"""The grammar of the generated corpus: sentences with their links, and forms of words, written by hand."""

import re

import pytest

from keras_attn_zoo.corpora.synthetic import lexicon
from keras_attn_zoo.corpora.synthetic.grammar import (
    POLITE,
    Clause,
    Constituent,
    Coordination,
    Fixed,
    Name,
    NounPhrase,
    Pronoun,
    both,
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


def fronted(front, subject, verb, tense, *constituents, order=Clause.main, **options):
    """A clause that begins with one of its constituents."""
    return order(clause(subject, verb, tense, front, *constituents, **options), front)


def with_clause(verb, kind):
    return next(one for one in lexicon.clause_verbs(kind) if one.infinitive == verb)


def letter_that_she_wrote(extraposed):
    letter = phrase("Brief", extraposed=extraposed)
    that = complement(ACCUSATIVE, relative_pronoun(letter, "a", "that"))
    that.fronts = True
    letter.relative = fronted(that, SHE, "schreiben", "perfect", order=Clause.final)
    return complement(ACCUSATIVE, letter)


def man_whose_dog_barks():
    dog = NounPhrase(NOUNS["Hund"], lexicon.WHOSE["dessen"])
    return phrase("Mann", relative=clause(dog, "bellen").final())


def place(preposition, english, *noun, **options):
    return Constituent(prepositional(preposition, english, phrase(*noun), "d")[0], "place", "place", **options)


def being(subject, predicate, **options):
    return clause(subject, lexicon.auxiliary("sein"), "present", adverbial(predicate, "predicate"), **options).main()


def window(tense, *constituents, **options):
    return clause(phrase("Fenster"), "öffnen", tense, *constituents, passive=True, **options).main()


def there_was_a_dog(place_first):
    rome = adverbial("in|in Rom|Rome", "place")
    return existential(phrase("Hund", "a", "alt"), rome, "preterite", place_first)


def both_sing_and_dance():
    subject = Coordination(phrase("Vater"), Name("Anna", "f"), "als_auch|and", "sowohl|both")
    return join(clause(subject, "singen").main(), both("und", "and"), clause(unsaid(subject), "tanzen").main())


YESTERDAY = "gestern|yesterday"
# Fragment, German, English, the sure links and, if there are any, the possible ones, word by word.
SENTENCES = [
    (
        fronted(
            adverbial(YESTERDAY), phrase("Lehrer", "the", "alt"), "lesen", "perfect", accusative("Brief"), negated=True
        ),
        "Gestern hat der alte Lehrer den Brief nicht gelesen.",
        "Yesterday the old teacher did not read the letter.",
        "Gestern-Yesterday hat-did der-the alte-old Lehrer-teacher den-the Brief-letter nicht-not gelesen-read",
    ),
    (
        clause(ER, "anrufen", "present", accusative("Freund")).main(),
        "Er ruft den Freund an.",
        "He calls the friend.",
        "Er-He ruft-calls an-calls den-the Freund-friend",
    ),
    (
        followed(
            clause(SHE, "lachen").main(),
            subordinate(
                "weil|because",
                clause(phrase("Lehrerin"), "abholen", "present", complement(ACCUSATIVE, Pronoun(ER))),
            ),
        ),
        "Sie lacht, weil die Lehrerin ihn abholt.",
        "She laughs because the teacher picks him up.",
        "Sie-She lacht-laughs weil-because die-the Lehrerin-teacher ihn-him abholt-picks abholt-up",
    ),
    (
        clause(ER, "aufmachen", "present", accusative("Tür")).main(),
        "Er macht die Tür auf.",
        "He opens up the door.",
        "Er-He macht-opens macht-up die-the Tür-door auf-opens auf-up",
    ),
    (
        fronted(accusative("Brief"), phrase("Lehrerin"), "unterschreiben", "perfect", adverbial(YESTERDAY)),
        "Den Brief hat die Lehrerin gestern unterschrieben.",
        "The teacher signed the letter yesterday.",
        "Den-the Brief-letter die-The Lehrerin-teacher gestern-yesterday unterschrieben-signed",
        "hat-signed",
    ),
    (
        clause(ICH, "kaufen", "present", accusative("Hut"), modal=lexicon.modals()["müssen"]).main(),
        "Ich muss den Hut kaufen.",
        "I have to buy the hat.",
        "Ich-I muss-have den-the Hut-hat kaufen-buy",
        "muss-to",
    ),
    (
        followed(
            clause(ER, "weinen", "perfect").main(),
            subordinate(
                "weil|because",
                clause(THEY, "kaufen", "preterite", accusative("Hut"), modal=lexicon.modals()["wollen"], negated=True),
            ),
        ),
        "Er hat geweint, weil sie den Hut nicht kaufen wollten.",
        "He cried because they did not want to buy the hat.",
        "Er-He geweint-cried weil-because sie-they den-the Hut-hat nicht-not kaufen-buy wollten-want",
        "hat-cried wollten-did wollten-to",
    ),
    (
        clause(ER, "öffnen", "present", accusative("Haustür", "a", "alt")).main(),
        "Er öffnet eine alte Haustür.",
        "He opens an old front door.",
        "Er-He öffnet-opens eine-an alte-old Haustür-front Haustür-door",
    ),
    (
        clause(phrase("Kind"), "schlafen").question(),
        "Schläft das Kind?",
        "Does the child sleep?",
        "Schläft-sleep das-the Kind-child",
        "Schläft-Does",
    ),
    (
        fronted(
            complement(lexicon.Slot("a", "auf", "for"), Fixed("wen", "whom")),
            DU,
            "warten",
            "present",
            order=Clause.question,
        ),
        "Auf wen wartest du?",
        "For whom do you wait?",
        "Auf-For wen-whom wartest-wait du-you",
        "wartest-do",
    ),
    (
        clause(Fixed("wer", "who"), "lesen", "perfect", accusative("Buch")).main(),
        "Wer hat das Buch gelesen?",
        "Who read the book?",
        "Wer-Who das-the Buch-book gelesen-read",
        "hat-read",
    ),
    *(
        (
            clause(ER, "lesen", "perfect", letter_that_she_wrote(extraposed)).main(),
            german,
            "He read the letter that she wrote.",
            "Er-He den-the Brief-letter den-that sie-she geschrieben-wrote gelesen-read",
            "hat-wrote hat-read",
        )
        for extraposed, german in (
            (False, "Er hat den Brief, den sie geschrieben hat, gelesen."),
            (True, "Er hat den Brief gelesen, den sie geschrieben hat."),
        )
    ),
    # Behind another noun, a relative clause stays with its own.
    (
        clause(ER, "lesen", "perfect", letter_that_she_wrote(True), place("in", "in", "Garten")).main(),
        "Er hat den Brief, den sie geschrieben hat, im Garten gelesen.",
        "He read the letter that she wrote in the garden.",
        "Er-He den-the Brief-letter den-that sie-she geschrieben-wrote im-in im-the Garten-garden gelesen-read",
        "hat-wrote hat-read",
    ),
    # Two commas become one that keeps its link.
    (
        preceded(
            subordinate("weil|because", clause(ER, "lesen", "preterite", letter_that_she_wrote(True))),
            clause(ICH, "lachen", "preterite"),
        ),
        "Weil er den Brief las, den sie geschrieben hat, lachte ich.",
        "Because he read the letter that she wrote, I laughed.",
        "Weil-Because er-he den-the Brief-letter las-read den-that sie-she geschrieben-wrote ,-, lachte-laughed ich-I",
        "hat-wrote",
    ),
    (
        clause(man_whose_dog_barks(), "lachen").main(),
        "Der Mann, dessen Hund bellt, lacht.",
        "The man whose dog barks laughs.",
        "Der-The Mann-man dessen-whose Hund-dog bellt-barks lacht-laughs",
    ),
    (
        fronted(place("an", "at", "See", "this", comma=True), SHE, "schlafen", "preterite"),
        "An diesem See schlief sie.",
        "At this lake, she slept.",
        "An-At diesem-this See-lake schlief-slept sie-she",
    ),
    (
        clause(ER, "geben", "present", complement(DATIVE, phrase("Kind")), accusative("Buch", "a")).main(),
        "Er gibt dem Kind ein Buch.",
        "He gives the child a book.",
        "Er-He gibt-gives dem-the Kind-child ein-a Buch-book",
    ),
    (
        clause(
            ER, "erklären", "present", complement(lexicon.Slot("d", "", "to"), phrase("Kind")), accusative("Plan")
        ).main(),
        "Er erklärt dem Kind den Plan.",
        "He explains the plan to the child.",
        "Er-He erklärt-explains dem-the Kind-child den-the Plan-plan",
    ),
    (
        clause(ICH, "sich freuen", "present", complement(lexicon.Slot("a", "auf", "to"), phrase("Konzert"))).main(),
        "Ich freue mich auf das Konzert.",
        "I look forward to the concert.",
        "Ich-I freue-look freue-forward auf-to das-the Konzert-concert",
        "mich-look",
    ),
    (
        clause(ICH, "sehen", "present", accusative("Haus", owner=phrase("Lehrer", plural=True))).main(),
        "Ich sehe das Haus der Lehrer.",
        "I see the teachers' house.",
        "Ich-I sehe-see Haus-house der-the Lehrer-teachers'",
    ),
    (
        preceded(
            subordinate("nachdem|after", clause(SHE, "ankommen", "pluperfect")), clause(ER, "einschlafen", "perfect")
        ),
        "Nachdem sie angekommen war, ist er eingeschlafen.",
        "After she had arrived, he fell asleep.",
        "Nachdem-After sie-she angekommen-arrived war-had ,-, er-he eingeschlafen-fell eingeschlafen-asleep",
        "ist-fell",
    ),
    (
        followed(
            clause(SHE, with_clause("versuchen", "to")).main(),
            clause(unsaid(Pronoun(SHE)), "lesen", "present", accusative("Brief")).infinitive(),
        ),
        "Sie versucht, den Brief zu lesen.",
        "She tries to read the letter.",
        "Sie-She versucht-tries den-the Brief-letter zu-to lesen-read",
    ),
    (
        purpose(
            clause(ER, "kommen", "perfect").main(),
            clause(unsaid(Pronoun(ER)), "abholen", "present", accusative("Hund")),
        ),
        "Er ist gekommen, um den Hund abzuholen.",
        "He came in order to pick up the dog.",
        "Er-He gekommen-came um-in um-order den-the Hund-dog abzuholen-to abzuholen-pick abzuholen-up",
        "ist-came",
    ),
    (
        both_sing_and_dance(),
        "Sowohl der Vater als auch Anna singen und tanzen.",
        "Both the father and Anna sing and dance.",
        "Sowohl-Both der-the Vater-father als-and auch-and Anna-Anna singen-sing und-and tanzen-dance",
    ),
    (
        window("preterite", complement(lexicon.Slot("d", "von", "by"), phrase("Lehrer"))),
        "Das Fenster wurde vom Lehrer geöffnet.",
        "The window was opened by the teacher.",
        "Das-The Fenster-window wurde-was vom-by vom-the Lehrer-teacher geöffnet-opened",
    ),
    (
        window("perfect"),
        "Das Fenster ist geöffnet worden.",
        "The window was opened.",
        "Das-The Fenster-window ist-was geöffnet-opened worden-was",
    ),
    (
        window("present", modal=lexicon.modals()["müssen"]),
        "Das Fenster muss geöffnet werden.",
        "The window has to be opened.",
        "Das-The Fenster-window muss-has geöffnet-opened werden-be",
        "muss-to",
    ),
    (
        being(SHE, "|a Ingenieurin|engineer"),
        "Sie ist Ingenieurin.",
        "She is an engineer.",
        "Sie-She ist-is Ingenieurin-engineer",
    ),
    (
        there_was_a_dog(place_first=False),
        "Es gab in Rom einen alten Hund.",
        "There was an old dog in Rome.",
        "Es-There gab-was einen-an alten-old Hund-dog in-in Rom-Rome",
    ),
    (
        there_was_a_dog(place_first=True),
        "In Rom gab es einen alten Hund.",
        "In Rome, there was an old dog.",
        "es-there gab-was einen-an alten-old Hund-dog In-In Rom-Rome",
    ),
    (
        request(clause(POLITE, "anrufen", "present", accusative("Lehrer"))),
        "Bitte rufen Sie den Lehrer an!",
        "Please call the teacher!",
        "Bitte-Please rufen-call den-the Lehrer-teacher an-call",
    ),
    (
        followed(
            clause(ER, with_clause("glauben", "that")).main(),
            followed(
                subordinate("dass|that", clause(SHE, "kommen")),
                subordinate("wenn|when", clause(phrase("Kind"), "schlafen")),
            ),
        ),
        "Er glaubt, dass sie kommt, wenn das Kind schläft.",
        "He believes that she comes when the child sleeps.",
        "Er-He glaubt-believes dass-that sie-she kommt-comes wenn-when das-the Kind-child schläft-sleeps",
    ),
    (
        clause(
            Name("Müller", "m", title=True),
            "lesen",
            "present",
            complement(ACCUSATIVE, NounPhrase(NOUNS["Brief"], lexicon.counting(21), plural=True)),
        ).main(),
        "Herr Müller liest einundzwanzig Briefe.",
        "Mr Müller reads twenty-one letters.",
        "Herr-Mr Müller-Müller liest-reads einundzwanzig-twenty-one Briefe-letters",
    ),
    (
        clause(
            NounPhrase(NOUNS["Hund"], lexicon.owned_by("Anna")),
            "folgen",
            "perfect",
            complement(DATIVE, Name("Müller", "m", title=True)),
            frequency="oft|often",
        ).main(),
        "Annas Hund ist oft Herrn Müller gefolgt.",
        "Anna's dog often followed Mr Müller.",
        "Annas-Anna's Hund-dog oft-often Herrn-Mr Müller-Müller gefolgt-followed",
        "ist-followed",
    ),
]


@pytest.mark.parametrize("case", SENTENCES, ids=lambda case: case[1])
def test_sentences_and_their_links(case):
    fragment, german, english, sure, *possible = case
    mark = german[-1]
    pair = finish(fragment, mark)
    assert (pair.source, pair.target) == (german, english)

    def readable(links):
        return sorted(f"{pair.source_words[j]}-{pair.target_words[i]}" for j, i in links)

    assert readable(pair.alignment) == sorted([*sure.split(), f"{mark}-{mark}"])
    assert readable(pair.possible) == sorted(" ".join(possible).split())


def test_a_or_an():
    expected = {"apple": "An", "honey cake": "A", "honest man": "An", "university": "A", "unusual idea": "An"}
    for word, article in {**expected, "useful tool": "A", "one": "A"}.items():
        assert finish(both("ein Ding", f"a {word}")).target_words[0] == article


# Of a noun with its determiner and adjective: nominative, accusative, dative, genitive.
DECLENSION = """
the alt Mann            der alte Mann/den alten Mann/dem alten Mann/des alten Mannes
a alt Mann              ein alter Mann/einen alten Mann/einem alten Mann/eines alten Mannes
the klug Student        der kluge Student/den klugen Studenten/dem klugen Studenten/des klugen Studenten
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
# infinitive: du, er, ihr in the present; ich, wir in the preterite; participle; zu-infinitive
CONJUGATION = """
anrufen         rufst ruft ruft rief riefen angerufen anzurufen
fahren          fährst fährt fahrt fuhr fuhren gefahren zu fahren
arbeiten        arbeitest arbeitet arbeitet arbeitete arbeiteten gearbeitet zu arbeiten
öffnen          öffnest öffnet öffnet öffnete öffneten geöffnet zu öffnen
einladen        lädst lädt ladet lud luden eingeladen einzuladen
verstehen       verstehst versteht versteht verstand verstanden verstanden zu verstehen
reparieren      reparierst repariert repariert reparierte reparierten repariert zu reparieren
sammeln         sammelst sammelt sammelt sammelte sammelten gesammelt zu sammeln
vorbereiten     bereitest bereitet bereitet bereitete bereiteten vorbereitet vorzubereiten
putzen          putzt putzt putzt putzte putzten geputzt zu putzen
"""


@pytest.mark.parametrize("plural", [False, True])
def test_declension(plural):
    for line in (PLURALS if plural else DECLENSION).strip().split("\n"):
        entry, forms = re.split(r"\s{2,}", line)
        determiner, adjective, noun = entry.replace('""', "|").split()
        inflected = phrase(noun, determiner.strip("|"), adjective, plural=plural)
        found = [" ".join(word.text for word in inflected.realise(case)[0].german) for case in "nadg"]
        assert "/".join(found) == forms


def test_conjugation():
    for line in CONJUGATION.strip().split("\n"):
        infinitive, expected = line.split(maxsplit=1)
        verb = VERBS[infinitive]
        present, preterite = verb.present, verb.preterite
        forms = [present[1], present[2], present[4], preterite[0], preterite[3], verb.participle, *verb.zu]
        assert " ".join(forms) == expected


def test_english_words():
    nouns = {"Kind": "children", "Frau": "women", "Bäckerei": "bakeries", "Bus": "buses", "Schaf": "sheep"}
    nouns["Reithose"] = "pairs of riding trousers"
    assert {lemma: NOUNS[lemma].english_plural for lemma in nouns} == nouns
    verbs = {"carry": "carries carried", "play": "plays played", "catch": "catches caught", "stop": "stops stopped"}
    verbs |= {"smile": "smiles smiled", "do": "does did", "have": "has had", "visit": "visits visited"}
    forms = {base: lexicon.english_verb(base) for base in verbs}
    assert {base: f"{verb.third} {verb.past}" for base, verb in forms.items()} == verbs


def test_comparatives():
    kinds = ("person", "place", "idea", "food")
    found = {one.german: one.comparative for kind in kinds for one in lexicon.adjectives_of(kind)}
    expected = {"alt": ("älter", "older"), "teuer": ("teurer", "more expensive"), "blind": None}
    expected |= {"lustig": ("lustiger", "funnier"), "traurig": ("trauriger", "sadder"), "gut": ("besser", "better")}
    assert {german: found[german] for german in expected} == expected


def test_possessives_follow_gender_in_german_and_sense_in_english():
    owners = [*map(phrase, ("Frau", "Mann", "Mädchen", "Katze")), phrase("Mann", plural=True), Pronoun(IHR), POLITE]
    found = [f"{one.form('m', 'a')} {one.singular}" for one in map(possessive, (*owners, unsaid(owners[0])))]
    assert found[:4] == ["ihren her", "seinen his", "seinen her", "ihren its"]
    assert found[4:] == ["ihren their", "euren your", "Ihren your", "ihren her"]


def test_number_words():
    known = {
        2: ("zwei", "two"),
        17: ("siebzehn", "seventeen"),
        30: ("dreißig", "thirty"),
        100: ("hundert", "one hundred"),
    }
    known |= {216: ("zweihundertsechzehn", "two hundred and sixteen")}
    assert {number: lexicon.number_words(number) for number in known} == known
    ordinals = {1: ("ersten", "first"), 3: ("dritten", "third"), 20: ("zwanzigsten", "twentieth")}
    ordinals |= {12: ("zwölften", "twelfth"), 21: ("einundzwanzigsten", "twenty-first")}
    assert {number: lexicon.ordinal_words(number) for number in ordinals} == ordinals
