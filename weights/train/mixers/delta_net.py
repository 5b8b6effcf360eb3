"""DeltaNet (Yang et al. 2024): the delta rule on a state that does not decay. See delta.py."""

from mixers.delta import Delta

DEFAULTS = {"conv": 4, "beta": "sigmoid", "gate": "none", "eps": 1e-6}


class Mixer(Delta):
    def log_decay(self, x):
        return x.new_zeros(*x.shape[:2], self.heads)
