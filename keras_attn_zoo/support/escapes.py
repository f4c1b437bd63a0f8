"""Strings that others wrote, in names of folders and in their files, as each target shows them and does no more."""

import html
import re

# What begins HTML or ends the text of a link, with the backslashes before it, which would escape ours; a comparison
# such as p < 0.05 does not. What ends a cell.
_ACTIVE = re.compile(r"(\\*)(<(?=[A-Za-z/!?])|&(?=#?\w+;)|\](?=\())")
_ENDS_CELL = re.compile(r"(\\*)(\|)")
# What a spreadsheet computes, unless it is a number.
_FORMULA, _NUMBER = re.compile(r"\s*[=+\-@]"), re.compile(r"[+-]?\d[\d.,]*( ?%)?")

# What LaTeX does not take as it is, and Unicode that its standard fonts lack.
_LATEX = str.maketrans(
    {
        **{character: rf"\{character}" for character in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        # A signature has no other place to break; a bracket that begins a row would be an argument.
        "|": r"\textbar{}\allowbreak{}",
        "[": "{[}",
        "*": r"$^\ast$",
        "±": r"$\pm$",
        "–": "--",
        "—": "---",
        "†": r"$^\dagger$",
        "→": r"$\rightarrow$",
        "⇒": r"$\Rightarrow$",
        "…": r"\dots{}",
        **dict.fromkeys("„‚", ",,"),
        **dict.fromkeys("“”«»‹›", '"'),
        **dict.fromkeys("‘’", "'"),
    }
)
# What stands in those fonts: of Latin letters with accents, all but these.
_LETTERS = {*map(chr, {*range(0xA0, 0x180)}), *map(chr, _LATEX)} - {*"ÐðÞþĐđĦħŊŋŦŧĄąĘęĮįŲųĸĿŀŉſ"}


def is_printable(character: str) -> bool:
    """Return whether a character may be shown; so may those without a width that Persian, Hindi and emoji join with.

    Example:
        >>> [is_printable(character) for character in "a\\u200d\\n"]
        [True, True, False]
    """
    return character.isprintable() or character in "\u200c\u200d"


def printable(text: str) -> str:
    """Return a text for a terminal, or for a label of a figure: one line, without control characters.

    Example:
        >>> printable("runs\\n\\x1b[2J")
        'runs\\\\n\\\\x1b[2J'
    """
    return text if text.isprintable() else "".join(c if is_printable(c) else repr(c)[1:-1] for c in text)


def in_markdown(text: str, cell: bool = False) -> str:
    """Return a text for a line of Markdown, which a terminal may show too: it has no HTML, no link and no picture.

    Args:
        text: the text.
        cell: whether it is for a cell of a table, which it may not end.

    Example:
        >>> print(in_markdown("<b>a|b</b> [x](y), p < 0.05", cell=True))
        \\<b>a\\|b\\</b> [x\\](y), p < 0.05
    """
    found = _ACTIVE.sub(r"\1\1\\\2", printable(text))
    return _ENDS_CELL.sub(r"\1\1\\\2", found) if cell else found


def in_html(text: str) -> str:
    """Return a text for HTML, between tags or as the value of an attribute.

    Example:
        >>> in_html('<script>"')
        '&lt;script&gt;&quot;'
    """
    return html.escape(text)


def in_csv(value: object) -> object:
    """Return a value for a cell of CSV; a text that a spreadsheet would compute begins with an apostrophe.

    Example:
        >>> in_csv("=1+1"), in_csv("-0.5"), in_csv(-0.5)
        ("'=1+1", '-0.5', -0.5)
    """
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if _FORMULA.match(value) and not _NUMBER.fullmatch(text) else text


def in_latex(text: str) -> str:
    """Return a text for LaTeX; a letter that its standard fonts lack becomes a question mark.

    Example:
        >>> print(in_latex("50 % of a_b"))
        50 \\% of a\\_b
    """
    shown = printable(text)
    found = "".join(one if one < "\x80" or one in _LETTERS else "?" for one in shown).translate(_LATEX)
    # Two superscripts side by side would stand apart.
    return found.replace(r"$^\ast$$^\ast$", r"$^{\ast\ast}$")
