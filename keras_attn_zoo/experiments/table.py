"""Tables from run folders: one row a system, never typed by hand."""

from pathlib import Path

from keras_attn_zoo.errors import UserError
from keras_attn_zoo.experiments.run_folder import RunFolder
from keras_attn_zoo.training.progress import clock_time

# Heading, and how a row's scores give the cell; a score that is not there gives a dash.
COLUMNS = {
    "BLEU": lambda s: f"{s['text']['metrics']['bleu']['score']:.1f}",
    "chrF": lambda s: f"{s['text']['metrics']['chrf']['score']:.1f}",
    "TER": lambda s: f"{s['text']['metrics']['ter']['score']:.1f}",
    "perplexity": lambda s: f"{s['perplexity']:.2f}",
    "accuracy": lambda s: f"{100 * s['accuracy']:.1f} %",
    "AER": lambda s: f"{100 * s['alignment']['aer']:.1f}",
    "training": lambda s: clock_time(s["training"]["seconds"] - s["training"]["compilation_seconds"]),
    "steps": lambda s: f"{s['training']['steps']}",
    "tokens/s": lambda s: f"{s['training']['tokens_per_second']:.0f}",
    "translation": lambda s: clock_time(s["translation_seconds"] - s["translation_compilation_seconds"]),
    "compilation": lambda s: clock_time(s["training"]["compilation_seconds"] + s["translation_compilation_seconds"]),
    "parameters": lambda s: f"{s['parameters'] / 1e6:.1f} M",
}


def results_table(folders, name="test", paper=None):
    """Return a Markdown table of scored runs.

    Times are wall time without compilation, which has a column of its own.

    Args:
        folders: run folders; one that was not scored on the test set is left out.
        name: of the test set.
        paper: `{system: {column: figure}}` of a paper, set beside ours in brackets.

    Raises:
        UserError: not one of the runs was scored.

    Example:
        >>> print(results_table(["runs/bahdanau", "runs/uniform"]))  # doctest: +SKIP
    """
    paper = paper or {}
    rows, signatures = [], set()
    for folder in map(Path, folders):
        scores = RunFolder(folder).read_scores().get(name)
        if scores is None:
            continue
        figures = paper.get(folder.name, {})
        cells = [_cell(get, scores, figures.get(column)) for column, get in COLUMNS.items()]
        rows.append([folder.name, *cells])
        signatures.update(f"{key}: {one['signature']}" for key, one in scores["text"]["metrics"].items())
        signatures.add(
            f"search: beams {scores['beams']}, length penalty {scores['length_penalty']}; "
            f"{scores['sentences']} sentences; trained under {scores['training']['environment']}"
        )
    if not rows:
        raise UserError(f"no run is scored on {name!r} yet: evaluate one first.")
    columns = ["system", *COLUMNS]
    used = [i for i in range(len(columns)) if any(row[i] != "–" for row in rows)]
    headings, *body = [[line[i] for i in used] for line in (columns, *rows)]
    return markdown_table(headings, body) + "\n\n" + "\n".join(f"- {line}" for line in sorted(signatures))


def _cell(get, scores, figure):
    try:
        cell = get(scores)
    except (KeyError, TypeError):
        cell = "–"
    return cell if figure is None else f"{cell} (paper: {figure})"


def markdown_table(headings, rows):
    """Return a Markdown table whose columns stand straight in plain text too.

    Example:
        >>> print(markdown_table(["a", "b"], [["x", "1"]]))
        | a | b |
        |---|--:|
        | x | 1 |
    """
    widths = [max(len(str(line[i])) for line in (headings, *rows)) for i in range(len(headings))]

    def line(cells):
        first = str(cells[0]).ljust(widths[0])
        rest = [str(cell).rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
        return "| " + " | ".join([first, *rest]) + " |"

    rule = "|" + "|".join(["-" * (widths[0] + 2), *["-" * (width + 1) + ":" for width in widths[1:]]]) + "|"
    return "\n".join([line(headings), rule, *map(line, rows)])
