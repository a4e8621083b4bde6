"""Where files lie: named objects that are created once, and numbered sequences of them."""

from atoll.storage.local import LocalStore
from atoll.storage.numbered import NumberedObjects
from atoll.storage.objects import ObjectExistsError, ObjectStore

__all__ = ["LocalStore", "NumberedObjects", "ObjectExistsError", "ObjectStore"]
