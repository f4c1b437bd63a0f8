"""Twenty everyday sentences, in German and in English, for presets."""

GERMAN = [
    *("Ich rufe dich morgen an, wenn ich Zeit habe.", "Guten Morgen.", "Er ruft den alten Freund an."),
    *("Das Haus, in dem ich wohne, ist klein.", "Tom mag keine Äpfel.", "Wie spät ist es?", "Ja."),
    *("Wir haben gestern Abend einen guten Film gesehen.", "Sie fragte mich, ob ich ihr helfen könne."),
    *("Die Kinder spielen im Garten, obwohl es regnet.", "Ich weiß nicht, was ich sagen soll."),
    *("Mein Bruder wohnt in Berlin.", "Kannst du mir das Salz geben?", "Es hat die ganze Nacht geschneit."),
    *("Der Zug kommt um zehn Uhr an.", "Hast du schon gegessen?", "Das ist nicht meine Schuld."),
    *("Ich möchte ein Glas 水, bitte 😀.", "Sie ist so groß wie ihre Mutter.", "Niemand hat mir geholfen."),
]
ENGLISH = [
    *("I will call you tomorrow if I have time.", "Good morning.", "He is calling his old friend."),
    *("The house that I live in is small.", "Tom doesn't like apples.", "What time is it?", "Yes."),
    *("We saw a good film last night.", "She asked me whether I could help her."),
    *("The children are playing in the garden although it is raining.", "I don't know what I should say."),
    *("My brother lives in Berlin.", "Could you pass me the salt?", "It snowed all night."),
    *("The train arrives at ten o'clock.", "Have you eaten yet?", "That is not my fault."),
    *("I would like a glass of 水, please 😀.", "She is as tall as her mother.", "Nobody helped me."),
]


def for_preset(name: str) -> list[str]:
    """Those in the language that a preset translates."""
    return ENGLISH if name.endswith("_en_de") else GERMAN
