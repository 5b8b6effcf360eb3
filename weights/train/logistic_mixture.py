"""A mixture of K discretised logistics over `levels` values (Salimans et al. 2017, PixelCNN++).

Parameters of a pixel, [..., 3 K]: K weights (logits), K means, K log scales; a value v stands at
x = 2 v / (levels - 1) - 1 and owns the interval x +- h, h = 1 / (levels - 1), the lowest and the
highest value also the tail beyond it. With a = (x + h - mean) / scale, b = (x - h - mean) / scale

    P(v) = sigma(a) - sigma(b) = sigma(a) sigma(-b) (1 - exp(b - a))

whose logarithm is a sum of three terms none of which cancels, however small the scale.
"""

import torch
import torch.nn.functional as F

MIN_LOG_SCALE = -7.0


def log_probability(parameters: torch.Tensor, values: torch.Tensor, levels: int) -> torch.Tensor:
    """[..., 3 K], integer values [...] -> log P(value) [...], in nats and f32."""
    logits, means, log_scales = parameters.float().chunk(3, dim=-1)
    h = 1.0 / (levels - 1)
    x = (values.unsqueeze(-1).float() * (2 * h) - 1) - means
    inverse = torch.exp(-log_scales.clamp(min=MIN_LOG_SCALE))
    below = F.logsigmoid((x + h) * inverse)  # of sigma(a)
    above = F.logsigmoid((h - x) * inverse)  # of sigma(-b)
    inside = torch.log(-torch.expm1(-2 * h * inverse))
    first, last = (values == 0).unsqueeze(-1), (values == levels - 1).unsqueeze(-1)
    component = torch.where(first, below, torch.where(last, above, below + above + inside))
    return torch.logsumexp(F.log_softmax(logits, dim=-1) + component, dim=-1)


@torch.no_grad()
def initialise(head: torch.nn.Linear):
    """Equal weights, means spread over the range, scales that let neighbours touch."""
    k = head.bias.numel() // 3
    head.bias.copy_(torch.cat([torch.zeros(k), torch.linspace(-1, 1, k), torch.full((k,), -3.0)]))
