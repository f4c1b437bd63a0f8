"""What metrics count in the translated sentences of a run, and the same kept in place of translations and references.

Verdicts need no more of a text than these counts: a run whose text may not be passed on can be, with them.
"""

import zipfile
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from keras_attn_zoo.evaluation.text_scores import score_of_counts, sentence_statistics
from keras_attn_zoo.runs.run_folder import LARGEST_TEXT, RunFolder
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, check_size, open_output, shown

# A metric, its tokeniser, and whether case is left out of account.
Counting = tuple[str, str, bool]


def counted(
    run: RunFolder, name: str, metric: str, tokenize: str, lowercase: bool
) -> tuple[NDArray, Callable[[NDArray], float]]:
    """Return what a metric counts in each sentence of a test set, and the function from sums of these to the score.

    They are those of the run's translations, or what `keep_counts` kept.

    Args:
        run, name: the run, and the name of the test set.
        metric, tokenize, lowercase: see `sentence_statistics`.

    Raises:
        UserError: there are neither translations nor such counts, or they are damaged.
    """
    if not run.has_counts_alone(name):
        translations, (first, *more) = run.read_translations(name)
        return sentence_statistics(translations, first, metric, lowercase, tokenize, more)
    path, key = run.sentence_counts(name), _key((metric, tokenize, lowercase))
    check_size(path, LARGEST_TEXT)
    try:
        with np.load(path) as kept:
            counts = kept[key].astype("int64")
    except KeyError:
        raise UserError(f"{shown(path)} has no counts of {key}: keep them from the run itself.") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        counts = np.zeros(0)
    sentences = run.read_scores().get(name, {}).get("sentences")
    if counts.ndim != 2 or len(counts) != sentences:
        raise UserError(f"{shown(path)} is damaged, or of other scores: keep the counts again from the run itself.")
    return counts, score_of_counts(metric, lowercase, tokenize)


def keep_counts(run: RunFolder, name: str, countings: Iterable[Counting], folder: PathLike) -> None:
    """Write what metrics count in each sentence of a run's test set to another folder of the run, without the text.

    Args:
        run, name: the run, and the name of the test set.
        countings: metric, tokeniser and case of each.
        folder: the other folder.
    """
    found = {}
    for metric, tokenize, lowercase in countings:
        counts, _ = counted(run, name, metric, tokenize, lowercase)
        found[_key((metric, tokenize, lowercase))] = counts.astype("uint16")
    with open_output(RunFolder(folder).sentence_counts(name)) as file:
        np.savez_compressed(file, allow_pickle=False, **found)


def _key(counting):
    metric, tokenize, lowercase = counting
    return f"{metric} {tokenize}{' lowercase' if lowercase else ''}"
