"""The routes, one router per file; they hold no logic of their own. ``..app`` lists them."""
