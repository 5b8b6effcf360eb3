"""Models for Linnet: see weights/train/README.md. `client` speaks to a server."""

from .client import Client, Continuation, Failure, Images, Look, Picture, State, Values

__all__ = ["Client", "Continuation", "Failure", "Images", "Look", "Picture", "State", "Values"]
