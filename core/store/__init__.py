"""The user's store: the best records of each task, kept for every later program of this user."""

from pegbox.store.store import Store, StoreWarning, user_store

__all__ = ["Store", "StoreWarning", "user_store"]
