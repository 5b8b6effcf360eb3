"""What a run cannot be done with: data, options, weights. trainer.run prints the text as one line and ends with status 1."""


class Unfit(ValueError):
    pass
