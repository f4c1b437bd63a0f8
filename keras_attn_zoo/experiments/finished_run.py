"""What a run has when it is finished: scores on the test text, and pictures."""

from pathlib import Path

from keras_attn_zoo.experiments.drawing import draw_run
from keras_attn_zoo.experiments.loading import load_translator
from keras_attn_zoo.experiments.parallel_text import ParallelText
from keras_attn_zoo.experiments.run_folder import RunFolder
from keras_attn_zoo.experiments.scoring import score_run
from keras_attn_zoo.files import PathLike


def score_and_draw(
    folder: PathLike, text: ParallelText, max_tokens: int | None = None, keep_scores: bool = False
) -> list[Path]:
    """Score and draw a trained run; its model is loaded once, and only if there is something to do.

    Args:
        folder: the run folder of a trained system.
        text: the test text.
        max_tokens: see `load_translator`.
        keep_scores: whether a run that was scored and drawn before is left as it is.

    Returns:
        the paths of the run's pictures.

    Raises:
        UserError: see `load_translator` and `score_run`.
    """
    run = RunFolder(folder)
    scored = keep_scores and "test" in run.read_scores()
    if not (scored and run.picture("curves").exists()):
        translator = load_translator(folder, max_tokens=max_tokens)
        if not scored:
            score_run(folder, translator, text)
        draw_run(folder, translator, text)
    return sorted(run.picture("curves").parent.glob("*.png"))
