"""German and English words for the synthetic corpus: tables, and the morphology that inflects them.

The tables are written as in a pocket dictionary. A noun stands with its gender
(m, f, n, or w for the weak masculines such as "Student"), its plural ("-" the
same, "-en" an ending, "¨er" an ending with umlaut, "0" none) and its English.
A verb stands with what it governs; irregular forms stand once, with the simple
verb, and verbs with a prefix take them from there.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

PLURAL = "p"  # beside the genders m, f, n; cases are n, a, d, g


def _tokens(text):
    return tuple(text.split())


def _rows(text):
    return tuple(text.strip().split("\n"))


# ---------------------------------------------------------------- determiners and adjective endings

DEFINITE = {
    "m": dict(n="der", a="den", d="dem", g="des"),
    "f": dict(n="die", a="die", d="der", g="der"),
    "n": dict(n="das", a="das", d="dem", g="des"),
    PLURAL: dict(n="die", a="die", d="den", g="der"),
}
RELATIVE = {
    "m": dict(n="der", a="den", d="dem", g="dessen"),
    "f": dict(n="die", a="die", d="der", g="deren"),
    "n": dict(n="das", a="das", d="dem", g="dessen"),
    PLURAL: dict(n="die", a="die", d="denen", g="deren"),
}
_STRONG_DETERMINER = {
    "m": dict(n="er", a="en", d="em", g="es"),
    "f": dict(n="e", a="e", d="er", g="er"),
    "n": dict(n="es", a="es", d="em", g="es"),
    PLURAL: dict(n="e", a="e", d="en", g="er"),
}
_EIN_ENDINGS = _STRONG_DETERMINER | {
    "m": dict(n="", a="en", d="em", g="es"),
    "n": dict(n="", a="", d="em", g="es"),
}
ADJECTIVE_ENDINGS = {
    "weak": {
        "m": dict(n="e", a="en", d="en", g="en"),
        "f": dict(n="e", a="e", d="en", g="en"),
        "n": dict(n="e", a="e", d="en", g="en"),
        PLURAL: dict(n="en", a="en", d="en", g="en"),
    },
    "mixed": {
        "m": dict(n="er", a="en", d="en", g="en"),
        "f": dict(n="e", a="e", d="en", g="en"),
        "n": dict(n="es", a="es", d="en", g="en"),
        PLURAL: dict(n="en", a="en", d="en", g="en"),
    },
    "strong": {
        "m": dict(n="er", a="en", d="em", g="en"),
        "f": dict(n="e", a="e", d="er", g="er"),
        "n": dict(n="es", a="es", d="em", g="en"),
        PLURAL: dict(n="e", a="e", d="en", g="er"),
    },
}
CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("an", "das"): "ans",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("von", "dem"): "vom",
    ("bei", "dem"): "beim",
}


@dataclass(frozen=True)
class Determiner:
    """What stands before a noun: its German stem, endings, and its English in both numbers."""

    german: str
    singular: str
    plural: str
    kind: str = "ein"

    def form(self, gender: str, case: str) -> str:
        """The German form, "" where there is none."""
        if self.kind == "definite":
            return DEFINITE[gender][case]
        if self.kind == "fixed":
            return self.german
        endings = _EIN_ENDINGS if self.kind == "ein" else _STRONG_DETERMINER
        ending = endings[gender][case]
        stem = "eur" if self.german == "euer" and ending else self.german
        return stem + ending

    def adjective_endings(self, gender: str) -> dict[str, str]:
        """The endings of the adjectives that follow it."""
        if self.kind == "fixed" or self.german in ("viel", "einig", "mehrer", "wenig"):
            return ADJECTIVE_ENDINGS["strong"][gender]
        return ADJECTIVE_ENDINGS["mixed" if self.kind == "ein" else "weak"][gender]


DETERMINERS = {
    "the": Determiner("", "the", "the", "definite"),
    "a": Determiner("ein", "a", ""),
    "no": Determiner("kein", "no", "no"),
    "this": Determiner("dies", "this", "these", "der"),
    "every": Determiner("jed", "every", "", "der"),
    "which": Determiner("welch", "which", "which", "der"),
    "all": Determiner("all", "", "all", "der"),
    "many": Determiner("viel", "", "many", "der"),
    "some": Determiner("einig", "", "some", "der"),
    "several": Determiner("mehrer", "", "several", "der"),
    "few": Determiner("wenig", "", "few", "der"),
    "": Determiner("", "", "", "fixed"),
}
# By person, that of "er" left out: it depends on whom it refers to.
POSSESSIVES = tuple(
    Determiner(german, english, english)
    for german, english in (
        ("mein", "my"),
        ("dein", "your"),
        ("", ""),
        ("unser", "our"),
        ("euer", "your"),
        ("ihr", "their"),
    )
)
# By German and English gender.
SINGULAR_POSSESSIVES = {
    (german, english): Determiner(stem, word, word)
    for german, stem in (("m", "sein"), ("n", "sein"), ("f", "ihr"))
    for english, word in (("m", "his"), ("f", "her"), ("n", "its"))
}
# Of the polite "Sie".
POLITE_POSSESSIVE = Determiner("Ihr", "your", "your")

# ---------------------------------------------------------------- pronouns

# German nominative, accusative, dative; English subject and object; person, gender. The accusative "sie" has
# two translations and is left out.
PRONOUNS = tuple(
    (*forms, int(person), gender)
    for *forms, person, gender in (
        line.split()
        for line in _rows("""
        ich mich mir I me 0 m
        du dich dir you you 1 m
        er ihn ihm he him 2 m
        sie - ihr she her 2 f
        wir uns uns we us 3 p
        ihr euch euch you you 4 p
        sie - ihnen they them 5 p
        """)
    )
)
REFLEXIVE = ("mich", "dich", "sich", "uns", "euch", "sich")

# ---------------------------------------------------------------- nouns

NOUNS = {
    "person": """
Lehrer m - teacher
Lehrerin f -nen teacher
Student w -en student
Studentin f -nen student
Schüler m - pupil
Schülerin f -nen pupil
Arzt m ¨e doctor
Ärztin f -nen doctor
Mann m ¨er man/men
Frau f -en woman/women
Kind n -er child/children
Junge w -n boy
Mädchen n - girl
Freund m -e friend
Freundin f -nen friend
Nachbar w -n neighbour
Nachbarin f -nen neighbour
Bruder m ¨ brother
Schwester f -n sister
Vater m ¨ father
Mutter f ¨ mother
Sohn m ¨e son
Tochter f ¨ daughter
Onkel m - uncle
Tante f -n aunt
Großvater m ¨ grandfather
Großmutter f ¨ grandmother
Enkel m - grandson
Enkelin f -nen granddaughter
Neffe w -n nephew
Nichte f -n niece
Cousin m -s cousin
Kollege w -n colleague
Kollegin f -nen colleague
Chef m -s boss/bosses
Chefin f -nen boss/bosses
Kunde w -n customer
Kundin f -nen customer
Verkäufer m - salesman/salesmen
Verkäuferin f -nen saleswoman/saleswomen
Bäcker m - baker
Bäckerin f -nen baker
Metzger m - butcher
Koch m ¨e cook
Köchin f -nen cook
Kellner m - waiter
Kellnerin f -nen waitress
Richter m - judge
Richterin f -nen judge
Anwalt m ¨e lawyer
Anwältin f -nen lawyer
Polizist w -en policeman/policemen
Polizistin f -nen policewoman/policewomen
Soldat w -en soldier
Pilot w -en pilot
Pilotin f -nen pilot
Fahrer m - driver
Fahrerin f -nen driver
Maler m - painter
Malerin f -nen painter
Dichter m - poet
Dichterin f -nen poet
Sänger m - singer
Sängerin f -nen singer
Musiker m - musician
Musikerin f -nen musician
Schauspieler m - actor
Schauspielerin f -nen actress
Tänzer m - dancer
Tänzerin f -nen dancer
Schriftsteller m - writer
Schriftstellerin f -nen writer
Journalist w -en journalist
Journalistin f -nen journalist
Forscher m - researcher
Forscherin f -nen researcher
Wissenschaftler m - scientist
Wissenschaftlerin f -nen scientist
Ingenieur m -e engineer
Ingenieurin f -nen engineer
Architekt w -en architect
Architektin f -nen architect
Bauer w -n farmer
Bäuerin f -nen farmer
Gärtner m - gardener
Gärtnerin f -nen gardener
Fischer m - fisherman/fishermen
Jäger m - hunter
Tischler m - carpenter
Schneider m - tailor
Schneiderin f -nen dressmaker
Friseur m -e hairdresser
Friseurin f -nen hairdresser
Händler m - merchant
Händlerin f -nen merchant
Besitzer m - owner
Besitzerin f -nen owner
Mieter m - tenant
Mieterin f -nen tenant
Gast m ¨e guest
Besucher m - visitor
Besucherin f -nen visitor
Tourist w -en tourist
Touristin f -nen tourist
König m -e king
Königin f -nen queen
Prinz w -en prince
Prinzessin f -nen princess
Präsident w -en president
Präsidentin f -nen president
Minister m - minister
Ministerin f -nen minister
Bürgermeister m - mayor
Bürgermeisterin f -nen mayor
Direktor m -en director
Direktorin f -nen director
Professor m -en professor
Professorin f -nen professor
Trainer m - coach
Trainerin f -nen coach
Spieler m - player
Spielerin f -nen player
Dieb m -e thief/thieves
Zeuge w -n witness
Zeugin f -nen witness
Held w -en hero/heroes
Heldin f -nen heroine
Zauberer m - wizard
Hexe f -n witch
Riese w -n giant
Zwerg m -e dwarf/dwarves
Baby n -s baby
Pfarrer m - priest
Mönch m -e monk
Nonne f -n nun
Krankenpfleger m - nurse
Krankenschwester f -n nurse
Patient w -en patient
Patientin f -nen patient
Zahnarzt m ¨e dentist
Zahnärztin f -nen dentist
Apotheker m - pharmacist
Apothekerin f -nen pharmacist
Übersetzer m - translator
Übersetzerin f -nen translator
Dolmetscher m - interpreter
Dolmetscherin f -nen interpreter
Matrose w -n sailor
Kapitän m -e captain
Schaffner m - conductor
Schaffnerin f -nen conductor
Mechaniker m - mechanic
Mechanikerin f -nen mechanic
Elektriker m - electrician
Elektrikerin f -nen electrician
Bote w -n messenger
Botin f -nen messenger
Reporter m - reporter
Reporterin f -nen reporter
Assistent w -en assistant
Assistentin f -nen assistant
Sekretär m -e secretary
Sekretärin f -nen secretary
Clown m -s clown
Detektiv m -e detective
Detektivin f -nen detective
Philosoph w -en philosopher
Philosophin f -nen philosopher
Regisseur m -e film director
Regisseurin f -nen film director
Feuerwehrmann m ¨er firefighter
Hausmeister m - caretaker
Hausmeisterin f -nen caretaker
""",
    "animal": """
Hund m -e dog
Katze f -n cat
Vogel m ¨ bird
Pferd n -e horse
Kuh f ¨e cow
Schwein n -e pig
Schaf n -e sheep/sheep
Ziege f -n goat
Esel m - donkey
Hase w -n hare
Kaninchen n - rabbit
Maus f ¨e mouse/mice
Ratte f -n rat
Ente f -n duck
Gans f ¨e goose/geese
Huhn n ¨er chicken
Löwe w -n lion
Tiger m - tiger
Bär w -en bear
Wolf m ¨e wolf/wolves
Fuchs m ¨e fox
Affe w -n monkey
Elefant w -en elephant
Papagei w -en parrot
Schlange f -n snake
Schildkröte f -n turtle
Frosch m ¨e frog
Eule f -n owl
Adler m - eagle
Rabe w -n raven
Hirsch m -e deer/deer
Igel m - hedgehog
Eichhörnchen n - squirrel
Kamel n -e camel
Giraffe f -n giraffe
Zebra n -s zebra
Kalb n ¨er calf/calves
Lamm n ¨er lamb
Welpe w -n puppy
Kätzchen n - kitten
Schwan m ¨e swan
Storch m ¨e stork
Biber m - beaver
Dachs m -e badger
""",
    "food": """
Apfel m ¨ apple
Birne f -n pear
Kuchen m - cake
Brötchen n - roll
Ei n -er egg
Suppe f -n soup
Kartoffel f -n potato/potatoes
Tomate f -n tomato/tomatoes
Orange f -n orange
Banane f -n banana
Kirsche f -n cherry
Erdbeere f -n strawberry
Himbeere f -n raspberry
Pflaume f -n plum
Pfirsich m -e peach
Zitrone f -n lemon
Zwiebel f -n onion
Karotte f -n carrot
Gurke f -n cucumber
Kürbis m -se pumpkin
Pilz m -e mushroom
Wurst f ¨e sausage
Torte f -n tart
Keks m -e biscuit
Pfannkuchen m - pancake
Braten m - roast
Salat m -e salad
Soße f -n sauce
Nuss f ¨e nut
Melone f -n melon
Traube f -n grape
Praline f -n chocolate
Forelle f -n trout/trout
Schnitzel n - schnitzel
Knödel m - dumpling
Brezel f -n pretzel
""",
    "mass": """
Brot n 0 bread
Butter f 0 butter
Käse m 0 cheese
Fleisch n 0 meat
Reis m 0 rice
Honig m 0 honey
Schinken m 0 ham
Schokolade f 0 chocolate
Obst n 0 fruit
Salz n 0 salt
Zucker m 0 sugar
Mehl n 0 flour
Marmelade f 0 jam
Spinat m 0 spinach
Knoblauch m 0 garlic
Eis n 0 ice cream
""",
    "drink": """
Milch f 0 milk
Kaffee m 0 coffee
Tee m 0 tea
Wein m 0 wine
Bier n 0 beer
Wasser n 0 water
Saft m 0 juice
Limonade f 0 lemonade
Sekt m 0 sparkling wine
Kakao m 0 cocoa
Schnaps m 0 liquor
""",
    "text": """
Buch n ¨er book
Brief m -e letter
Zeitung f -en newspaper
Zeitschrift f -en magazine
Roman m -e novel
Gedicht n -e poem
Märchen n - fairy tale
Artikel m - article
Bericht m -e report
Text m -e text
Vertrag m ¨e contract
Nachricht f -en message
Postkarte f -n postcard
Rechnung f -en invoice
Rezept n -e recipe
Tagebuch n ¨er diary
Anzeige f -n advertisement
Anleitung f -en manual
Einladung f -en invitation
Kapitel n - chapter
Satz m ¨e sentence
Notiz f -en note
Protokoll n -e record
Formular n -e form
Antrag m ¨e application
Zeugnis n -se certificate
Wörterbuch n ¨er dictionary
Gesetz n -e law
Drehbuch n ¨er screenplay
Übersetzung f -en translation
Aufsatz m ¨e essay
Fahrplan m ¨e timetable
Gutachten n - expert opinion
Prospekt m -e brochure
Urteil n -e verdict
Testament n -e will
Kündigung f -en notice
Biografie f -n biography
""",
    "thing": """
Schlüssel m - key
Tasche f -n bag
Teller m - plate
Tasse f -n cup
Messer n - knife/knives
Gabel f -n fork
Löffel m - spoon
Flasche f -n bottle
Ball m ¨e ball
Puppe f -n doll
Geschenk n -e present
Bild n -er picture
Foto n -s photo
Ring m -e ring
Kette f -n necklace
Brille f -n pair of glasses/pairs of glasses
Stift m -e pen
Bleistift m -e pencil
Schere f -n pair of scissors/pairs of scissors
Hammer m ¨ hammer
Säge f -n saw
Nagel m ¨ nail
Seil n -e rope
Korb m ¨e basket
Eimer m - bucket
Besen m - broom
Topf m ¨e pot
Pfanne f -n pan
Kerze f -n candle
Vase f -n vase
Decke f -n blanket
Kissen n - pillow
Handtuch n ¨er towel
Seife f -n soap bar
Kamm m ¨e comb
Bürste f -n brush
Münze f -n coin
Karte f -n card
Regenschirm m -e umbrella
Werkzeug n -e tool
Geige f -n violin
Gitarre f -n guitar
Trommel f -n drum
Flöte f -n flute
Waffe f -n weapon
Schwert n -er sword
Fahne f -n flag
Statue f -n statue
Krone f -n crown
Spielzeug n -e toy
Blume f -n flower
Rose f -n rose
Stein m -e stone
Schachtel f -n box
Glocke f -n bell
Leiter f -n ladder
Schaufel f -n shovel
Gürtel m - belt
Ticket n -s ticket
Medikament n -e drug
Zelt n -e tent
Rucksack m ¨e rucksack
Laterne f -n lantern
Armband n ¨er bracelet
Perle f -n pearl
Nadel f -n needle
Knopf m ¨e button
Spielkarte f -n playing card
Briefmarke f -n stamp
Reifen m - tyre
""",
    "furniture": """
Tisch m -e table
Stuhl m ¨e chair
Schrank m ¨e cupboard
Regal n -e shelf/shelves
Bett n -en bed
Sofa n -s sofa
Sessel m - armchair
Bank f ¨e bench
Lampe f -n lamp
Spiegel m - mirror
Teppich m -e carpet
Schreibtisch m -e desk
Kommode f -n chest of drawers/chests of drawers
Vorhang m ¨e curtain
Truhe f -n chest
Hocker m - stool
Klavier n -e piano
""",
    "door": """
Tür f -en door
Fenster n - window
Tor n -e gate
Schublade f -n drawer
Koffer m - suitcase
Kiste f -n crate
Paket n -e parcel
Umschlag m ¨e envelope
Briefkasten m ¨ letterbox
Dose f -n tin
""",
    "device": """
Computer m - computer
Drucker m - printer
Fernseher m - television
Radio n -s radio
Kamera f -s camera
Telefon n -e telephone
Uhr f -en clock
Maschine f -n machine
Heizung f -en heating system
Ofen m ¨ oven
Kühlschrank m ¨e refrigerator
Staubsauger m - vacuum cleaner
Wecker m - alarm clock
Gerät n -e device
Motor m -en engine
Bildschirm m -e screen
Lautsprecher m - loudspeaker
Mikrofon n -e microphone
Handy n -s mobile phone
Bügeleisen n - iron
Roboter m - robot
""",
    "clothing": """
Mantel m ¨ coat
Jacke f -n jacket
Hose f -n pair of trousers/pairs of trousers
Hemd n -en shirt
Bluse f -n blouse
Kleid n -er dress
Rock m ¨e skirt
Pullover m - sweater
Schuh m -e shoe
Stiefel m - boot
Hut m ¨e hat
Mütze f -n cap
Schal m -s scarf/scarves
Handschuh m -e glove
Anzug m ¨e suit
Krawatte f -n tie
Socke f -n sock
Kostüm n -e costume
Uniform f -en uniform
Schürze f -n apron
Bademantel m ¨ dressing gown
Sandale f -n sandal
""",
    "vehicle": """
Auto n -s car
Wagen m - carriage
Fahrrad n ¨er bicycle
Motorrad n ¨er motorbike
Bus m -se bus
Zug m ¨e train
Straßenbahn f -en tram
Schiff n -e ship
Boot n -e boat
Flugzeug n -e aeroplane
Lastwagen m - lorry
Taxi n -s taxi
Traktor m -en tractor
Hubschrauber m - helicopter
Fähre f -n ferry
Kutsche f -n coach
Krankenwagen m - ambulance
Roller m - scooter
""",
    "place": """
Garten m ¨ garden
Haus n ¨er house
Küche f -n kitchen
Zimmer n - room
Wohnung f -en flat
Schule f -n school
Stadt f ¨e town
Dorf n ¨er village
Wald m ¨er forest
Park m -s park
Büro n -s office
Bibliothek f -en library
Museum n Museen museum
Kirche f -n church
Theater n - theatre
Kino n -s cinema
Restaurant n -s restaurant
Café n -s café
Hotel n -s hotel
Krankenhaus n ¨er hospital
Fabrik f -en factory
Werkstatt f ¨en workshop
Keller m - cellar
Garage f -n garage
Laden m ¨ shop
Supermarkt m ¨e supermarket
Bäckerei f -en bakery
Apotheke f -n pharmacy
Schwimmbad n ¨er swimming pool
Stadion n Stadien stadium
Gefängnis n -se prison
Kloster n ¨ monastery
Schloss n ¨er castle
Turm m ¨e tower
Höhle f -n cave
Tal n ¨er valley
Wüste f -n desert
Scheune f -n barn
Stall m ¨e stable
Hütte f -n hut
Halle f -n hall
Zoo m -s zoo
Universität f -en university
Labor n -s laboratory
Gericht n -e court
Rathaus n ¨er town hall
Botschaft f -en embassy
Kantine f -n canteen
Zirkus m -se circus
Palast m ¨e palace
Klassenzimmer n - classroom
Wohnzimmer n - living room
Schlafzimmer n - bedroom
Badezimmer n - bathroom
""",
    "spot": """
Bahnhof m ¨e station
Markt m ¨e market
Friedhof m ¨e cemetery
Flughafen m ¨ airport
Haltestelle f -n stop
Strand m ¨e beach
See m -n lake
Fluss m ¨e river
Brücke f -n bridge
Hafen m ¨ harbour
Grenze f -n border
Brunnen m - fountain
Kasse f -n checkout
Denkmal n ¨er monument
Kreuzung f -en crossroads/crossroads
Teich m -e pond
Tankstelle f -n petrol station
Rezeption f -en reception desk
Quelle f -n spring
""",
    "surface": """
Platz m ¨e square
Straße f -n street
Bauernhof m ¨e farm
Berg m -e mountain
Insel f -n island
Wiese f -n meadow
Feld n -er field
Bühne f -n stage
Balkon m -s balcony
Terrasse f -n terrace
Dach n ¨er roof
Baustelle f -n building site
Hügel m - hill
Spielplatz m ¨e playground
Treppe f -n stairway
""",
    "idea": """
Plan m ¨e plan
Idee f -n idea
Frage f -n question
Antwort f -en answer
Problem n -e problem
Lösung f -en solution
Fehler m - mistake
Vorschlag m ¨e suggestion
Entscheidung f -en decision
Regel f -n rule
Grund m ¨e reason
Ziel n -e goal
Traum m ¨e dream
Geheimnis n -se secret
Aufgabe f -n task
Theorie f -n theory
Methode f -n method
Meinung f -en opinion
Geschichte f -n story
Wunsch m ¨e wish
Gefahr f -en danger
Ergebnis n -se result
Vorteil m -e advantage
Nachteil m -e disadvantage
Beispiel n -e example
Thema n Themen topic
Projekt n -e project
Angebot n -e offer
Preis m -e price
Lüge f -n lie
Wahrheit f -en truth
Hoffnung f -en hope
Erfahrung f -en experience
Erinnerung f -en memory
Verdacht m 0 suspicion
Strategie f -n strategy
Bedingung f -en condition
Forderung f -en demand
Kritik f -en criticism
Zweifel m - doubt
Rätsel n - riddle
Erfindung f -en invention
Entdeckung f -en discovery
""",
    "event": """
Fest n -e party
Hochzeit f -en wedding
Konzert n -e concert
Reise f -n journey
Spiel n -e game
Prüfung f -en exam
Sitzung f -en meeting
Vortrag m ¨e lecture
Ausstellung f -en exhibition
Film m -e film
Urlaub m -e holiday
Ausflug m ¨e trip
Wettbewerb m -e competition
Rede f -n speech
Kurs m -e course
Feier f -n celebration
Geburtstag m -e birthday
Konferenz f -en conference
Wahl f -en election
Streik m -s strike
Rennen n - race
Vorstellung f -en performance
Besuch m -e visit
Umzug m ¨e move
Beerdigung f -en funeral
Debatte f -n debate
Oper f -n opera
""",
}

# Heads and the modifiers that each of them takes; a modifier stands in its combining form.
COMPOUNDS = """
Tisch Stuhl Schrank Regal Lampe Bank Spiegel : Küchen=kitchen Garten=garden Büro=office Holz=wooden Metall=metal \
Glas=glass Plastik=plastic Hotel=hotel Keller=cellar Kinder=children's Wohnzimmer=living_room Schlafzimmer=bedroom \
Gäste=guest Marmor=marble Arbeits=work Werkstatt=workshop
Tür Fenster Tor : Keller=cellar Küchen=kitchen Garten=garden Kirchen=church Hotel=hotel Holz=wooden Stall=stable \
Schloss=castle Büro=office Badezimmer=bathroom Glas=glass Eisen=iron Garagen=garage Fabrik=factory Stadt=city
Tür : Haus=front Wohnungs=flat Auto=car Schrank=cupboard Zimmer=room
Buch Zeitung Zeitschrift : Schul=school Kinder=children's Frauen=women's Sport=sports Kunst=art Mode=fashion \
Wirtschafts=business Musik=music Natur=nature Computer=computer
Artikel Bericht Text Nachricht : Zeitungs=newspaper Polizei=police Wetter=weather Reise=travel Jahres=annual \
Forschungs=research Unfall=accident Kriegs=war Werbe=advertising Wahl=election Regierungs=government
Roman Geschichte : Liebes=love Kriminal=crime Abenteuer=adventure Tier=animal Kriegs=war Grusel=horror
Brief : Liebes=love Abschieds=farewell Droh=threatening Geschäfts=business Dankes=thank-you Empfehlungs=recommendation
Gedicht : Liebes=love Natur=nature Kinder=children's Weihnachts=Christmas Helden=heroic
Vertrag : Arbeits=employment Kauf=purchase Miet=rental Friedens=peace Ehe=marriage Handels=trade \
Versicherungs=insurance
Rechnung : Strom=electricity Telefon=telephone Hotel=hotel Gas=gas Wasser=water Arzt=doctor's
Gesetz : Grund=basic Steuer=tax Jugend=youth Verkehrs=traffic Arbeits=labour
Plan Projekt Problem Frage Theorie Methode Aufgabe Ziel Lösung Strategie : Haupt=main Bau=building \
Forschungs=research Energie=energy Sicherheits=security Verkehrs=traffic Umwelt=environmental Klima=climate \
Wirtschafts=economic Schul=school Finanz=financial Friedens=peace
Preis : Kauf=purchase Strom=electricity Öl=oil Markt=market Eintritts=admission Miet=rental
Lehrer Lehrerin Student Studentin : Deutsch=German Englisch=English Musik=music Sport=sports Kunst=art \
Mathematik=mathematics Chemie=chemistry Physik=physics Geschichts=history Biologie=biology
Fahrer Fahrerin : Bus=bus Taxi=taxi Lastwagen=lorry Zug=train Traktor=tractor Motorrad=motorbike \
Krankenwagen=ambulance
Verkäufer Verkäuferin Händler Händlerin : Auto=car Blumen=flower Wein=wine Möbel=furniture Buch=book \
Gemüse=vegetable Obst=fruit Tee=tea Kunst=art Fisch=fish
Direktor Direktorin : Schul=school Museums=museum Bank=bank Theater=theatre Hotel=hotel Zoo=zoo Zirkus=circus
Besitzer Besitzerin : Haus=house Hotel=hotel Hunde=dog Auto=car Laden=shop Restaurant=restaurant Fabrik=factory \
Land=land
Trainer Trainerin Spieler Spielerin : Fußball=football Tennis=tennis Basketball=basketball Schach=chess \
Handball=handball Volleyball=volleyball
Arzt Ärztin : Kinder=children's Augen=eye Herz=heart Haus=family Not=emergency Schiffs=ship's
Sänger Sängerin : Opern=opera Schlager=pop Jazz=jazz Rock=rock
Minister Ministerin : Außen=foreign Finanz=finance Innen=interior Umwelt=environment Verteidigungs=defence \
Wirtschafts=economics
Hund : Wach=guard Hof=farm Straßen=street Jagd=hunting Polizei=police
Katze : Haus=house Wild=wild Straßen=street
Vogel : Sing=song Wasser=water See=sea
Pferd : Renn=race Wild=wild Arbeits=work
Suppe Salat Soße Torte : Tomaten=tomato Kartoffel=potato Zwiebel=onion Pilz=mushroom Gemüse=vegetable Käse=cheese \
Kürbis=pumpkin Nuss=nut Karotten=carrot Spinat=spinach
Kuchen Torte Marmelade Eis Saft Limonade Tee : Apfel=apple Kirsch=cherry Erdbeer=strawberry Himbeer=raspberry \
Zitronen=lemon Orangen=orange Pfirsich=peach Birnen=pear Pflaumen=plum
Kuchen Torte Keks Eis : Schokoladen=chocolate Honig=honey
Kuchen Torte : Hochzeits=wedding Geburtstags=birthday
Brot Brötchen : Weiß=white Schwarz=black Käse=cheese Nuss=nut Roggen=rye
Braten : Schweine=pork Rinder=beef Lamm=lamb
Wein : Weiß=white Rot=red Land=country Apfel=apple
Mantel Jacke Hose Kleid Hemd Schuh Mütze Handschuh Stiefel Rock Hut : Winter=winter Sommer=summer Leder=leather \
Arbeits=work Kinder=children's Samt=velvet Damen=women's
Mantel Jacke Hose Hemd Schuh Hut Anzug Schal : Herren=men's Seiden=silk
Mantel Jacke Schuh Stiefel Hose : Regen=rain Sport=sports Reit=riding
Tasche Koffer Decke Kissen Korb : Reise=travel Leder=leather Picknick=picnic
Decke Handschuh Mütze Schal Socke : Woll=woollen Baumwoll=cotton
Teller Tasse Topf Löffel Messer Gabel : Suppen=soup Silber=silver Gold=golden Kuchen=cake Plastik=plastic \
Küchen=kitchen
Ring Kette Krone Münze Uhr Armband : Gold=gold Silber=silver Perlen=pearl Diamant=diamond
Flasche : Wein=wine Milch=milk Wasser=water Bier=beer Glas=glass Öl=oil
Glocke Turm : Kirchen=church Schul=school Burg=castle Rathaus=town_hall
Schlüssel : Haus=house Auto=car Zimmer=room Garagen=garage Ersatz=spare Koffer=suitcase Haupt=main
Maschine : Kaffee=coffee Näh=sewing Wasch=washing Dampf=steam Bohr=drilling Druck=printing
Uhr Radio Telefon : Büro=office Bahnhofs=station Küchen=kitchen Auto=car Hotel=hotel
Gerät : Küchen=kitchen Mess=measuring Sport=sports Elektro=electric Garten=garden
Motor : Elektro=electric Diesel=diesel Schiffs=ship's Flugzeug=aircraft
Bus Zug Schiff Boot Flugzeug : Schul=school Nacht=night Militär=military Rettungs=rescue Passagier=passenger \
Schnell=express Polizei=police
Auto Wagen : Renn=racing Polizei=police Elektro=electric Spielzeug=toy Leih=rental
Haus Zimmer Wohnung : Ferien=holiday Gäste=guest Nachbar=neighbouring Traum=dream
Haus Hütte Kirche Brücke Turm : Holz=wooden Stein=stone
Zimmer : Hotel=hotel Kinder=children's Warte=waiting Ess=dining Arbeits=work
Schule : Grund=primary Musik=music Sprach=language Fahr=driving Dorf=village Tanz=dance
Museum : Kunst=art Heimat=local Verkehrs=transport Technik=technology Stadt=city
Garten Park : Schul=school Stadt=city Schloss=castle Hotel=hotel
Theater Kino : Stadt=city Freilicht=open-air Puppen=puppet Universitäts=university
Kirche Bibliothek : Stadt=city Universitäts=university Dorf=village Schul=school
Restaurant Hotel Café : Fisch=fish Luxus=luxury Berg=mountain Strand=beach Flughafen=airport Bahnhofs=station \
Stadt=city
Fabrik Laden : Schokoladen=chocolate Papier=paper Schuh=shoe Blumen=flower Waffen=weapons Spielzeug=toy \
Möbel=furniture
Markt Platz Straße Bahnhof : Haupt=main Stadt=city Dorf=village
Bahnhof : Güter=freight Nord=north Süd=south Ost=east West=west
Markt : Wochen=weekly Weihnachts=Christmas Fisch=fish Blumen=flower
Brücke : Eisenbahn=railway Hänge=suspension Fußgänger=pedestrian
See : Berg=mountain Wald=forest
Konzert Fest Kurs : Sommer=summer Weihnachts=Christmas Schul=school Jazz=jazz Abschieds=farewell Volks=folk
Film : Kriegs=war Zeichentrick=animated Dokumentar=documentary Kinder=children's Abenteuer=adventure Stumm=silent
Spiel : Fußball=football Kinder=children's Karten=card Computer=computer Heim=home
Prüfung : Abschluss=final Fahr=driving Sprach=language Aufnahme=entrance
Reise : Geschäfts=business Welt=world Hochzeits=honeymoon Schiffs=sea Dienst=work
Ausstellung : Kunst=art Foto=photo Blumen=flower Sonder=special
Wettbewerb : Tanz=dance Schreib=writing Koch=cooking Ski=ski Schach=chess
Wahl : Präsidenten=presidential Parlaments=parliamentary Bürgermeister=mayoral
"""

FIRST_NAMES = {
    "f": _tokens(
        """
        Anna Maria Lena Julia Sarah Laura Sophie Emma Hannah Clara Johanna Charlotte Frieda Greta
        Ida Katharina Lisa Luise Magdalena Martha Miriam Monika Nina Paula Petra Renate Sabine
        Sandra Silvia Stefanie Susanne Tanja Ulrike Ursula Vera Veronika Birgit Claudia Dorothea
        Elisabeth Eva Franziska Gabriele Heike Ingrid Karin
        """
    ),
    "m": _tokens(
        """
        Peter Thomas Michael Paul Lukas Jonas Felix Max Moritz Karl Friedrich Hans Georg Stefan
        Martin Andreas Anton Bernd Christian Daniel David Dieter Emil Erik Florian Frank Gerhard
        Günter Heinrich Helmut Jakob Jan Johannes Jürgen Klaus Konrad Kurt Leo Ludwig Manfred Markus
        Matthias Oskar Otto Philipp Ralf Rudolf Sebastian Simon Theo Tobias Uwe Viktor Walter Werner
        Wilhelm Wolfgang
        """
    ),
}
SURNAMES = _tokens(
    """
    Müller Schmidt Schneider Fischer Weber Meyer Wagner Becker Schulz Hoffmann Schäfer Koch Bauer Richter Klein
    Wolf Schröder Neumann Schwarz Zimmermann Braun Krüger Hofmann Hartmann Lange Schmitt Werner Krause Meier
    Lehmann Schmid Schulze Maier Köhler Herrmann König Walter Mayer Huber Kaiser Fuchs Peters Lang Scholz Möller
    Weiß Jung Hahn Schubert Vogel Friedrich Keller Günther Frank Berger Winkler Roth Beck Lorenz Baumann Franke
    Albrecht Schuster Simon Ludwig Böhm Winter Kraus Martin Schumacher Krämer Vogt Stein Jäger Otto Sommer Groß
    Seidel Heinrich Brandt Haas Schreiber Graf Dietrich Ziegler Kuhn Kühn Pohl Engel Horn Busch Bergmann Thomas
    Voigt Sauer Arnold Wolff Pfeiffer
    """
)

# Places whose English name differs stand with it.
CITIES = _tokens(
    """
    Berlin Hamburg München=Munich Köln=Cologne Frankfurt Stuttgart Düsseldorf Leipzig Dortmund Essen Bremen
    Dresden Hannover=Hanover Nürnberg=Nuremberg Bonn Mannheim Karlsruhe Augsburg Wiesbaden Aachen Kiel Lübeck
    Erfurt Mainz Rostock Kassel Potsdam Heidelberg Regensburg Würzburg Ulm Göttingen Trier Jena Weimar
    Konstanz=Constance Passau Wien=Vienna Salzburg Graz Innsbruck Linz Zürich=Zurich Basel Bern Genf=Geneva
    Luzern=Lucerne Paris London Rom=Rome Mailand=Milan Venedig=Venice Florenz=Florence Neapel=Naples Prag=Prague
    Warschau=Warsaw Krakau=Krakow Budapest Brüssel=Brussels Amsterdam Kopenhagen=Copenhagen Stockholm Oslo
    Helsinki Moskau=Moscow Athen=Athens Lissabon=Lisbon Madrid Barcelona Sevilla=Seville Dublin Edinburgh
    Istanbul Kairo=Cairo Tokio=Tokyo Peking=Beijing Deutschland=Germany Österreich=Austria Frankreich=France
    Italien=Italy Spanien=Spain Portugal Polen=Poland Ungarn=Hungary Belgien=Belgium Dänemark=Denmark
    Schweden=Sweden Norwegen=Norway Finnland=Finland Russland=Russia Griechenland=Greece England
    Schottland=Scotland Irland=Ireland Kanada=Canada Indien=India China Japan Australien=Australia
    Brasilien=Brazil Argentinien=Argentina Ägypten=Egypt Marokko=Morocco Bayern=Bavaria Sachsen=Saxony
    Tirol=Tyrol
    """
)

# ---------------------------------------------------------------- adjectives

# German (comparative where it is not regular) = English (comparative likewise).
ADJECTIVES = {
    "person": """
alt/älter = old
jung/jünger = young
freundlich = friendly
klug/klüger = clever
fleißig = hard-working
faul = lazy
müde = tired
glücklich = happy
traurig = sad
reich = rich
arm/ärmer = poor
mutig = brave
höflich = polite
nett = nice
ehrlich = honest
berühmt = famous
krank/kränker = sick
stark/stärker = strong
schwach/schwächer = weak
geduldig = patient
ungeduldig = impatient
neugierig = curious
streng = strict
stolz = proud
schüchtern = shy/shyer
ruhig = calm
ernst = serious
lustig = funny
begabt = gifted
erfahren = experienced
hilfsbereit = helpful
nervös = nervous
eifersüchtig = jealous
großzügig = generous
geizig = stingy
bescheiden = modest
zuverlässig = reliable
ehrgeizig = ambitious
vorsichtig = careful
grausam = cruel/more cruel
einsam = lonely
zufrieden = content
wütend = angry
besorgt = worried
blind = blind
schlank = slim
tapfer = valiant
weise = wise
dumm/dümmer = stupid
fremd = foreign
beliebt = popular
enttäuscht = disappointed
überrascht = surprised
misstrauisch = suspicious
""",
    "animal": """
groß/größer = big
klein = small
wild = wild
zahm = tame
schnell = fast
hungrig = hungry
durstig = thirsty
schwarz = black
weiß = white
grau = grey
braun = brown
gefährlich = dangerous
scheu = timid
dick = fat
jung/jünger = young
alt/älter = old
treu = loyal
verletzt = injured
""",
    "food": """
frisch = fresh
süß = sweet
lecker = tasty
heiß = hot
kalt/kälter = cold
gesund/gesünder = healthy
billig = cheap
teuer = expensive
köstlich = delicious
salzig = salty
reif = ripe
""",
    "drink": """
frisch = fresh
süß = sweet
heiß = hot
kalt/kälter = cold
billig = cheap
teuer = expensive
stark/stärker = strong
bitter = bitter
köstlich = delicious
lauwarm = lukewarm
""",
    "text": """
lang/länger = long
kurz/kürzer = short
neu = new
alt/älter = old
interessant = interesting
langweilig = boring
wichtig = important
schwierig = difficult
kompliziert = complicated
offiziell = official
geheim = secret
spannend = exciting
ausführlich = detailed
verständlich = comprehensible
gefälscht = forged
handgeschrieben = handwritten
berühmt = famous
""",
    "object": """
groß/größer = big
klein = small
neu = new
alt/älter = old
schön = beautiful
hässlich = ugly
teuer = expensive
billig = cheap
schwer = heavy
leicht = light
rot = red
blau = blue
grün = green
gelb = yellow
schwarz = black
weiß = white
braun = brown
kaputt = broken
sauber = clean
schmutzig = dirty
praktisch = practical
nützlich = useful
wertvoll = valuable
kostbar = precious
rund = round
bunt = colourful
glänzend = shiny
rostig = rusty
modern = modern
altmodisch = old-fashioned
elegant = elegant
gewöhnlich = ordinary/more ordinary
seltsam = strange
selten = rare
gestohlen = stolen
vergoldet = gilded
robust = sturdy
zerbrechlich = fragile
""",
    "place": """
groß/größer = big
klein = small
alt/älter = old
neu = new
schön = beautiful
ruhig = quiet
dunkel = dark
hell = bright
modern = modern
leer = empty
berühmt = famous
verlassen = abandoned
gefährlich = dangerous
gemütlich = cosy
hässlich = ugly
prächtig = magnificent
historisch = historic
abgelegen = remote
schmutzig = dirty
sauber = clean
beliebt = popular
überfüllt = overcrowded
bekannt = well-known
""",
    "idea": """
gut/besser = good/better
schlecht = bad/worse
neu = new
alt/älter = old
wichtig = important
einfach = simple
schwierig = difficult
interessant = interesting
seltsam = strange
klar = clear
ungewöhnlich = unusual
ähnlich = similar
verrückt = crazy
vernünftig = sensible
unmöglich = impossible
ernst = serious
entscheidend = decisive
gefährlich = dangerous
überraschend = surprising
klug/klüger = clever
dringend = urgent
vollständig = complete
falsch = false
richtig = correct
nützlich = useful
sinnlos = pointless
gerecht = fair
riskant = risky
genial = brilliant
""",
    "event": """
lang/länger = long
kurz/kürzer = short
interessant = interesting
langweilig = boring
wichtig = important
schwierig = difficult
groß/größer = big
klein = small
erfolgreich = successful
international = international
unvergesslich = unforgettable
traurig = sad
fröhlich = cheerful
öffentlich = public
jährlich = yearly
spontan = spontaneous
""",
}
ADJECTIVE_GROUP = {
    "person": "person",
    "animal": "animal",
    "food": "food",
    "mass": "food",
    "drink": "drink",
    "text": "text",
    "idea": "idea",
    "event": "event",
    "place": "place",
    "spot": "place",
    "surface": "place",
}  # every other kind: "object"

# ---------------------------------------------------------------- verbs

# infinitive, 3rd person present, preterite, participle
GERMAN_IRREGULAR = """
backen backt backte gebacken
beginnen beginnt begann begonnen
bereiten bereitet bereitete bereitet
bieten bietet bot geboten
binden bindet band gebunden
bitten bittet bat gebeten
blasen bläst blies geblasen
bleiben bleibt blieb geblieben
braten brät briet gebraten
brechen bricht brach gebrochen
brennen brennt brannte gebrannt
bringen bringt brachte gebracht
denken denkt dachte gedacht
empfehlen empfiehlt empfahl empfohlen
essen isst aß gegessen
fahren fährt fuhr gefahren
fallen fällt fiel gefallen
fangen fängt fing gefangen
finden findet fand gefunden
fliegen fliegt flog geflogen
fliehen flieht floh geflohen
fressen frisst fraß gefressen
geben gibt gab gegeben
gehen geht ging gegangen
genießen genießt genoss genossen
gewinnen gewinnt gewann gewonnen
gießen gießt goss gegossen
graben gräbt grub gegraben
greifen greift griff gegriffen
halten hält hielt gehalten
hängen hängt hängte gehängt
heben hebt hob gehoben
helfen hilft half geholfen
kennen kennt kannte gekannt
klingen klingt klang geklungen
kommen kommt kam gekommen
kriechen kriecht kroch gekrochen
laden lädt lud geladen
lassen lässt ließ gelassen
laufen läuft lief gelaufen
leihen leiht lieh geliehen
lesen liest las gelesen
liegen liegt lag gelegen
lügen lügt log gelogen
meiden meidet mied gemieden
messen misst maß gemessen
nehmen nimmt nahm genommen
nennen nennt nannte genannt
raten rät riet geraten
reißen reißt riss gerissen
reiten reitet ritt geritten
rennen rennt rannte gerannt
rufen ruft rief gerufen
scheiden scheidet schied geschieden
schieben schiebt schob geschoben
schlafen schläft schlief geschlafen
schlagen schlägt schlug geschlagen
schließen schließt schloss geschlossen
schneiden schneidet schnitt geschnitten
schreiben schreibt schrieb geschrieben
schreien schreit schrie geschrien
schweigen schweigt schwieg geschwiegen
schwinden schwindet schwand geschwunden
schwimmen schwimmt schwamm geschwommen
sehen sieht sah gesehen
senden sendet sandte gesandt
singen singt sang gesungen
sitzen sitzt saß gesessen
sprechen spricht sprach gesprochen
springen springt sprang gesprungen
stehen steht stand gestanden
stehlen stiehlt stahl gestohlen
steigen steigt stieg gestiegen
sterben stirbt starb gestorben
streichen streicht strich gestrichen
streiten streitet stritt gestritten
tragen trägt trug getragen
treffen trifft traf getroffen
treten tritt trat getreten
trinken trinkt trank getrunken
tun tut tat getan
vergessen vergisst vergaß vergessen
verlieren verliert verlor verloren
wachsen wächst wuchs gewachsen
waschen wäscht wusch gewaschen
weisen weist wies gewiesen
werfen wirft warf geworfen
zeihen zeiht zieh geziehen
ziehen zieht zog gezogen
"""
# Auxiliaries and modals: ich du er wir ihr sie, preterite stem, participle.
GERMAN_AUXILIARIES = """
haben habe hast hat haben habt haben hatte gehabt
sein bin bist ist sind seid sind war gewesen
werden werde wirst wird werden werdet werden wurde geworden
können kann kannst kann können könnt können konnte gekonnt
müssen muss musst muss müssen müsst müssen musste gemusst
wollen will willst will wollen wollt wollen wollte gewollt
sollen soll sollst soll sollen sollt sollen sollte gesollt
dürfen darf darfst darf dürfen dürft dürfen durfte gedurft
möchten möchte möchtest möchte möchten möchtet möchten mochte gemocht
wissen weiß weißt weiß wissen wisst wissen wusste gewusst
"""

# base, past, participle
ENGLISH_IRREGULAR = """
be was been
become became become
begin began begun
bend bent bent
bid bid bid
bind bound bound
bite bit bitten
blow blew blown
break broke broken
bring brought brought
build built built
burn burned burned
buy bought bought
catch caught caught
choose chose chosen
come came come
cost cost cost
cut cut cut
dig dug dug
do did done
draw drew drawn
dream dreamed dreamed
drink drank drunk
drive drove driven
eat ate eaten
fall fell fallen
feed fed fed
feel felt felt
fight fought fought
find found found
flee fled fled
fly flew flown
forbid forbade forbidden
forget forgot forgotten
forgive forgave forgiven
freeze froze frozen
get got got
give gave given
go went gone
grow grew grown
hang hung hung
have had had
hear heard heard
hide hid hidden
hit hit hit
hold held held
keep kept kept
know knew known
lay laid laid
lead led led
leave left left
lend lent lent
let let let
lie lied lied
lose lost lost
make made made
mean meant meant
meet met met
overtake overtook overtaken
pay paid paid
put put put
read read read
rebuild rebuilt rebuilt
ride rode ridden
ring rang rung
rise rose risen
run ran run
say said said
see saw seen
sell sold sold
send sent sent
set set set
sew sewed sewn
shake shook shaken
shine shone shone
shut shut shut
sing sang sung
sink sank sunk
sit sat sat
sleep slept slept
speak spoke spoken
spend spent spent
spread spread spread
stand stood stood
steal stole stolen
stick stuck stuck
sweep swept swept
swim swam swum
take took taken
teach taught taught
tear tore torn
tell told told
think thought thought
throw threw thrown
understand understood understood
wake woke woken
wear wore worn
win won won
write wrote written
"""
# Verbs that double their last consonant: stopped, stopping.
_DOUBLING = frozenset(
    _tokens(
        """
    stop plan hug rob rub drop grab chat slip beg admit prefer cancel get put run sit swim win cut set hit dig
    begin forget let travel shut wrap knit nod step clap swap occur kidnap fulfil jot marvel
    """
    )
)

# German = English : what it governs ; another way. "an|rufen" is separable, "be-kommen" is not, "*" takes
# "sein", "sich" is reflexive. "A kinds" an accusative object, "D kinds" a dative one, "D=to" one with "to" in
# English, "auf+A=for kinds" a prepositional one, "dir" a direction, "loc" a place; "< kinds" other subjects
# than persons. A particle that an English pronoun comes before ("pick it up") has a "+".
VERBS = """
lesen = read : A text
schreiben = write : A text ; D person A text ; an+A=to person
kaufen = buy : A thing furniture clothing device food mass vehicle ; D person A thing clothing text
geben = give : D person A thing text food clothing
sehen = see : A person animal vehicle thing place
suchen = look for : A person animal thing text place
finden = find : A person animal thing text idea place
essen = eat : A food mass
trinken = drink : A drink
an|rufen = call : A person
helfen = help : D person ; D person bei+D=with idea event
be-suchen = visit : A person place
be-kommen = receive : A text thing clothing
kommen* = come : dir ; aus+D=from place
gehen* = go : dir
wohnen = live : loc
arbeiten = work : loc ; mit+D=with person device
warten = wait : auf+A=for person vehicle text event
spielen = play : mit+D=with person animal thing
machen = make : A mistake
ver-kaufen = sell : A thing furniture clothing device vehicle ; D person A thing furniture vehicle clothing
bringen = bring : D person A thing text drink food
zeigen = show : D person A thing text place idea
er-klären = explain : D=to person A idea text
er-zählen = tell : D person A story
vergessen = forget : A idea event thing text
verlieren = lose : A thing text event
stehlen = steal : A thing vehicle text device
ver-stehen = understand : A idea text person
kennen = know : A person place text
lieben = love : A person animal place
hassen = hate : A person idea place
fragen = ask : A person
danken = thank : D person
antworten = reply : D=to person ; auf+A=to text idea
folgen* = follow : D person animal vehicle < person animal
treffen = meet : A person
tragen = carry : A thing furniture
waschen = wash : A clothing vehicle
reparieren = repair : A device vehicle furniture door
bauen = build : A furniture vehicle
malen = paint : A animal person place
zeichnen = draw : A animal person place
fotografieren = photograph : A animal person place vehicle
füttern = feed : A animal
fangen = catch : A animal person
jagen = hunt : A animal < person animal
ver-folgen = chase : A animal person vehicle < person animal
be-obachten = observe : A person animal vehicle < person animal
bellen = bark : < animal
schlafen = sleep : loc < person animal ; < person animal
schwimmen* = swim : < person animal
tanzen = dance : loc ; mit+D=with person
singen = sing : loc ; für+A=for person
lachen = laugh : über+A=about person idea text
weinen = cry : über+A=about event idea
lächeln = smile :
schweigen = remain silent :
träumen = dream : von+D=of person place event
denken = think : an+A=of person event idea
sprechen = speak : mit+D=to person ; über+A=about idea event person
reden = talk : mit+D=to person ; über+A=about idea event
diskutieren = debate : über+A=about idea text event
streiten = argue : mit+D=with person ; über+A=about idea
lügen = lie :
kochen = cook : A mass food ; für+A=for person
backen = bake : A cake ; für+A=for person
schneiden = cut : A mass food
probieren = taste : A food drink mass
be-stellen = order : A food drink thing furniture text
be-zahlen = pay for : A food drink thing event
putzen = clean : A place thing clothing door
öffnen = open : A door text
schließen = close : A door
auf|machen = open +up : A door
zu|machen = shut : A door
an|machen = turn +on : A device
aus|machen = turn +off : A device
ein|schalten = switch +on : A device
aus|schalten = switch +off : A device
an|nehmen = accept : A idea text
mit|nehmen = take +along : A person animal thing
auf|nehmen = record : A event text
ab|nehmen = take +down : A picture
ab|geben = hand +in : A text thing
auf|geben = give +up : A idea
zurück|geben = return : D=to person A thing text
an|sehen = look at : A person thing text place
vor|lesen = read aloud : D=to person A text
durch|lesen = read through : A text
auf|schreiben = write +down : A idea text
ab|schreiben = copy : A text
unter-schreiben = sign : A text
be-schreiben = describe : A person place idea event
ab|holen = pick +up : A person thing
ein|laden = invite : A person ; A person zu+D=to event
auf|laden = charge : A device
ab|laden = unload : A furniture thing
vor|stellen = introduce : D=to person A person
ein|stellen = hire : A person
aus|stellen = exhibit : A thing vehicle
her|stellen = produce : A device furniture clothing
ab|stellen = park : A vehicle
an|kommen* = arrive : loc < person vehicle
zurück|kommen* = come back : < person animal vehicle ; aus+D=from place < person animal
mit|kommen* = come along :
vor|kommen* = occur : < idea
an|ziehen = put +on : A clothing
aus|ziehen = take +off : A clothing
um|ziehen* = move house :
ein|ziehen* = move in :
mit|bringen = bring +along : D=for person A thing food drink ; A thing food person
zurück|bringen = bring +back : A thing text person
an|fangen = start : mit+D=with event idea text
auf|hören = stop : mit+D=with event
zu|hören = listen : D=to person
auf|stehen* = get up :
auf|wachen* = wake up : < person animal
ein|schlafen* = fall asleep : < person animal ; loc < person animal
fern|sehen = watch television :
ein|kaufen = go shopping : loc
auf|räumen = tidy +up : A place
aus|räumen = clear +out : A furniture place
weg|werfen = throw +away : A thing text clothing
weg|laufen* = run away : < person animal ; vor+D=from person animal < person animal
vor|schlagen = suggest : A idea ; D=to person A idea
nach|schlagen = look +up : A idea
ab|lehnen = reject : A idea text
aus|suchen = choose : A thing clothing furniture
ver-suchen = try : A food
unter-suchen = examine : A person animal thing text
auf|bauen = set +up : A furniture device
ab|bauen = dismantle : A furniture device
ab|sagen = cancel : A event
ver-schieben = postpone : A event
ab|schließen = lock : A door
an|schließen = connect : A device
aus|füllen = fill +in : A form
aus|probieren = try +out : A device
an|probieren = try +on : A clothing
auf|hängen = hang +up : A clothing picture
zusammen|fassen = summarise : A text event
be-grüßen = greet : A person
ver-abschieden = bid farewell to : A person
ver-lassen = leave : A place person
be-treten = enter : A place
er-reichen = reach : A place person
über-setzen = translate : A text
über-prüfen = check : A device text idea
über-raschen = surprise : A person
über-zeugen = convince : A person
unter-stützen = support : A person idea
unter-richten = teach : A person
ver-stecken = hide : A thing text person
ver-teidigen = defend : A person idea
ver-öffentlichen = publish : A text
ver-passen = miss : A vehicle event
ver-mieten = rent +out : A vehicle place
ver-brennen = burn : A text thing
zer-reißen = tear +up : A text
zer-stören = destroy : A thing device place
zer-brechen = break : A thing
ent-decken = discover : A animal place idea
ent-werfen = design : A furniture clothing device
ent-täuschen = disappoint : A person
ent-führen = kidnap : A person
er-finden = invent : A device event
er-kennen = recognise : A person place thing
er-warten = expect : A person text event
er-wähnen = mention : A person idea
er-schrecken = frighten : A person animal < person animal
er-füllen = fulfil : A wish
be-merken = notice : A person mistake animal
be-nutzen = use : A device thing text
be-halten = keep : A thing text
be-gleiten = accompany : A person < person animal
be-wundern = admire : A person thing place
be-strafen = punish : A person
be-antworten = answer : A text question
be-drohen = threaten : A person < person animal
be-schützen = protect : A person animal < person animal
be-kämpfen = fight : A idea
be-enden = end : A event
be-sichtigen = tour : A place
ge-hören = belong : D=to person < thing vehicle place furniture
gewinnen = win : A event
organisieren = organise : A event
planen = plan : A event idea
beginnen = begin : < event
hören = hear : A person animal
küssen = kiss : A person
trösten = comfort : A person
retten = rescue : A person animal
heilen = cure : A person
pflegen = nurse : A person animal
loben = praise : A person text idea
kritisieren = criticise : A person text idea
be-leidigen = insult : A person
warnen = warn : A person ; A person vor+D=about person idea
stören = disturb : A person event
wecken = wake +up : A person animal
schicken = send : D person A text thing ; A text an+A=to person
leihen = lend : D person A thing text vehicle clothing
empfehlen = recommend : D=to person A text place food
an|bieten = offer : D person A food drink thing
be-richten = report : über+A=on event idea ; D=to person von+D=about event
servieren = serve : D person A food drink
ver-trauen = trust : D person
ver-zeihen = forgive : D person
gratulieren = congratulate : D person ; D person zu+D=on event
be-gegnen* = encounter : D person animal < person animal
wider-sprechen = contradict : D person idea
zu|stimmen = agree : D=with person ; D=to idea text
winken = wave : D=to person
nach|laufen* = run after : D person animal vehicle < person animal
zu|sehen = watch : D person animal
er-innern sich = remember : an+A= person event place
kümmern sich = take care : um+A=of person animal problem
vor|bereiten sich = prepare : auf+A=for event
freuen sich = look forward : auf+A=to event text person
ärgern sich = get annoyed : über+A=about person text idea
be-schweren sich = complain : über+A=about person food text ; bei+D=to person über+A=about idea event
ver-lieben sich = fall in love : in+A=with person
unter-halten sich = chat : mit+D=with person ; mit+D=with person über+A=about event text
ent-schuldigen sich = apologise : bei+D=to person ; bei+D=to person für+A=for mistake
be-danken sich = express thanks : bei+D=to person für+A=for thing event
wundern sich = marvel : über+A=at person idea text
ver-stecken sich = hide : loc < person animal
aus|ruhen sich = rest : loc ; < person animal
be-eilen sich = hurry :
ver-laufen sich = get lost : loc
ver-irren sich = go astray : loc
kennen|lernen = get to know : A person place
hin|fallen* = fall down : loc
ab|fahren* = depart : < vehicle
los|fahren* = set off : < person vehicle
zurück|kehren* = return : dir
weiter|gehen* = go on : < event
statt|finden = take place : loc < event
explodieren* = explode : < vehicle device
funktionieren = work properly : < device
ver-schwinden* = disappear : < person thing animal text
reisen* = travel : dir
fahren* = drive : dir
fliegen* = fly : dir < person animal
laufen* = run : dir < person animal
wandern* = hike : dir
rennen* = dash : dir < person animal
ziehen = pull : A vehicle furniture < person animal
schieben = push : A vehicle furniture
springen* = jump : über+A=over door < person animal
klettern* = climb : auf+A=onto furniture surface < person animal
fallen* = fall : von+D=off furniture surface < person animal thing
stellen = place : A thing device auf+A=on furniture
legen = lay : A thing text clothing auf+A=on furniture
werfen = throw : A thing in+A=into place
hängen = hang : A clothing picture an+A=on door
stehen = stand : an+D=at door ; loc
sitzen = sit : auf+D=on furniture ; loc < person animal
glauben = believe : D person
ge-horchen = obey : D person
leiten = run : A place
ver-walten = manage : A place
bitten = ask : A person um+A=for thing text drink food
achten = pay attention : auf+A=to person animal idea
hoffen = hope : auf+A=for idea letter
klopfen = knock : an+A=on door
protestieren = protest : gegen+A=against person idea event
kämpfen = fight : gegen+A=against person animal ; für+A=for idea
sorgen = care : für+A=for person animal
teil|nehmen = take part : an+D=in event
zweifeln = have doubts : an+D=about idea person
sammeln = collect : A stamp picture
wechseln = change : A tyre clothing
ernten = harvest : A food
pflanzen = plant : A flower
gießen = water : A flower
pflücken = pick : A flower food
schälen = peel : A food
rauchen = smoke : loc
husten = cough :
niesen = sneeze :
gähnen = yawn : < person animal
zögern = hesitate :
nicken = nod :
schreien = shout :
flüstern = whisper :
sterben* = die : loc < person animal
wachsen* = grow : < child animal flower
duschen = take a shower :
frühstücken = have breakfast : loc ; mit+D=with person
heiraten = marry : A person
adoptieren = adopt : A child animal
mieten = rent : A place vehicle
liefern = deliver : A thing furniture food ; D=to person A furniture thing
installieren = install : A device
zählen = count : A thing animal person
messen = measure : A furniture door
polieren = polish : A thing furniture vehicle
tauschen = swap : A clothing thing
notieren = jot +down : A idea
kopieren = duplicate : A text
drucken = print : A text
korrigieren = correct : A text mistake
zitieren = quote : A person text
interpretieren = interpret : A text
analysieren = analyse : A text idea event
kommentieren = comment on : A text event
genießen = enjoy : A event food drink
ver-meiden = avoid : A mistake person
lösen = solve : A problem
ändern = change : A idea text
ver-bessern = improve : A idea device
ver-hindern = prevent : A event
er-lauben = allow : A event
fürchten = fear : A person animal idea
be-zweifeln = doubt : A idea
akzeptieren = approve : A idea
ignorieren = ignore : A person idea text
filmen = film : A person animal event
ver-haften = arrest : A person
ent-lassen = dismiss : A person
be-fragen = question : A person
kontrollieren = inspect : A text vehicle
reinigen = cleanse : A thing clothing
flicken = mend : A clothing
nähen = sew : A clothing
stricken = knit : A clothing
bügeln = iron : A clothing
falten = fold : A clothing text
packen = pack : A suitcase
aus|packen = unpack : A suitcase thing
ein|packen = wrap +up : A thing
an|fassen = touch : A thing animal
auf|heben = lift +up : A thing child
fest|halten = hold on to : A person thing
um|drehen = turn +over : A thing
durch|streichen = cross +out : A text
aus|leihen = borrow : A text thing vehicle
zurück|schicken = send +back : A text thing clothing
weiter|leiten = forward : A text
herunter|laden = download : A text
hoch|laden = upload : A text
aus|drucken = print +out : A text
vor|bereiten = prepare : A event food
nach|ahmen = imitate : A person animal
aus|lachen = mock : A person
an|lächeln = smile at : A person
an|schreien = shout at : A person
an|greifen = attack : A person animal place < person animal
ein|holen = catch up with : A person vehicle
über-holen = overtake : A vehicle person
ein|sperren = lock +up : A person animal
frei|lassen = release : A person animal
um|bauen = convert : A place
ab|reißen = tear +down : A place
renovieren = renovate : A place
gründen = found : A place
be-wachen = guard : A place thing < person animal
"""

# Nouns that a verb asks for by more than their kind.
NOUN_SETS = {
    "mistake": "Fehler",
    "story": "Geschichte Märchen Lüge Geheimnis",
    "question": "Frage",
    "problem": "Problem Aufgabe Rätsel",
    "wish": "Wunsch Traum",
    "letter": "Brief Nachricht Postkarte",
    "picture": "Bild Foto Postkarte",
    "stamp": "Briefmarke Münze",
    "form": "Formular Antrag",
    "cake": "Kuchen Torte Keks Brot",
    "flower": "Blume Rose",
    "child": "Kind Baby Junge Mädchen",
    "suitcase": "Koffer Rucksack Tasche",
    "tyre": "Reifen",
}

# Verbs that take a clause: "that" (dass), "whether" (ob), "to" (zu with infinitive).
CLAUSE_VERBS = """
sagen = say : that
denken = think : that
glauben = believe : that
wissen = know : that whether
hoffen = hope : that to
be-haupten = claim : that
ver-muten = suspect : that
fürchten = fear : that
be-merken = notice : that
vergessen = forget : that to
er-warten = expect : that
träumen = dream : that
ver-sprechen = promise : that to
schreiben = write : that
be-zweifeln = doubt : that
fragen = ask : whether
prüfen = verify : whether
ver-suchen = try : to
be-schließen = decide : to
planen = plan : to
lernen = learn : to
wagen = dare : to
weigern sich = refuse : to
an|fangen = start : to
"""

MODALS = """
können = can could
müssen = have_to have_to
wollen = want_to want_to
sollen = should -
dürfen = be_allowed_to be_allowed_to
möchten = would_like_to -
"""

# ---------------------------------------------------------------- adverbials, word by word: German|English

TIMES = {
    "past": _rows("""
gestern|yesterday
vorgestern|the_day_before_yesterday
gestern|yesterday Abend|evening
gestern|yesterday Morgen|morning
letzte|last Woche|week
letztes|last Jahr|year
letzten|last Monat|month
letzten|last Sommer|summer
letzten|last Winter|winter
damals|at_that_time
neulich|recently
vor|before dem|the Krieg|war
nach|after dem|the Essen|meal
den|the ganzen|whole Tag|day
"""),
    "present": _rows("""
heute|today
jeden|every Tag|day
jede|every Woche|week
jeden|every Morgen|morning
jeden|every Abend|evening
im|in_the Sommer|summer
im|in_the Winter|winter
am|in_the Abend|evening
am|at_the Wochenende|weekend
heutzutage|nowadays
nach|after der| Arbeit|work
"""),
    "future": _rows("""
morgen|tomorrow
übermorgen|the_day_after_tomorrow
nächste|next Woche|week
nächstes|next Jahr|year
nächsten|next Monat|month
nächsten|next Sommer|summer
bald|soon
morgen|tomorrow Abend|evening
in|in Zukunft|future
"""),
}
WEEKDAYS = _tokens(
    """
    Montag=Monday Dienstag=Tuesday Mittwoch=Wednesday Donnerstag=Thursday Freitag=Friday Samstag=Saturday
    Sonntag=Sunday
    """
)
MONTHS = _tokens(
    """
    Januar=January Februar=February März=March April=April Mai=May Juni=June Juli=July August=August
    September=September Oktober=October November=November Dezember=December
    """
)
# German dative plural, English plural.
PERIODS = ["Minuten=minutes", "Stunden=hours", "Tagen=days", "Wochen=weeks", "Monaten=months", "Jahren=years"]

FREQUENCIES = _rows("""
immer|always
oft|often
manchmal|sometimes
selten|rarely
nie|never
meistens|usually
fast|almost immer|always
""")
MANNERS = _rows("""
sofort|immediately
heimlich|secretly
freiwillig|voluntarily
zufällig|by_chance
absichtlich|on_purpose
wieder|again
allein|alone
ohne|without Hilfe|help
zum|for_the ersten|first Mal|time
mit|with großer|great Freude|joy
""")
# A comma at the end stands in English.
SENTENCE_ADVERBS = _rows("""
leider|unfortunately,
vielleicht|perhaps
natürlich|of_course,
wahrscheinlich|probably
glücklicherweise|fortunately,
hoffentlich|hopefully
offenbar|apparently,
angeblich|allegedly,
trotzdem|nevertheless,
deshalb|therefore
außerdem|moreover,
schließlich|finally
plötzlich|suddenly
zum|for Beispiel|example,
tatsächlich|indeed,
""")
# Persons that one is not by profession.
NO_PROFESSION = frozenset(
    _tokens(
        """
        Mann Frau Junge Freund Freundin Nachbar Nachbarin Bruder Schwester Vater Mutter Sohn Tochter Onkel Tante
        Großvater Großmutter Enkel Enkelin Neffe Nichte Cousin Kollege Kollegin Kunde Kundin Gast Besucher
        Besucherin Tourist Touristin Dieb Zeuge Zeugin Held Heldin Riese Zwerg Zauberer Hexe Patient Patientin
        Besitzer Besitzerin Mieter Mieterin
        """
    )
)

DEGREES = ["sehr|very", "zu|too", "ziemlich|quite", "besonders|particularly", "so|so", "äußerst|extremely"]

# German|English, and whether the tense is past, present or either.
SUBORDINATORS = {
    "past": _tokens("weil|because obwohl|although als|when bevor|before während|while da|since"),
    "present": _tokens(
        "weil|because obwohl|although wenn|when falls|if bevor|before während|while sobald|as_soon_as "
        "solange|as_long_as da|since damit|so_that"
    ),
}

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
        """The compound with this head: "Tür" and ("Haus", "front") make "Haustür", "front door"."""

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
    """All nouns by lemma, compounds included."""
    simple = {}
    for kind, table in NOUNS.items():
        for line in table.strip().split("\n"):
            noun = _noun(line, kind)
            simple[noun.lemma] = noun
    compounds: dict[str, Noun] = {}
    for line in COMPOUNDS.strip().split("\n"):
        heads, modifiers = line.split(" : ")
        for head in heads.split():
            for modifier in modifiers.split():
                german, english = modifier.split("=")
                compound = simple[head].compound(german, english.replace("_", " "))
                compounds.setdefault(compound.lemma, compound)
    return compounds | simple


@cache
def nouns_of(kind: str) -> tuple[Noun, ...]:
    """The nouns of a kind or of a noun set, simple ones first."""
    if kind in NOUN_SETS:
        return tuple(nouns()[lemma] for lemma in NOUN_SETS[kind].split())
    found = [noun for noun in nouns().values() if noun.kind == kind]
    return tuple(sorted(found, key=lambda noun: " " in noun.english))


_NO_COMPARATIVE = frozenset(
    _tokens(
        """
    blind begabt fremd enttäuscht überrascht verletzt schwarz weiß grau braun rot blau grün gelb kaputt rund
    gestohlen vergoldet offiziell geheim gefälscht handgeschrieben historisch verlassen leer international
    öffentlich jährlich unmöglich vollständig falsch richtig entscheidend lauwarm wild erfahren
    """
    )
)


def _english_comparative(adjective):
    if adjective.endswith("y") and adjective[-2] not in "aeiou":
        return adjective[:-1] + "ier"
    syllables = re.findall(r"[aeiou]+", re.sub(r"e$", "", adjective))
    if len(syllables) > 1 or "-" in adjective:
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
    """The adjectives that go with nouns of a kind."""
    group = ADJECTIVE_GROUP.get(kind, "object")
    return tuple(_adjective(line) for line in ADJECTIVES[group].strip().split("\n"))


def adjective(german: str, kind: str) -> Adjective:
    """One adjective by its German form."""
    return next(item for item in adjectives_of(kind) if item.german == german)


# ---------------------------------------------------------------- verbs: forms

ICH, DU, ER, WIR, IHR, SIE = range(6)


def _table(text):
    return {line.split()[0]: line.split()[1:] for line in text.strip().split("\n")}


_IRREGULAR = _table(GERMAN_IRREGULAR)
_AUXILIARY = _table(GERMAN_AUXILIARIES)
_ENGLISH = _table(ENGLISH_IRREGULAR)


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
        """The present of a person from 0 (I) to 5 (they)."""
        if self.base == "be":
            return ("am", "are", "is", "are", "are", "are")[person]
        return self.third if person == ER else self.base

    def preterite(self, person: int) -> str:
        """The past of a person from 0 (I) to 5 (they)."""
        if self.base == "be":
            return "was" if person in (ICH, ER) else "were"
        return self.past


@cache
def english_verb(base: str) -> EnglishVerb:
    """The forms of an English verb."""
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
    """A verb from its dictionary entry: "an|rufen", "be-kommen", "gehen*", "freuen sich"."""
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
    """The verbs with their frames, by infinitive ("sich freuen" for a reflexive one)."""
    found = {}
    for line in VERBS.strip().split("\n"):
        entry, english, frames = _cut(r"(.+?) = (.+?) ?:(.*)", line)
        verb = make_verb(entry, english, [_frame(frame) for frame in frames.split(";")])
        found["sich " * verb.reflexive + verb.infinitive] = verb
    return found


@cache
def clause_verbs(kind: str) -> tuple[Verb, ...]:
    """The verbs that take a clause of a kind: "that", "whether" or "to"."""
    found = []
    for line in CLAUSE_VERBS.strip().split("\n"):
        entry, english, kinds = _cut(r"(.+?) = (.+?) : (.+)", line)
        if kind in kinds.split():
            found.append(make_verb(entry, english, clauses=kinds.split()))
    return tuple(found)


@cache
def auxiliary(infinitive: str) -> Verb:
    """haben, sein or werden, with its English as a full verb."""
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
    """The modals by infinitive."""
    found = {}
    for line in MODALS.strip().split("\n"):
        german, forms = line.split(" = ")
        present, past = forms.split()
        found[german] = Modal(
            make_verb(german, "be"), tuple(present.split("_")), None if past == "-" else tuple(past.split("_"))
        )
    return found


# ---------------------------------------------------------------- numbers

_GERMAN_UNITS = _tokens(
    """
    null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn
    siebzehn achtzehn neunzehn
    """
)
_GERMAN_TENS = ["zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"]
_ENGLISH_UNITS = _tokens(
    """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen
    """
)
_ENGLISH_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_GERMAN_ORDINALS = {1: "erst", 3: "dritt", 7: "siebt", 8: "acht"}
_ENGLISH_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}


def number_words(number: int) -> tuple[str, str]:
    """A number from 2 to 999 in German and English: 125 is "hundertfünfundzwanzig"."""
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
    """An ordinal from 1 to 99, the German one as it stands after "am": ("dritten", "third")."""
    german, english = ("ein", "one") if number == 1 else number_words(number)
    stem = _GERMAN_ORDINALS.get(number) or german + ("t" if number < 20 else "st")
    tens, _, unit = english.rpartition("-")
    unit = _ENGLISH_ORDINALS.get(unit) or re.sub("y$", "ie", unit) + "th"
    return stem + "en", f"{tens}-{unit}" if tens else unit


def counting(number: int) -> Determiner:
    """The determiner of a number from 2 to 999."""
    german, english = number_words(number)
    return Determiner(german, "", english, "fixed")


def owned_by(name: str) -> Determiner:
    """The determiner of a first name: "Annas", "Anna's"."""
    return Determiner(name + "s", name + "'s", name + "'s", "fixed")


WHOSE = {form: Determiner(form, "whose", "whose", "fixed") for form in ("dessen", "deren")}
