"""Segments of the SGM and XML files in which the test texts of WMT are published."""

import collections
import html
import itertools
import logging
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from keras_attn_zoo.data.compressed_files import SUFFIXES, file_in_command, name_of, nul_character
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike

_LOG = logging.getLogger(__name__)

Role: TypeAlias = Literal["source", "reference", "hypothesis"]
# Document and number.
Key: TypeAlias = tuple[str, str]

# Test texts have a few megabytes; parsed, they take many times that.
_LARGEST = 2**26
_ENDINGS = (".sgm", ".sgml", ".xml", ".tmx")
_PROLOGUE = r"\ufeff?\s*(?:<\?xml\b[^>]*>\s*|<!--(?:(?!-->).)*-->\s*|<!DOCTYPE\b[^>\[]*(?:\[[^\]]*\]\s*)?>\s*)*"
# What tells a file by its content alone: no sentence begins like this, and goes on with another tag or a line break.
_SGM = re.compile(
    _PROLOGUE
    + r"<(?:(?:(?:mteval|srcset|refset|tstset)\b|doc\s[^<>]*\b(?:docid|sysid)\s*=)[^<>]*>[ \t]*(?:<|[\r\n]|\Z)"
    + r"|seg\s[^<>]*\bid\s*=[^<>]*>(?:(?!</?seg\b).)*</seg>)",
    re.I | re.S,
)
_XML = re.compile(_PROLOGUE + r"<dataset\b[^<>]*>\s*(?:<collection\b[^<>]*>\s*)?<doc\s", re.S)
_TMX = re.compile(_PROLOGUE + r"<tmx\s[^<>]*\bversion\s*=", re.S)
_HTML = re.compile(
    r"\ufeff?\s*(?:<\?xml\b[^>]*>\s*|<!--(?:(?!-->).)*-->\s*)*"
    r"<(?:!doctype\s+html|html)\b[^<>]*>[ \t]*(?:<|[\r\n]|\Z|[^\r\n]*</html>)",
    re.I | re.S,
)
# What does in a file that is named so, or declares itself XML.
_DECLARED = re.compile(r"\ufeff?<\?xml\s+version\b")
_ROOT = re.compile(_PROLOGUE + r"<(\w+)", re.S)
_SGM_ROOTS = ("mteval", "srcset", "refset", "tstset", "doc", "seg")

_COMMENT = re.compile(r"<!--(?:(?!<!--|-->).)*-->", re.S)
_TAG = re.compile(r"<(srcset|refset|tstset|doc|/?seg)\b([^<>]*)>", re.I)
# Whatever a stranger writes, no part of it is looked at from each of its characters.
_ATTRIBUTE = re.compile(r"""(?<![\w:-])([\w:-]++)\s*+=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
# With the semicolon alone: in `?a=1&copy=2`, there is none.
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|\w+);")
_SPACES = re.compile(r"[ \t\r\n]+")
_ROLES: dict[str, Role] = {"srcset": "source", "refset": "reference", "tstset": "hypothesis"}


class Segments:
    """The segments of a file, in the order of its documents.

    Args:
        path: the file.
        keys: the document and the number of each segment.
        lists: for "source", "reference" and "hypothesis", as far as they are in the file, one or several lists with a
            string for each segment; in further references, an empty one is a segment that has no more.
    """

    def __init__(self, path: PathLike, keys: Sequence[Key], lists: dict[Role, list[list[str]]]) -> None:
        self.path, self.keys, self.lists = path, keys, lists

    def lists_of(self, role: Role) -> list[list[str]]:
        """Return the lists of a role; of a file that has one role, its own, whichever is asked for.

        Raises:
            UserError: there is none; several sources or hypotheses.
        """
        if role not in self.lists and len(self.lists) > 1:
            raise UserError(f"{name_of(self.path)} has {' and '.join(self.lists)}, but no {role}: give another file.")
        found = self.lists[role] if role in self.lists else next(iter(self.lists.values()))
        if len(found) > 1 and role != "reference":
            raise UserError(f"{name_of(self.path)} has {len(found)} texts, not one {role}: give a file with one.")
        return found

    def rows(self) -> Iterator[list[str]]:
        """Yield each source segment with its references, as a TSV file has them.

        Raises:
            UserError: one of them is not in the file.
        """
        if missing := [role for role in ("source", "reference") if role not in self.lists]:
            raise UserError(f"{name_of(self.path)} has no {missing[0]}: give two files, source and reference.")
        return map(list, zip(*self.lists_of("source"), *self.lists_of("reference"), strict=True))

    def in_order_of(self, other: "Segments") -> "Segments":
        """Return the same segments in the order that they have in another file.

        Raises:
            UserError: that file has others.
        """
        if different := sorted({*self.keys} ^ {*other.keys}):
            document, number = different[0]
            has, lacks = (other, self) if different[0] in other.keys else (self, other)
            raise UserError(
                f"{name_of(has.path)} has {len(has.keys)} segments and {name_of(lacks.path)} {len(lacks.keys)}, but "
                f"not segment {number} of the document {document!r}: give files of the same text."
            )
        places = {key: place for place, key in enumerate(self.keys)}
        order = [places[key] for key in other.keys]
        return Segments(
            self.path,
            other.keys,
            {role: [[one[i] for i in order] for one in lists] for role, lists in self.lists.items()},
        )


def segments_in(stream: Any, path: PathLike) -> Segments | None:
    """Read the segments of a file that is SGM or XML of WMT by its beginning; return None for any other text.

    Of a file that is named `.sgm`, `.sgml` or `.xml` or declares itself XML, the first element tells; of any other one,
    its attributes and what follows it too.

    Args:
        stream: the bytes of the file, in a `BufferedReader`.
        path: where they come from.

    Raises:
        UserError: XML of another kind, TMX, HTML, a damaged file, or one that is too large.
    """
    begin = stream.peek(4096).decode("utf-8", "ignore")
    name = Path(path).name.lower()
    for packed in SUFFIXES:
        name = name.removesuffix(packed)
    root = _ROOT.match(begin) if name.endswith(_ENDINGS) or _DECLARED.match(begin) else None
    element = root[1].lower() if root else ""
    if _TMX.match(begin) or element == "tmx":
        raise UserError(
            f"{name_of(path)} is a translation memory (TMX), which is not read: install mtdata, and write a TSV file "
            f"with `python -m mtdata.tmx --langs SOURCE-TARGET --inp {file_in_command(path)} --out FILE.tsv`."
        )
    if _HTML.match(begin):
        raise UserError(
            f"{name_of(path)} is a web page (HTML), which is not read: give plain text, one sentence per line."
        )
    if _XML.match(begin) or element == "dataset":
        return _assembled(path, _of_xml(_text(stream, path), path), of_xml=True)
    if _SGM.match(begin) or element in _SGM_ROOTS:
        return _assembled(path, _of_sgm(_text(stream, path), path))
    if root:
        raise UserError(
            f"{name_of(path)} is SGM or XML by its name or first line, but its element <{root[1]}> is not of WMT: give "
            "plain text, one sentence per line, under a name such as text.txt."
        )
    return None


def _text(stream, path):
    content = stream.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise UserError(f"{name_of(path)} has more than {_LARGEST:,} bytes of SGM or XML: give plain text.")
    if b"\0" in content:
        number = 1 + content.count(b"\n", 0, content.index(b"\0"))
        raise nul_character(path, number)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = 1 + content.count(b"\n", 0, error.start)
        raise UserError(
            f"{name_of(path)} line {number} is not UTF-8 ({error.reason}): convert the file to UTF-8."
        ) from None


def _without_break(spaces):
    """A space for a line break and the spaces around it, and for each tab."""
    return " " if "\n" in spaces[0] or "\r" in spaces[0] else spaces[0].replace("\t", " ")


class _Segment(NamedTuple):
    """A segment: in which text of which role, and what it says."""

    role: Role
    text: object
    key: Key
    content: str


def _of_sgm(text, path):
    """Yield the segments of SGM, which need not be well-formed: `&` and `<` may stand for themselves."""
    role: Role = "source"
    document, system, number, begin = "", 0, "", None
    sets: collections.Counter[str] = collections.Counter()
    times: collections.Counter[tuple[object, ...]] = collections.Counter()
    systems: collections.Counter[tuple[str, str]] = collections.Counter()
    text = _COMMENT.sub("", text)
    for begins, what in (("<!--", "a comment <!-- without -->"), ("<![CDATA[", "a section <![CDATA[")):
        if begins in text:
            raise UserError(f"{name_of(path)} has {what}, which is not read: repair the file, or download it again.")
    for match in _TAG.finditer(text):
        tag, attributes = match[1].lower(), _attributes(match[2])
        if (tag == "/seg") != (begin is not None):
            break
        if tag == "seg":
            number, begin = attributes.get("id", ""), match.end()
        elif tag == "/seg":
            content = _ENTITY.sub(lambda entity: html.unescape(entity[0]), match.string[begin : match.start()])
            begin = None
            yield _Segment(role, system, (document, number), content)
        elif tag in _ROLES:
            role = _ROLES[tag]
            sets[role] += 1
        else:
            document, own = attributes.get("docid", ""), (role, sets[role], attributes.get("sysid", ""))
            # A document that comes again is another translation if it is somebody else's, or in another set.
            times[document, own] += 1
            document += f" ({times[document, own]})" * (times[document, own] > 1)
            system = systems[role, document]
            systems[role, document] += 1
    else:
        if begin is None:
            return
    raise UserError(f"{name_of(path)} has a <seg> without </seg>: download the file again, or repair it.")


def _attributes(text):
    return {name.lower(): "".join(values) for name, *values in _ATTRIBUTE.findall(text)}


def _of_xml(text, path):
    """Yield the segments of the XML that WMT has had since 2021."""
    if "<!ENTITY" in text:
        raise UserError(f"{name_of(path)} declares entities, which no file of WMT does: remove them.")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise UserError(f"{name_of(path)} is damaged XML ({error}): download the file again, or repair it.") from None
    for tag in ("doc", "src", "ref", "hyp", "seg"):
        if any(element.find(f".//{tag}") is not None for element in root.iter(tag)):
            raise UserError(f"{name_of(path)} has a <{tag}> in a <{tag}>, which no file of WMT has: repair it.")
    elements: tuple[tuple[str, Role, str], ...] = (
        ("src", "source", ""),
        ("ref", "reference", "translator"),
        ("hyp", "hypothesis", "system"),
    )
    for place, document in enumerate(root.iter("doc")):
        name = document.get("id", str(place))
        for tag, role, by in elements:
            for number, one in enumerate(document.iter(tag)):
                for segment in one.iter("seg"):
                    key = name, segment.get("id", "")
                    yield _Segment(role, one.get(by, number), key, "".join(segment.itertext()))


def _assembled(path, segments, of_xml=False):
    """The segments as lists of equal length."""
    texts: dict[Role, dict[object, dict[Key, str]]] = {}
    times: collections.Counter[tuple[object, ...]] = collections.Counter()
    keys: dict[Key, None] = {}
    for role, text, (document, number), content in segments:
        times[role, text, document, number] += 1
        # Numbers that come again, as in each paragraph.
        again = times[role, text, document, number]
        key = (document, f"{number} ({again})" if again > 1 else number)
        keys[key] = None
        texts.setdefault(role, {}).setdefault(text, {})[key] = _SPACES.sub(_without_break, content.strip())
    if not keys:
        raise UserError(f"{name_of(path)} has no segments: check the file.")
    kept = list(keys)
    if of_xml and "reference" in texts:
        # Documents of test suites.
        kept = [key for key in keys if any(one.get(key) for one in texts["reference"].values())]
        if len(kept) < len(keys):
            _LOG.info(
                "%s: %d of %d segments have no reference and are left out",
                name_of(path),
                len(keys) - len(kept),
                len(keys),
            )
    for role in ("source", "hypothesis"):
        for one in texts.get(role, {}).values():
            for document, number in (key for key in kept if key not in one):
                raise UserError(f"{name_of(path)} has no {role} for segment {number} of the document {document!r}.")
    lists = {role: [[one.get(key, "") for key in kept] for one in of.values()] for role, of in texts.items()}
    if "reference" in lists:
        # Whoever has translated which document: the first one is that of perplexity, and is needed everywhere.
        rows = ([one for one in row if one] or [""] for row in zip(*lists["reference"], strict=True))
        lists["reference"] = list(map(list, itertools.zip_longest(*rows, fillvalue="")))
    return Segments(path, kept, lists)
