"""What goes into the package of presets: their folders, and none of the programs beside them."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

PRESETS = [path.parent.name for path in Path(__file__).parent.glob("*/checksums.json")]


class BuildData(build_py):
    """Take the data of the package, but no modules."""

    def find_package_modules(self, package, package_dir):
        """Return no modules: `make.py` and others make presets, and are not for those who use them."""
        return []


setup(package_data={"keras_attn_zoo_presets": [f"{name}/**" for name in PRESETS]}, cmdclass={"build_py": BuildData})
