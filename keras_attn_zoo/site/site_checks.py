"""What is wrong with a built site: links that lead nowhere, and pages that could ask for something elsewhere."""

import html.parser
import posixpath
import re
import urllib.parse
from pathlib import Path

# Attributes by which a page loads something, and those by which it only leads there.
_LOADS = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("object", "data"), ("link", "href")}
_LEADS = {("a", "href"), ("area", "href"), ("form", "action")}
# Links of a head that browsers do not follow.
_UNFOLLOWED = {"index", "search", "next", "prev", "canonical", "author", "copyright"}
_IN_STYLE = re.compile(r"""url\(\s*["']?([^"')]+)|@import\s+["']([^"']+)""")
# Sources of a policy that are the site itself.
_OWN_SOURCE = re.compile(r"'(self|none|unsafe-inline|unsafe-eval|wasm-unsafe-eval|sha256-[\w+/=]+)'|data:|blob:")


class _Page(html.parser.HTMLParser):
    """What a page loads, where it leads, its anchors and its policy."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.leads, self.anchors, self.policies = [], [], set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors |= {found[name] for name in ("id", "name") if found.get(name)}
        if tag == "meta" and (found.get("http-equiv") or "").lower() == "content-security-policy":
            self.policies.append(found.get("content") or "")
        unfollowed = tag == "link" and _UNFOLLOWED & set((found.get("rel") or "").split())
        for name, value in found.items():
            if (value and (tag, name) in _LEADS) or (unfollowed and name == "href"):
                self.leads.append(value)
            elif value and (tag, name) in _LOADS:
                self.loads.append(value)


def site_faults(folder: Path) -> list[str]:
    """Return what is wrong with the pages and styles of a site, a line for each fault.

    Links within the site lead to a file, and to an anchor of it; links to other sites are not opened. Whatever a page
    or a style loads is part of the site, and every page has a policy that lets it load nothing else.
    """
    pages = {
        path.relative_to(folder).as_posix(): _Page(path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.html"))
    }
    faults = []
    for name, page in pages.items():
        faults += [f"{name} loads {one}" for one in page.loads if _is_elsewhere(one)]
        faults += [
            f"{name} leads to {one}, {reason}"
            for one in [*page.loads, *page.leads]
            for reason in _lost(folder, pages, name, one)
        ]
        sources = [one for policy in page.policies for part in policy.split(";") for one in part.split()[1:]]
        if not any("default-src" in policy for policy in page.policies):
            faults.append(f"{name} has no policy of what it may load")
        faults += [f"{name} permits {one}" for one in sources if not _OWN_SOURCE.fullmatch(one)]
    for path in sorted(folder.rglob("*.css")):
        name = path.relative_to(folder).as_posix()
        for found in _IN_STYLE.finditer(path.read_text(encoding="utf-8")):
            one = found[1] or found[2]
            if _is_elsewhere(one):
                faults.append(f"{name} loads {one}")
            else:
                faults += [f"{name} loads {one}, {reason}" for reason in _lost(folder, pages, name, one)]
    return faults


def loaded_with(folder: Path, name: str) -> set[str]:
    """Return the files of a site that a page loads by itself, with those of its styles and frames, and the page."""
    found, open_ends = set(), [name]
    while open_ends:
        name = open_ends.pop()
        if name in found or not (folder / name).is_file():
            continue
        found.add(name)
        text = (folder / name).read_text(encoding="utf-8") if name.endswith((".html", ".css")) else ""
        loads = _Page(text).loads if name.endswith(".html") else [one[1] or one[2] for one in _IN_STYLE.finditer(text)]
        open_ends += [_path(name, urllib.parse.urlsplit(one)) for one in loads if not urllib.parse.urlsplit(one).scheme]
    return found


def _is_elsewhere(address):
    parts = urllib.parse.urlsplit(address)
    return bool(parts.netloc) or parts.scheme not in ("", "data")


def _path(name, parts):
    """Where an address, in its parts, leads from a page of the site."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), urllib.parse.unquote(parts.path)))


def _lost(folder, pages, name, address):
    """Why an address of the site leads nowhere, if it does."""
    parts = urllib.parse.urlsplit(address)
    if parts.scheme or parts.netloc:
        return
    path = _path(name, parts) if parts.path else name
    if (folder / path).is_dir():
        path = posixpath.join(path, "index.html")
    if path.startswith("..") or not (folder / path).is_file():
        yield "which is not there"
    elif parts.fragment and path in pages and urllib.parse.unquote(parts.fragment) not in pages[path].anchors:
        yield "which has no such anchor"
