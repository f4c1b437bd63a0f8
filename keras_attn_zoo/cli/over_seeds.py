"""`--over-seeds` of the pictures of several runs: one curve for all seeds of a system."""

from keras_attn_zoo.cli.parser import Parser

# Behind what is drawn, on its axis.
OVER_SEEDS = ", mean ± standard deviation"


def add_over_seeds_argument(parser: Parser) -> None:
    """Add `--over-seeds`."""
    parser.add_argument(
        "--over-seeds",
        action="store_true",
        help="draw runs that differ in nothing but the seed as one curve: their mean, in a band of the sample standard "
        "deviation",
    )
