"""Check the external links of files that Sphinx does not read: the notebook, CITATION.cff, the cards of presets.

python docs/check_links.py
"""

import json
import re
import sys
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILES = [
    ROOT / "README.md",
    ROOT / "CITATION.cff",
    ROOT / "pyproject.toml",
    ROOT / "docs" / "tutorials" / "quickstart.ipynb",
    ROOT / "presets" / "presets.toml",
    *sorted((ROOT / "presets").glob("*/README.md")),
]
URL = re.compile(r"https?://[^\s()<>\"'`\]}]+")
# Stands for the account that hosts the repository, see CONTRIBUTING.md.
UNKNOWN = "OWNER"
# What a server answers to a program although it shows the page to people.
SHY = (403, 429)
SECONDS = 30


def links(path):
    """Return the external links of a file, none twice, except those to an account that is not known yet."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
    found = dict.fromkeys(link.rstrip(".,;:") for link in URL.findall(text))
    return [link for link in found if UNKNOWN not in link]


def failure(link):
    """Return why a link leads nowhere, or None."""
    try:
        urllib.request.urlopen(urllib.request.Request(link, headers={"User-Agent": "Mozilla/5.0"}), timeout=SECONDS)
    except urllib.error.HTTPError as error:
        return None if error.code in SHY else f"status {error.code}"
    except OSError as error:
        return str(error)
    return None


def main():
    """Print every link that leads nowhere; return the exit status."""
    found = {link: path.relative_to(ROOT).as_posix() for path in FILES for link in links(path)}
    broken = {link: reason for link in found if (reason := failure(link)) is not None}
    for link, reason in broken.items():
        print(f"{found[link]}: {link}: {reason}")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
