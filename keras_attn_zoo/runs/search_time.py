"""How long translations take: those that a run makes while and after it is trained, and those of any translator."""

import dataclasses
import math
import time

from keras_attn_zoo.bodies.schema import longest_translation
from keras_attn_zoo.corpora.parallel_text import ParallelText
from keras_attn_zoo.data.encoded_text import EncodedText
from keras_attn_zoo.data.shapes import grid_batches
from keras_attn_zoo.evaluation.timing import CompilationClock
from keras_attn_zoo.runs.preparation import PreparedData, build_translator, compile_translator
from keras_attn_zoo.runs.run_folder import RunFolder, backend_here
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.translators.translator import Translator


@dataclasses.dataclass(frozen=True)
class SearchTime:
    """What a search takes.

    Attributes:
        token: seconds for a target token, the end of a sentence included.
        shape: seconds to compile a shape of sentences.
        measured: on what.
    """

    token: float
    shape: float
    measured: str

    def seconds_for(self, text: EncodedText, system: System, times: float = 1.0) -> float:
        """Return the seconds to translate a text so many times in one process, which compiles once."""
        return times * target_tokens(text) * self.token + (_shapes(text, system) * self.shape if times else 0.0)


def target_tokens(text: EncodedText) -> int:
    """Return the number of tokens of the translations of a text."""
    return sum(map(len, text.targets or ()))


def encoded(text: ParallelText, system: System, data: PreparedData) -> EncodedText:
    """Return a text to be translated as a system reads it."""
    return text.encoded(*data.subwords, truncation=system.data.truncation)


def scored_search(folder: RunFolder, test: ParallelText, text: EncodedText, system: System) -> SearchTime | None:
    """Return what the search of a run's test text, given encoded too, took under this backend; None without one."""
    search = system.search
    wanted = {
        "backend": backend_here(),
        "beams": search.beams,
        "length_penalty": search.length_penalty,
        "search_top_k": search.search_top_k,
        "precision": system.precision,
        "text_checksum": test.checksum,
    }
    found = folder.read_scores().get("test", {})
    # Scores may be of another search or text, which `attn-zoo evaluate` was asked for.
    if any(name not in found or found[name] != value for name, value in wanted.items()):
        return None
    compilation = min(found["translation_compilation_seconds"], found["translation_seconds"])
    seconds = found["translation_seconds"] - compilation
    shapes = _shapes(text, system)
    return SearchTime(seconds / target_tokens(text), compilation / shapes, f"the test text of {folder.path.name}")


def timed_search(system: System, data: PreparedData) -> SearchTime:
    """Return what a search takes, from one batch of the validation text and a system that is not trained."""
    translator = build_translator(system, data.subwords, system.data.max_tokens)
    compile_translator(translator, system.override(schedule="constant"), None)
    source, target = data.subwords
    count = min(system.search.batch_size, len(data.valid))
    # Evenly from the whole text, which may be sorted.
    chosen = [i * len(data.valid) // count for i in range(count)]
    sources = [[*data.valid.source(i).tolist(), source.end] for i in chosen]
    tokens = sum(data.valid.target(i).size + 1 for i in chosen)
    text = EncodedText(sources, None, (source.checksum, target.checksum))
    # An untrained system seldom ends a translation by itself.
    length, clock = math.ceil(tokens / count) + 1, CompilationClock()
    for _ in range(2):
        translator.translate(text, batch_size=system.search.batch_size, max_length=length, clock=clock)
    return SearchTime(clock.steady / 2 / tokens, clock.compilation / _shapes(text, system), f"{count} sentences")


def _shapes(text, system):
    """How many shapes the batches of a text have in a search."""
    limit = max(longest_translation(system.data.max_tokens), *map(len, text.sources))
    batches = grid_batches([list(map(len, text.sources))], [limit], system.search.batch_size)
    return len({(batch.rows, batch.widths) for batch in batches})


def translation_speed(translator: Translator, text: EncodedText, batch_size: int, runs: int = 3) -> float:
    """Return the target tokens per second of translating a text, the end tokens included: the mean of several runs.

    A run before them compiles, and is not counted.
    """

    def translate():
        return sum(len(best.token_ids) for [best] in translator.translate(text, batch_size=batch_size))

    tokens = translate()
    began = time.perf_counter()
    for _ in range(runs):
        translate()
    return runs * tokens / (time.perf_counter() - began)
