"""Models for Linnet: see weights/train/README.md. `client` speaks to a server."""

from .client import AsyncClient, Client, Continuation, Failure, Images, Listed, Look, Picture, Piece, State, Values

__all__ = ["AsyncClient", "Client", "Continuation", "Failure", "Images", "Listed", "Look", "Picture", "Piece", "State", "Values"]
