"""The rule for sentences, against every character of Unicode."""

import re
import sys
import unicodedata

from keras_attn_zoo.data.text_files import read_lines
from keras_attn_zoo.data.words import normalise


def test_what_is_normalised_stays_as_it_is(tmp_path):
    """Every character, alone and between others, and every sentence in a file."""
    text = "".join(f"a{chr(i)} {chr(i)}b " for i in range(sys.maxunicode + 1) if not 0xD800 <= i < 0xE000)
    once = normalise(text)
    assert once.split(" ") == unicodedata.normalize("NFC", "\n".join(re.findall(r"\S+", text))).split("\n")
    assert normalise(once) == once
    fronts = ["\ufeff", "\u0301", "\u3000\ufeff", "\ufeff\x85", "\u1161"]
    lines = {normalise(f"{front}{behind}a") for front in fronts for behind in fronts}
    assert set(map(normalise, lines)) == lines
    for line in lines:
        (tmp_path / "lines").write_bytes(f"{line}\n{line}\n".encode())
        assert list(read_lines(tmp_path / "lines")) == [line, line]
