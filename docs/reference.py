"""Which modules the pages of `api/` document: those they name, and for `PACKAGE.*` the rest of a package."""

import importlib
import pkgutil
import re
from pathlib import Path

API = Path(__file__).resolve().parent / "api"
NAMED = re.compile(r"^\.\. automodule:: (\S+)$", re.MULTILINE)


def named():
    """Modules and packages that the pages name one by one."""
    names = [name for page in sorted(API.glob("*.md")) for name in NAMED.findall(page.read_text(encoding="utf-8"))]
    return {name for name in names if not name.endswith(".*")}


def rest_of(package):
    """Modules of a package that no page names, and whose names it does not export."""
    package, known = importlib.import_module(package), named()
    exported = {getattr(getattr(package, name), "__module__", "") for name in getattr(package, "__all__", ())}
    found = pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    # Subpackages have pages of their own. Modules are not imported: some need a backend that is not installed.
    modules = [module.name for module in found if not module.ispkg]
    return [name for name in modules if not name.endswith("__main__") and name not in known | exported]


def with_modules(text):
    """Return a page that names the modules which `PACKAGE.*` stands for."""

    def lines(found):
        if not found[1].endswith(".*"):
            return found[0]
        return "\n".join(f".. automodule:: {name}" for name in rest_of(found[1].removesuffix(".*")))

    return NAMED.sub(lines, text)
