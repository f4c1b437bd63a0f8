"""Kill every command in every phase, run it again, and compare with one that nobody touched.

    python -m tests.hostile.command_kills --kills 100
    python -m tests.hostile.command_kills --every-phase

Each command runs in a process forked from one that has imported everything, under PyTorch. A phase of a command is a
change that it makes to a file, by kind and by the file: one run begins with the first, another with the second, and so
on, as far as the number of kills goes. A signal ends the command when it is about to make that change, or, one time in
three, at a moment drawn from all of its time. What it leaves must be whole; when it is run again, it must succeed, make
the same files, and leave no other. One in five is killed a second time before it is.
"""

import argparse
import collections
import io
import json
import os
import random
import re
import signal
import sys
import tempfile
import time
import traceback
from importlib import import_module
from pathlib import Path

CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate")
ENDS = {".html": b"</html>", ".svg": b"</svg>", ".png": b"IEND\xaeB`\x82", ".pdf": b"%%EOF"}
SECONDS = 120
# Of a command, where every phase is asked for: some change no file of ours.
FEWEST = 6
SIGNALS = (signal.SIGTERM, signal.SIGINT)
# What differs from run to run in the name of a file that is written, as `files.beside` and libraries choose it.
_DRAWN = re.compile(r"\.[0-9a-f]{8}-\d+-[0-9a-f]{8}(?=\.)|[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{16,}|(?<=tmp)\w{8}")
# What a command keeps in the cache for its next run may be in parts. Below, whole folders stand.
_PARTS = re.compile(r"home/(?!\.cache/keras-attn-zoo/(corpora|presets)/(?!unfinished/))")


class Changes:
    """Lists the changes that this process makes below a folder, and ends it before one of them."""

    def __init__(self, root):
        self.root, self.made, self.last, self.signal = str(root), None, None, None
        sys.addaudithook(self._audit)

    def _audit(self, event, arguments):
        if self.made is None:
            return
        if event == "open":
            path, _, flags = arguments
            writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR)
        else:
            path, writes = arguments[0] if arguments else None, event in CHANGES
        if not writes or isinstance(path, int):
            return
        path = os.path.abspath(os.fsdecode(path))
        if path.startswith(f"{self.root}/"):
            self.made.append(f"{event.removeprefix('os.')} {_DRAWN.sub('*', path[len(self.root) + 1 :])}")
            # The phase, and how often it comes before that.
            if self.last and self.made[-1] == self.last[0] and self.made.count(self.last[0]) == self.last[1]:
                self.last = None
                os.kill(os.getpid(), self.signal)


class Killer:
    """Runs commands in forked processes, in the working folder of a sandbox."""

    def __init__(self, root):
        from tests.hostile import kill_server
        from tests.hostile.sandbox import Sandbox

        server = kill_server.start(Path(root))

        self.sandbox = Sandbox(Path(root) / "sandbox")
        self.root, self.work = self.sandbox.root, self.sandbox.work
        self.changes = Changes(self.work)
        import_module("keras_attn_zoo.cli")
        server.uploaded = self.work / "uploaded"
        kill_server.publish(server, self.root / "pristine" / "run" / "best")
        kill_server.offer_corpora(server)

    def prepare(self, line):
        """Make the working folder as new."""
        self.sandbox.restore()
        if line.prepare:
            line.prepare(self.work)

    def run(self, line, last=None, name=signal.SIGKILL, seconds=None):
        """Run a command; return status, seconds, the changes that it made if no signal came, and what it said."""
        report, writer = os.pipe()
        began = time.monotonic()
        # Until it can do nothing but end it, or handles it.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        child = os.fork()
        if child == 0:
            self._child(line, last, name, report, writer)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        os.close(writer)
        if seconds is not None:
            while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                if time.monotonic() - began > seconds:
                    os.kill(child, name)
                    break
                time.sleep(0.001)
        with os.fdopen(report) as lines:
            changes = json.loads(lines.read() or "[]")
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said = (self.root / "said").read_text("utf-8", "replace")
        return status, time.monotonic() - began, changes, said

    def _child(self, line, last, name, report, writer):
        from keras_attn_zoo.support import files

        os.close(report)
        status = 70
        try:
            with (self.root / "said").open("wb") as said:
                os.dup2(said.fileno(), 1)
                os.dup2(said.fileno(), 2)
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
            os.chdir(self.work)
            os.environ["HOME"] = str(self.work / "home")
            os.environ.pop("XDG_CACHE_HOME", None)
            # In the background, a shell has it ignored.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            signal.alarm(SECONDS)
            # A new process knows nothing of what this one has looked for.
            files.remove_left_of.cache_clear()
            self.changes.made, self.changes.last, self.changes.signal = [], last, name
            status = _call(line.path[0], line.arguments)
            with os.fdopen(writer, "w") as pipe:
                pipe.write(json.dumps(self.changes.made if self.changes.last == last else []))
        except SystemExit as stop:
            status = stop.code
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status or 0)

    def files(self):
        """Content of every file of the working folder, apart from locks."""
        found = {}
        for path in self.work.rglob("*"):
            if path.is_file() and not path.name.endswith("lock"):
                found[path.relative_to(self.work).as_posix()] = path.read_bytes()
        return found


def content_of(name, content):
    """What a file says: of weights, their bits, whatever the order in which they were written; of tables, no times."""
    import h5py

    if name.endswith((".md", ".tex")):
        # A time, also in whole seconds beside a paper's, may be longer than another, and so may its column be wider.
        return re.sub(rb"\d+:\d\d(:\d\d)?|(?<![.\d])\d+(?= \{?\[)|[ -]+", b" ", content)
    if not name.endswith(".h5"):
        return content
    found = {}
    with h5py.File(io.BytesIO(content)) as file:
        file.visititems(lambda name, one: found.update({name: one[()].tobytes()}) if hasattr(one, "shape") else None)
    return found


def _call(program, arguments):
    """Run a command in this process, small."""
    from keras_attn_zoo import cli
    from keras_attn_zoo.cli import demo
    from keras_attn_zoo.cli.recipe import run_recipe
    from tests.hostile.killed_commands import SIZES, STEPS
    from tests.hostile.sandbox import recipe

    if program != "attn-zoo":
        return run_recipe(recipe(program).RECIPE, "A recipe.", list(arguments))
    demo.CORPUS = {"train": 48, "valid": 8, "test": 6, "max_words": 6, "words_per_kind": 1}
    numbers = {name: int(value) for name, _, value in (one.partition("=") for one in (*SIZES, *STEPS))}
    demo.SETTINGS = {"model_type": "word", "vocabulary_size": None, "max_tokens": 12, "warmup_steps": 1, **numbers}
    demo.translate = lambda path, precision: None
    if arguments[0] != "site":
        return cli.main(list(arguments))
    from tests.site.small_site import small_parts

    with small_parts(Path("docs").resolve()):
        return cli.main(list(arguments))


def is_whole(name, content):
    """Whether a file is complete, by a look at its format."""
    import h5py
    import numpy as np

    suffix = Path(name).suffix
    try:
        if suffix == ".json":
            json.loads(content)
        elif suffix == ".jsonl":
            # A last line that a kill has cut is left out in reading.
            [json.loads(line) for line in content.decode().split("\n")[:-1]]
        elif suffix == ".npz":
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                [arrays[one] for one in arrays.files]
        elif suffix == ".npy":
            np.load(io.BytesIO(content), allow_pickle=False)
        elif suffix == ".h5":
            h5py.File(io.BytesIO(content)).close()
        elif suffix in ENDS:
            return content.rstrip().endswith(ENDS[suffix])
        elif suffix in (".md", ".txt", ".csv", ".align", ".de", ".en"):
            return content.endswith(b"\n")
    except Exception:
        return False
    return True


class Reference:
    """What a command makes that nobody touches: its files, those that are the same every time, phases, seconds."""

    def __init__(self, killer, line):
        self.line, runs = line, []
        for _ in range(2):
            killer.prepare(line)
            status, self.seconds, changes, said = killer.run(line)
            if status != 0:
                raise RuntimeError(f"{line.name} fails by itself with status {status}: {said[-2000:]}")
            runs.append(killer.files())
        self.files, again = runs
        if self.files.keys() != again.keys():
            different = sorted(self.files.keys() ^ again.keys())
            raise RuntimeError(f"{line.name} does not make the same files twice: {different}")
        self.same = {path for path, one in self.files.items() if content_of(path, one) == content_of(path, again[path])}
        self.phases = collections.Counter(changes)
        self.left, self.killed_in, self.kills = list(self.phases), set(), 0

    @property
    def to_kill(self):
        """Whether it is to be killed again, for a kill in every phase, and at other moments."""
        return self.left or self.kills < FEWEST


def one_kill(killer, reference, rng):
    """Kill a command and run it again; return signal, phase and what is wrong, or None where it had ended by then."""
    from keras_attn_zoo.support.files import is_partial

    line = reference.line
    name = rng.choices((signal.SIGKILL, signal.SIGTERM, signal.SIGINT), (6, 2, 2))[0]
    phase, at = "at any moment", {"seconds": rng.uniform(0, reference.seconds)}
    if reference.left and rng.random() < 2 / 3:
        phase = rng.choice(reference.left)
        at = {"last": (phase, rng.randint(1, reference.phases[phase]))}
        if name == signal.SIGKILL:
            # What answers a signal may hide what nobody tidies up.
            reference.left.remove(phase)
    killer.prepare(line)
    before = killer.files()
    status, _, ended, said = killer.run(line, name=name, **at)
    if status == 0 and ("seconds" in at or ended):
        return None
    if "last" in at and name == signal.SIGKILL:
        reference.killed_in.add(phase)
    reasons = []
    # Before there is a handler, and after the work, a signal ends it at once.
    if status not in (-name, 128 + name, 0) or (name == signal.SIGKILL and status != -name):
        reasons.append(f"status {status} after {name.name}: {said[-200:]}")
    if "Traceback" in said and status != -name:
        reasons.append(f"traceback: {said[-2000:]}")
    left = killer.files()
    asides = [path for path in left if any(is_partial(part) for part in Path(path).parts)]
    if asides and status == 128 + name:
        reasons.append(f"left half written: {asides[:3]}")
    for path, content in left.items():
        known = content in (before.get(path), reference.files.get(path))
        if path not in asides and not _PARTS.match(path) and not known and not is_whole(path, content):
            reasons.append(f"not whole: {path}")
    if rng.random() < 0.2:
        phase += ", and again"
        killer.run(line, seconds=rng.uniform(0, reference.seconds))
        left = killer.files()
    again, _, _, said = killer.run(line)
    # What stands there already, where the signal came after the work, is not always written again.
    if again != 0 and not (again == 2 and reference.files.keys() <= left.keys()):
        reasons.append(f"status {again} of the second run: {said[-300:]}")
    after, expected = killer.files(), reference.files
    reasons += [f"missing after the second run: {path}" for path in sorted(expected.keys() - after.keys())[:3]]
    reasons += [f"left behind: {path}" for path in sorted(after.keys() - expected.keys())[:3]]
    reasons += [
        f"differs: {path}"
        for path in sorted(reference.same & after.keys())
        if content_of(path, after[path]) != content_of(path, expected[path])
    ][:3]
    return name.name, phase, bool(asides), reasons


def check_never_written(killer):
    """Raise where a command changes a file, of which it is said that it does not."""
    from tests.hostile.killed_commands import NEVER_WRITE, good_line

    for path in NEVER_WRITE:
        line = good_line(path)
        killer.prepare(line)
        status, _, changes, said = killer.run(line)
        if status or changes:
            raise RuntimeError(f"{line.name} is said to write nothing: {status} {changes[:3]} {said[-300:]}")


def main(arguments=None):
    """Run what the command line says; the status is 1 where something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.command_kills", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=40, help="number of kills (default: 40)")
    parser.add_argument("--every-phase", action="store_true", help="as many as it takes to kill in every phase")
    parser.add_argument("--seed", type=int, default=1, help="which kills are drawn (default: 1)")
    parser.add_argument("--only", default="", help="those command lines alone whose name has this in it")
    options = parser.parse_args(arguments)
    # Nothing has been imported that reads these.
    os.environ |= {"KERAS_BACKEND": "torch", "OMP_NUM_THREADS": "1"}
    import torch

    import tests.conftest  # noqa: F401 the same settings as for the other tests
    from tests.hostile.killed_commands import command_lines

    names = [line.name for line in command_lines()]
    if not any(options.only in name for name in names):
        parser.error(f"argument --only: no command line has {options.only!r} in its name: {'; '.join(names)}")
    # A forked process has no threads but one.
    torch.set_num_threads(1)
    began, found = time.monotonic(), collections.defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="kills-") as root:
        os.environ["MPLCONFIGDIR"] = f"{root}/matplotlib"
        killer = Killer(root)
        check_never_written(killer)
        lines, references = [line for line in command_lines() if options.only in line.name], {}
        for number in range(sys.maxsize):
            rng = random.Random(f"command kills:{options.seed}:{number}")
            place = number % len(lines)
            if place not in references:
                references[place] = Reference(killer, lines[place])
            reference = references[place]
            if options.every_phase:
                if len(references) == len(lines) and not any(one.to_kill for one in references.values()):
                    break
                if not reference.to_kill:
                    continue
            elif sum(map(len, found.values())) == options.kills:
                break
            if one := one_kill(killer, reference, rng):
                reference.kills += 1
                found[lines[place].name].append(one)
                print(f"{lines[place].name}: {one[0]} {one[1]}: {'; '.join(one[3]) or 'whole'}", flush=True)
        os.chdir("/")
    print(f"\n{table(found, {one.line.name: one for one in references.values()})}")
    print(f"\n{time.monotonic() - began:.0f} s in all")
    return int(any(one[3] for ends in found.values() for one in ends))


def table(found, references):
    """A Markdown table: a row a command line."""
    head = ("command", "kills", "by SIGKILL", "with a file half written", "phases", "of them killed in", "failed")
    rows = ["| " + " | ".join(head) + " |", "|---|" + "--:|" * (len(head) - 1)]
    counts = collections.Counter()
    for name, ends in found.items():
        one = references[name]
        row = {
            "kills": len(ends),
            "by SIGKILL": sum(end[0] == "SIGKILL" for end in ends),
            "with a file half written": sum(end[2] for end in ends),
            "phases": len(one.phases),
            "of them killed in": len(one.killed_in),
            "failed": sum(bool(end[3]) for end in ends),
        }
        counts.update(row)
        rows.append(f"| {name} | " + " | ".join(map(str, row.values())) + " |")
    rows.append("| all | " + " | ".join(str(counts[column]) for column in head[1:]) + " |")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
