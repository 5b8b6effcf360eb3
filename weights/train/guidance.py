"""Targets that make a model of images obey its classes.

Guidance (Ho and Salimans 2022) draws from

    log p = log u + w (log c - log u) + const

where u is the model's prediction without the class and c the prediction with it; a weight w above 1 makes the class
count more than in the data.
Sampling would need two rows per value. Here a frozen teacher gives u and c for pictures of the data, and the model
learns p as its prediction with the class: then one row is enough.
"""

import json
import pathlib

import torch

from export import load_exported
from linear_transformer import LinearTransformer, autocast
from unfit import Unfit

PLAIN = 1 / 3  # of a batch is learnt from without a class, from the data


class Teacher:
    def __init__(self, folder: pathlib.Path, weight: float, config: dict, device: str):
        """config: of the model that learns, which must have the teacher's inputs and head."""
        theirs = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if "classes" not in config["image"] or config["head"]["kind"] != "categorical":
            raise Unfit("--guide is for models that have classes and --head categorical")
        if any(theirs.get(part) != config[part] for part in ("inputs", "head", "image")):
            raise Unfit(f"--guide {folder}: its inputs, head or image are not this model's")
        self.weight, self.device = weight, device
        self.model = LinearTransformer(theirs).to(device).eval()
        load_exported(folder, self.model)

    @torch.no_grad()
    def targets(self, classed: torch.Tensor, plain: torch.Tensor) -> torch.Tensor:
        """Input ids [B, T, I] with a class and without -> probabilities [B, T, levels]"""
        with autocast(self.device):
            hidden = self.model.hidden(torch.cat([classed, plain]))
        c, u = self.model.head(hidden.float()).log_softmax(-1).chunk(2)
        return (u + self.weight * (c - u)).softmax(-1)
