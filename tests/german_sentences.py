"""Twenty German sentences, for presets."""

GERMAN = [
    *("Ich rufe dich morgen an, wenn ich Zeit habe.", "Guten Morgen.", "Er ruft den alten Freund an."),
    *("Das Haus, in dem ich wohne, ist klein.", "Tom mag keine Äpfel.", "Wie spät ist es?", "Ja."),
    *("Wir haben gestern Abend einen guten Film gesehen.", "Sie fragte mich, ob ich ihr helfen könne."),
    *("Die Kinder spielen im Garten, obwohl es regnet.", "Ich weiß nicht, was ich sagen soll."),
    *("Mein Bruder wohnt in Berlin.", "Kannst du mir das Salz geben?", "Es hat die ganze Nacht geschneit."),
    *("Der Zug kommt um zehn Uhr an.", "Hast du schon gegessen?", "Das ist nicht meine Schuld."),
    *("Ich möchte ein Glas 水, bitte 😀.", "Sie ist so groß wie ihre Mutter.", "Niemand hat mir geholfen."),
]
