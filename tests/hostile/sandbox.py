"""A folder in which hostile cases run: made once, restored before every case, looked over after it."""

import contextlib
import functools
import importlib.util
import io
import os
import re
import shutil
import signal
import stat
import sys
import tempfile
from pathlib import Path

from tests.hostile.judging import Hang, Outcome, judge
from tests.made_runs import make_timing, repeat_text
from tests.tiny_run import TINY, make_text

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.py"))
SECONDS = 60
_PARTIAL = re.compile(r"\.partial($|/)")


class Accepted(BaseException):
    """Training would begin: everything was taken."""


class Forbidden(OSError):
    """Something outside the sandbox was to be changed, or the network reached."""


class Sandbox:
    """A working folder that every case finds as new.

    Args:
        root: an empty folder. `work` in it is the current folder of the cases, `outside` must never change.
    """

    def __init__(self, root):
        self.root = Path(root).resolve()
        self.work = self.root / "work"
        self._writes = []
        self._watching = False
        self._make()
        tempfile.tempdir = str(self.root / "tmp")
        (self.root / "tmp").mkdir(mode=0o777)
        sys.addaudithook(self._audit)

    def _make(self):
        """Make the text, a run and its preset, a run with a latent alignment, presets of two Transformers."""
        from keras_attn_zoo.corpora.corpus import corpus_from_files
        from keras_attn_zoo.runs.loading import load_translator
        from keras_attn_zoo.runs.scoring import score_run
        from keras_attn_zoo.runs.training import train_system
        from tests import tiny

        (self.root / "outside").mkdir(parents=True)
        (self.root / "outside" / "precious.txt").write_text("precious\n")
        self.work.mkdir()
        make_text(self.work / "text")
        (self.work / "home").mkdir()
        text = self.work / "text"
        names = {part: (text / f"{part}.de", text / f"{part}.en") for part in ("train", "valid", "test")}
        corpus = corpus_from_files(**names)
        latent = TINY.override(output="latent", marginalization="top_k", top_k=2, epochs=1, teacher_forcing=1.0)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            for system, name in ((TINY.override(keep_last=2, keep_best=2), "run"), (latent, "latent")):
                run = train_system(system, corpus, self.work / name)
                score_run(run.path, load_translator(run.path), corpus.test)
                repeat_text(make_timing(run), 20)
            for side in ("de", "en"):
                (text / f"prefixes.{side}").write_text("house\n" * 6, encoding="utf-8")
                (text / f"many.{side}").write_text((text / f"test.{side}").read_text("utf-8") * 20, encoding="utf-8")
            tiny.translator(joint=True, body=tiny.transformer, tie_embeddings="all").save_to_preset(
                self.work / "standard"
            )
            tiny.translator(body=tiny.transformer, encoder_attention="gaussian").save_to_preset(self.work / "gaussian")
        shutil.copytree(self.work, self.root / "pristine", symlinks=True)

    def restore(self):
        """Make the working folder as new."""
        shutil.rmtree(self.work)
        shutil.copytree(self.root / "pristine", self.work, symlinks=True)

    def listing(self):
        """Kind and content of every path."""
        found = {}
        for path in self.root.rglob("*"):
            kind = stat.S_IFMT(path.lstat().st_mode)
            content = path.read_bytes() if kind == stat.S_IFREG else os.readlink(path) if path.is_symlink() else None
            found[path.relative_to(self.root).as_posix()] = kind, content
        return found

    # Nothing is written elsewhere, and nothing is fetched.

    def _audit(self, event, arguments):
        if not self._watching:
            return
        if event == "socket.connect":
            raise Forbidden(101, "Network is unreachable")
        if event in ("pickle.find_class", "os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "os.fork"):
            self._writes.append(f"{event} {arguments[0]!r}")
            raise Forbidden(1, "not permitted")
        if event == "open":
            path, _mode, flags = arguments
            writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC) if isinstance(flags, int) else 0
            if isinstance(path, int) or not writes:
                return
            paths = [path]
        elif event in ("os.rename", "os.link", "os.symlink"):
            paths = arguments[:2] if event == "os.rename" else [arguments[1]]
        elif event in ("os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod", "os.chown"):
            paths = [] if isinstance(arguments[0], int) else [arguments[0]]
        else:
            return
        for path in paths:
            where = Path(os.path.realpath(os.path.dirname(os.path.abspath(os.fsdecode(path)))))
            kept = event == "os.mkdir" and os.path.isdir(path)
            if kept or where.is_relative_to(self.root) or self._is_cache(where, os.fsdecode(path)):
                continue
            self._writes.append(f"{event} {os.fsdecode(path)}")
            raise Forbidden(1, "Operation not permitted", os.fsdecode(path))

    @staticmethod
    def _is_cache(where, path):
        """Compiled programs, fonts and modules are kept where the libraries keep them."""
        if path == os.devnull:
            return True
        kept = (os.environ.get("JAX_COMPILATION_CACHE_DIR"), os.environ.get("MPLCONFIGDIR"))
        return "__pycache__" in where.parts or any(one and where.is_relative_to(Path(one).resolve()) for one in kept)

    # One case.

    def run(self, case):
        """Run a case, and judge it."""
        self.restore()
        os.chdir(self.work)
        if case.prepare:
            case.prepare(self.work)
        before = self.listing()
        self._writes = []
        status, output, error, raised = self._call(case)
        after = self.listing()
        reasons = judge(case, status, output, error, raised)
        reasons += [f"reached outside: {one}" for one in self._writes]
        changed = [path for path in before.keys() | after.keys() if before.get(path) != after.get(path)]
        reasons += [f"left half written: {path}" for path in changed if _PARTIAL.search(path)]
        outside = [path for path in changed if not path.startswith("work/")]
        reasons += [f"changed outside: {path}" for path in outside]
        if status == 2:
            allowed = tuple(f"work/{path}" for path in ("home", *case.may_change))
            kept = [path for path in changed if path not in outside and not path.startswith(allowed)]
            reasons += [f"changed, and refused: {path}" for path in sorted(kept)[:5]]
        verdict = "failed" if reasons else "refused" if status == 2 else "accepted"
        return Outcome(verdict, reasons, status, error)

    def _call(self, case):
        kept = sys.stdin, sys.stdout, sys.stderr, dict(os.environ), os.getcwd()
        streams = self.root / "streams"
        streams.mkdir(exist_ok=True)
        raised = None
        status = None
        with (streams / "out").open("wb+") as out, (streams / "err").open("wb+") as err:
            sys.stderr = io.TextIOWrapper(
                io.BufferedWriter(_copied(err)), "utf-8", errors="backslashreplace", write_through=True
            )
            sys.stdout = io.TextIOWrapper(io.BufferedWriter(_copied(out)), "utf-8")
            sys.stdin = io.TextIOWrapper(io.BytesIO())
            os.environ["HOME"] = str(self.work / "home")
            alarm = signal.signal(signal.SIGALRM, _ring)
            handlers = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)}
            signal.alarm(SECONDS)
            self._watching = True
            try:
                status = call(case)
                sys.stdout.flush()
            except SystemExit as stop:
                status = stop.code
            except Accepted:
                status = 0
            except BaseException as error:
                raised = error
            finally:
                self._watching = False
                signal.alarm(0)
                signal.signal(signal.SIGALRM, alarm)
                for one, handler in handlers.items():
                    signal.signal(one, handler)
                # What is not written yet must not be written to the next case's file.
                for stream in (sys.stdout, sys.stderr):
                    with contextlib.suppress(OSError, ValueError):
                        stream.flush()
                        stream.detach()
                sys.stdin, sys.stdout, sys.stderr = kept[:3]
                os.environ.clear()
                os.environ.update(kept[3])
                os.chdir(kept[4])
            texts = []
            for stream in (out, err):
                stream.seek(0)
                texts.append(stream.read().decode("utf-8", "replace"))
        shutil.rmtree(streams)
        return status, *texts, raised


def call(case):
    """Run a case's program in this process; return its status."""
    from keras_attn_zoo import cli
    from keras_attn_zoo.cli import demo
    from keras_attn_zoo.cli.recipe import run_recipe
    from keras_attn_zoo.presets import hub_presets, preset_site
    from keras_attn_zoo.runs import training
    from keras_attn_zoo.site import site_builder

    # Nothing that is refused before it is built needs to be built, nor uploaded; nor is the public site asked.
    # Presets translate before the demonstration trains: what they take has cases of its own.
    with (
        replaced(training, "build_translator", _reached),
        replaced(training, "build_from", _reached),
        replaced(hub_presets, "upload", _reached),
        replaced(preset_site, "verify_preset", _reached),
        replaced(site_builder, "write_presets", _reached),
        replaced(demo, "translate", lambda path, precision: None),
        replaced(demo, "CORPUS", {"train": 48, "valid": 8, "test": 6, "max_words": 6, "words_per_kind": 1}),
        replaced(demo, "SETTINGS", {**demo.SETTINGS, "vocabulary_size": 200, "warmup_steps": 1}),
    ):
        if case.program == "attn-zoo":
            return cli.main(list(case.arguments))
        return run_recipe(recipe(case.program).RECIPE, "A recipe.", list(case.arguments))


def _reached(*arguments, **keywords):
    raise Accepted


@contextlib.contextmanager
def replaced(holder, name, value):
    """Put something in the place of an attribute for a while."""
    kept = getattr(holder, name)
    setattr(holder, name, value)
    try:
        yield
    finally:
        setattr(holder, name, kept)


@functools.cache
def recipe(name):
    """The module of a recipe."""
    path = next(path for path in RECIPES if path.stem == name)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _copied(file):
    """A raw stream of its own on a file: a program may close it, or put another file in its place."""
    return io.FileIO(os.dup(file.fileno()), "wb")


def _ring(*arguments):
    raise Hang
