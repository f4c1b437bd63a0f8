"""What a run has when it is finished: scores on the test text, and on others that its paper's tables want; pictures."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from keras_attn_zoo.bodies.schema import longest_translation
from keras_attn_zoo.corpora.parallel_text import ParallelText
from keras_attn_zoo.data.words import word_count
from keras_attn_zoo.devices import agreed
from keras_attn_zoo.evaluation.text_scores import TOKENIZE, how_scored
from keras_attn_zoo.runs.curves import curves
from keras_attn_zoo.runs.loading import load_translator
from keras_attn_zoo.runs.run_folder import AVERAGE, WITH_TOP_K, RunFolder
from keras_attn_zoo.runs.scoring import score_again, score_run
from keras_attn_zoo.runs.word_alignment import sentence_picture
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, kind_of
from keras_attn_zoo.training.run_log import read_steps
from keras_attn_zoo.translators import Translator
from keras_attn_zoo.viewing.attention_pictures import plot_attention, plot_curves

# Of the scores of all runs, whatever they were trained in.
SCORING_PRECISION = "float32"
# How many sentences a run folder shows, and about how long they are.
PICTURES, WORDS_OF_A_PICTURE = 3, 14


def score_and_draw(
    folder: PathLike,
    text: ParallelText,
    max_tokens: int | None = None,
    keep_scores: bool = False,
    tokenize: str = TOKENIZE,
    lowercase: bool = False,
    tests: Mapping[str, ParallelText] | None = None,
    more: Mapping[str, ParallelText] | None = None,
    known: Iterable[str] = (),
    pictures: bool = True,
) -> list[Path]:
    """Score and draw a trained run; its model is loaded once, and only if there is something to do.

    A run with an average of its last rounds has scores of it on the test text too, called "average".

    Args:
        folder: the run folder of a trained system.
        text: the test text.
        max_tokens: see `load_translator`.
        keep_scores: whether a run that was scored and drawn before is left as it is; its translations are scored again
            if they were with another tokeniser or case, and made again if they are lost, not those scored, or of the
            run before it was trained further.
        tokenize, lowercase: see `score_text`.
        tests: further test texts to score by name.
        more: other texts to score by name, without pairs that are too long; for `NAME-kK`, a latent alignment sums
            over K source positions in search. Where another text than one of these, of `tests` or than `text` was
            scored by its name, it is replaced.
        known: names of texts that need not be given again: their translations are scored again with another tokeniser
            or case too.
        pictures: whether the run is drawn too.

    Returns:
        the paths of the run's pictures.

    Raises:
        UserError: see `load_translator` and `score_run`; another text of which every pair is too long.
    """
    run = RunFolder(folder)
    how: dict[str, Any] = {"tokenize": tokenize, "lowercase": lowercase}
    # Of several processes, the first writes scores and pictures before others look for them.
    before = agreed(run.read_scores() if keep_scores else {})
    whole = {"test": text, **(tests or {})}
    texts = {**whole, **(more or {})}
    outdated = agreed(outdated_scores(run, before))
    left = left_to_score(texts, before, outdated)
    for name in dict.fromkeys((*texts, *(name for name in (AVERAGE, *known) if name in before))):
        if name not in (*left, *outdated) and how_scored(before[name]["text"]) != how:
            score_again(folder, name, **how)
    drawn = not pictures or ("test" not in left and agreed(run.picture("curves").exists()))
    if left or not drawn:
        translator = load_translator(folder, max_tokens=max_tokens, precision=SCORING_PRECISION)
        room = max_tokens or longest_translation(run.system().data.max_tokens)
        # A process may have been killed between two searches for the same text.
        scored = {
            id(text): before[name] for name, text in texts.items() if name not in left and _is_of(before[name], text)
        }
        for name, part in left.items():
            found = WITH_TOP_K.fullmatch(name)
            fitting = part if name in whole else _fitting(name, part, translator, room)
            top_k = int(found[2]) if found else None
            # What does not depend on the search is scored once for each text.
            scored[id(part)] = score_run(run.path, translator, fitting, name, scored.get(id(part)), top_k, **how)
        if not drawn:
            draw_run(folder, translator, text)
    if agreed(kind_of(run.average) is not None) and left_to_score({AVERAGE: text}, before, outdated):
        averaged = load_translator(run.average, max_tokens=max_tokens, precision=SCORING_PRECISION)
        score_run(run.path, averaged, text, AVERAGE, **how)
    return sorted(run.picture("curves").parent.glob("*.png"))


def logged_steps(run: RunFolder) -> list[dict[str, Any]]:
    """Return the steps in the log of a run; none if there is no log."""
    return read_steps(run.log) if kind_of(run.log) is not None else []


def outdated_scores(run: RunFolder, scores: Mapping[str, Any]) -> list[str]:
    """Return the names of the scores of a run whose translations are lost, or that it had before its last steps."""
    steps = len(logged_steps(run))
    return [name for name, one in scores.items() if one["training"]["steps"] < steps or not run.has_translations(name)]


def left_to_score(
    texts: Mapping[str, ParallelText], scores: Mapping[str, Any], outdated: Collection[str]
) -> dict[str, ParallelText]:
    """Return the texts that a run has no scores of, by name, or outdated ones, see `outdated_scores`.

    There may be scores of another text by the same name, as `attn-zoo evaluate` was asked for.
    """

    def is_scored(name, text):
        if name not in scores or name in outdated:
            return False
        return scores[name].get("text_checksum", text.checksum) == text.checksum

    return {name: text for name, text in texts.items() if not is_scored(name, text)}


def _is_of(scores, text):
    """Whether scores are those of a text as it is, gold alignments included."""
    return scores.get("text_checksum") == text.checksum and ("alignment" in scores) == (text.gold is not None)


def _fitting(name: str, text: ParallelText, translator: Translator, room: int) -> ParallelText:
    """The pairs of a text that have at most so many tokens on either side."""
    encoded = text.encoded_for(translator.preprocessor)
    sides = zip(encoded.sources, encoded.targets or (), strict=True)
    kept = [i for i, pair in enumerate(sides) if max(map(len, pair)) <= room]
    if not kept:
        raise UserError(
            f"no pair of the text {name!r} has at most {room} tokens on either side: give another one, or raise "
            "--max-tokens as far as the model allows."
        )
    return text if len(kept) == len(text.pairs) else text.part(kept)


def draw_run(folder: PathLike, translator: Translator, text: ParallelText, count: int = PICTURES) -> list[Path]:
    """Draw the attention of a few test sentences and the curve of the validation loss into the run folder.

    The sentences are long enough to show reordering and short enough to read. The attention is that of forced
    decoding along the reference, with gold links outlined.

    Returns:
        the paths of the pictures.
    """
    run, pairs = RunFolder(folder), text.pairs
    full = [i for i, pair in enumerate(pairs) if all(side.strip() for side in pair)]
    chosen = sorted(full, key=lambda i: abs(word_count(pairs[i][0]) - WORDS_OF_A_PICTURE))[:count]
    paths = []
    for number, i in enumerate(chosen, start=1):
        encoded = text.encoded_for(translator.preprocessor).select([i])
        matrix, source_words, target_words = sentence_picture(translator, *pairs[i], text=encoded)
        paths.append(run.picture(f"attention-{number}"))
        plot_attention(matrix, source_words, target_words, paths[-1], gold=text.gold[i][2] if text.gold else None)
    paths.append(run.picture("curves"))
    plot_curves(curves([folder]), paths[-1], ylabel="validation loss")
    return paths
