"""What goes into the package of presets: the files that the registry names, and nothing that lies beside them."""

import hashlib
import json
import shutil
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
REGISTRY = HERE.parent / "keras_attn_zoo" / "presets" / "presets.json"


class BuildData(build_py):
    """Take the published files, and no modules."""

    def run(self):
        """Build without what an earlier build has left."""
        for package in self.packages:
            shutil.rmtree(Path(self.build_lib, package), ignore_errors=True)
        super().run()

    def find_package_modules(self, package, package_dir):
        """Return no modules: `make.py` and others make presets, and are not for those who use them."""
        return []

    def find_data_files(self, package, src_dir):
        """Return the files of all presets; end with a line on one that is not as published."""
        found = []
        for name, preset in json.loads(REGISTRY.read_text("utf-8"))["presets"].items():
            for file, record in preset["files"].items():
                path = HERE / name / file
                if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != record["sha256"]:
                    sys.exit(f"{path} is missing or not as {REGISTRY.name} has it: restore it, or build {name} again.")
                found.append(str(Path(src_dir, name, file)))
        return found


setup(cmdclass={"build_py": BuildData})
