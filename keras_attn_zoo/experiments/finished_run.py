"""What a run has when it is finished: scores on the test text, and on others that its paper's tables want; pictures."""

import re
from collections.abc import Mapping
from typing import Any

from keras_attn_zoo.evaluation.text_scores import TOKENIZE, how_scored
from keras_attn_zoo.experiments.bodies import longest_translation
from keras_attn_zoo.experiments.drawing import draw_run
from keras_attn_zoo.experiments.loading import load_translator
from keras_attn_zoo.experiments.parallel_text import ParallelText
from keras_attn_zoo.experiments.run_folder import RunFolder
from keras_attn_zoo.experiments.scoring import score_again, score_run
from keras_attn_zoo.files import PathLike
from keras_attn_zoo.models import Translator

# Of scores with a search over so many source positions; the names are those of `attn-zoo evaluate --top-k`.
_TOP_K = re.compile(r"(.+)-k(\d+)")


def score_and_draw(
    folder: PathLike,
    text: ParallelText,
    max_tokens: int | None = None,
    keep_scores: bool = False,
    tokenize: str = TOKENIZE,
    lowercase: bool = False,
    more: Mapping[str, ParallelText] | None = None,
) -> None:
    """Score and draw a trained run; its model is loaded once, and only if there is something to do.

    Args:
        folder: the run folder of a trained system.
        text: the test text.
        max_tokens: see `load_translator`.
        keep_scores: whether a run that was scored and drawn before is left as it is; its translations are scored
            again if they were with another tokeniser or case.
        tokenize, lowercase: see `score_text`.
        more: other texts to score by name, without pairs that are too long; for `NAME-kK`, a latent alignment sums
            over K source positions in search.

    Raises:
        UserError: see `load_translator` and `score_run`.
    """
    run = RunFolder(folder)
    how: dict[str, Any] = {"tokenize": tokenize, "lowercase": lowercase}
    before = run.read_scores() if keep_scores else {}
    texts = {"test": text, **(more or {})}
    left = {name: one for name, one in texts.items() if name not in before}
    for name in texts:
        if name in before and how_scored(before[name]["text"]) != how:
            score_again(folder, name, **how)
    if not left and run.picture("curves").exists():
        return
    translator = load_translator(folder, max_tokens=max_tokens)
    room = max_tokens or longest_translation(run.system().data.max_tokens)
    # What does not depend on the search, by text.
    known: dict[int, dict[str, Any]] = {}
    for name, one in left.items():
        found = _TOP_K.fullmatch(name)
        fitting = one if one is text else _fitting(one, translator, room)
        top_k = int(found[2]) if found else None
        known[id(one)] = score_run(folder, translator, fitting, name, known.get(id(one)), top_k, **how)
    if "test" in left or not run.picture("curves").exists():
        draw_run(folder, translator, text)


def _fitting(text: ParallelText, translator: Translator, room: int) -> ParallelText:
    """The pairs of a text that have at most so many tokens on either side: of the test text alone, none is left out."""
    encoded = text.encoded(*translator.preprocessor.subwords)
    sides = zip(encoded.sources, encoded.targets or (), strict=True)
    kept = [i for i, pair in enumerate(sides) if max(map(len, pair)) <= room]
    if len(kept) == len(text.pairs):
        return text
    return ParallelText([text.pairs[i] for i in kept], text.gold and [text.gold[i] for i in kept])
