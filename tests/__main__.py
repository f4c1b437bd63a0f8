"""Run the tests: style and types once, then every backend in a process of its own; one summary, one status.

    python -m tests             before every commit
    python -m tests --quick     the inner loop: one backend, one case of a test, without tests marked `long`
    python -m tests --all       every night: tests marked `slow` too, and the searches of AT_NIGHT

Tests marked `one_backend` run under PyTorch alone, which compiles nothing. Other arguments go to pytest.
"""

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.budgets import KEPT

BACKENDS = ("jax", "tensorflow", "torch")
# Under which tests run that say the same under all.
ONE_BACKEND = "torch"
ROOT = Path(__file__).resolve().parent.parent
OUTCOMES = ("passed", "failed", "error", "skipped")
# Two processes a backend, one thread each: compilation, which takes most of the time, uses no more.
WORKERS = ("-n", "2", "--dist", "loadgroup")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1"}
STYLE = (("ruff", "check", "."), ("ruff", "format", "--check", "."))
# Beside the tests of the first backend; skipped if not installed.
TYPES = ("mypy",)
# Names the folder of what tests make once for all.
SHARED_FILES = "ATTN_ZOO_TESTS_SHARED"
AT_NIGHT = {
    "hostile command lines": ("tests.hostile", "--cases", "1000"),
    "unusual sentences": ("tests.unicode", "--cases", "3000"),
    "fields of checkpoints": ("tests.checkpoints",),
    "kills": ("tests.hostile.kills", "--kills", "12"),
    "kills of commands": ("tests.hostile.command_kills", "--kills", "200"),
}
SLOWEST = 10


def run(command, environment):
    """Run a command at the project's root, showing its output as it comes; return status and output."""
    lines = []
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    return process.returncode, lines


def outcomes(lines):
    """Read the counts off the last line of a pytest run."""
    last = next((line for line in reversed(lines) if re.search(r"\d+ (passed|failed|error|skipped)", line)), "")
    return {name: sum(map(int, re.findall(rf"(\d+) {name}", last))) for name in OUTCOMES}


def durations(lines):
    """Seconds, and which test took them in which of its phases, as a pytest run lists them."""
    # Behind the name stands the group that runs in one worker.
    found = (re.match(r"([\d.]+)s (call|setup|teardown) +(\S.*?)(?:@[\w.]+)?$", line) for line in lines)
    return [(float(one[1]), f"{one[2]} {one[3]}") for one in found if one]


def selection(backend, options):
    """Which tests run under a backend, as arguments of pytest."""
    marks = [] if options.all else ["not slow"]
    if backend != ONE_BACKEND:
        marks.append("not one_backend")
    if options.quick:
        marks.append("not long")
    return ["-m", " and ".join(marks)]


def parse(arguments):
    """Options of this program, and arguments of pytest."""
    parser = argparse.ArgumentParser(
        prog="python -m tests",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--backend", action="append", choices=BACKENDS, help="default: all; torch with --quick")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--quick", action="store_true", help="one backend, without tests marked `long`")
    which.add_argument(
        "--all", action="store_true", help="all tests, including slow ones, and long searches for faults"
    )
    options, rest = parser.parse_known_args(arguments)
    options.backend = options.backend or ([ONE_BACKEND] if options.quick else BACKENDS)
    return options, rest


def main(arguments):
    """Check style and types, and run the tests under each backend."""
    options, arguments = parse(arguments)
    rows, slowest, total = [], [], dict.fromkeys(OUTCOMES, 0)
    began = time.monotonic()
    for command in STYLE:
        status, _ = run([sys.executable, "-m", *command], os.environ)
        rows.append((" ".join(command), "passed" if status == 0 else "FAILED", status))
    with tempfile.TemporaryDirectory() as shared, tempfile.TemporaryFile("w+") as of_types:
        types = importlib.util.find_spec("mypy") and subprocess.Popen(
            [sys.executable, "-m", *TYPES], cwd=ROOT, stdout=of_types, stderr=subprocess.STDOUT
        )
        folders = {"JAX_COMPILATION_CACHE_DIR": str(Path(shared) / "programs"), SHARED_FILES: shared}
        for backend in options.backend:
            print(f"\n=== {backend} ===", flush=True)
            # Compiled programs and other files are shared between processes and backends, and thrown away.
            environment = {**os.environ, **ONE_THREAD, "KERAS_BACKEND": backend, KEPT: "1", **folders}
            command = [sys.executable, "-m", "pytest", *WORKERS, f"--durations={SLOWEST}"]
            started = time.monotonic()
            status, lines = run([*command, *selection(backend, options), *arguments], environment)
            counts = outcomes(lines)
            for name in OUTCOMES:
                total[name] += counts[name]
            text = ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "no tests"
            if counts["passed"] == 0:
                status = status or 1
            rows.append((backend, f"{text} in {time.monotonic() - started:.0f} s", status))
            slowest += [(seconds, backend, test) for seconds, test in durations(lines)]
        if types:
            status = types.wait()
            of_types.seek(0)
            print(f"\n=== {TYPES[0]} ===\n{of_types.read()}", flush=True)
            rows.append((TYPES[0], "passed" if status == 0 else "FAILED", status))
        else:
            rows.append((TYPES[0], "skipped: not installed", 0))
        for name, command in AT_NIGHT.items() if options.all else ():
            print(f"\n=== {name} ===", flush=True)
            environment = {**os.environ, **ONE_THREAD, "KERAS_BACKEND": "jax", **folders}
            status, lines = run([sys.executable, "-m", *command], environment)
            rows.append((name, lines[-1].strip() if lines else "no output", status))
    print("\n=== slowest tests ===")
    for seconds, backend, test in sorted(slowest, reverse=True)[:SLOWEST]:
        print(f"{seconds:6.1f} s  {backend:<10} {test}")
    print("\n=== summary ===")
    for name, text, _ in rows:
        print(f"{name:<22} {text}")
    others = [status for name, _, status in rows if name not in BACKENDS]
    failed = total["failed"] + total["error"] + sum(status != 0 for status in others)
    bad = any(status != 0 for *_, status in rows)
    print(f"{'FAILED' if bad else 'all good'} in {time.monotonic() - began:.0f} s")
    print(f"{total['passed']} passed, {max(failed, int(bad))} failed, {total['skipped']} skipped")
    return int(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
