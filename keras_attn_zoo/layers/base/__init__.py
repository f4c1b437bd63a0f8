"""What the mechanisms share: the base classes to subclass, and the plumbing below them."""
