"""Draw a run: the attention of a few sentences, and the curve of its validation loss."""

from pathlib import Path

from keras_attn_zoo.corpora.parallel_text import ParallelText
from keras_attn_zoo.data.words import word_count
from keras_attn_zoo.runs.curves import curves
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.word_alignment import sentence_picture
from keras_attn_zoo.support.files import PathLike
from keras_attn_zoo.translators import Translator
from keras_attn_zoo.viewing.attention_pictures import plot_attention, plot_curves

# How many sentences a run folder shows, and about how long they are.
PICTURES, WORDS_OF_A_PICTURE = 3, 14


def draw_run(
    folder: PathLike,
    translator: Translator,
    text: ParallelText,
    count: int = PICTURES,
) -> list[Path]:
    """Draw the attention of a few test sentences and the curve of the validation loss into the run folder.

    The sentences are long enough to show reordering and short enough to read. The attention is that of forced
    decoding along the reference, with gold links outlined.

    Args:
        folder: the run folder of a trained system.
        translator, text: see `score_run`.
        count: number of sentences.

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
