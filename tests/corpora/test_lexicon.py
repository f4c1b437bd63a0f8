"""The morphology of both languages."""

import re

import pytest

from keras_attn_zoo.corpora.synthetic import lexicon
from keras_attn_zoo.corpora.synthetic.grammar import (
    Gap,
    Polite,
    Pronoun,
    possessive,
)
from tests.corpora.written import (
    IHR,
    NOUNS,
    VERBS,
    phrase,
)

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
