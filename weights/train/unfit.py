"""Data, options or weights that make a run impossible. trainer.run prints the text as one line and ends with status 1."""


class Unfit(ValueError):
    pass
