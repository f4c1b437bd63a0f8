"""Equations of docstrings in MathML, against elements written by hand, and letter by letter."""

import html
import re
import unicodedata

import pytest

from keras_attn_zoo.layers import ATTENTIONS
from keras_attn_zoo.site.equations import equation_lines, mathml, with_symbols

pytestmark = pytest.mark.one_backend
LAYERS = sorted({entry.layer for entry in ATTENTIONS.values()}, key=lambda layer: layer.__name__)


@pytest.mark.parametrize(
    ("equation", "expected"),
    [
        ("e_ij", "<msub><mi>e</mi><mrow><mi>i</mi><mi>j</mi></mrow></msub>"),
        ("W_q^n", "<msubsup><mi>W</mi><mi>q</mi><mi>n</mi></msubsup>"),
        ("γ^n_i", "<msubsup><mi>γ</mi><mi>i</mi><mi>n</mi></msubsup>"),
        ("s_{i-1}", "<msub><mi>s</mi><mrow><mi>i</mi><mo>−</mo><mn>1</mn></mrow></msub>"),
        ("2σ²", "<mn>2</mn><msup><mi>σ</mi><mn>2</mn></msup>"),
        ("√d_k", "<msqrt><msub><mi>d</mi><mi>k</mi></msub></msqrt>"),
        ("√(x + ε)", "<msqrt><mi>x</mi><mo>+</mo><mi>ε</mi></msqrt>"),
        ("Σ_j", "<munder><mo>∑</mo><mi>j</mi></munder>"),
        ("å'", '<msup><mover accent="true"><mi>a</mi><mo>˚</mo></mover><mo>′</mo></msup>'),
        ("W h", '<mi>W</mi><mspace width="0.2em"/><mi>h</mi>'),
        ("a < b", "<mi>a</mi><mo>&lt;</mo><mi>b</mi>"),
        (
            "(a)ᵀ",
            '<msup><mrow><mo stretchy="false">(</mo><mi>a</mi><mo stretchy="false">)</mo></mrow>'
            '<mi mathvariant="normal">T</mi></msup>',
        ),
    ],
)
def test_an_equation_is_set_as_by_hand(equation, expected):
    assert mathml(equation) == f"<math>{expected}</math>"


def test_lines_are_equations_and_a_remark():
    (first, remark), (second, none) = equation_lines(
        '    p_i  = i       alignment="monotonic"\n    c_i  = 1,   c_0 = 0\n'
    )
    assert first == [mathml("p_i = i")] and remark == 'alignment="monotonic"'
    assert second == [mathml("c_i = 1,"), mathml("c_0 = 0")] and none == ""


def test_symbols_in_a_text_are_set_and_words_are_not():
    assert with_symbols("h_j & W_q^n of query_dim, local_p(x)") == (
        f"{mathml('h_j')} &amp; {mathml('W_q^n')} of query_dim, local_p(x)"
    )


def letters(text):
    """What stands in an equation, without what marks scripts."""
    return sorted(re.sub(r"[\s_^{}√()]", "", unicodedata.normalize("NFC", text)))


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.__name__)
def test_nothing_of_an_equation_is_lost(layer):
    lines = [
        line
        for paragraph in layer.__doc__.partition("Args")[0].split("\n\n")
        if paragraph.startswith("        ") and " = " in paragraph and "InitialAttention" not in paragraph
        for line in paragraph.splitlines()
    ]
    assert lines
    for line in lines:
        ((equations, remark),) = equation_lines(line)
        text = html.unescape(re.sub(r"<[^>]+>", "", re.sub(r"<mi mathvariant.*?</mi>", "ᵀ", " ".join(equations))))
        # Powers of two are numbers.
        back = {"−": "-", "∑": "Σ", "⋅": "·", "′": "'", "e^": "ê", "a˚": "å", "y¯": "ȳ"}
        for shown, written in back.items():
            text = text.replace(shown, written)
        assert letters(text + remark) == letters(line.replace("²", "2").replace("⁴", "4")), line
