"""One run: its system and settings, its folder, preparation, training, scoring."""
