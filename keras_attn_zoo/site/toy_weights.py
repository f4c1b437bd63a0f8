"""x."""
from pathlib import Path
TOY_WEIGHTS = Path(__file__).with_name("assets") / "toy_weights.json"
