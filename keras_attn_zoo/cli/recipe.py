"""The command line of a recipe: a paper's comparison as a script."""

from collections.abc import Sequence

from keras_attn_zoo.cli.guard import guarded
from keras_attn_zoo.cli.language_pairs import run_pairs
from keras_attn_zoo.cli.options import add_backend_argument
from keras_attn_zoo.cli.parser import Parser
from keras_attn_zoo.cli.run_comparison import add_comparison_arguments
from keras_attn_zoo.cli.table_options import add_table_arguments
from keras_attn_zoo.studies.comparison import Recipe


def run_recipe(recipe: Recipe, description: str, arguments: Sequence[str] | None = None) -> int:
    """Run a recipe as a script: parse the command line, train, score and write the tables.

    Args:
        recipe: the comparison.
        description: the script's docstring, shown by `--help`.
        arguments: command line; by default that of the process.

    Returns:
        the exit status.
    """
    parser = Parser(description=description)
    tasks = {task: list(own.entries) for task, own in recipe.tasks.items()}
    systems = {name: entry.system for name, entry in recipe.entries.items()}
    add_comparison_arguments(parser, systems, recipe.default, tasks, recipe.smoke, recipe.tune)
    add_table_arguments(parser, recipe)
    add_backend_argument(parser, resumes=True)
    return guarded(
        parser,
        lambda options: run_pairs(recipe, options),
        arguments,
        interrupt_hint="Run the recipe again to resume it.",
    )
