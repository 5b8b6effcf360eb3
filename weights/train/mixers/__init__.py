"""Sequence mixers as PyTorch modules, one file a kind, named as in config.json. A kind's module has

    DEFAULTS                  its keys in config.json where nothing else is said
    class Mixer(nn.Module):   Mixer(c, own): the model's config, and the object that names the kind, with "layer", its number
        forward(x)            [B, T, d] -> [B, T, d], for all tokens at once; it must be causal, but for "direction": "both"
        CARRIES               forward(x, carried): a dict which layers of one pass hand on
        BOTH_WAYS             true where it knows "direction"
        IS_WHOLE_LAYER        true where it takes the place of the feed-forward net as well
        IN_CONFIG, learned()  names of parameters that no file holds, and the keys of the config that they become

whose parameters have the server's names of tensors after "layers.I.attn.". The server's side of it is model/mixers/NAME.c; its step by step form is the oracle.
"""

import importlib

from unfit import Unfit


def own_config(c: dict, layer: int) -> dict:
    """The object that names the layer's mixer, with the sizes of its heads."""
    if isinstance(c["attention"], list) and len(c["attention"]) != c["n_layers"]:
        raise Unfit(f"attention has {len(c['attention'])} entries, but n_layers is {c['n_layers']}")
    own = c["attention"][layer] if isinstance(c["attention"], list) else c["attention"]
    d = c["d_model"] // c["n_heads"]
    return {"n_heads": c["n_heads"], "d_key": c.get("d_key", d), "d_value": c.get("d_value", d)} | own


def find(kind: str):
    try:
        found = importlib.import_module(f"mixers.{kind}")
    except ModuleNotFoundError:
        found = None
    if not hasattr(found, "DEFAULTS"):  # a module may have parts of kinds
        raise Unfit(f"there is no kind {kind} in weights/train/mixers")
    return found


def is_whole_layer(c: dict, layer: int) -> bool:
    """Whether the layer has only its mixer, without a feed-forward net."""
    return getattr(find(own_config(c, layer)["kind"]).Mixer, "IS_WHOLE_LAYER", False)


def learned_config(c: dict, layers) -> dict:
    """The config, with the keys that the layers' mixers have learned."""
    found = [own_config(c, i) | layer.attn.learned() if hasattr(layer.attn, "learned") else None
             for i, layer in enumerate(layers)]
    if not any(found):
        return c
    return c | {"attention": [own or own_config(c, i) for i, own in enumerate(found)]}


def of_the_file(tensors: dict, layers) -> dict:
    """A state_dict without the parameters of the config."""
    names = {f"layers.{i}.attn.{name}" for i, layer in enumerate(layers) for name in getattr(layer.attn, "IN_CONFIG", ())}
    return {name: tensor for name, tensor in tensors.items() if name not in names}


def make(c: dict, layer: int):
    own = own_config(c, layer)
    return find(own["kind"]).Mixer(c, own | {"layer": layer})
