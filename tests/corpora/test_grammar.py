"""The grammar of the generated corpus: sentences with their links, written by hand, and all forms of its words."""

import dataclasses
import hashlib
import json

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
KINDS = {noun.kind for noun in NOUNS.values()}
ACCUSATIVE, DATIVE = lexicon.Slot("a"), lexicon.Slot("d")
ICH, DU, ER, SHE, WIR, IHR, THEY = range(7)


def phrase(lemma, determiner="the", *adjectives, **options):
    noun = NOUNS[lemma]
    known = {one.german: one for one in lexicon.adjectives_of(noun.kind)}
    chosen = tuple(known[german] for german in adjectives)
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


def test_possessives_follow_gender_in_german_and_sense_in_english():
    owners = [*map(phrase, ("Frau", "Mann", "Mädchen", "Katze")), phrase("Mann", plural=True), Pronoun(IHR), POLITE]
    found = [f"{one.form('m', 'a')} {one.singular}" for one in map(possessive, (*owners, unsaid(owners[0])))]
    assert found[:4] == ["ihren her", "seinen his", "seinen her", "ihren its"]
    assert found[4:] == ["ihren their", "euren your", "Ihren your", "ihren her"]


def test_every_form_of_every_word():
    """Whatever changes one of them changes the corpus of some seed. That they are right, the sentences above show."""
    verbs = [*VERBS.values(), *map(lexicon.auxiliary, ("haben", "sein", "werden"))]
    verbs += [one for kind in ("that", "whether", "to") for one in lexicon.clause_verbs(kind)]
    modals = lexicon.modals().values()
    genders = [(gender, case) for gender in ("m", "f", "n", lexicon.PLURAL) for case in "nadg"]
    determiners = [*lexicon.DETERMINERS.values(), *lexicon.POSSESSIVES, lexicon.POLITE_POSSESSIVE]
    found = [
        [(key, one.singular, one.plural, one.english, one.english_plural, one.kind) for key, one in NOUNS.items()],
        [[dataclasses.astuple(one) for one in lexicon.adjectives_of(kind)] for kind in sorted(KINDS)],
        [dataclasses.astuple(one) for one in (*verbs, *(modal.german for modal in modals))],
        [(verb.english.present(person), verb.english.preterite(person)) for verb in verbs for person in range(6)],
        [(modal.present, modal.past) for modal in modals],
        [(one.form(*form), one.adjective_endings(form[0])) for one in determiners for form in genders],
        [lexicon.number_words(number) for number in range(2, 1000)],
        [lexicon.ordinal_words(number) for number in range(1, 100)],
    ]
    assert hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16] == "1048a582262447ab"
