"""Muon (Jordan et al. 2024): momentum whose update is orthogonalised by Newton-Schulz iterations.

For the hidden matrices of a transformer it needs roughly two thirds of the tokens AdamW needs.
Matrices of one shape are iterated together as a batch.
"""

import torch


def orthogonalise(g: torch.Tensor, steps: int = 5) -> torch.Tensor:
    """[N, rows, cols] -> nearest semi-orthogonal matrices, approximately (quintic iteration)."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    tall = x.size(1) > x.size(2)
    if tall:
        x = x.transpose(1, 2)
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.transpose(1, 2)
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.transpose(1, 2) if tall else x).to(g.dtype)


def move_towards(tensors: list[torch.Tensor], goals: list[torch.Tensor], weight: float):
    """Each tensor goes this part of the way to its goal. A GPU gets few kernels for all tensors together."""
    torch._foreach_mul_(tensors, 1 - weight)
    torch._foreach_add_(tensors, goals, alpha=weight)


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr=0.02, momentum=0.95, weight_decay=0.0):
        """A group with "blocks": b holds matrices that are b matrices stacked by rows (q, k, v)."""
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "blocks": 1}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            by_shape = {}
            for p in group["params"]:
                by_shape.setdefault(p.shape, []).append(p)
            for shape, params in by_shape.items():
                self._step_shape(group, shape, params)

    def _step_shape(self, group, shape, params):
        for p in params:
            if "momentum" not in self.state[p]:
                self.state[p]["momentum"] = torch.zeros_like(p)
        momenta, updates = [self.state[p]["momentum"] for p in params], [p.grad for p in params]
        move_towards(momenta, updates, 1 - group["momentum"])
        move_towards(updates, momenta, group["momentum"])  # Nesterov; the gradients are not needed after the step
        rows = shape[0] // group["blocks"]
        scale = max(1.0, rows / shape[1]) ** 0.5
        stacked = torch.stack(updates)
        orthogonal = orthogonalise(stacked.view(-1, rows, shape[1])).view_as(stacked)
        torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(params, list(orthogonal), alpha=-group["lr"] * scale)
