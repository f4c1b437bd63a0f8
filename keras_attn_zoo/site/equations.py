"""The equations of docstrings as MathML, which browsers set themselves."""

import re
import unicodedata

from keras_attn_zoo.support.escapes import in_html

# One line may hold several equations, and a remark behind them, apart by two spaces or more.
_APART = re.compile(r" {2,}")
_IS_EQUATION = re.compile(r"[^`]* = ")
_TOKEN = re.compile(
    r"(?P<script>[_^](?:\{[^}]*\}|[^\W_ᵀ²⁴]+'*)|[ᵀ²⁴])|(?P<number>\d+)|(?P<name>[^\W\d_ᵀ²⁴Σ]+'*)|(?P<space>\s+)|(?P<other>.)"
)
_RAISED = {"ᵀ": '<mi mathvariant="normal">T</mi>', "²": "<mn>2</mn>", "⁴": "<mn>4</mn>"}
# By the mark that Unicode combines with a letter: fonts have no slanted letters with accents.
_ACCENTS = {"\u0302": "^", "\u0304": "¯", "\u030a": "˚"}
_OPENING, _CLOSING = "([{⌊", ")]}⌋"
# Names of a letter are variables, and so are all letters of a script: e_ij has two.
_SYMBOL = re.compile(r"(?<!\w)([^\W\d_](?:[_^](?:\{[^}]*\}|[^\W_ᵀ²⁴]+'*)|[ᵀ²⁴])+)(?![\w(])")
_LETTERS = re.compile(r"\d+|[^\W\d_]'*|\S")


def equation_lines(text: str) -> list[tuple[list[str], str]]:
    """Return the lines of equations, each as its equations in MathML and the remark behind them, "" for none.

    They are in the notation of docstrings: `α_ij^n = softmax_j(ê_ij^n)`, `Σ_{k≤i}`, `√d_k`, `W s_{i-1}`, `vᵀ`.

    Example:
        >>> equation_lines('x = √y      score="dot"')[0][1]
        'score="dot"'
    """
    lines = []
    for line in text.splitlines():
        # Spaces before the sign of equality align it with others.
        parts = _APART.split(re.sub(r" +(?== )", " ", line.strip()))
        of_equations = [bool(_IS_EQUATION.match(part)) for part in parts]
        first_remark = of_equations.index(False) if False in of_equations else len(parts)
        lines.append(([mathml(part) for part in parts[:first_remark]], " ".join(parts[first_remark:])))
    return lines


def mathml(equation: str) -> str:
    """Return an equation in the notation of docstrings as a MathML element, in which nothing of it is lost.

    Example:
        >>> mathml("s_i²")
        '<math><msubsup><mi>s</mi><mi>i</mi><mn>2</mn></msubsup></math>'
    """
    tokens = [(found.lastgroup, found[0]) for found in _TOKEN.finditer(unicodedata.normalize("NFC", equation))]
    return f"<math>{''.join(_row(tokens, 0)[0])}</math>"


def with_symbols(text: str) -> str:
    """Return a text as HTML, its symbols that have scripts, such as `W_q^n` and `h_j`, in MathML.

    Example:
        >>> with_symbols("h_j < 1")
        '<math><msub><mi>h</mi><mi>j</mi></msub></math> &lt; 1'
    """
    parts = _SYMBOL.split(text)
    # Odd parts are symbols.
    return "".join(mathml(part) if i % 2 else in_html(part) for i, part in enumerate(parts))


def _row(tokens, at, closing=None):
    """Elements up to a closing bracket, and the place behind it."""
    elements = []
    while at < len(tokens):
        kind, text = tokens[at]
        if kind == "other" and text == closing:
            break
        if kind == "space":
            # What stands beside each other is multiplied; operators have a space of their own.
            beside = [tokens[i] for i in (at - 1, at + 1) if 0 <= i < len(tokens)]
            if all(_is_operand(i, one) for i, one in enumerate(beside)):
                elements.append('<mspace width="0.2em"/>')
            at += 1
            continue
        element, at = _atom(tokens, at)
        elements.append(element)
    return elements, at


def _is_operand(side, token):
    kind, text = token
    return kind != "other" or text in (_CLOSING if side == 0 else _OPENING) or (side == 1 and text in "√Σ")


def _atom(tokens, at):
    """The element that begins at a place, with its scripts, and the place behind them."""
    kind, text = tokens[at]
    at += 1
    if text == "√":
        if tokens[at][1] == "(":
            inside, at = _row(tokens, at + 1, ")")
            return f"<msqrt>{''.join(inside)}</msqrt>", at + 1
        inside, at = _atom(tokens, at)
        return f"<msqrt>{inside}</msqrt>", at
    if kind == "other" and text in _OPENING:
        closing = _CLOSING[_OPENING.index(text)]
        inside, at = _row(tokens, at, closing)
        # Without its closing bracket where it stands for itself.
        end = _operator(closing) if at < len(tokens) else ""
        base, at = f"<mrow>{_operator(text)}{''.join(inside)}{end}</mrow>", at + 1
    elif kind == "name":
        base = _variable(text)
    else:
        base = f"<mn>{text}</mn>" if kind == "number" else _operator(text)
    scripts = {}
    while at < len(tokens) and tokens[at][0] == "script":
        script = tokens[at][1]
        if script in _RAISED:
            scripts["^"] = _RAISED[script]
        else:
            scripts[script[0]] = _script(script[1:])
        at += 1
    if not scripts:
        return base, at
    around = ("munder", "mover", "munderover") if text == "Σ" else ("msub", "msup", "msubsup")
    name = around[2] if len(scripts) == 2 else around["_^".index(*scripts)]
    return f"<{name}>{base}{''.join(scripts[one] for one in '_^' if one in scripts)}</{name}>", at


def _script(text):
    inner = text.removeprefix("{").removesuffix("}")
    if inner == text:
        elements = [f"<mn>{one}</mn>" if one.isdigit() else _variable(one) for one in _LETTERS.findall(inner)]
    else:
        # In braces too, a run of letters is one name only if it is a word.
        spaced = re.sub(r"(?<![^\W\d_])([^\W\d_]{2})(?![^\W\d_])", lambda found: " ".join(found[1]), inner)
        elements, _ = _row([(one.lastgroup, one[0]) for one in _TOKEN.finditer(spaced)], 0)
    return elements[0] if len(elements) == 1 else f"<mrow>{''.join(elements)}</mrow>"


def _variable(name):
    plain = name.rstrip("'")
    letter, *accent = unicodedata.normalize("NFD", plain)
    element = f"<mi>{plain}</mi>"
    if accent and accent[0] in _ACCENTS:
        element = f'<mover accent="true"><mi>{letter}</mi><mo>{_ACCENTS[accent[0]]}</mo></mover>'
    return f"<msup>{element}<mo>{'′' * (len(name) - len(plain))}</mo></msup>" if plain != name else element


def _operator(text):
    text = {"-": "−", "Σ": "∑", "·": "⋅"}.get(text, text)
    # Brackets and bars keep the height of a line.
    stretches = ' stretchy="false"' if text in f"{_OPENING}{_CLOSING}|" else ""
    return f"<mo{stretches}>{in_html(text)}</mo>"
