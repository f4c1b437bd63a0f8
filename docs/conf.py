"""Settings of the documentation: the guide of this folder, and a reference made from the docstrings.

sphinx-build -W docs docs/_build
"""

import importlib.util
import os
import re
import sys
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "jax")

from docutils import nodes
from sphinx import addnodes
from sphinx.util import inspect
from sphinx.util.inspect import stringify_signature

import keras_attn_zoo
from keras_attn_zoo.presets.preset_registry import BASE_URL

sys.path.insert(0, str(Path(__file__).parent))
from reference import with_modules

project = "keras-attn-zoo"
author = "the keras-attn-zoo contributors"
copyright = f"{author}, Apache License 2.0"
release = version = keras_attn_zoo.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
# Set by `attn-zoo site`, of which the guide is a part; the sources would be half of its pages.
IN_SITE = tags.has("site")  # noqa: F821
extensions += [] if IN_SITE else ["sphinx.ext.viewcode"]
# The runs' comments stand on their pages.
exclude_patterns = ["_build", "results/runs"]
ROOT = Path(__file__).resolve().parent.parent
REPOSITORY = "https://github.com/OWNER/keras-attn-zoo/blob/main/"
# Stands for the account that hosts the repository, see CONTRIBUTING.md.
linkcheck_ignore = [re.escape(REPOSITORY), re.escape(BASE_URL)]
# Pages that another one includes.
INCLUDED = {"CONTRIBUTING": "contributing", "CHANGELOG": "changelog"}
html_theme = "furo"
html_title = f"{project} {release}"
# A single backtick in a docstring is code, and a link where it names something of the reference.
default_role = "py:obj"
# Dashes and quotes are those of commands.
smartquotes = False
myst_heading_anchors = 3

autodoc_default_options = {
    "members": True,
    "show-inheritance": True,
    # What Keras asks of every layer.
    "exclude-members": "build, compute_mask, compute_output_shape, compute_output_spec, get_config, quantize",
}
autodoc_member_order = "bysource"
# Imported by the modules of `devices` that are for one backend.
autodoc_mock_imports = [name for name in ("jax", "tensorflow", "torch") if importlib.util.find_spec(name) is None]
# The docstrings say what arguments are, in words.
autodoc_typehints = "none"
# The methods that Keras and KerasHub define are documented in their own reference.
autodoc_inherit_docstrings = False
napoleon_numpy_docstring = False
napoleon_use_rtype = False
# Fields of a named tuple are members already.
napoleon_use_ivar = True

# Parts of a docstring that are a paragraph rather than a section that napoleon knows.
LABELS = ("Args", "Differences", "Inputs", "Masking", "Outputs", "Shapes", "Source", "State", "Symbols", "Training")
LABEL = re.compile(rf"((?:{'|'.join(LABELS)})[\w ,]*): (?=\S)")
CODE = re.compile(r"(`[^`]*`)(?=(\w?))")


def escaped(line):
    """Escape what would be markup outside code, and part code from letters that follow it."""
    text, *rest = CODE.split(line)
    result = [text]
    for code, letter, text in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        result += [code, "\\ " if letter else "", text]
    return "".join(part if part.startswith("`") else re.sub(r"(?<!\\)([|*])", r"\\\1", part) for part in result)


def format_docstring(app, what, name, obj, options, lines):
    """Set equations, which stand indented between paragraphs, as they are, and the labels of paragraphs in bold."""
    before, literal, result = "", False, []
    for line in lines:
        indented = line.startswith(" ")
        if indented and not literal and result and not result[-1].strip() and not before.startswith((" ", "- ")):
            result += [] if before.endswith("::") else ["::", ""]
            literal = True
        elif line.strip() and not indented:
            literal = False
        if not literal and not line.lstrip().startswith((">>>", "...")):
            label = LABEL.match(line)
            line = escaped(line[label.end() :] if label else line)
            line = f"**{label[1]}:** {line}" if label else line
        result.append(line)
        before = line if line.strip() else before
    lines[:] = result


def show_constructor(app, what, name, obj, options, signature, returned):
    """Show the arguments of `__init__`, since the `__new__` of Keras' classes takes anything."""
    if what == "class" and hasattr(obj.__init__, "__code__"):
        signature = stringify_signature(inspect.signature(obj.__init__, bound_method=True), show_annotation=False)
    return signature, returned


def name_modules(app, page, source):
    """Name the modules of a package that a page leaves to be found."""
    if page.startswith("api/"):
        source[0] = with_modules(source[0])


def link_repository(app, doctree):
    """Lead links to Markdown that stands outside this folder to the repository."""
    for link in list(doctree.findall(addnodes.pending_xref)):
        target = Path(link.get("reftarget") or "")
        if link.get("refdomain") != "doc" or not target.is_absolute():
            continue
        page = target.relative_to(ROOT).as_posix()
        if page in INCLUDED:
            link["reftarget"] = INCLUDED[page]
        else:
            anchor = f"#{link['reftargetid']}" if link.get("reftargetid") else ""
            link.replace_self(nodes.reference("", "", *link.children, refuri=f"{REPOSITORY}{page}.md{anchor}"))


def frame_page(app, page, template, context, doctree):
    """Lead back to the site, and let a page load nothing from elsewhere."""
    places = {"index": "Live demonstration", "gallery/index": "Gallery", "presets/index": "Presets"}
    links = (f'<a href="{context["pathto"](f"../{place}.html", 1)}">{name}</a>' for place, name in places.items())
    context["theme_announcement"] = " · ".join(links)
    policy = "default-src 'self' 'unsafe-inline' data:; base-uri 'none'"
    # Indices have none yet.
    tags = f'<meta http-equiv="Content-Security-Policy" content="{policy}"><link rel="icon" href="data:,">'
    context["metatags"] = context.get("metatags", "") + tags


def setup(app):
    """Have modules named, links led on, signatures shown, and docstrings formatted before napoleon reads them."""
    if IN_SITE:
        app.connect("html-page-context", frame_page)
    app.connect("doctree-read", link_repository)
    app.connect("source-read", name_modules)
    app.connect("autodoc-process-signature", show_constructor)
    app.connect("autodoc-process-docstring", format_docstring, priority=400)
