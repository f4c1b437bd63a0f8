"""What a run has when it is finished: scores on the test text, and pictures."""

from keras_attn_zoo.evaluation.text_scores import TOKENIZE, how_scored
from keras_attn_zoo.experiments.drawing import draw_run
from keras_attn_zoo.experiments.loading import load_translator
from keras_attn_zoo.experiments.parallel_text import ParallelText
from keras_attn_zoo.experiments.run_folder import RunFolder
from keras_attn_zoo.experiments.scoring import score_again, score_run
from keras_attn_zoo.files import PathLike


def score_and_draw(
    folder: PathLike,
    text: ParallelText,
    max_tokens: int | None = None,
    keep_scores: bool = False,
    tokenize: str = TOKENIZE,
    lowercase: bool = False,
) -> None:
    """Score and draw a trained run; its model is loaded once, and only if there is something to do.

    Args:
        folder: the run folder of a trained system.
        text: the test text.
        max_tokens: see `load_translator`.
        keep_scores: whether a run that was scored and drawn before is left as it is; its translations are scored
            again if they were with another tokeniser or case.
        tokenize, lowercase: see `score_text`.

    Raises:
        UserError: see `load_translator` and `score_run`.
    """
    run = RunFolder(folder)
    scores = run.read_scores().get("test") if keep_scores else None
    scored = scores is not None
    if scores is not None and how_scored(scores["text"]) != {"tokenize": tokenize, "lowercase": lowercase}:
        score_again(folder, text, tokenize, lowercase)
    if scored and run.picture("curves").exists():
        return
    translator = load_translator(folder, max_tokens=max_tokens)
    if not scored:
        score_run(folder, translator, text, tokenize=tokenize, lowercase=lowercase)
    draw_run(folder, translator, text)
